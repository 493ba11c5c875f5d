"""Moves the making of state into `__init__`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import libcst as cst

from torchstray.rules.before_super_init import first_statement
from torchstray.rules.repairs import indentation, line_end, line_start
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.text.edits import Edit


@dataclass(frozen=True)
class Insertion:
    """Where statements can be added to a class's `__init__`: at `offset`, indented by `indent`, between `before` and
    `after`."""

    offset: int
    indent: str
    before: str = ""
    after: str = ""

    def edit(self, statements: Iterable[str]) -> Edit:
        """Adds these statements, one line each."""
        lines = "".join(f"{self.indent}{statement}\n" for statement in statements)
        return Edit(self.offset, self.offset, f"{self.before}{lines}{self.after}")


def end_of_state(model: FileModel, cls: ClassModel) -> Insertion | None:
    """Behind the last statement of `__init__` that sets an attribute, so that what follows (weight initialisation, a
    move) reaches what is added."""
    return _place(model, cls, lambda line: _sets_attribute(line) or _is_super_call(line))


def after_super_call(model: FileModel, cls: ClassModel) -> Insertion | None:
    """Behind the call of the base's `__init__`, so that all that follows can use what is added."""
    return _place(model, cls, _is_super_call)


def _place(model: FileModel, cls: ClassModel, wanted: Callable[[cst.CSTNode], bool]) -> Insertion | None:
    init = cls.methods.get("__init__")
    if init is None:
        return _new_init(model, cls)
    if not isinstance(init.body, cst.IndentedBlock):
        return None
    first = first_statement(init)
    lines = list(init.body.body)
    leaving = next((number for number, line in enumerate(lines) if _returns(line)), len(lines))
    chosen = next((number for number in reversed(range(leaving)) if wanted(lines[number])), None)
    if chosen is None or first is None:
        return None
    chosen_line = lines[chosen]
    span = cls.statement.span(chosen_line)
    last = _last_offset(cls, chosen_line)
    end = line_end(model, last)
    indent = indentation(model, span.start)
    before = "" if model.document.text[:end].endswith(("\n", "\r")) else "\n"
    return Insertion(end, indent, before)


def _returns(node: cst.CSTNode) -> bool:
    """Whether a statement may leave the function."""
    if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
        return False
    return isinstance(node, cst.Return) or any(_returns(child) for child in node.children)


def _last_offset(cls: ClassModel, node: cst.CSTNode) -> int:
    """The offset of the last character of a statement's own text, comments and blank lines behind it left out."""
    if isinstance(node, cst.SimpleStatementLine):
        return cls.statement.span(node).end
    suites = [
        child
        for child in node.children
        if isinstance(child, cst.BaseSuite | cst.Else | cst.If | cst.Finally | cst.ExceptHandler)
    ]
    if suites:
        return _last_offset(cls, suites[-1])
    if isinstance(node, cst.IndentedBlock | cst.SimpleStatementSuite) and node.body:
        return _last_offset(cls, node.body[-1])
    return cls.statement.span(node).end


def _sets_attribute(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Assign):
        return any(_is_attribute(target.target) for target in node.targets)
    if isinstance(node, cst.AnnAssign | cst.AugAssign):
        return _is_attribute(node.target)
    if isinstance(node, cst.Call) and (dotted(node.func) or "").startswith(("self.register_", "self.add_module")):
        return True
    return any(_sets_attribute(child) for child in node.children)


def _is_attribute(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Tuple):
        return any(_is_attribute(element.value) for element in node.elements)
    return (dotted(node) or "").startswith("self.")


def _is_super_call(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.SimpleStatementLine) or not isinstance(node.body[0], cst.Expr):
        return False
    call = node.body[0].value
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__"


def _new_init(model: FileModel, cls: ClassModel) -> Insertion | None:
    """A new `__init__` before the first method; None where the bases' own cannot be seen to take no arguments."""
    if not cls.fully_known or any(
        isinstance(entry, ClassModel) and "__init__" in entry.methods for entry in cls.resolution
    ):
        return None
    if any(isinstance(entry, str) and entry not in {"torch.nn.Module", "object"} for entry in cls.resolution):
        return None
    if not isinstance(cls.node.body, cst.IndentedBlock):
        return None
    first = next((node for node in cls.node.body.body if isinstance(node, cst.FunctionDef)), None)
    if first is None:
        return None
    start = cls.statement.span(first.decorators[0] if first.decorators else first).start
    indent = indentation(model, start)
    step = indent or "    "
    deeper = indent + (step if "\t" in step else " " * max(2, len(step) - len(_outer(model, cls))))
    offset = line_start(model, start)
    return Insertion(offset, deeper, f"{indent}def __init__(self):\n{deeper}super().__init__()\n", "\n")


def _outer(model: FileModel, cls: ClassModel) -> str:
    return indentation(model, cls.statement.span(cls.node).start)


def free_attribute(cls: ClassModel, taken: Iterable[str], wanted: str) -> str:
    """`wanted`, or with a number behind it if a class already has an attribute of that name."""
    names = {*taken, *(name for own in cls.own_classes for name in own.methods)}
    if wanted not in names:
        return wanted
    number = 2
    while f"{wanted}{number}" in names:
        number += 1
    return f"{wanted}{number}"
