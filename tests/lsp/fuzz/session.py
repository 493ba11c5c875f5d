"""One random edit session: documents are opened, edited, asked about and closed in any order, and in the end the server
must show of each exactly what a fresh check of its text finds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp import positions
from tests.lsp.editor import Buffer, Editor
from tests.lsp.fuzz.texts import STATEMENTS, fragment, program
from torchstray.check import check
from torchstray.config import Configuration
from torchstray.rules.rule import Finding
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document

LATE = {
    types.LSPErrorCodes.RequestCancelled,
    types.LSPErrorCodes.ContentModified,
    types.LSPErrorCodes.ServerCancelled,
}
"""How a server may refuse what has been taken back or overtaken."""
LONGEST = 12_000
"""The characters from which on a document only shrinks."""
FRESH = 1_000_000
"""Versions from here on are only used for the last edit, so that nothing else is taken for it."""
SETTINGS: list[dict[str, Any]] = [
    {},
    {},
    {"ignore": ["unregistered-tensor"]},
    {"select": ["unregistered-tensor", "unregistered-module"]},
]

Shown = tuple[int, int, str, int, str]
"""A finding as it is compared: its start and end, rule, severity and message."""


class Difference(Exception):
    """The server shows something else than is there."""


@dataclass
class Tally:
    """What a run did."""

    sessions: int = 0
    steps: int = 0
    documents: int = 0
    findings: int = 0
    broken: int = 0
    failures: list[str] = field(default_factory=list)


class Session:
    """The choices are drawn from `seed` alone, so that a session can be had again."""

    def __init__(self, editor: Editor, seed: int, folder: Path, tally: Tally) -> None:
        self.editor = editor
        self.folder = folder
        self.tally = tally
        self.random = random.Random(seed)
        self.settings: dict[str, Any] = {}
        self.asked: list[asyncio.Future[Any]] = []
        self.texts: list[str] = []
        self.unopened = self._uri(9)

    async def run(self, steps: int) -> None:
        """Take some random steps and compare. Raises Difference, or what else goes wrong."""
        doings = [
            (self._edit, self.random.choice([5, 20, 40])),
            (self._edit_lines, 20),
            (self._edit_by_numbers, 4),
            (self._burst, 4),
            (self._rewrite, 3),
            (self._go_back, 3),
            (self._open, 6),
            (self._close, 2),
            (self._ask, 14),
            (self._repair, 4),
            (self._speak_of_the_unopened, 2),
            (self._save, 2),
            (self._configure, 1),
            (self._look, 4),
        ]
        kinds, weights = zip(*doings, strict=True)
        self._open()
        for doing in self.random.choices(kinds, weights, k=steps):
            if not self.editor.buffers:
                self._open()
            result = doing()
            if isinstance(result, Awaitable):
                await result
            if self.random.random() < 0.3:
                await asyncio.sleep(0)  # so that answers are read
            self.tally.steps += 1
        await self._compare()

    def _pick(self) -> Buffer:
        return self.random.choice(list(self.editor.buffers.values()))

    def _uri(self, number: int) -> str:
        names = ["model.py", "mod èle 🙂.py", "100%.py", "pkg/c#.py"]
        if number < len(names):
            return (self.folder / names[number]).as_uri()
        return f"untitled:Untitled-{number}"

    # ------------------------------------------------------------------ edits

    def _offsets(self, text: str) -> tuple[int, int]:
        """Two places in a text, mostly near to each other."""
        start = self.random.randint(0, len(text))
        length = self.random.choice([0, 0, 1, 1, 2, 5, 20, self.random.randint(0, len(text))])
        end = min(len(text), start + length)
        # An editor's caret never stands between CR and LF.
        start, end = (at - 1 if text[at - 1 : at + 1] == "\r\n" else at for at in (start, end))
        return start, end

    def _version(self, buffer: Buffer) -> int:
        return self.random.choice([buffer.version + 1] * 6 + [buffer.version, 0, -1, self.random.randint(0, FRESH - 1)])

    def _new(self, buffer: Buffer) -> str:
        return "" if len(buffer.text) > LONGEST else fragment(self.random)

    def _edit(self, buffer: Buffer | None = None) -> None:
        buffer = buffer or self._pick()
        self.texts.append(buffer.text)
        text, changes = buffer.text, []
        for _ in range(self.random.choice([1, 1, 1, 1, 2, 4])):
            start, end = self._offsets(text)
            new = self._new(buffer)
            changes.append((start, end, new))
            text = text[:start] + new + text[end:]
        self.editor.change(buffer, *changes, version=self._version(buffer))

    def _edit_lines(self) -> None:
        """Take out whole lines, or paste statements between lines: mostly, what parsed goes on parsing."""
        buffer = self._pick()
        starts = [start for start, _ in positions.line_spans(buffer.text)]
        start = self.random.choice(starts)
        later = [at for at in starts if at > start] or [start]
        end = self.random.choice([start, later[0], later[min(2, len(later) - 1)]])
        new = self.random.choice(["", "\n", "# é 🙂\n", self.random.choice(STATEMENTS)])
        new = new if len(buffer.text) < LONGEST else ""
        self.editor.change(buffer, (start, end, new), version=self._version(buffer))

    def _edit_by_numbers(self) -> None:
        """With positions that no caret has: behind the end of a line or of the text, in a character, back to front."""
        buffer = self._pick()
        rows = len(positions.line_spans(buffer.text))
        places = [
            types.Position(self.random.randint(0, rows + 2), self.random.choice([0, 1, 7, 30, 10_000, 2**31 - 1]))
            for _ in range(2)
        ]
        new = self._new(buffer)
        start, end = sorted(as_meant(buffer.text, place, self.editor.encoding) for place in places)
        event = types.TextDocumentContentChangePartial(types.Range(*places), new)
        buffer.text = buffer.text[:start] + new + buffer.text[end:]
        self._tell(buffer, event)

    def _tell(self, buffer: Buffer, event: types.TextDocumentContentChangeEvent) -> None:
        buffer.version = self._version(buffer)
        identifier = types.VersionedTextDocumentIdentifier(buffer.version, buffer.uri)
        self.editor.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [event]))

    def _burst(self) -> None:
        buffer = self._pick()
        for _ in range(self.random.randint(5, 15)):
            self._edit(buffer)

    def _rewrite(self) -> None:
        buffer = self._pick()
        self.editor.rewrite(buffer, program(self.random), version=self._version(buffer))

    def _go_back(self) -> None:
        """Undo, perhaps to a text that another document had."""
        if self.texts:
            buffer, text = self._pick(), self.random.choice(self.texts)
            self.editor.change(buffer, (0, len(buffer.text), text), version=self._version(buffer))

    # ------------------------------------------------------------------ documents

    def _open(self) -> None:
        """Open a document, perhaps one that is open already."""
        uri = self._uri(self.random.randrange(6))
        text = self.random.choice(self.texts) if self.texts and self.random.random() < 0.3 else program(self.random)
        self.editor.open(uri, text, version=self.random.choice([1, 1, 1, 0, 77]))

    def _close(self) -> None:
        self.editor.close(self._pick())

    def _save(self) -> None:
        self.editor.text_document_did_save(types.DidSaveTextDocumentParams(self._pick().identifier))

    def _speak_of_the_unopened(self) -> None:
        """Change, save or close a document that is not open."""
        identifier = types.VersionedTextDocumentIdentifier(3, self.unopened)
        plain = types.TextDocumentIdentifier(self.unopened)
        event = types.TextDocumentContentChangeWholeDocument(program(self.random))
        match self.random.randrange(3):
            case 0:
                self.editor.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [event]))
            case 1:
                self.editor.text_document_did_close(types.DidCloseTextDocumentParams(plain))
            case _:
                self.editor.text_document_did_save(types.DidSaveTextDocumentParams(plain))

    def _configure(self) -> None:
        self.settings = self.random.choice(SETTINGS)
        self.editor.configure(self.settings)

    # ------------------------------------------------------------------ questions

    async def _ask(self) -> None:
        """Ask something, and perhaps take it back, without waiting for the answer."""
        uri = self._pick().uri if self.random.random() < 0.9 else self.unopened
        identifier = types.TextDocumentIdentifier(uri)
        start = types.Position(self.random.randrange(60), self.random.randrange(60))
        end = types.Position(self.random.randrange(start.line, 90), self.random.randrange(60))
        context = types.CodeActionContext([], self.random.choice([None, ["quickfix"], ["source.fixAll"]]))
        questions: list[tuple[str, Any]] = [
            (types.TEXT_DOCUMENT_HOVER, types.HoverParams(identifier, start)),
            (
                types.TEXT_DOCUMENT_CODE_ACTION,
                types.CodeActionParams(identifier, types.Range(start, max(start, end)), context),
            ),
        ]
        if self.editor.profile.pulls:
            result = self.random.choice([None, "1", "2", "unknown"])
            questions.append((types.TEXT_DOCUMENT_DIAGNOSTIC, types.DocumentDiagnosticParams(identifier, None, result)))
        if self.editor.can("code_action_provider.resolve_provider"):
            data = self.random.choice([{"uri": uri, "version": 1}, {"uri": uri}, None, "nonsense"])
            action = types.CodeAction("Repair all safe problems", data=data)
            questions.append((types.CODE_ACTION_RESOLVE, action))
        method, params = self.random.choice(questions)
        number = f"question {len(self.asked)}"
        self.asked.append(asyncio.ensure_future(self.editor.request(method, params, number)))
        await asyncio.sleep(0)  # so that it is sent
        if self.random.random() < 0.3:
            self.editor.cancel_request(types.CancelParams(number))

    async def _repair(self) -> None:
        """Do what the light bulb offers."""
        buffer = self._pick()
        buffer.shown = []
        try:
            actions = await self.editor.actions(buffer, *self._offsets(buffer.text))
            if actions:
                await self.editor.apply(self.random.choice(actions))
        except JsonRpcException as error:
            if not is_refusal(error):
                raise

    async def _look(self) -> None:
        if self.editor.profile.pulls:
            await self.editor.look(self._pick())

    # ------------------------------------------------------------------ the end

    async def _compare(self) -> None:
        for number, buffer in enumerate(list(self.editor.buffers.values())):
            start, _ = self._offsets(buffer.text)
            new = self.random.choice([" ", "\n", "#", "x"])
            self.editor.change(buffer, (start, start, new), version=FRESH + number)
        for answer in await asyncio.wait_for(asyncio.gather(*self.asked, return_exceptions=True), 60):
            if isinstance(answer, BaseException) and not is_refusal(answer):
                raise answer
        for buffer in self.editor.buffers.values():
            await self.editor.look(buffer)
            self._compare_findings(buffer)
        await self.editor.clear()
        if self.editor.complaints:
            raise Difference(f"the server complains: {self.editor.complaints}")

    def _compare_findings(self, buffer: Buffer) -> None:
        document = Document(buffer.text)
        broken = [
            (statement.start, statement.start + len(statement.text))
            for statement in document.statements
            if statement.problems
        ]

        def comparable(found: Shown) -> bool:
            """What stays shown of a statement that does not parse is not what is found in it now."""
            always = found[2] in ("syntax-error", "unreadable-file")
            return always or not any(start <= found[0] < end for start, end in broken)

        wanted = sorted(filter(comparable, map(_expected, self._found(document))))
        shown = sorted(filter(comparable, (self._as_shown(buffer, one) for one in buffer.shown)))
        if wanted != shown:
            missing = [one for one in wanted if one not in shown]
            extra = [one for one in shown if one not in wanted]
            raise Difference(f"{buffer.uri}: missing {missing}, extra {extra}, in the text {buffer.text!r}")
        self.tally.documents += 1
        self.tally.findings += len(wanted)
        self.tally.broken += len(broken)

    def _found(self, document: Document) -> list[Finding]:
        if "torch" not in document.text:
            return []
        select, ignore = self.settings.get("select"), self.settings.get("ignore", ())
        configuration = Configuration(
            self.folder, select=None if select is None else frozenset(select), ignore=frozenset(ignore)
        )
        return check(document, Project(), configuration)

    def _as_shown(self, buffer: Buffer, shown: types.Diagnostic) -> Shown:
        start, end = positions.span(buffer.text, shown.range, self.editor.encoding)
        assert shown.severity is not None
        return start, end, str(shown.code), shown.severity.value, shown.message


_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "hint": types.DiagnosticSeverity.Hint,
}


def is_refusal(error: BaseException) -> bool:
    """Whether a request came too late, or was about a document that is not open."""
    return isinstance(error, JsonRpcException) and (error.code in LATE or error.message.endswith("is not open"))


def _expected(finding: Finding) -> Shown:
    severity = _SEVERITIES[finding.severity.label].value
    return finding.span.start, finding.span.end, finding.rule, severity, finding.message


def as_meant(text: str, place: types.Position, encoding: types.PositionEncodingKind) -> int:
    """Return the offset that the protocol means by any position: behind the end of a line its end. Where it says
    nothing, what editors do: behind the last line the end of the text, inside a character its start."""
    spans = positions.line_spans(text)
    if place.line >= len(spans):
        return len(text)
    index, end = spans[place.line]
    column = 0
    while index < end:
        column += positions.width(text[index], encoding)
        if column > place.character:
            break
        index += 1
    return index
