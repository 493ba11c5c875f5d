"""What the editor at the other end can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder, get_capability


@dataclass(frozen=True)
class Client:
    """The capabilities that decide what is answered, and how."""

    encoding: str = types.PositionEncodingKind.Utf16.value
    pulls: bool = False
    refreshes: bool = False
    related: bool = False
    descriptions: bool = False
    unnecessary: bool = False
    versioned_edits: bool = False
    literal_actions: bool = False
    preferred_actions: bool = False
    resolves_edits: bool = False
    markdown: bool = False
    configures: bool = False
    registers_settings: bool = False
    registers_watchers: bool = False

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities) -> Client:
        """Read the capabilities that a client declares when it starts."""

        def has(name: str) -> Any:
            return get_capability(capabilities, name)

        # Newer clients say for the diagnostics that they ask for what all of them say for published ones.
        tags = has("text_document.publish_diagnostics.tag_support") or has("text_document.diagnostic.tag_support")
        properties = has("text_document.code_action.resolve_support")
        formats = has("text_document.hover.content_format") or []
        return cls(
            encoding=types.PositionEncodingKind(ServerCapabilitiesBuilder.choose_position_encoding(capabilities)).value,
            pulls=has("text_document.diagnostic") is not None,
            refreshes=bool(has("workspace.diagnostics.refresh_support")),
            related=bool(
                has("text_document.publish_diagnostics.related_information")
                or has("text_document.diagnostic.related_information")
            ),
            descriptions=bool(
                has("text_document.publish_diagnostics.code_description_support")
                or has("text_document.diagnostic.code_description_support")
            ),
            unnecessary=tags is not None and types.DiagnosticTag.Unnecessary in tags.value_set,
            versioned_edits=bool(has("workspace.workspace_edit.document_changes")),
            literal_actions=has("text_document.code_action.code_action_literal_support") is not None,
            preferred_actions=bool(has("text_document.code_action.is_preferred_support")),
            resolves_edits=properties is not None
            and "edit" in properties.properties
            and bool(has("text_document.code_action.data_support")),
            markdown=types.MarkupKind.Markdown in formats,
            configures=bool(has("workspace.configuration")),
            registers_settings=bool(has("workspace.did_change_configuration.dynamic_registration")),
            registers_watchers=bool(has("workspace.did_change_watched_files.dynamic_registration")),
        )
