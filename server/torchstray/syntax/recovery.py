"""Finds what can be parsed in a statement that cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from torchstray.syntax.parsing import NotPython, parse
from torchstray.syntax.splitter import logical_lines
from torchstray.text.edits import Span

_WRAPPER = "if 1:\n"
# Every level of blocks is parsed again for the one around it.
_DEEPEST_BLOCKS = 20
_NOT_A_LINE_END = re.compile(r"[^\r\n]")
_CLAUSE = re.compile(r"(?:elif|else|except|finally)\b")
_CLAUSED = re.compile(r"(?:if|for|while|try|async)\b")


@dataclass(frozen=True)
class Problem:
    """A piece that does not parse, in 0-based offsets into the statement, and why."""

    span: Span
    message: str


@dataclass(frozen=True)
class _Piece:
    """The statement of the lines from `first` up to, not including, `last`; whether its block is indented otherwise."""

    first: int
    last: int
    misplaced: bool


def recover(statement: str) -> tuple[cst.Module, str, tuple[Problem, ...]]:
    """Return the tree of a top-level statement that does not parse, the text it is the tree of, and what is not in it.

    The smallest pieces that do not parse are statements in some block. Each is masked: a `pass` and spaces of the same
    length take its place, line ends stay where they are. So every offset of the tree is true of the statement, too.
    Where the whole statement is such a piece the tree is empty.
    """
    return _Recovery(statement).result()


class _Recovery:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = list(logical_lines(text))
        self.widths = [len(line.indentation.expandtabs(8)) for line in self.lines]
        self.problems: list[Problem] = []
        self._parsed: tuple[str, cst.Module] | None = None

    def result(self) -> tuple[cst.Module, str, tuple[Problem, ...]]:
        if self.lines:
            self._repair(0, len(self.lines))
        try:
            tree = self._parse(self.text)
        except NotPython as error:
            # Only white space and comments are left, or pieces that parse alone and not together.
            self.problems = [Problem(self._span(0, len(self.lines)), error.message)]
            self.text = _NOT_A_LINE_END.sub(" ", self.text)
            tree = parse(self.text)
        return tree, self.text, tuple(sorted(self.problems, key=lambda problem: problem.span))

    def _repair(self, first: int, last: int, depth: int = 0) -> None:
        """Mask what does not parse in the statement of the lines from `first` up to, not including, `last`.

        `depth` is the number of blocks around it.
        """
        wrapper = _WRAPPER if depth else ""
        error = self._error(first, last, wrapper)
        if error is None:
            return
        inner = self._inner_statements(first, last) if depth < _DEEPEST_BLOCKS else []
        # Most often the one the parser stopped in is the only one: then the others need not be parsed one by one.
        suspects = [piece for piece in inner if self._holds(piece, first, error.row - wrapper.count("\n"))]
        for pieces in (suspects, [piece for piece in inner if piece not in suspects]):
            for piece in pieces:
                if piece.misplaced:
                    self._mask(piece.first, piece.last, "the indentation fits no block around it", filler="")
                else:
                    self._repair(piece.first, piece.last, depth + 1)
            if pieces and (error := self._error(first, last, wrapper)) is None:
                return
        self._mask(first, last, error.message, filler="pass" if depth else "")

    def _error(self, first: int, last: int, wrapper: str) -> NotPython | None:
        try:
            self._parse(wrapper + self.text[self._start(first) : self._start(last)])
        except NotPython as error:
            return error
        return None

    def _parse(self, text: str) -> cst.Module:
        """Parse a text; only once, if it is the one that was parsed last. Raises NotPython."""
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, parse(text)
        return self._parsed[1]

    def _inner_statements(self, first: int, last: int) -> list[_Piece]:
        """The statements in the blocks of a statement."""
        pieces: list[_Piece] = []
        start: int | None = None  # the statement that is being read
        block: int | None = None  # the indentation of its block
        claused = decorated = False
        for index in range(first + 1, last):
            width, word = self.widths[index], self.lines[index].word
            if width <= self.widths[first]:  # `else:` and the like, or the `def` of a decorator
                if start is not None and block is not None:
                    pieces.append(_Piece(start, index, self.widths[start] != block))
                start = block = None
                continue
            block = width if block is None else block
            if start is not None:
                clause = claused and width == block and _CLAUSE.match(self.text, word)
                if width > block or clause or (decorated and width == block):
                    decorated = decorated and (width > block or self.text.startswith("@", word))
                    continue
                pieces.append(_Piece(start, index, self.widths[start] != block))
            start = index
            claused = _CLAUSED.match(self.text, word) is not None
            decorated = self.text.startswith("@", word)
        if start is not None and block is not None:
            pieces.append(_Piece(start, last, self.widths[start] != block))
        return pieces

    def _holds(self, piece: _Piece, first: int, row: int) -> bool:
        """Whether a piece holds a row, counted from 1 at the line `first`."""
        before = self.text[self._start(first) : self._start(piece.first)]
        inside = self.text[self._start(piece.first) : self._start(piece.last)]
        return _rows(before) < row <= _rows(before) + _rows(inside)

    def _mask(self, first: int, last: int, message: str, *, filler: str) -> None:
        """Put spaces and a statement without effect, `filler`, in the place of some lines."""
        span = self._span(first, last)
        masked = _NOT_A_LINE_END.sub(" ", self.text[span.start : span.end])
        if filler:
            if not masked.startswith(" " * len(filler)):
                filler = "0"  # The first line is too short.
            masked = filler + masked[len(filler) :]
        self.text = self.text[: span.start] + masked + self.text[span.end :]
        self.problems = [found for found in self.problems if not span.start <= found.span.start < span.end]
        self.problems.append(Problem(span, message))

    def _span(self, first: int, last: int) -> Span:
        return Span(self.lines[first].word, self.lines[last - 1].end) if self.lines else Span(0, len(self.text))

    def _start(self, index: int) -> int:
        return self.lines[index].start if index < len(self.lines) else len(self.text)


def _rows(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
