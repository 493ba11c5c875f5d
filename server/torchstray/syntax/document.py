"""A module's text as top-level statements, each with a syntax tree of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from torchstray.syntax.splitter import split
from torchstray.text.edits import Span
from torchstray.text.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    import libcst as cst

    from torchstray.syntax.positions import Positions
    from torchstray.syntax.recovery import Problem

T = TypeVar("T")


@dataclass(frozen=True)
class SyntaxProblem:
    """A piece of a document that does not parse (0-based offsets into the document), and why, for users to read."""

    span: Span
    message: str


class _Parse:
    """What a statement's text alone determines, so that documents can share it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.derived: dict[object, object] = {}

    @cached_property
    def _result(self) -> tuple[cst.Module, str, tuple[Problem, ...]]:
        """The tree, the text of equal length that it was parsed from, and the problems."""
        # Only here is libcst needed, and loading it takes longer than all else for a file that is only looked at.
        from torchstray.syntax.parsing import NotPython, parse
        from torchstray.syntax.recovery import recover

        try:
            return parse(self.text), self.text, ()
        except NotPython:
            return recover(self.text)

    @property
    def tree(self) -> cst.Module:
        return self._result[0]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._result[2]

    @cached_property
    def positions(self) -> Positions:
        from torchstray.syntax.positions import Positions

        return Positions(self.tree, self._result[1])


class Statement:
    """One top-level statement of one document: a piece of its text from the 0-based offset `start` on.

    The blank lines and comments up to the next statement are part of it.
    """

    def __init__(self, start: int, parse: _Parse) -> None:
        self.start = start
        self._parse = parse

    @property
    def text(self) -> str:
        return self._parse.text

    @property
    def tree(self) -> cst.Module:
        """The syntax tree, parsed when first asked for. What does not parse is left out of it, see `problems`."""
        return self._parse.tree

    @property
    def problems(self) -> tuple[SyntaxProblem, ...]:
        """What does not parse in this statement, in the order of the text."""
        return tuple(SyntaxProblem(self._moved(found.span), found.message) for found in self._parse.problems)

    def derived(self, work: Callable[[cst.Module], T]) -> T:
        """Return what `work` makes of the tree. It must depend on nothing else and not be changed: documents share it
        as they share the tree."""
        known = self._parse.derived
        if work not in known:
            known[work] = work(self.tree)
        return known[work]  # type: ignore[return-value]  # what this very `work` has made

    def span(self, node: cst.CSTNode) -> Span:
        """Return where a node of `tree` is, as 0-based offsets into the document.

        White space around the node and the parentheses around an expression are left out, as libcst's PositionProvider
        does. Raises KeyError for a node of another tree.
        """
        return self._moved(self._parse.positions.span(node))

    def whole_span(self, node: cst.CSTNode) -> Span:
        """Return where a node of `tree` is with its own parentheses; the same as `span` where it has none."""
        return self._moved(self._parse.positions.whole_span(node))

    def _moved(self, span: Span) -> Span:
        return Span(self.start + span.start, self.start + span.end)


class Document:
    """One version of a module's text. Nothing is parsed before it is asked for.

    With `previous`, another version of it, every statement whose text is also in that one shares its parse; the answers
    are those of a document made without.
    """

    def __init__(self, text: str, previous: Document | None = None) -> None:
        # A parse serves one statement of a document, however many have its text: a node is in one place only.
        known: dict[str, list[_Parse]] = {}
        if previous is not None:
            for statement in reversed(previous.statements):
                known.setdefault(statement.text, []).append(statement._parse)
        starts = split(text)
        statements = []
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            piece = text[start:end]
            parses = known.get(piece)
            statements.append(Statement(start, parses.pop() if parses else _Parse(piece)))
        self.text = text
        self.statements: tuple[Statement, ...] = tuple(statements)

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.text)

    @cached_property
    def problems(self) -> tuple[SyntaxProblem, ...]:
        """What does not parse, in the order of the text. Parses every statement."""
        return tuple(problem for statement in self.statements for problem in statement.problems)
