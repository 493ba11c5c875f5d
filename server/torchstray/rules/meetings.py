"""What the rules of tensors on the CPU have in common: where those meet others, and whose device is the right one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.repairs import row_of, text_of
from torchstray.semantics import torch_api
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, Fate, Meeting
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import walk
from torchstray.semantics.values import (
    FunctionValue,
    Made,
    ModuleInstance,
    Origin,
    Parameter,
    Tensor,
    Value,
    options_of,
)

_LONGEST = 40


def by_origin(facts: ClassFacts, made: Made) -> Iterator[tuple[Origin, list[Meeting]]]:
    """The origins of this kind with all that becomes of their tensors, without those that a branch moves."""
    groups: dict[cst.CSTNode, list[Meeting]] = {}
    for meeting in facts.meetings.values():
        if meeting.origin.made is made:
            groups.setdefault(meeting.origin.place.node, []).append(meeting)
    for meetings in groups.values():
        if first_fate(meetings, Fate.SPARED) is None:
            yield meetings[0].origin, meetings


def first_fate(meetings: Iterable[Meeting], fate: Fate) -> Meeting | None:
    """The first meeting that ends so."""
    return next((meeting for meeting in meetings if meeting.fate is fate), None)


def assigned_name(origin: Origin) -> str | None:
    """The local name that is given to what a call makes, at once or after methods that are called on it."""
    function = origin.function.node if origin.function is not None else None
    if not isinstance(function, cst.FunctionDef):
        return None
    for node in walk(function.body):
        if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
            value: cst.CSTNode = node.value
            while (
                value is not origin.place.node and isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
            ):
                value = value.func.value
            if value is origin.place.node:
                return node.targets[0].target.value
    return None


def meets(model: FileModel, meeting: Meeting, named: str | None) -> str:
    """What a tensor on the CPU meets, and where that fails, in words that go on with a sentence about it."""
    node, line = meeting.place.node, f"line {row_of(model, meeting.place)}"
    if isinstance(node, cst.BinaryOperation) and named is not None:
        sides = [side for side in (node.left, node.right) if named not in set(names_in(side))]
        other = _short(model, meeting, sides[0]) if len(sides) == 1 else None
        if other is not None:
            return f"where it meets `{other}` ({line}) and fails once that is on a GPU"
    if isinstance(node, cst.Call):
        function = _short(model, meeting, node.func)
        if function is not None:
            return f"and `{function}` ({line}) fails once the module is on a GPU"
    return f"where it meets a tensor of the module's device ({line}) and fails once that is a GPU"


def _short(model: FileModel, meeting: Meeting, node: cst.BaseExpression) -> str | None:
    text = text_of(model, meeting.place.statement.span(node))
    return text if len(text) <= _LONGEST and "\n" not in text else None


def device_source(facts: ClassFacts, origin: Origin, meeting: Meeting) -> str | None:
    """What can be read where a tensor is made, and is on the device on which it should be; None where there is
    nothing."""
    return device_of(facts, origin.near, origin.function, meeting.place.node)


def device_of(facts: ClassFacts, near: Iterable[str], function: FunctionValue | None, node: cst.CSTNode) -> str | None:
    """Something in a function that is on the module's device: one of the tensors `near`, at best one that `node`
    mentions, or else what the module registers."""
    mentioned = set(names_in(node))
    names = [name for name in near if name != "self"]
    if names:
        return next((name for name in names if name in mentioned), names[0])
    if function is None or function.owner is None or not isinstance(function.node, cst.FunctionDef):
        return None
    if function.owner not in facts.cls.own_classes or not function.node.params.params:
        return None
    owner = function.node.params.params[0].name.value
    if owner != "self":
        return None
    path = next((path for path in _registered(facts)), None)
    return None if path is None else f"{owner}.{path}"


def _registered(facts: ClassFacts) -> Iterator[str]:
    """The paths of parameters and buffers below `self` that are always there."""
    later: list[tuple[str, Value]] = []
    for name, stores in facts.live.items():
        values = [option for store in stores for option in options_of(store.value)]
        if "{}" in name or "." in name or len(values) != 1:
            continue
        if isinstance(values[0], Parameter):
            yield name
        elif isinstance(values[0], ModuleInstance):
            later.append((name, values[0]))
    for name, value in facts.registered.items():
        if "{}" not in name and isinstance(value, Tensor | Parameter):
            yield name
    for name, value in later:
        assert isinstance(value, ModuleInstance)
        known = torch_api.module_class(f"torch.{value.name}") if value.cls is None else None
        weight = _weight_of(known) if known is not None else None
        if weight is not None and value.state is not None and value.state.parameters:
            yield f"{name}.{weight}"


def _weight_of(cls: torch_api.ModuleClass) -> str | None:
    """The parameter that layers of this class always have; None where that depends on their arguments."""
    last = cls.name.rpartition(".")[2]
    if last in {"Linear", "Bilinear", "Embedding", "EmbeddingBag", "LayerNorm", "PReLU"}:
        return "weight"
    if last.startswith(("Conv", "BatchNorm", "GroupNorm")):
        return "weight"
    if last in {"RNN", "LSTM", "GRU"}:
        return "weight_ih_l0"
    return "weight_ih" if last in {"RNNCell", "LSTMCell", "GRUCell"} else None
