"""Tensors made in `forward` without a device."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.meetings import assigned_name, by_origin, device_source, first_fate, meets
from torchstray.rules.repairs import argument_span, row_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.facts import ClassFacts, Fate, Meeting
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.values import Made, Origin, Place
from torchstray.text.edits import Edit


class MissingDevice(Rule):
    """DOC"""

    name = "missing-device"
    summary = "a tensor made in `forward()` without a device, which meets tensors of the module's device"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for origin, meetings in by_origin(facts, Made.HERE):
                finding = self._finding(model, facts, origin, meetings)
                if finding is not None:
                    yield finding

    def _finding(
        self, model: FileModel, facts: ClassFacts, origin: Origin, meetings: list[Meeting]
    ) -> Finding | None:
        fatal = first_fate(meetings, Fate.FAILS)
        collected = first_fate(meetings, Fate.COLLECTS)
        if fatal is None and (collected is None or first_fate(meetings, Fate.RETURNED) is None):
            return None
        meeting = fatal or collected
        assert meeting is not None
        source = device_source(facts, origin, meeting)
        named = assigned_name(origin)
        made = f"`{origin.name}` makes {f'`{named}`' if named else 'a tensor'} on the CPU"
        where = meets(model, meeting, named) if fatal is not None else _is_returned(model, meeting)
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if fatal is not None else Severity.WARNING,
            message=f"{made}, {where}; {_advice(origin, source)}.",
            span=origin.place.span,
            related=(Related(meeting.place.span, "It meets a tensor of the module's device here."),),
            fixes=tuple(_fixes(model, origin, source)),
            subject=origin.place.node,
        )


def _is_returned(model: FileModel, meeting: Meeting) -> str:
    return (
        f"so what `{meeting.entry}` returns stays there although it is filled with tensors of the module's device "
        f"(line {row_of(model, meeting.place)})"
    )


def _advice(origin: Origin, source: str | None) -> str:
    if source is None:
        return "make it on the device of what it meets"
    return f"pass `device={source}.device`" if _takes_device(origin) else f"move it with `.to({source}.device)`"


def _keywords(call: cst.CSTNode) -> dict[str, cst.Arg]:
    arguments = call.args if isinstance(call, cst.Call) else ()
    return {argument.keyword.value: argument for argument in arguments if argument.keyword is not None}


def _takes_device(origin: Origin) -> bool:
    """Whether the call that makes the tensor can be given a device: not with a generator, which has its own."""
    return origin.takes_device and not _keywords(origin.place.node).keys() & {"generator", "pin_memory"}


def _fixes(model: FileModel, origin: Origin, source: str | None) -> Iterable[Fix]:
    call, place = origin.place.node, origin.place
    if source is None or not isinstance(call, cst.Call) or "device" in _keywords(call):
        return
    if not _takes_device(origin):
        if "pin_memory" not in _keywords(call):
            edit = Edit(place.whole.end, place.whole.end, f".to({source}.device)")
            yield Fix(f"Move it to the device of `{source}`", True, (edit,))
        return
    yield Fix(f"Make it on the device of `{source}`", True, (_with_argument(place, call, f"device={source}.device"),))
    new = _new_method(model, place, call, source)
    if new is not None:
        yield Fix(f"Use `{source}.new_{origin.name.rpartition('.')[2]}`", True, new)


def _with_argument(place: Place, call: cst.Call, argument: str) -> Edit:
    """Adds an argument to a call, behind the others."""
    if not call.args:
        end = place.span.end - 1
        return Edit(end, end, argument)
    end = argument_span(place, call, len(call.args) - 1).end
    return Edit(end, end, f", {argument}")


def _new_method(model: FileModel, place: Place, call: cst.Call, source: str) -> tuple[Edit, ...] | None:
    """`torch.zeros(n, dtype=x.dtype)` as `x.new_zeros(n)`, which is the same where the type is `x`'s."""
    name = (dotted(call.func) or "").rpartition(".")[2]
    dtype = _keywords(call).get("dtype")
    if name not in {"zeros", "ones", "empty", "full"} or dtype is None or dotted(dtype.value) != f"{source}.dtype":
        return None
    position = call.args.index(dtype)
    if position == 0 or len(_keywords(call)) > 1 or position != len(call.args) - 1:
        return None
    start = argument_span(place, call, position - 1).end
    func = place.statement.span(call.func)
    return (
        Edit(func.start, func.end, f"{source}.new_{name}"),
        Edit(start, argument_span(place, call, position).end, ""),
    )
