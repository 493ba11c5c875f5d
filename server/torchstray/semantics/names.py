"""The names that a file binds at its top level, and how it spells what it imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.values import Place
from torchstray.syntax.document import Document, Statement
from torchstray.text.edits import Edit


@dataclass(frozen=True)
class Spelling:
    """How to write a name in a file: its `text`, and the `edits` that import what it needs."""

    text: str
    edits: tuple[Edit, ...] = ()


def dotted(node: cst.CSTNode | None) -> str | None:
    """The text of a name such as `a.b.c`; None for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr.value}"
    return None


_TRIVIA = re.compile(
    r"whitespace|lines?\Z|lines_|comma|colon|header|footer|separator|posonly_ind|relative|asynchronous"
    r"|\A(?:operator|dot|equal|[lr](?:par|brace|bracket))\Z"
)
_NO_NODES = (type(None), str, bool, cst.MaybeSentinel)


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold more than white space, punctuation and operators."""
    return tuple(part.name for part in fields(kind) if not _TRIVIA.search(part.name))


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below `node`; white space, punctuation and operators are left out.

    libcst's own `children` has the whole node written anew to find them, which takes twenty times as long.
    """
    found: list[cst.CSTNode] = []
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, list | tuple):
            found += value
        elif type(value) not in _NO_NODES:
            found.append(value)
    return found


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and all nodes below it, each before those below it; see `children`."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(children(found))


