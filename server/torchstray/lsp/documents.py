"""The open documents, and the analysis of the newest version of each."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from torchstray import files
from torchstray.config import Configuration
from torchstray.lsp import uris
from torchstray.lsp.settings import Settings
from torchstray.lsp.texts import Snapshot
from torchstray.lsp.worker import Superseded, Worker

if TYPE_CHECKING:
    from torchstray.lsp.analysis import Analysis
    from torchstray.semantics.project import Project

logger = logging.getLogger(__name__)


@dataclass
class OpenDocument:
    """The newest version of a document, the analysis under way or done for it, and the last one that was done for any
    version."""

    snapshot: Snapshot
    path: Path | None
    task: asyncio.Task[Analysis | None] | None = None
    last: Analysis | None = None


class Documents:
    """The documents that are open in the editor. A URI finds its document however it is spelled."""

    def __init__(self, settings: Settings, worker: Worker, complain: Callable[[str], None]) -> None:
        self._settings = settings
        self._worker = worker
        self._complain = complain
        self._open: dict[str, OpenDocument] = {}
        self._projects: dict[tuple[Path | None, Path | None], Project] = {}

    def __iter__(self) -> Iterator[OpenDocument]:
        return iter(list(self._open.values()))

    def open(self, item: types.TextDocumentItem, encoding: str) -> OpenDocument:
        """Take over a document from the editor; one that is open already is replaced."""
        snapshot = Snapshot(item.uri, item.version, item.text, encoding)
        document = self._open[uris.key(item.uri)] = OpenDocument(snapshot, uris.path(item.uri))
        return document

    def change(
        self,
        identifier: types.VersionedTextDocumentIdentifier,
        changes: Sequence[types.TextDocumentContentChangeEvent],
    ) -> OpenDocument | None:
        """Make changes to a document; None where it is not open."""
        document = self.get(identifier.uri)
        if document is not None:
            document.snapshot = document.snapshot.changed(identifier.version, changes)
            document.task = None
        return document

    def close(self, uri: str) -> OpenDocument | None:
        """Give a document back to the editor, and return it; None where it is not open."""
        return self._open.pop(uris.key(uri), None)

    def get(self, uri: str) -> OpenDocument | None:
        """Return the open document of a URI."""
        return self._open.get(uris.key(uri))

    def outdate(self) -> None:
        """Let every document be analysed anew, because something else than its text has changed."""
        for document in self._open.values():
            document.task = None

    async def analysis(self, document: OpenDocument) -> Analysis | None:
        """Return the analysis of the newest version of a document; None if it is changed or closed meanwhile."""
        if document.task is None:
            document.task = asyncio.ensure_future(self._analyse(document, document.snapshot))
        # Whoever gives up waiting must not take the answer from the others.
        return await asyncio.shield(document.task)

    def _project(self, path: Path | None, configuration: Configuration | None) -> Project:
        """What is known of other files in the workspace folder that a document lies in."""
        from torchstray.semantics.project import Project

        root = files.innermost(path, self._settings.roots) if path is not None else None
        python = configuration.interpreter if configuration is not None else None
        if (root, python) not in self._projects:
            roots = [root] if root is not None else []
            self._projects[root, python] = Project(roots, environment=os.environ, python=python)
        return self._projects[root, python]

    async def _analyse(self, document: OpenDocument, snapshot: Snapshot) -> Analysis | None:
        configuration = await self._settings.of(snapshot.uri, document.path)

        def wanted() -> bool:
            return document.snapshot is snapshot and self.get(snapshot.uri) is document

        def work() -> Analysis:
            from torchstray.lsp.analysis import analyse

            project = self._project(document.path, configuration)
            document.last = analyse(snapshot, document.path, configuration, document.last, project)
            return document.last

        try:
            analysis = await self._worker.run(work, wanted)
        except Superseded:
            return None
        except Exception:  # a mistake of ours must not end anything
            logger.exception("The analysis of %s failed", snapshot.uri)
            self._complain(f"The analysis of {snapshot.uri} failed; please report it, with what the log says.")
            analysis = _nothing(document, snapshot)
        return analysis if wanted() else None


def _nothing(document: OpenDocument, snapshot: Snapshot) -> Analysis:
    from torchstray.lsp.analysis import Analysis
    from torchstray.syntax.document import Document

    return Analysis(snapshot, Document(""), None, document.path)
