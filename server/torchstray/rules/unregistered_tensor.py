"""Tensors in plain attributes."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import indentation, line_end, row_of, shown_attribute, stands_alone, text_of, wrapped
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Handling, How, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, is_stub, strays
from torchstray.semantics.values import (
    Container,
    Distribution,
    FunctionValue,
    Input,
    Instance,
    Partial,
    Place,
    Scalar,
    Source,
    Tensor,
    Value,
    options_of,
)
from torchstray.text.edits import Edit


class UnregisteredTensor(Rule):
    """TODO"""

    name = "unregistered-tensor"
    summary = "a tensor in a plain attribute of a module"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.TENSOR:
                    yield self._finding(model, stray)

    def _finding(self, model: FileModel, stray: Stray) -> Finding:
        failing = stray.failing
        related: tuple[Related, ...] = ()
        if failing is not None:
            related = (
                Related(failing.place.span, f"`self.{stray.attribute}` meets a tensor of the module's device here."),
            )
        return Finding(
            rule=self.name,
            severity=_severity(model, stray),
            message=_message(model, stray),
            span=stray.store.target.span,
            related=related,
            fixes=tuple(_fixes(model, stray)),
            subject=stray.store.target.node,
        )


def _severity(model: FileModel, stray: Stray) -> Severity:
    if stray.placed:
        return Severity.HINT
    if stray.failing is not None:
        return Severity.WARNING if stray.handed_in else Severity.ERROR
    uses = stray.uses
    if any(use.handling in {Handling.HANDED_ON, Handling.FAILS} for use in uses):
        return Severity.WARNING
    if uses or isinstance(stray.holder, Instance | Distribution):
        return Severity.HINT
    forward = stray.facts.cls.find_method("forward")
    unseen = is_stub(forward[1] if forward is not None else None) or model.attribute_read(stray.attribute)
    return Severity.WARNING if unseen or stray.attribute in stray.facts.reads else Severity.HINT


def _message(model: FileModel, stray: Stray) -> str:
    name = f"`{shown_attribute(model, stray.store)}`"
    failing = stray.failing
    when = (
        f" and `{failing.method or 'forward'}` (line {row_of(model, failing.place)}) fails on a GPU" if failing else ""
    )
    if isinstance(stray.holder, Distribution):
        kind = stray.holder.name.rpartition(".")[2]
        return (
            f"{name} is a `{kind}`, which is no module, so `.to(device)` leaves its tensors on the CPU{when}; register its "
            "arguments as buffers and build it in `forward`."
        )
    if isinstance(stray.holder, Instance):
        cls = stray.holder.cls.name
        return (
            f"{name} is an object of `{cls}`, which is no module, so `.to(device)` leaves its tensors on the CPU{when}; make "
            f"`{cls}` an `nn.Module`."
        )
    if isinstance(stray.holder, Partial | FunctionValue):
        return (
            f"{name} is a function that holds a tensor, so `.to(device)` leaves it on the CPU{when}; register the tensor as "
            "a buffer and pass it in `forward`."
        )
    if isinstance(stray.holder, Container):
        shape = stray.holder.shape.value
        return (
            f"The tensors in {name} are in a plain {shape}, so `.to(device)` leaves them on the CPU{when}; register each as a "
            "buffer."
        )
    if stray.placed:
        return (
            f"{name} is a plain tensor, so it stays on the device it was made on when the module moves; register it as a "
            "buffer."
        )
    if not when and stray.uses and all(use.handling is Handling.MOVED for use in stray.uses):
        return f"{name} is a plain tensor that every use has to move, at the cost of a copy each time; register it as a buffer."
    return f"{name} is a plain tensor, so `.to(device)` leaves it on the CPU{when}; register it as a buffer."


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    store, tensor = stray.store, stray.holder
    if not isinstance(tensor, Tensor) or not _can_register(stray):
        return
    if store.how is How.SETATTR and isinstance(store.statement.node, cst.Call):
        for persistent in persistence(tensor):
            yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), _setattr_edits(store, persistent))
        return
    if store.how is How.UNPACK:
        edits = _unpacked(model, stray)
        if edits is not None:
            persistent = persistence(tensor)[0]
            yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), edits)
        return
    if store.expression is None or not isinstance(store.statement.node, cst.Assign | cst.AnnAssign):
        return
    if isinstance(store.statement.node, cst.Assign) and len(store.statement.node.targets) > 1:
        return
    place = Place(store.target.statement, store.expression)
    for persistent in persistence(tensor):
        keyword = "" if persistent else ", persistent=False"
        start = store.target.span.start
        owner = text_of(model, store.target.span).rpartition(".")[0]
        edits = (
            Edit(start, place.whole.start, f'{owner}.register_buffer("{store.attribute}", '),
            Edit(place.whole.end, place.whole.end, f"{keyword})"),
        )
        yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), edits)
    if _uses_buffer_class(model):
        spelling = model.names.spell("torch.nn.Buffer")
        persistent = persistence(tensor)[0]
        after = ")" if persistent else ", persistent=False)"
        yield Fix(
            "Make it an `nn.Buffer`",
            _is_safe(tensor, persistent),
            (*spelling.edits, *wrapped(model, place, f"{spelling.text}(", after)),
        )
    spelling = model.names.spell("torch.nn.Parameter")
    yield Fix(
        "Make it an `nn.Parameter` that does not train: `state_dict()` and `parameters()` get a new entry",
        False,
        (*spelling.edits, *wrapped(model, place, f"{spelling.text}(", ", requires_grad=False)")),
    )


def _can_register(stray: Stray) -> bool:
    """Whether `register_buffer` works in place of the assignment: not over an attribute that is there already."""
    store = stray.store
    if store.overwrites or store.attribute == "{}" or (store.in_loop and "{}" not in store.attribute):
        return False
    if any(
        state
        for cls in stray.facts.cls.own_classes
        for state in _class_level(cls.assignments)
        if state == store.attribute
    ):
        return False
    if any(store.attribute in cls.methods for cls in stray.facts.cls.own_classes):
        return False
    later = [other for other in stray.facts.stores if other.attribute == store.attribute and store in other.overwrites]
    return all(_fits_buffer(option) for other in later for option in options_of(other.value))


def _fits_buffer(value: Value) -> bool:
    """Whether a registered buffer may be assigned this value."""
    if isinstance(value, Scalar):
        return value.literal is None
    return isinstance(value, Tensor | Input) or type(value) is Value


def _class_level(assignments: list[cst.Assign | cst.AnnAssign]) -> Iterable[str]:
    for assignment in assignments:
        if isinstance(assignment, cst.AnnAssign):
            if assignment.value is not None and isinstance(assignment.target, cst.Name):
                yield assignment.target.value
        else:
            for target in assignment.targets:
                if isinstance(target.target, cst.Name):
                    yield target.target.value


def persistence(tensor: Tensor) -> tuple[bool, ...]:
    """The ways to register it, the preferred one first: what can be computed again need not be saved."""
    return (False, True) if tensor.source is Source.CONSTANT else (True, False)


def _is_safe(tensor: Tensor, persistent: bool) -> bool:
    """Whether registering keeps behaviour and checkpoints: a half-precision cast reaches buffers, and rounds large floats."""
    exact = tensor.dtype in {"int", "bool"} or (tensor.dtype == "float" and tensor.bounded)
    return not persistent and tensor.source is Source.CONSTANT and exact


def _title(tensor: Tensor, persistent: bool) -> str:
    if not persistent:
        again = "" if tensor.source is Source.CONSTANT else ", and it is not saved"
        return f"Register it as a buffer (`persistent=False`): old checkpoints go on loading{again}"
    return "Register it as a buffer: it is saved, and strict loading of old checkpoints fails"


def _setattr_edits(store: Store, persistent: bool) -> tuple[Edit, ...]:
    call = store.statement.node
    assert isinstance(call, cst.Call)
    statement = store.statement.statement
    owner, name, value = (argument.value for argument in call.args)
    end = statement.whole_span(value).end
    keyword = () if persistent else (Edit(end, end, ", persistent=False"),)
    start, first = statement.span(call.func).start, statement.whole_span(owner)
    if isinstance(call.func, cst.Attribute):
        return (
            Edit(statement.span(call.func.attr).start, statement.span(call.func.attr).end, "register_buffer"),
            *keyword,
        )
    return (
        (
            Edit(start, statement.whole_span(name).start, f"{_owner(owner)}.register_buffer("),
            *keyword,
        )
        if first.start > start
        else ()
    )


def _owner(node: cst.BaseExpression) -> str:
    return node.value if isinstance(node, cst.Name) else "self"


def _unpacked(model: FileModel, stray: Stray) -> tuple[Edit, ...] | None:
    """`self.a, self.b = f()` becomes `a, b = f()` and a registration for each."""
    statement = stray.store.statement
    node = statement.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not stands_alone(model, statement.span):
        return None
    targets = node.targets[0].target
    if not isinstance(targets, cst.Tuple) or stray.store.method is None:
        return None
    together = {other.target.node: other for other in stray.facts.stores if other.statement.node is node}
    taken = _names(stray.store.method.node)
    edits: list[Edit] = []
    lines: list[str] = []
    indent = indentation(model, statement.span.start)
    newline = "\n"
    for element in targets.elements:
        store = together.get(element.value)
        if store is None or not isinstance(element.value, cst.Attribute):
            return None
        tensors = [option for option in options_of(store.value) if isinstance(option, Tensor)]
        if len(tensors) != 1 or store.attribute in taken or not _can_register(stray):
            return None
        owner, _, _ = text_of(model, store.target.span).rpartition(".")
        edits.append(Edit(store.target.span.start, store.target.span.end, store.attribute))
        keyword = "" if persistence(tensors[0])[0] else ", persistent=False"
        lines.append(f'{indent}{owner}.register_buffer("{store.attribute}", {store.attribute}{keyword}){newline}')
    end = line_end(model, statement.span.end)
    if not model.document.text[:end].endswith(("\n", "\r")):
        lines[0] = newline + lines[0]
    return (*edits, Edit(end, end, "".join(lines)))


def _names(node: cst.CSTNode) -> set[str]:
    return set(names_in(node))


def _uses_buffer_class(model: FileModel) -> bool:
    """Whether the file already uses `nn.Buffer`, which torch has since 2.5."""
    return "Buffer(" in model.document.text.replace("_buffer(", "")
