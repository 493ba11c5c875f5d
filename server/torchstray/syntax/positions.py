"""Where the nodes of a tree are in its text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState

from torchstray.text.edits import Span

_MARK = re.compile(r"[^\s\\]")


class Positions(CodegenState):
    """Where each node of a tree is, in 0-based offsets into the text that it was parsed from.

    libcst writes a tree's text piece by piece; written once with the pieces' lengths added up, every node's place is
    known. This is what libcst's PositionProvider does too, but in lines and columns and at several times the cost.
    """

    def __init__(self, tree: cst.Module, text: str) -> None:
        super().__init__(default_indent=tree.default_indent, default_newline=tree.default_newline)
        self._offset = 0
        self._open: list[int] = []
        self._whole: dict[cst.CSTNode, tuple[int, int]] = {}
        self._syntactic: dict[cst.CSTNode, tuple[int, int]] = {}
        tree._codegen(self)
        self._length = len(text)
        self._marks = _marks("".join(self.tokens), text)

    def span(self, node: cst.CSTNode) -> Span:
        """The node without surrounding white space and its own parentheses."""
        return self._in_text(*self._written(node))

    def whole_span(self, node: cst.CSTNode) -> Span:
        """The node with the parentheses around it."""
        left, right = getattr(node, "lpar", None), getattr(node, "rpar", None)
        if isinstance(left, Sequence) and isinstance(right, Sequence) and left and right:
            return self._in_text(self._whole[left[0]][0], self._whole[right[-1]][1])
        return self.span(node)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self._offset += len(value)

    def add_indent_tokens(self) -> None:
        self.tokens.extend(self.indent_tokens)
        self._offset += sum(map(len, self.indent_tokens))

    def pop_trailing_newline(self) -> None:
        """Keep the line end that is written behind a text without one: libcst misjudges texts that end in a CR."""

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._open.append(self._offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self._whole[node] = self._open.pop(), self._offset

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        start = self._offset
        yield
        end = self._offset
        if start_node is not None:
            start = self._written(start_node)[0]
        if end_node is not None:
            end = self._written(end_node)[1]
        self._syntactic[node] = start, end

    def _written(self, node: cst.CSTNode) -> tuple[int, int]:
        return self._syntactic.get(node) or self._whole[node]

    def _in_text(self, start: int, end: int) -> Span:
        if self._marks:
            written, text = self._marks
            first, last = bisect_left(written, start), bisect_left(written, end) - 1
            start = text[first] if first < len(text) else self._length
            end = max(start, text[last] + 1) if last >= 0 else start
        return Span(min(start, self._length), min(end, self._length))


def _marks(written: str, text: str) -> tuple[list[int], list[int]] | None:
    """Return where each character but white space is, in what libcst wrote and in the text; None where both agree.

    A tree does not hold the form feeds before a statement, nor some blank lines at the end, and writes its own
    indentation in the place of one that a backslash breaks.
    """
    if written.startswith(text):
        return None
    first, second = ([match.start() for match in _MARK.finditer(string)] for string in (written, text))
    return (first, second) if len(first) == len(second) else None
