"""The text of an open document, kept as the editor has it.

pygls has a text store of its own, but it cuts lines as `str.splitlines` does, at form feeds, U+0085 and U+2028 too,
and so drifts from what the editor has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lsprotocol import types

from torchstray.text.edits import Span
from torchstray.text.lines import Lines


class Positions:
    """Converts between 0-based offsets into a text and the positions of a client, whose rows count from 0 and whose
    columns count in units of its encoding: `utf-8`, `utf-16` or `utf-32`."""

    def __init__(self, lines: Lines, encoding: str) -> None:
        self._lines = lines
        self._encoding = encoding

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position. Behind the end of a line is its end, behind the last line the text's end;
        inside of a character is its start."""
        row = position.line + 1
        if row > len(self._lines):
            return self._lines.offset(len(self._lines), len(self._lines.line(len(self._lines))) + 1)
        line = self._lines.line(row)
        return self._lines.offset(row, self._characters(line, position.character) + 1)

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        row, column = self._lines.position(offset)
        return types.Position(row - 1, self._units(self._lines.line(row)[: column - 1]))

    def range(self, span: Span) -> types.Range:
        """Return the range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def _units(self, text: str) -> int:
        if self._encoding == "utf-32" or text.isascii():
            return len(text)
        return sum(map(self._width, text))

    def _characters(self, line: str, units: int) -> int:
        if self._encoding == "utf-32" or line.isascii():
            return min(units, len(line))
        for index, character in enumerate(line):
            units -= self._width(character)
            if units < 0:
                return index
        return len(line)

    def _width(self, character: str) -> int:
        code = ord(character)
        if self._encoding == "utf-16":
            return 1 if code < 0x10000 else 2
        return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


@dataclass(frozen=True)
class Snapshot:
    """One version of an open document. `uri` is spelled as the client spells it."""

    uri: str
    version: int
    text: str
    encoding: str

    @cached_property
    def positions(self) -> Positions:
        """Converts the client's positions."""
        return Positions(Lines(self.text), self.encoding)

    def changed(self, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]) -> Snapshot:
        """Return the version that the changes, made one after the other, lead to."""
        snapshot = self
        for change in changes:
            text = change.text
            if isinstance(change, types.TextDocumentContentChangePartial):
                ends = (snapshot.positions.offset(change.range.start), snapshot.positions.offset(change.range.end))
                text = snapshot.text[: min(ends)] + text + snapshot.text[max(ends) :]
            snapshot = Snapshot(self.uri, version, text, self.encoding)
        return Snapshot(self.uri, version, snapshot.text, self.encoding) if snapshot is self else snapshot
