"""An editor with a language server behind it: what is open, what it shows, what the server asked of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeVar

from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient as PyglsClient
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

from tests.lsp import positions

T = TypeVar("T")

PATIENCE = 20.0
"""The seconds after which something that should happen counts as not happening."""
SECTION = "torchstray"


@dataclass(frozen=True)
class Profile:
    """What an editor says of itself with `initialize`."""

    client_info: types.ClientInfo
    capabilities: types.ClientCapabilities

    def can(self, name: str) -> Any:
        """Return a capability by its dotted name, None where the editor does not have it."""
        return get_capability(self.capabilities, name, None)

    @property
    def encoding(self) -> types.PositionEncodingKind:
        """What the editor counts columns in, if it may choose."""
        preferred, *_ = self.can("general.position_encodings")
        return types.PositionEncodingKind(preferred)

    @property
    def pulls(self) -> bool:
        """Whether it asks for diagnostics; otherwise they have to be pushed."""
        return self.capabilities.text_document is not None and self.capabilities.text_document.diagnostic is not None

    def shows(self, detail: str) -> bool:
        """Whether it shows a detail of diagnostics, such as `related_information`.

        Some editors that pull diagnostics say so only of published ones, as all had to before LSP 3.18.
        """
        names = ("text_document.diagnostic", "text_document.publish_diagnostics")
        return any(self.can(f"{name}.{detail}") for name in names)


def profile(name: str) -> Profile:
    """Read `vscode`, `neovim` or `emacs`."""
    data = json.loads((Path(__file__).parent / "profiles" / f"{name}.json").read_bytes())
    converter = get_converter()
    return Profile(
        converter.structure(data["clientInfo"], types.ClientInfo),
        converter.structure(data["capabilities"], types.ClientCapabilities),
    )


@dataclass
class Buffer:
    """An open document. `text` is what the editor holds, `shown` the diagnostics it shows, for `shown_version`."""

    uri: str
    text: str
    version: int = 1
    shown: list[types.Diagnostic] = field(default_factory=list)
    shown_version: int | None = None
    result_id: str | None = None

    @property
    def identifier(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri)

    def after(self, before: str, count: int = 1) -> int:
        """Return the offset (from 0) behind the `count`-th occurrence of `before`. Raises ValueError without one."""
        end = 0
        for _ in range(count):
            end = self.text.index(before, end) + len(before)
        return end


class Editor(LanguageClient):
    """One editor. It takes offsets (from 0) and counts columns as its profile and the server agree."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(converter_factory=default_converter)
        self.profile = profile
        self.buffers: dict[str, Buffer] = {}
        self.published: list[types.PublishDiagnosticsParams] = []
        self.registrations: dict[str, types.Registration] = {}
        self.complaints: list[str] = []
        self._news = asyncio.Event()
        register_lsp_features(self, {**DEFAULT_CLIENT_FEATURES, **_FEATURES})

    # ------------------------------------------------------------------ the server's life

    async def start(self, command: Sequence[str], **options: Any) -> None:
        """Start a server; `options` are those of a subprocess. What it says on standard error is kept."""
        await PyglsClient.start_io(self, *command, **options)
        assert self._server is not None
        assert self._server.stderr is not None
        self._stderr_forwarder = asyncio.create_task(self._listen(self._server.stderr))

    async def greet(
        self, *folders: Path, capabilities: types.ClientCapabilities | None = None, options: Any = None
    ) -> types.InitializeResult:
        """Open a session over these workspace folders."""
        workspace = [types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders]
        self.server = await self.initialize_session(
            types.InitializeParams(
                client_info=self.profile.client_info,
                capabilities=capabilities or self.profile.capabilities,
                root_uri=workspace[0].uri if workspace else None,
                workspace_folders=workspace,
                initialization_options=options,
            )
        )
        return self.server

    async def leave(self) -> int:
        """End the session and return the server's exit status."""
        await asyncio.wait_for(self.shutdown_session(), PATIENCE)
        status = await self.ended()
        await self.stop()
        return status

    async def ended(self) -> int:
        """Wait for the server's process and return its exit status."""
        assert self._server is not None
        return await asyncio.wait_for(self._server.wait(), PATIENCE)

    async def drop(self) -> None:
        """End the server's process at once, if it still runs."""
        if self._server is not None and self._server.returncode is None:
            self._server.kill()
        await self.ended()
        await self.stop()

    def send_bytes(self, data: bytes) -> None:
        """Write to the server's input what no editor should."""
        self._input.write(data)

    def hang_up(self) -> None:
        """Close the server's input, as happens when an editor dies."""
        self._input.close()

    @property
    def _input(self) -> asyncio.StreamWriter:
        assert self._server is not None
        assert self._server.stdin is not None
        return self._server.stdin

    async def stop(self) -> None:
        """Stop listening to the server."""
        await super().stop()  # type: ignore[no-untyped-call]

    async def request(self, method: str, params: Any, number: str | None = None) -> Any:
        """Return the answer to any request; it can be cancelled by `number`. Raises JsonRpcException if refused."""
        return await self.protocol.send_request_async(method, params, number)  # type: ignore[no-untyped-call]

    def can(self, name: str) -> Any:
        """Return a capability of the server by its dotted name, None where it does not have it."""
        assert self.server is not None
        value: Any = self.server.capabilities
        for part in name.split("."):
            value = getattr(value, part, None)
        return value

    @property
    def encoding(self) -> types.PositionEncodingKind:
        """What columns are counted in."""
        return types.PositionEncodingKind(self.can("position_encoding") or types.PositionEncodingKind.Utf16)

    async def until(self, happened: Callable[[], T | None], what: str) -> T:
        """Wait until something is true after a message of the server. Fails, saying `what`, where it never is."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not (found := happened()):
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), end - asyncio.get_running_loop().time())
            except asyncio.TimeoutError:
                raise AssertionError(f"no {what} after {PATIENCE:.0f} s; complaints: {self.complaints}") from None
        return found

    # ------------------------------------------------------------------ documents

    def open(self, where: Path | str, text: str, version: int = 1, language: str = "python") -> Buffer:
        """Open a document, by its path or its URI as it stands."""
        uri = where if isinstance(where, str) else where.as_uri()
        buffer = Buffer(uri, text, version)
        self.buffers[uri] = buffer
        item = types.TextDocumentItem(uri, language, version, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return buffer

    def change(self, buffer: Buffer, *changes: tuple[int, int, str], version: int | None = None) -> None:
        """Make changes, one after the other, in one message: each puts its text between two offsets."""
        events: list[types.TextDocumentContentChangeEvent] = []
        for start, end, new in changes:
            where = positions.span_range(buffer.text, start, end, self.encoding)
            events.append(types.TextDocumentContentChangePartial(range=where, text=new))
            buffer.text = buffer.text[:start] + new + buffer.text[end:]
        self._tell_change(buffer, events, version)

    def replace(self, buffer: Buffer, old: str, new: str, count: int = 1) -> None:
        """Put `new` in the place of the `count`-th occurrence of `old`. Raises ValueError where there is none."""
        end = buffer.after(old, count)
        self.change(buffer, (end - len(old), end, new))

    def rewrite(self, buffer: Buffer, text: str, version: int | None = None) -> None:
        """Replace the whole text without saying where it differs."""
        buffer.text = text
        self._tell_change(buffer, [types.TextDocumentContentChangeWholeDocument(text)], version)

    def _tell_change(
        self, buffer: Buffer, events: list[types.TextDocumentContentChangeEvent], version: int | None
    ) -> None:
        buffer.version = buffer.version + 1 if version is None else version
        identifier = types.VersionedTextDocumentIdentifier(buffer.version, buffer.uri)
        self.text_document_did_change(types.DidChangeTextDocumentParams(identifier, events))

    def close(self, buffer: Buffer) -> None:
        """Close a document."""
        del self.buffers[buffer.uri]
        self.text_document_did_close(types.DidCloseTextDocumentParams(buffer.identifier))

    async def clear(self) -> None:
        """Close all documents, take back all settings, and forget what was said; wait until nothing is shown."""
        closed = list(self.buffers.values())
        for buffer in closed:
            self.close(buffer)
        if self.get_configuration(section=SECTION):
            self.configure({})
        if not self.profile.pulls:
            uris = [buffer.uri for buffer in closed]
            await self.until(lambda: not any(map(self.last_published, uris)), "empty publications")
        self.messages.clear()
        self.published.clear()

    def last_published(self, uri: str) -> list[types.Diagnostic] | None:
        """What was last published for a document; None where nothing was."""
        return next(([*one.diagnostics] for one in reversed(self.published) if one.uri == uri), None)

    # ------------------------------------------------------------------ what is shown

    async def look(self, buffer: Buffer) -> list[types.Diagnostic]:
        """Return what the editor shows for the buffer's present text."""
        if self.profile.pulls:
            await self.pull(buffer)
        else:
            await self.until(lambda: buffer.shown_version == buffer.version, f"diagnostics of version {buffer.version}")
        return buffer.shown

    async def pull(self, buffer: Buffer) -> types.DocumentDiagnosticReport:
        """Ask for diagnostics, again where the server says so, and show them."""
        report = None
        while report is None:
            report = await self._pull_once(buffer)
        buffer.shown_version, buffer.result_id = buffer.version, report.result_id
        if isinstance(report, types.RelatedFullDocumentDiagnosticReport):
            buffer.shown = [*report.items]
        return report

    async def _pull_once(self, buffer: Buffer) -> types.DocumentDiagnosticReport | None:
        """Ask for diagnostics; None where the server says to ask again."""
        try:
            return await self.ask_diagnostics(buffer)
        except JsonRpcException as error:
            again = isinstance(error.data, dict) and error.data.get("retriggerRequest")
            if error.code != types.LSPErrorCodes.ServerCancelled or not again:
                raise
            return None

    async def ask_diagnostics(self, buffer: Buffer) -> types.DocumentDiagnosticReport:
        """Ask for diagnostics once. Raises JsonRpcException where the server refuses."""
        params = types.DocumentDiagnosticParams(buffer.identifier, SECTION, buffer.result_id)
        return await asyncio.wait_for(self.text_document_diagnostic_async(params), PATIENCE)

    async def settle(self, buffer: Buffer, expected: Sequence[tuple[str, str]]) -> None:
        """Wait until these findings are shown for the present text, after a change of something else than the text."""

        def right() -> bool:
            return buffer.shown_version == buffer.version and self.findings(buffer) == list(expected)

        if self.profile.pulls:
            await self.pull(buffer)
            assert self.findings(buffer) == list(expected)
        else:
            await self.until(right, f"publication of {expected}")

    def marked(self, buffer: Buffer, where: types.Range) -> str:
        """Return the text in a range. Fails for a range that the buffer does not have."""
        return positions.marked(buffer.text, where, self.encoding)

    def findings(self, buffer: Buffer) -> list[tuple[str, str]]:
        """What is shown, as code and marked text."""
        return [(str(shown.code), self.marked(buffer, shown.range)) for shown in buffer.shown]

    # ------------------------------------------------------------------ light bulb and hover

    async def actions(
        self, buffer: Buffer, start: int, end: int | None = None, only: Sequence[str] | None = None
    ) -> list[types.CodeAction]:
        """Ask for the code actions between two offsets, or at one, as with the light bulb or on save."""
        where = positions.span_range(buffer.text, start, start if end is None else end, self.encoding)
        touched = [shown for shown in buffer.shown if shown.range.start <= where.end and where.start <= shown.range.end]
        params = types.CodeActionParams(buffer.identifier, where, types.CodeActionContext(touched, only))
        answer = await asyncio.wait_for(self.text_document_code_action_async(params), PATIENCE)
        actions = [action for action in answer or [] if isinstance(action, types.CodeAction)]
        assert len(actions) == len(answer or [])
        return actions

    async def edit_of(self, action: types.CodeAction) -> types.WorkspaceEdit:
        """Return what an action does, resolving it where the editor can and has to."""
        if action.edit is None:
            assert "edit" in (self.profile.can("text_document.code_action.resolve_support.properties") or ())
            action = await asyncio.wait_for(self.code_action_resolve_async(action), PATIENCE)
        assert action.edit is not None
        return action.edit

    async def apply(self, action: types.CodeAction) -> None:
        """Do what an action says, as this editor does it."""
        self.apply_edit(await self.edit_of(action))

    def apply_edit(self, edit: types.WorkspaceEdit) -> None:
        """Edit the open documents. Fails for a kind of edit that the editor cannot read, or one for another version."""
        if self.profile.can("workspace.workspace_edit.document_changes"):
            assert edit.changes is None
            for change in edit.document_changes or []:
                assert isinstance(change, types.TextDocumentEdit)
                buffer = self.buffers[change.text_document.uri]
                assert change.text_document.version == buffer.version
                self._edit(buffer, [edit for edit in change.edits if isinstance(edit, types.TextEdit)])
        else:
            assert edit.document_changes is None
            for uri, edits in (edit.changes or {}).items():
                self._edit(self.buffers[uri], edits)

    def _edit(self, buffer: Buffer, edits: Sequence[types.TextEdit]) -> None:
        """Make edits and tell the server of them, from the last one on so that the others' places stay."""
        after = positions.edited(buffer.text, edits, self.encoding)
        changes = [(*positions.span(buffer.text, edit.range, self.encoding), edit.new_text) for edit in edits]
        self.change(buffer, *sorted(changes, key=lambda change: change[:2], reverse=True))
        assert buffer.text == after

    async def hover(self, buffer: Buffer, offset: int) -> types.Hover | None:
        """Ask what there is to say at an offset."""
        place = positions.position(buffer.text, offset, self.encoding)
        params = types.HoverParams(buffer.identifier, place)
        return await asyncio.wait_for(self.text_document_hover_async(params), PATIENCE)

    # ------------------------------------------------------------------ files and settings

    def watches(self, path: Path) -> bool:
        """Whether the server asked to be told of changes to a file."""
        globs = [
            glob
            for registration in self.registrations.values()
            if registration.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            for glob in _globs(registration)
        ]
        return any(PurePath(path).match(glob) for glob in globs)

    def tell(self, path: Path, change: types.FileChangeType) -> bool:
        """Tell the server of a changed file if it asked for that; return whether it did."""
        watched = self.watches(path)
        if watched:
            event = types.FileEvent(path.as_uri(), change)
            self.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        return watched

    def configure(self, settings: dict[str, Any], folder: Path | None = None) -> None:
        """Change the user's settings, for one folder or for all, and say so as editors do that are asked for them."""
        self.set_configuration(settings, section=SECTION, scope_uri=folder.as_uri() if folder else None)
        self.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))

    def heard(self) -> None:
        """Let those who wait look again."""
        self._news.set()

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.complaints.append(line.decode(errors="replace").rstrip())
            self.heard()


