"""Layers, parameters and buffers before `nn.Module.__init__`, or lost to a second one."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import (
    delete_lines,
    indentation,
    line_end,
    line_start,
    row_of,
    shortened,
    shown_name,
    stands_alone,
    text_of,
)
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, Early, Emptied
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.values import Place
from torchstray.text.edits import Edit


class BeforeSuperInit(Rule):
    """TODO"""

    name = "before-super-init"
    summary = "state is kept before nn.Module.__init__ has run, or lost to a second run"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            if facts.early:
                yield self._early(model, facts, facts.early[0])
            for emptied in facts.emptied:
                yield self._emptied(model, emptied)

    def _early(self, model: FileModel, facts: ClassFacts, early: Early) -> Finding:
        related: tuple[Related, ...] = ()
        call = _super_call(facts.cls)
        kept = "registered" if isinstance(early.place.node, cst.Call) else "assigned"
        subject = f"`{shown_name(model, early.place, early.attribute)}` is {kept}"
        if early.never:
            message = (
                f"{subject} but `__init__` never calls `super().__init__()`, so building the module raises AttributeError; "
                "call it first."
            )
        else:
            message = (
                f"{subject} before `nn.Module.__init__` has run, so building the module raises AttributeError; call "
                "`super().__init__()` first."
            )
            if call is not None:
                related = (Related(call.span, f"`nn.Module.__init__` only runs here, on line {row_of(model, call)}."),)
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=message,
            span=early.place.span,
            related=related,
            fixes=tuple(_call_first(model, facts, early, call)),
            subject=early.place.node,
        )

    def _emptied(self, model: FileModel, emptied: Emptied) -> Finding:
        call = shortened(model, emptied.place)
        names = [f"`self.{name}`" for name in emptied.lost]
        lost = f"{names[0]} is lost"
        if len(names) > 1:
            rest = "others" if len(names) > 3 else names[-1]
            lost = f"{', '.join(names[:3] if len(names) > 3 else names[:-1])} and {rest} are lost"
        direct = _is_module_init(model, emptied.place.node)
        advice = "drop this call" if direct else "let each class call `super().__init__()`, and call that once here"
        fixes: tuple[Fix, ...] = ()
        if direct and stands_alone(model, emptied.place.span):
            fixes = (
                Fix(
                    "Drop the second call: the layers stay registered",
                    False,
                    (delete_lines(model, emptied.place.span),),
                ),
            )
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(f"`{call}` runs `nn.Module.__init__` a second time, which empties the module: {lost}; {advice}."),
            span=emptied.place.span,
            fixes=fixes,
            subject=emptied.place.node,
        )


def _is_module_init(model: FileModel, node: cst.CSTNode) -> bool:
    """Whether a call is `nn.Module.__init__(self)`, however that is spelled."""
    name = dotted(node.func) if isinstance(node, cst.Call) else None
    head, _, rest = (name or "").partition(".")
    full = f"{model.names.qualified(head)}.{rest}".removesuffix(".__init__")
    return torch_api.canonical(full) == "torch.nn.Module"


def _super_call(cls: ClassModel) -> Place | None:
    """The statement of a class's `__init__` that calls the base's, where it stands in the method's own block."""
    init = cls.methods.get("__init__")
    for line in init.body.body if init is not None else ():
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        small = line.body[0]
        if isinstance(small, cst.Expr) and _initialises(small.value):
            return Place(cls.statement, small)
    return None


def _initialises(node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "__init__":
        return False
    of = node.func.value
    return (isinstance(of, cst.Call) and dotted(of.func) == "super") or dotted(of) is not None


def _call_first(model: FileModel, facts: ClassFacts, early: Early, call: Place | None) -> Iterable[Fix]:
    cls = facts.cls
    init = cls.methods.get("__init__")
    if init is None or not _inside(init, early.place.node):
        return
    first = first_statement(init)
    if first is None:
        return
    start = cls.statement.span(first).start
    indent = indentation(model, start)
    if not stands_alone_before(model, start):
        return
    base = next(
        (entry for entry in cls.resolution[1:] if isinstance(entry, ClassModel) and "__init__" in entry.methods), None
    )
    if early.never:
        if base is not None and _wants_arguments(base.methods["__init__"]):
            return
        at = line_start(model, start)
        yield Fix(
            "Call `super().__init__()` first",
            base is None and cls.fully_known,
            (Edit(at, at, f"{indent}super().__init__()\n"),),
        )
        return
    if (
        call is None
        or not stands_alone(model, call.span)
        or model.document.lines.position(call.span.start)[0] == model.document.lines.position(start)[0]
    ):
        return
    assigned = {name for line in init.body.body for name in _assigned(line)}
    if set(names_in(call.node)) & assigned:
        return
    at = line_start(model, start)
    moved = model.document.text[line_start(model, call.span.start) : line_end(model, call.span.end)]
    if not moved.endswith(("\n", "\r")):
        moved += "\n"
    yield Fix(
        f"Call `{text_of(model, call.span).splitlines()[0]}` first",
        base is None and cls.fully_known,
        (Edit(at, at, moved), delete_lines(model, call.span)),
    )


def stands_alone_before(model: FileModel, offset: int) -> bool:
    """Whether only white space stands before `offset` on its line."""
    return not model.document.text[line_start(model, offset) : offset].strip()


def first_statement(function: cst.FunctionDef) -> cst.BaseStatement | None:
    """The first statement of a function's block that is not its docstring; None where the body stands on the `def` line."""
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    for line in function.body.body:
        docstring = (
            isinstance(line, cst.SimpleStatementLine)
            and isinstance(line.body[0], cst.Expr)
            and isinstance(line.body[0].value, cst.SimpleString | cst.ConcatenatedString)
        )
        if not docstring:
            return line
    return None


def _assigned(node: cst.CSTNode) -> Iterable[str]:
    if isinstance(node, cst.Assign):
        for target in node.targets:
            if isinstance(target.target, cst.Name | cst.Tuple):
                yield from names_in(target.target)
    elif isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
        if isinstance(node.target, cst.Name):
            yield node.target.value
    elif isinstance(node, cst.For):
        yield from names_in(node.target)
    for child in node.children:
        yield from _assigned(child)


def _wants_arguments(init: cst.FunctionDef) -> bool:
    given = [*init.params.posonly_params, *init.params.params][1:]
    return any(parameter.default is None for parameter in [*given, *init.params.kwonly_params])


def _inside(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    return node is wanted or any(_inside(child, wanted) for child in node.children)
