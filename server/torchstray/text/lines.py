"""Rows and columns of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """The lines of a text. Rows and columns count from 1, columns in characters; offsets from 0.

    Line ends are LF, CRLF and lone CR: what Python and editors agree on. A form feed, U+0085 or U+2028 ends no line.
    A text that ends in a line end has an empty last line, the one an editor's cursor can stand on.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the row and column of an offset. Raises ValueError for an offset outside the text."""
        if not 0 <= offset <= len(self._text):
            raise ValueError(f"offset {offset} is outside the text of {len(self._text)} characters")
        row = bisect_right(self._starts, offset)
        return row, offset - self._starts[row - 1] + 1

    def offset(self, row: int, column: int) -> int:
        """Return the offset of a row and column; a column behind the line's last character means its end.

        Raises ValueError for a row that the text does not have, or a column before 1.
        """
        if column < 1:
            raise ValueError(f"columns count from 1, got {column}")
        return min(self._start(row) + column - 1, self._end(row))

    def line(self, row: int) -> str:
        """Return a line without its line end. Raises ValueError for a row that the text does not have."""
        return self._text[self._start(row) : self._end(row)]

    @cached_property
    def newline(self) -> str:
        r"""The line end that most lines have: `\n`, `\r\n` or `\r`; the earliest of equally frequent ones."""
        counts = Counter(match.group() for match in _LINE_END.finditer(self._text))
        return max(counts, key=counts.__getitem__, default="\n")

    def _start(self, row: int) -> int:
        if not 1 <= row <= len(self._starts):
            raise ValueError(f"row {row} is outside the text of {len(self._starts)} lines")
        return self._starts[row - 1]

    def _end(self, row: int) -> int:
        """The offset of the row's line end."""
        if row == len(self._starts):
            return len(self._text)
        end = self._starts[row] - 1
        return (
            end - 1 if self._text[end] == "\n" and end > self._starts[row - 1] and self._text[end - 1] == "\r" else end
        )
