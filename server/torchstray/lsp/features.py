"""What the server listens to. The answers are made elsewhere, on the worker's thread, from one version of a text."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from torchstray import __version__
from torchstray.files import SUFFIXES
from torchstray.lsp import uris
from torchstray.lsp.client import Client
from torchstray.lsp.server import CHANGED, NAME, Changed, Refusal, Retrigger, Server

if TYPE_CHECKING:
    from torchstray.lsp.analysis import Analysis

logger = logging.getLogger(__name__)

WATCHED = ("**/pyproject.toml", *(f"**/*{suffix}" for suffix in SUFFIXES))


def initialize(ls: Server, params: types.InitializeParams) -> None:
    """Get to know the client, and offer what it can use."""
    from torchstray.lsp.code_actions import KINDS

    ls.client = Client.of(params.capabilities)
    ls.given = params.initialization_options
    folders = [folder.uri for folder in params.workspace_folders or []] or [params.root_uri or ""]
    ls.settings.roots = [path for uri in folders if (path := uris.path(uri)) is not None]
    if ls.client.literal_actions:
        options = types.CodeActionOptions(code_action_kinds=list(KINDS), resolve_provider=ls.client.resolves_edits)
        ls.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(code_action)
    if ls.client.resolves_edits:
        ls.feature(types.CODE_ACTION_RESOLVE)(resolve_code_action)
    if ls.client.pulls:
        pull = types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier=NAME)
        ls.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, pull)(diagnostic)


def initialized(ls: Server, params: types.InitializedParams) -> None:
    """Ask the client to tell what changes, and load what the first analysis needs."""
    name, version = sys.implementation.name, sys.version.split()[0]
    ls.log(f"torchstray {__version__} on {name} {version}, positions in {ls.client.encoding}")
    registrations = []
    if ls.client.registers_settings:
        options: Any = types.DidChangeConfigurationRegistrationOptions(section=NAME)
        registrations.append(types.Registration("settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION, options))
    if ls.client.registers_watchers:
        watchers = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        registrations.append(types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options))
    if registrations:
        ls.client_register_capability(types.RegistrationParams(registrations))
    ls.start(ls.worker.run(_warm_up))


def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Keep the text, and publish what is found in it."""
    ls.publish(ls.documents.open(params.text_document, ls.client.encoding))


def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Keep the new text, and publish what is found in it."""
    document = ls.documents.change(params.text_document, params.content_changes)
    if document is None:
        ls.log(f"a change to {params.text_document.uri}, which is not open", types.MessageType.Warning)
    else:
        ls.publish(document)


def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Forget the text, and take away what was published for it."""
    document = ls.documents.close(params.text_document.uri)
    if document is not None:
        ls.settings.forget(document.snapshot.uri)
        ls.withdraw(document.snapshot.uri)


def did_save(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    """Look at the text again where a client does not watch the configuration files for us."""
    document = ls.documents.get(params.text_document.uri)
    if document is not None and not ls.client.registers_watchers and ls.settings.outdated:
        ls.renew()


async def diagnostic(ls: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Return what is found in the newest text of a document."""
    document = ls.document(params.text_document.uri)
    analysis = await ls.documents.analysis(document)
    if analysis is None:
        raise Retrigger(CHANGED, data=types.DiagnosticServerCancellationData(retrigger_request=True))
    result = str(analysis.number)
    if result == params.previous_result_id:
        return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return types.RelatedFullDocumentDiagnosticReport(items=ls.diagnostics(analysis), result_id=result)


async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Return what can be done about the findings in a range of the newest text."""

    def work(analysis: Analysis, go_on: Callable[[], None]) -> list[types.CodeAction]:
        from torchstray.lsp.code_actions import code_actions

        return list(code_actions(analysis, params, ls.client, go_on))

    return await ls.with_analysis(params.text_document.uri, work)


async def resolve_code_action(ls: Server, action: types.CodeAction) -> types.CodeAction:
    """Work out the edits of an action, if its text is still the one that it was offered for."""
    data = action.data if isinstance(action.data, dict) else {}
    uri, version = str(data.get("uri")), data.get("version")

    def work(analysis: Analysis, go_on: Callable[[], None]) -> types.CodeAction:
        from torchstray.lsp.code_actions import resolved

        if analysis.snapshot.version != version:
            raise Changed("the text has changed since this repair was offered")
        return resolved(action, analysis, ls.client, go_on)

    return await ls.with_analysis(uri, work)


async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    """Explain what is at a place."""

    def work(analysis: Analysis, _go_on: Callable[[], None]) -> types.Hover | None:
        from torchstray.lsp.hover import hover

        return hover(analysis, params.position, ls.client)

    return await ls.with_analysis(params.text_document.uri, work)


def did_change_configuration(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    """Ask for the settings again, or take them where the client sends them."""
    if not ls.client.configures and isinstance(params.settings, dict):
        ls.given = params.settings.get(NAME, params.settings)
    ls.settings.forget()
    ls.renew()


def did_change_watched_files(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    """Look again where the configuration or another file has changed, and take away what was published for files that
    are gone."""
    for event in params.changes:
        if event.type is types.FileChangeType.Deleted:
            ls.withdraw(event.uri)
    if ls.settings.outdated or any(event.uri.endswith(SUFFIXES) for event in params.changes):
        ls.renew()


def did_change_workspace_folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Let globs count from the folders that there are now."""
    gone = {uris.path(folder.uri) for folder in params.event.removed}
    new = [path for folder in params.event.added if (path := uris.path(folder.uri)) is not None]
    ls.settings.roots = [*(root for root in ls.settings.roots if root not in gone), *new]
    ls.settings.forget()
    ls.renew()


def shutdown(ls: Server, _params: None) -> None:
    """Expect the end."""
    ls.finished = True


HANDLERS: dict[str, Callable[..., Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.SHUTDOWN: shutdown,
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.TEXT_DOCUMENT_DID_SAVE: did_save,
    types.TEXT_DOCUMENT_HOVER: hover,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: did_change_watched_files,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: did_change_workspace_folders,
}
"""What every client can use; `initialize` adds what only some can."""


def _warm_up() -> None:
    """Load what the first analysis needs, after the editor has its answer, and spare it the garbage collector."""
    import torchstray.lsp.analysis
    import torchstray.lsp.code_actions
    import torchstray.lsp.hover
    import torchstray.rules
    import torchstray.syntax.parsing

    torchstray.rules.all_rules()
    gc.collect()
    gc.freeze()


def _worth_logging(record: logging.LogRecord) -> bool:
    """Whether a record tells of more than a refusal; pygls logs all errors alike."""
    return not (record.exc_info and isinstance(record.exc_info[1], Refusal))


def serve() -> int:
    """Serve the editor at the other end of standard input and output; return the exit status, 1 if it went without
    saying so."""
    # Ctrl-C in the terminal of an editor ends both, at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    log = logging.StreamHandler(sys.stderr)
    log.addFilter(_worth_logging)
    log.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    # It warns of cancellations that cross an answer and of notifications that it may ignore.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    server = Server()
    for name, handler in HANDLERS.items():
        server.feature(name)(handler)
    try:
        server.start_io()
    except (MemoryError, OverflowError):
        logger.error("The editor announced a message that is longer than the memory.")
        return 1
    return 0 if server.finished else 1
