"""The language server for one editor: what it keeps, and how it talks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from torchstray import __version__
from torchstray.lsp.client import Client
from torchstray.lsp.documents import Documents, OpenDocument
from torchstray.lsp.settings import Settings
from torchstray.lsp.worker import Worker

if TYPE_CHECKING:
    from torchstray.lsp.analysis import Analysis

T = TypeVar("T")
logger = logging.getLogger(__name__)

NAME = "torchstray"
CHANGED = "the text has changed meanwhile"
PATIENCE = 5.0
"""Seconds that the client has to say what is set."""


class Refusal(JsonRpcException):
    """A request that is not answered, for a reason that is part of life and not worth a word in the log."""


class NotOpen(Refusal):
    """A request is about a document that the editor has not opened."""

    CODE = types.ErrorCodes.InvalidParams.value


class Changed(Refusal):
    """A request is about a text that has changed since it was made."""

    CODE = types.LSPErrorCodes.ContentModified.value


class Retrigger(Refusal):
    """The text has changed since its diagnostics were asked for: they should be asked for again."""

    CODE = types.LSPErrorCodes.ServerCancelled.value


class Protocol(LanguageServerProtocol):
    """The protocol without pygls' own store of texts: the server keeps them itself."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Turn JSON into a message. A request that is none is refused, so that nobody waits for its answer for ever."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            raise

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None


class Server(LanguageServer):
    """torchstray for one editor."""

    def __init__(self) -> None:
        super().__init__(NAME, __version__, protocol_cls=Protocol, converter_factory=default_converter)
        self.client = Client()
        self.worker = Worker()
        self.settings = Settings(self._ask_for_settings, self.complain)
        self.documents = Documents(self.settings, self.worker, self.complain)
        self.given: object = None
        """The settings of a client that cannot be asked for them."""
        self.finished = False
        """Whether the client has said that it will end the server."""
        self._background: set[asyncio.Task[None]] = set()

    # Diagnostics

    def publish(self, document: OpenDocument) -> None:
        """Publish what is found in the newest text of a document, to a client that does not ask for it."""
        if not self.client.pulls:
            self.start(self._published(document))

    async def _published(self, document: OpenDocument) -> None:
        analysis = await self.documents.analysis(document)
        if analysis is not None:
            snapshot = analysis.snapshot
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(snapshot.uri, self.diagnostics(analysis), snapshot.version)
            )

    def diagnostics(self, analysis: Analysis) -> list[types.Diagnostic]:
        """Return the diagnostics of an analysis, as the client can show them."""
        from torchstray.lsp.diagnostics import diagnostics

        return diagnostics(analysis, self.client)

    def withdraw(self, uri: str) -> None:
        """Take away what was published for a document, if anything is published."""
        if not self.client.pulls:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def with_analysis(self, uri: str, work: Callable[[Analysis, Callable[[], None]], T]) -> T:
        """Return what `work` makes of the newest text of a document; the function that it gets too ends it where that
        text has changed. Raises NotOpen, and Changed if it is changed meanwhile."""
        document = self.document(uri)
        analysis = await self.documents.analysis(document)
        if analysis is None:
            raise Changed(CHANGED)

        def go_on() -> None:
            if document.snapshot is not analysis.snapshot:
                raise Changed(CHANGED)

        result = await self.worker.run(lambda: work(analysis, go_on))
        go_on()
        return result

    def document(self, uri: str) -> OpenDocument:
        """Return an open document. Raises NotOpen."""
        document = self.documents.get(uri)
        if document is None:
            raise NotOpen(f"{uri} is not open")
        return document

    # Settings

    def renew(self) -> None:
        """Analyse every open document again, since something else than its text has changed."""
        self.documents.outdate()
        if self.client.pulls and self.client.refreshes:
            self.workspace_diagnostic_refresh(None)
        for document in self.documents:
            self.publish(document)

    async def _ask_for_settings(self, uri: str) -> object:
        if not self.client.configures:
            return self.given
        question = types.ConfigurationParams([types.ConfigurationItem(scope_uri=uri, section=NAME)])
        try:
            answer = await asyncio.wait_for(self.workspace_configuration_async(question), PATIENCE)
        except (asyncio.TimeoutError, JsonRpcException) as error:
            self.log(f"no settings from the editor: {error!r}", types.MessageType.Warning)
            return None
        return answer[0] if answer else None

    # Words for people

    def complain(self, message: str) -> None:
        """Tell the user what cannot be done as it was asked for."""
        self.log(message, types.MessageType.Error)
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def log(self, message: str, level: types.MessageType = types.MessageType.Info) -> None:
        """Write a line into the editor's log."""
        self.window_log_message(types.LogMessageParams(level, message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Write down what went wrong in a handler; pygls has logged its traceback."""
        if not isinstance(error, Refusal):
            self.log(f"{source.__name__}: {error}", types.MessageType.Error)

    def start(self, work: Any) -> None:
        """Run `work` in the background; what goes wrong in it is logged."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Work in the background failed", exc_info=error)
