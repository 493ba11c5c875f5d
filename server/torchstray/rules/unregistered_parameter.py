"""Parameters that a module does not register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.repairs import PARAMETERS, argument_span, registered_containers, shown_attribute, wrapped
from torchstray.rules.rule import Finding, Fix, Rule, Severity
from torchstray.semantics.facts import How
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import Container, Place, Shape, Tensor
from torchstray.text.edits import Edit


class UnregisteredParameter(Rule):
    """TODO"""

    name = "unregistered-parameter"
    summary = "parameters that a module holds without registering them"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.PARAMETER:
                    yield Finding(
                        rule=self.name,
                        severity=self.severity,
                        message=_message(model, stray),
                        span=stray.store.target.span,
                        fixes=tuple(_fixes(model, stray)),
                        subject=stray.store.target.node,
                    )


def _message(model: FileModel, stray: Stray) -> str:
    if isinstance(stray.holder, Tensor):
        return (
            f"`{shown_attribute(model, stray.store)}` is a plain tensor with a gradient, so an optimizer given `parameters()` never updates "
            "it and `.to()` leaves it behind; make it an `nn.Parameter`."
        )
    shape = (
        f"a plain {stray.holder.shape.value}" if isinstance(stray.holder, Container) else "an object that is no module"
    )
    dictionary = isinstance(stray.holder, Container) and stray.holder.shape is Shape.DICT
    advice = "nn.ParameterDict" if dictionary else "nn.ParameterList"
    return (
        f"The parameters in `{shown_attribute(model, stray.store)}` are in {shape}, so an optimizer given `parameters()` never updates them "
        f"and `.to()` leaves them behind; use `{advice}`."
    )


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    store = stray.store
    if store.how is not How.ASSIGN or store.expression is None:
        return
    consequence = "it starts to train" if isinstance(stray.holder, Tensor) else "they start to train"
    if isinstance(stray.holder, Container):
        if stray.holder.place is None or not _is(store.expression, stray.holder.place.node):
            return
        nested = any(isinstance(item, Container) for item in stray.holder.items)
        edits = None if nested else registered_containers(model, stray.holder, PARAMETERS)
        if edits is not None:
            name = "nn.ParameterDict" if stray.holder.shape is Shape.DICT else "nn.ParameterList"
            yield Fix(f"Use `{name}`: {consequence}, and `state_dict()` gets new keys", False, edits)
        return
    if isinstance(stray.holder, Tensor) and isinstance(store.statement.node, cst.Assign | cst.AnnAssign):
        yield Fix(
            f"Make it an `nn.Parameter`: {consequence}, and `state_dict()` gets a new key",
            False,
            parameter_edits(model, Place(store.target.statement, store.expression)),
        )


def _is(expression: cst.BaseExpression, node: cst.CSTNode) -> bool:
    return expression is node or (
        isinstance(expression, cst.BinaryOperation) and node in {expression.left, expression.right}
    )


def parameter_edits(model: FileModel, place: Place) -> tuple[Edit, ...]:
    """Makes the tensor expression at `place` the data of an `nn.Parameter`, without its own request for a gradient."""
    spelling = model.names.spell("torch.nn.Parameter")
    return (*spelling.edits, *without_gradient(place, place.node), *wrapped(model, place, f"{spelling.text}("))


def without_gradient(place: Place, node: cst.CSTNode) -> Iterator[Edit]:
    """Removes `requires_grad=True` arguments and `.requires_grad_()` calls below `node`."""
    if isinstance(node, cst.Call):
        for position, argument in enumerate(node.args):
            if argument.keyword is not None and argument.keyword.value == "requires_grad":
                yield _remove_argument(place, node, position)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "requires_grad_":
            receiver = place.statement.whole_span(node.func.value)
            yield Edit(receiver.end, place.statement.span(node).end, "")
    for child in node.children:
        yield from without_gradient(place, child)


def _remove_argument(place: Place, call: cst.Call, position: int) -> Edit:
    """Removes one argument together with the comma that divides it from its neighbour."""
    span = argument_span(place, call, position)
    if position > 0:
        return Edit(argument_span(place, call, position - 1).end, span.end, "")
    if len(call.args) > 1:
        return Edit(span.start, argument_span(place, call, 1).start, "")
    return Edit(span.start, span.end, "")
