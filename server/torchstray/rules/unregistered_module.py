"""Layers in a Python container, a plain object or a function."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import MODULES, may_be_key, registered_containers, shown_attribute, wrapped
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.semantics.facts import How
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import (
    Container,
    Instance,
    ModuleInstance,
    Place,
    Scalar,
    Shape,
    Value,
    contents,
    options_of,
)
from torchstray.text.edits import Edit

_LIST_ONLY = frozenset({"remove", "sort", "reverse", "index", "count", "copy", "appendleft", "rotate", "popleft"})


class UnregisteredModule(Rule):
    """TODO"""

    name = "unregistered-module"
    summary = "layers that a module holds without registering them"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.MODULE:
                    yield self._finding(model, stray)

    def _finding(self, model: FileModel, stray: Stray) -> Finding:
        state = stray.state
        grave = state.parameters or state.buffers
        related = [
            Related(value.place.span, f"This `{value.name}` stays behind.")
            for value in stray.values
            if isinstance(value, ModuleInstance) and value.place is not None and value.place is not stray.store.target
        ]
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if grave else Severity.WARNING,
            message=_message(model, stray),
            span=stray.store.target.span,
            related=tuple(related[:3]),
            fixes=tuple(_fixes(model, stray)),
            subject=stray.store.target.node,
        )


def _message(model: FileModel, stray: Stray) -> str:
    state = stray.state
    skipped = ["`.to()`"] if state.parameters or state.buffers else []
    skipped += ["`parameters()`"] if state.parameters else []
    skipped += ["`state_dict()`"] if state.parameters or state.buffers else []
    skipped += ["`eval()`"] if state.mode or state.parameters else []
    consequence = " and they never train" if state.parameters else ""
    if not state.parameters and not state.buffers:
        consequence = " and they go on as in training"
    skip = f"{', '.join(skipped[:-1])} and {skipped[-1]}" if len(skipped) > 1 else skipped[0]
    verb = "skip" if len(skipped) > 1 else "skips"
    place, advice = _holder(stray.holder)
    return f"The layers in `{shown_attribute(model, stray.store)}` are {place}, so {skip} {verb} them{consequence}; {advice}."


def _holder(holder: Value) -> tuple[str, str]:
    if isinstance(holder, Container):
        registered = "nn.ModuleDict" if holder.shape is Shape.DICT else "nn.ModuleList"
        advice = f"use `{registered}`"
        if holder.shape is Shape.DICT and not all(may_be_key(key) for key in holder.keys):
            advice += " with strings without dots as keys"
        return f"in a plain {holder.shape.value}", advice
    if isinstance(holder, Instance):
        return f"in an object of `{holder.cls.name}`, which is no module", f"make `{holder.cls.name}` an `nn.Module`"
    return "only held by a function", "keep them in an attribute of their own"


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    edits = _edits(model, stray)
    if edits is None:
        return
    state = stray.state
    name = (
        "nn.ModuleDict" if isinstance(stray.holder, Container) and stray.holder.shape is Shape.DICT else "nn.ModuleList"
    )
    grave = state.parameters or state.buffers
    consequence = (
        "the layers start to train, and `state_dict()` gets new keys" if grave else "`eval()` reaches the layers"
    )
    yield Fix(f"Use `{name}`: {consequence}", not grave, edits)


def _edits(model: FileModel, stray: Stray) -> tuple[Edit, ...] | None:
    holder, store = stray.holder, stray.store
    if not isinstance(holder, Container) or store.how is not How.ASSIGN or store.expression is None:
        return None
    if any(not _may_be_layer(item) for item in contents(holder)):
        return None
    if _used_as_list(model, stray):
        return None
    expression = Place(store.target.statement, store.expression)
    if isinstance(store.statement.node, cst.Assign) and len(store.statement.node.targets) > 1:
        return None
    if holder.place is not None and _within(store.expression, holder.place.node):
        return registered_containers(model, holder, MODULES)
    if holder.shape in {Shape.DEQUE, Shape.SET} or any(
        isinstance(option, Container) for item in holder.items for option in options_of(item)
    ):
        return None
    grown_later = any(
        place.statement is expression.statement and place.span.start > expression.span.end for place in holder.grown_at
    )
    if grown_later:
        return None
    spelling = model.names.spell(MODULES[1] if holder.shape is Shape.DICT else MODULES[0])
    return (*spelling.edits, *wrapped(model, expression, f"{spelling.text}("))


def _may_be_layer(value: Value) -> bool:
    if isinstance(value, Scalar):
        return value.literal is None
    return isinstance(value, ModuleInstance | Container) or type(value) is Value


def _within(expression: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Whether `node` is what the assignment's right-hand side makes: it, or a part of `[...] * n`."""
    if expression is node:
        return True
    return isinstance(expression, cst.BinaryOperation) and node in {expression.left, expression.right}


def _used_as_list(model: FileModel, stray: Stray) -> bool:
    """Whether methods that `nn.ModuleList` lacks are called on the attribute."""
    return any(
        f"self.{stray.attribute}.{method}(" in statement.text
        for statement in {stray.store.target.statement, stray.facts.cls.statement}
        for method in _LIST_ONLY
    )
