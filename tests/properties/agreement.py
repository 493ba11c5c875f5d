"""Compares what is found in a program with what torch says, and shrinks a program that shows a disagreement."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.properties.truth import Kept, Left, observe
from tests.semantics import programs
from torchstray.text.lines import Lines

FITTING = {
    Left.TENSOR: {"unregistered-tensor", "unregistered-parameter", "computed-parameter"},
    Left.PARAMETER: {"unregistered-parameter", "computed-parameter", "unregistered-tensor"},
    Left.TRACKED: {"unregistered-parameter", "computed-parameter", "unregistered-tensor"},
    Left.MODULE: {"unregistered-module"},
}
"""The rules that may speak of what stays behind. A tensor that is computed from a parameter is of both first kinds."""
RULES = frozenset().union(*FITTING.values())


@dataclass(frozen=True)
class Disagreement:
    """A place where torch and torchstray do not agree. `rules` are those that speak there though nothing is left
    behind, `left` is what stays behind though no fitting rule speaks: one of them is empty."""

    line: int
    attribute: str
    rules: frozenset[str]
    left: frozenset[Left]

    @property
    def kind(self) -> tuple[frozenset[str], frozenset[Left]]:
        """What shrinking has to keep."""
        return self.rules, self.left

    def __str__(self) -> str:
        if self.left:
            return f"line {self.line}: missed that a {' and a '.join(self._words())} stays behind in {self.attribute}"
        return f"line {self.line}: {', '.join(sorted(self.rules))}, but nothing stays behind in {self.attribute}"

    def _words(self) -> list[str]:
        return sorted(left.value for left in self.left)


def disagreements(text: str, choices: int) -> list[Disagreement]:
    """Run a program, check it, and compare. Raises what the program raises when it is run."""
    kept = observe(text, choices)
    lines = Lines(text)
    found: dict[int, set[str]] = {}
    for finding in programs.findings(text):
        if finding.rule in RULES or finding.rule in {"before-super-init", "class-level-state"}:
            found.setdefault(lines.position(finding.span.start)[0], set()).add(finding.rule)
    wrong: list[Disagreement] = []
    left = _left_on_lines(kept)
    for one in sorted(kept, key=lambda one: (one.lines, one.attribute)):
        spoken = set().union(*(found.get(line, set()) for line in one.lines))
        fitting = set().union(*(FITTING[kind] for line in one.lines for kind in left.get(line, ())))
        if one.left and not spoken & (fitting | {"before-super-init"}) and not _told_elsewhere(one, kept, found):
            wrong.append(Disagreement(one.lines[-1], one.attribute, frozenset(), one.left))
        wrong += [
            Disagreement(line, one.attribute, frozenset(rules), frozenset())
            for line in one.lines
            if line not in left and (rules := found.get(line, set()) & RULES)
        ]
    return list(dict.fromkeys(wrong))


def _left_on_lines(kept: Iterable[Kept]) -> dict[int, set[Left]]:
    """What is left behind by each line that leaves something: an attribute is told of on its first assignment, and
    where a line may leave one thing or another, one of them is told of."""
    left: dict[int, set[Left]] = {}
    for one in kept:
        for line in one.lines if one.left else ():
            left.setdefault(line, set()).update(one.left)
    return left


def _told_elsewhere(one: Kept, kept: Iterable[Kept], found: Mapping[int, set[str]]) -> bool:
    """Whether a tensor with a gradient may be the other name of one that is told of, and cured there."""
    others = (other for other in kept if other.owner == one.owner and Left.TRACKED in other.left)
    return one.left == {Left.TRACKED} and any(found.get(line) for other in others for line in other.lines)


def shrunk(text: str, choices: int, wanted: Disagreement) -> str:
    """The program without all that the disagreement does not need."""

    def still(candidate: str) -> bool:
        try:
            return any(one.kind == wanted.kind for one in disagreements(candidate, choices))
        except Exception:  # noqa: BLE001 - a program that lacks a statement may raise anything
            return False

    return smallest(text, still)


def smallest(text: str, still: Callable[[str], bool]) -> str:
    """Take statements out of a program, and put blocks in the place of what they are in, while `still` holds."""
    text = ast.unparse(ast.parse(text)) + "\n"
    going = True
    while going:
        going = False
        for candidate in smaller(text):
            if len(candidate) < len(text) and still(candidate):
                text, going = candidate, True
                break
    return text


def smaller(text: str) -> Iterator[str]:
    """The programs that have one statement less, or one block in the place of the statement that it is in."""
    number = 0
    while True:
        tree = ast.parse(text)
        blocks = [block for node in ast.walk(tree) for block in _blocks(node)]
        places = [(block, position) for block in blocks for position in range(len(block))]
        if number >= 2 * len(places):
            return
        block, position = places[number // 2]
        statement = block[position]
        inner = [] if number % 2 == 0 else _inner(statement)
        if number % 2 == 0 or inner:
            block[position : position + 1] = inner or ([ast.Pass()] if len(block) == 1 else [])
            yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        number += 1


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    lists = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [block for block in lists if isinstance(block, list) and block]


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, (ast.If, ast.For, ast.With, ast.Try)):
        return [*statement.body, *getattr(statement, "orelse", [])]
    return []
