"""What is computed from an `nn.Parameter` and kept instead of it."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import argument_span, needs_parentheses, row_of, shown_attribute, text_of
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.rules.unregistered_parameter import without_gradient
from torchstray.semantics import torch_api
from torchstray.semantics.facts import NonLeaf
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import Parameter, Place, Tensor
from torchstray.text.edits import Edit


class ComputedParameter(Rule):
    """TODO"""

    name = "computed-parameter"
    summary = "a tensor computed from an nn.Parameter takes its place"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.COMPUTED:
                    yield self._stored(model, stray)
        for non_leaf in model.non_leaves:
            yield self._optimized(model, non_leaf)

    def _stored(self, model: FileModel, stray: Stray) -> Finding:
        tensor = next(value for value in stray.values if isinstance(value, Tensor))
        store = stray.store
        fixes: tuple[Fix, ...] = ()
        if store.expression is not None and tensor.made is not None and tensor.made.node is store.expression:
            fixes = tuple(_fixes(model, Place(store.target.statement, store.expression), tensor))
        node = tensor.made.node if tensor.made is not None else None
        converts = isinstance(node, cst.Call) and _may_return_itself(node)
        when, advice = (" as soon as it copies", "convert") if converts else ("", "compute")
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(
                f"`{_operation(node)}` is an ordinary tensor{when}, so `{shown_attribute(model, store)}` is missing from "
                f"`parameters()` and never trains; {advice} inside `nn.Parameter(…)`."
            ),
            span=store.target.span,
            fixes=fixes,
            subject=store.target.node,
        )

    def _optimized(self, model: FileModel, found: NonLeaf) -> Finding:
        name = text_of(model, found.target.span)
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(
                f"`{name}` is computed from a tensor with a gradient, so it is no leaf and the optimizer (line "
                f"{row_of(model, found.optimizer)}) refuses it; make it on its device and ask for the gradient last."
            ),
            span=found.target.span,
            related=(Related(found.optimizer.span, f"`{name}` goes to the optimizer here."),),
            fixes=tuple(_gradient_last(model, found)),
            subject=found.target.node,
        )


def _may_return_itself(node: cst.Call) -> bool:
    """Whether a method returns its own tensor where there is nothing to do: `.to(…)`, `.cuda()`, `.double()`."""
    method = torch_api.method(node.func.attr.value) if isinstance(node.func, cst.Attribute) else None
    return method is not None and method.same_object


def _operation(node: cst.CSTNode | None) -> str:
    """How the outermost operation on the parameter is written, shortened."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return f"nn.Parameter(…).{node.func.attr.value}({'…' if node.args else ''})"
    if isinstance(node, cst.Call):
        return f"{dotted(node.func) or 'f'}(nn.Parameter(…))"
    if isinstance(node, cst.BinaryOperation):
        return "nn.Parameter(…) " + _OPERATORS.get(type(node.operator), "∘") + " …"
    if isinstance(node, cst.Attribute):
        return f"nn.Parameter(…).{node.attr.value}"
    return "nn.Parameter(…)[…]" if isinstance(node, cst.Subscript) else "-nn.Parameter(…)"


_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.MatrixMultiply: "@",
    cst.Power: "**",
}


def _fixes(model: FileModel, place: Place, tensor: Tensor) -> Iterable[Fix]:
    parameter = tensor.parameter
    assert parameter is not None
    call = parameter.place.node
    if not isinstance(call, cst.Call) or not call.args or call.args[0].keyword is not None or call.args[0].star:
        return
    if not _contains(place.node, call) or place.node is call or _detaches(place.node, call):
        return
    yield Fix(
        "Compute it inside `nn.Parameter(…)`: it starts to train, and `state_dict()` gets a new key",
        False,
        _moved_inside(model, place, parameter, call),
    )
    if _only_moves(place.node, call):
        span, whole = parameter.place.span, place.whole
        yield Fix(
            "Drop the move: `model.to(device)` moves the parameter",
            False,
            (Edit(span.end, whole.end, ""),),
        )


def _moved_inside(model: FileModel, place: Place, parameter: Parameter, call: cst.Call) -> tuple[Edit, ...]:
    """Turns `f(nn.Parameter(data, …))` into `nn.Parameter(f(data), …)`."""
    statement = place.statement
    outer, inner = place.whole, parameter.place.whole
    data = statement.whole_span(call.args[0].value)
    opening = model.document.text[inner.start : data.start]
    closing = model.document.text[data.end : inner.end]
    shielded = needs_parentheses(call.args[0].value)
    before, after = ("(", ")") if shielded else ("", "")
    if len(call.args) > 1:
        closing = model.document.text[argument_span(parameter.place, call, 0).end : inner.end]
    return (
        Edit(outer.start, outer.start, opening),
        Edit(inner.start, data.start, before),
        Edit(data.end, inner.end, after),
        Edit(outer.end, outer.end, closing),
    )


def _contains(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    return node is wanted or any(_contains(child, wanted) for child in node.children)


def _detaches(node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether what is done to `call` takes the gradient away on purpose."""
    while node is not call and isinstance(node, cst.Call | cst.Attribute | cst.Subscript):
        if isinstance(node, cst.Attribute) and node.attr.value in {"data", "detach"}:
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def _only_moves(node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether `node` is `call` followed by nothing but moves to a device."""
    while node is not call:
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return False
        method = torch_api.method(node.func.attr.value)
        if method is None or not method.moves or any(_names_dtype(argument) for argument in node.args):
            return False
        node = node.func.value
    return True


def _names_dtype(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "dtype"


def _gradient_last(model: FileModel, found: NonLeaf) -> Iterable[Fix]:
    """`torch.randn(n, requires_grad=True).to(device)` becomes `torch.randn(n).to(device).requires_grad_()`."""
    place = Place(found.statement.statement, found.expression)
    removed = tuple(without_gradient(place, found.expression))
    if not removed:
        return
    end = place.whole.end
    added: tuple[Edit, ...]
    if needs_parentheses(found.expression):
        start = place.whole.start
        added = (Edit(start, start, "("), Edit(end, end, ").requires_grad_()"))
    else:
        added = (Edit(end, end, ".requires_grad_()"),)
    yield Fix("Ask for the gradient last: the optimizer then updates it", False, (*removed, *added))