def holds(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    """Whether `wanted` is `node` or stands below it."""
    return any(found is wanted for found in walk(node))


def blocks(node: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """The suites that a compound statement runs in the scope it stands in (so not those of a function or class)."""
    if isinstance(node, cst.If):
        yield node.body
        if node.orelse is not None:
            yield from blocks(node.orelse)
    elif isinstance(node, cst.Try | cst.TryStar):
        yield node.body
        for handler in node.handlers:
            yield handler.body
        for rest in (node.orelse, node.finalbody):
            if rest is not None:
                yield rest.body
    elif isinstance(node, cst.For | cst.While):
        yield node.body
        if node.orelse is not None:
            yield node.orelse.body
    elif isinstance(node, cst.Else | cst.With):
        yield node.body
    elif isinstance(node, cst.Match):
        for case in node.cases:
            yield case.body


@dataclass
class FileNames:
    """`imports` maps each imported name to what it stands for; where a name is imported twice (as in
    `try`/`except`), the first one counts, and `alternatives` are the others. `stars` are the modules whose public names
    are all imported. `assigned` are the places where names are first assigned at file level."""

    document: Document
    imports: dict[str, str] = field(default_factory=dict)
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    classes: list[tuple[cst.ClassDef, Statement]] = field(default_factory=list)
    functions: dict[str, tuple[cst.FunctionDef, Statement]] = field(default_factory=dict)
    from_imports: dict[str, Place] = field(default_factory=dict)
    last_import: Place | None = None
    assigned: dict[str, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for statement in self.document.statements:
            for node in statement.tree.body:
                self._collect(node, statement, top=True)

    def _collect(self, node: cst.CSTNode, statement: Statement, top: bool) -> None:
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                if isinstance(small, cst.Import | cst.ImportFrom):
                    self._import(small, statement, top)
                elif isinstance(small, cst.Assign | cst.AnnAssign | cst.AugAssign):
                    self._assign(small, statement)
        elif isinstance(node, cst.ClassDef):
            self.classes.append((node, statement))
        elif isinstance(node, cst.FunctionDef):
            self.functions[node.name.value] = (node, statement)
        else:
            for block in blocks(node):
                for child in block.body:
                    self._collect(child, statement, top=False)

    def _import(self, node: cst.Import | cst.ImportFrom, statement: Statement, top: bool) -> None:
        if top:
            self.last_import = Place(statement, node)
        for name, target in imported(node):
            if name == "*":
                self.stars.append(target)
            else:
                if self.imports.setdefault(name, target) != target:
                    self.alternatives.setdefault(name, []).append(target)
        if (
            top
            and isinstance(node, cst.ImportFrom)
            and not node.relative
            and not isinstance(node.names, cst.ImportStar)
        ):
            module = dotted(node.module)
            if module is not None:
                self.from_imports.setdefault(module, Place(statement, node))

    def _assign(self, node: cst.Assign | cst.AnnAssign | cst.AugAssign, statement: Statement) -> None:
        targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for target in targets:
            for name in target_names(target):
                self.assigned.setdefault(name.value, Place(statement, name))
        if isinstance(node, cst.Assign) and len(targets) == 1:
            self._alias(targets[0], node.value)

    def _alias(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        """`nn = torch.nn` gives what is imported another name."""
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            for one, other in zip(target.elements, value.elements, strict=False):
                self._alias(one.value, other.value)
        elif isinstance(target, cst.Name) and target.value not in self.imports:
            head, _, rest = (dotted(value) or "").partition(".")
            full = self.imports.get(head)
            if full is not None and target.value != head:
                self.imports[target.value] = torch_api.canonical(f"{full}.{rest}" if rest else full)

    def qualified(self, name: str) -> str | None:
        """The full name that an imported `name` stands for; None where it is not imported."""
        if name in self.imports:
            return self.imports[name]
        for module in self.stars:
            if name in torch_api.exports(module):
                return torch_api.canonical(f"{module}.{name}")
        return None

    def spell(self, qualified: str) -> Spelling:
        """How this file writes `torch.nn.X` (or another name below torch), importing it as its author would where it
        must."""
        module, _, last = qualified.rpartition(".")
        for name, target in self.imports.items():
            if target == qualified:
                return Spelling(name)
        if any(
            last in torch_api.exports(star) and torch_api.canonical(f"{star}.{last}") == qualified
            for star in self.stars
        ):
            return Spelling(last)
        for name, target in self.imports.items():
            if target == module:
                return Spelling(f"{name}.{last}")
        if module in self.from_imports:
            return Spelling(last, (self._extend(self.from_imports[module], last),))
        for name, target in self.imports.items():
            if target == "torch" and module.startswith("torch."):
                return Spelling(f"{name}{module.removeprefix(target)}.{last}")
        parent, _, namespace = module.rpartition(".")
        if parent in self.from_imports:
            return Spelling(f"{namespace}.{last}", (self._extend(self.from_imports[parent], namespace),))
        statement = f"from {parent} import {namespace}" if parent else f"import {module}"
        return Spelling(f"{namespace}.{last}", (self._new_import(statement),))

    def _extend(self, place: Place, name: str) -> Edit:
        node = place.node
        assert isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar)
        end = place.statement.span(node.names[-1]).end
        comma = node.names[-1].comma
        rows = [self.document.lines.position(place.statement.span(alias).start)[0] for alias in node.names]
        if isinstance(comma, cst.Comma) and len(set(rows)) == len(rows) > 1:
            start = place.statement.span(node.names[-1]).start
            _, column = self.document.lines.position(start)
            line = self.document.lines.line(rows[-1])
            after = start + line[column - 1 :].find(",") + 1
            return Edit(after, after, f"\n{line[: column - 1]}{name},")
        if isinstance(comma, cst.Comma):
            end = place.statement.span(node.names[-1].name).end if node.names[-1].asname is None else end
        return Edit(end, end, f", {name}")

    def _new_import(self, statement: str) -> Edit:
        """Adds an import behind the last one, or else behind the comments and the docstring that open the file."""
        text, lines = self.document.text, self.document.lines
        if self.last_import is not None:
            end = self.last_import.span.end
        else:
            first = self.document.statements[0] if self.document.statements else None
            line = first.tree.body[0] if first is not None and first.tree.body else None
            if first is None or line is None:
                return Edit(0, 0, f"{statement}\n")
            if not is_docstring(line):
                start = first.span(line).start
                return Edit(start, start, f"{statement}\n\n\n")
            end = first.span(line).end
        row, _ = lines.position(end)
        behind = "" if self.last_import is not None else "\n"
        if row == len(lines):
            return Edit(len(text), len(text), f"\n{behind}{statement}\n")
        after = lines.offset(row + 1, 1)
        return Edit(after, after, f"{behind}{statement}\n")


def target_names(target: cst.BaseExpression) -> Iterator[cst.Name]:
    """The plain names in the target of an assignment."""
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from target_names(element.value)


def is_docstring(line: cst.CSTNode) -> bool:
    """Whether a statement is nothing but a string."""
    return (
        isinstance(line, cst.SimpleStatementLine)
        and isinstance(line.body[0], cst.Expr)
        and isinstance(line.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def imported(node: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, str]]:
    """The (name bound, full name) pairs of one import statement; `("*", module)` for a star import. Relative modules
    keep their dots."""
    if isinstance(node, cst.Import):
        for alias in node.names:
            full = dotted(alias.name)
            if full is None:
                continue
            if alias.asname is not None:
                yield dotted(alias.asname.name) or full, torch_api.canonical(full)
            else:
                yield full.partition(".")[0], full.partition(".")[0]
        return
    module = "." * len(node.relative) + (dotted(node.module) or "")
    if isinstance(node.names, cst.ImportStar):
        yield "*", module
        return
    for alias in node.names:
        name = dotted(alias.name)
        if name is not None:
            bound = dotted(alias.asname.name) if alias.asname is not None else name
            separator = "" if module.endswith(".") else "."
            yield bound or name, torch_api.canonical(f"{module}{separator}{name}")