# What the server sends. pygls hands in the editor by the type of the first parameter.


def _published(editor: Editor, params: types.PublishDiagnosticsParams) -> None:
    editor.published.append(params)
    buffer = editor.buffers.get(params.uri)
    if buffer is not None:
        buffer.shown, buffer.shown_version = [*params.diagnostics], params.version
    editor.heard()


def _registered(editor: Editor, params: types.RegistrationParams) -> None:
    editor.registrations.update({registration.id: registration for registration in params.registrations})
    editor.heard()


def _unregistered(editor: Editor, params: types.UnregistrationParams) -> None:
    for gone in params.unregisterations:
        del editor.registrations[gone.id]
    editor.heard()


def _asked_to_refresh(editor: Editor, params: None) -> None:
    editor.diagnostic_refresh_count += 1
    editor.heard()


def _told(editor: Editor, params: types.ShowMessageParams) -> None:
    editor.messages.append(params)
    editor.heard()


def _logged(editor: Editor, params: types.LogMessageParams) -> None:
    editor.log_messages.append(params)
    if params.type == types.MessageType.Error:
        editor.complaints.append(params.message)
    editor.heard()


_FEATURES = {
    types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: _published,
    types.CLIENT_REGISTER_CAPABILITY: _registered,
    types.CLIENT_UNREGISTER_CAPABILITY: _unregistered,
    types.WORKSPACE_DIAGNOSTIC_REFRESH: _asked_to_refresh,
    types.WINDOW_SHOW_MESSAGE: _told,
    types.WINDOW_LOG_MESSAGE: _logged,
}


def _globs(registration: types.Registration) -> list[str]:
    """The patterns of the files that a server asked to be told of."""
    options = get_converter().structure(registration.register_options, types.DidChangeWatchedFilesRegistrationOptions)
    globs = [watcher.glob_pattern for watcher in options.watchers]
    return [glob if isinstance(glob, str) else glob.pattern for glob in globs]
