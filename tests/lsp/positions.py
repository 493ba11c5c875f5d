"""Positions and edits as an editor counts them: lines from 0, columns from 0 in the units of the agreed encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lsprotocol.types import Position, PositionEncodingKind, Range, TextEdit

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNIT = {
    PositionEncodingKind.Utf8: ("utf-8", 1),
    PositionEncodingKind.Utf16: ("utf-16-le", 2),
    PositionEncodingKind.Utf32: ("utf-32-le", 4),
}
"""The codec of an encoding, and the bytes of one of its units."""


def line_spans(text: str) -> list[tuple[int, int]]:
    """Return the offsets (from 0) at which each line starts and ends, its line end left out."""
    ends = [match.span() for match in _LINE_END.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    return list(zip(starts, [*(start for start, _ in ends), len(text)], strict=True))


def width(text: str, encoding: PositionEncodingKind | str) -> int:
    """Return the number of units of `text`."""
    codec, size = _UNIT[PositionEncodingKind(encoding)]
    return len(text.encode(codec, "surrogatepass")) // size


def position(text: str, offset: int, encoding: PositionEncodingKind | str) -> Position:
    """Return where the offset (from 0) is; between CR and LF it is the end of the line."""
    spans = line_spans(text)
    line = max(index for index, (start, _) in enumerate(spans) if start <= offset)
    start, end = spans[line]
    return Position(line, width(text[start : min(offset, end)], encoding))


def span_range(text: str, start: int, end: int, encoding: PositionEncodingKind | str) -> Range:
    """Return the range from one offset (from 0) to another."""
    return Range(position(text, start, encoding), position(text, end, encoding))


def offset(text: str, place: Position, encoding: PositionEncodingKind | str) -> int:
    """Return the offset (from 0) of a position in the text; a column behind the line's end means its end.

    Raises ValueError for a line that the text does not have, and for a column inside a character.
    """
    spans = line_spans(text)
    if not 0 <= place.line < len(spans):
        raise ValueError(f"line {place.line} of a text with {len(spans)} lines")
    index, end = spans[place.line]
    column = 0
    while index < end and column < place.character:
        column += width(text[index], encoding)
        index += 1
    if column > place.character:
        raise ValueError(f"column {place.character} of line {place.line} is inside a character")
    return index


def span(text: str, where: Range, encoding: PositionEncodingKind | str) -> tuple[int, int]:
    """Return the offsets (from 0) of a range in the text. Raises ValueError as `offset` does."""
    return offset(text, where.start, encoding), offset(text, where.end, encoding)


def marked(text: str, where: Range, encoding: PositionEncodingKind | str) -> str:
    """Return the characters in a range. Raises ValueError as `offset` does."""
    start, end = span(text, where, encoding)
    return text[start:end]


def edited(text: str, edits: Iterable[TextEdit], encoding: PositionEncodingKind | str) -> str:
    """Return the text with edits made that all mean its present positions, as editors make them.

    Raises ValueError for edits that overlap, which an editor would refuse.
    """
    pieces, done = [], 0
    spans = [(*span(text, edit.range, encoding), edit.new_text) for edit in edits]
    for start, end, new in sorted(spans, key=lambda one: one[:2]):
        if not done <= start <= end:
            raise ValueError(f"two edits want to change the characters before offset {done}")
        pieces += [text[done:start], new]
        done = end
    return "".join([*pieces, text[done:]])
