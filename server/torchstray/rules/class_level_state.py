"""Layers, parameters and tensors as class attributes of a module."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.moving import after_super_call
from torchstray.rules.repairs import (
    MODULES,
    PARAMETERS,
    delete_lines,
    indentation,
    registered_containers,
    reindented,
    row_of,
    stands_alone,
    text_of,
    trailing_comment,
)
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.rules.unregistered_tensor import persistence
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, ClassState, Handling, Phase, Use
from torchstray.semantics.model import FileModel
from torchstray.semantics.values import Container, Home, ModuleInstance, Parameter, Place, Tensor, contents, options_of
from torchstray.text.edits import Edit, apply_edits


class ClassLevelState(Rule):
    """TODO"""

    name = "class-level-state"
    summary = "a layer, parameter or tensor as a class attribute of a module"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for state in facts.class_state:
                severity = _severity(facts, state)
                if severity is not None:
                    yield self._finding(model, facts, state, severity)

    def _finding(self, model: FileModel, facts: ClassFacts, state: ClassState, severity: Severity) -> Finding:
        failing = _failing(facts, state)
        when = f" and `{failing.method}` (line {row_of(model, failing.place)}) fails on a GPU" if failing else ""
        related = (Related(failing.place.span, f"`{state.attribute}` is used here."),) if failing else ()
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if failing else severity,
            message=f"`{state.attribute}` belongs to the class{_consequence(facts, state, when)}",
            span=state.target.span,
            related=related,
            fixes=tuple(_fixes(model, facts, state)),
            subject=state.target.node,
        )


def _is_tensor(state: ClassState) -> bool:
    return not any(isinstance(held, ModuleInstance | Parameter) for held in contents(state.value))


def _failing(facts: ClassFacts, state: ClassState) -> Use | None:
    """The first use in `forward` of a class-level tensor that fails on another device."""
    if not _is_tensor(state):
        return None
    uses = (use for use in facts.uses_of(state.attribute) if use.phase is Phase.FORWARD)
    return next((use for use in uses if use.handling is Handling.FAILS), None)


def _consequence(facts: ClassFacts, state: ClassState, when: str) -> str:
    """The rest of the message, from the consequence on."""
    if _is_hidden(facts, state):
        return " and hides the one that each instance registers, so `forward` uses this one; delete this line."
    if _is_tensor(state):
        missed = ", `.to()` misses it" if when else " and `.to()` misses it"
        return f", so all instances share it{missed}{when}; register it as a buffer in `__init__`."
    missed = "`.to()`, `parameters()` and `state_dict()` miss it" if _has_tensors(state) else "`eval()` misses it"
    return f", so all instances share it and {missed}; create it in `__init__`."


def _is_hidden(facts: ClassFacts, state: ClassState) -> bool:
    """Whether instances register something of the same name: attributes of the class are found before what is registered."""
    values = [option for store in facts.live.get(state.attribute, ()) for option in options_of(store.value)]
    return state.attribute in facts.registered or any(isinstance(value, ModuleInstance | Parameter) for value in values)


def _has_tensors(state: ClassState) -> bool:
    for held in contents(state.value):
        whole = held.whole_state() if isinstance(held, ModuleInstance) else None
        if isinstance(held, Parameter | Tensor) or (whole is not None and (whole.parameters or whole.buffers)):
            return True
    return False


def _severity(facts: ClassFacts, state: ClassState) -> Severity | None:
    """How bad the attribute is; None where it is no mistake: each instance sets its own, or nothing of it can stay behind."""
    if state.attribute in facts.live and not _is_hidden(facts, state):
        return None
    found: Severity | None = None
    for held in contents(state.value):
        if isinstance(held, Parameter):
            return Severity.ERROR
        if isinstance(held, ModuleInstance):
            whole = held.whole_state()
            if whole is None or not whole.any:
                continue
            if whole.parameters or whole.buffers:
                return Severity.ERROR
            found = Severity.WARNING
        elif isinstance(held, Tensor) and held.home is not Home.GIVEN:
            found = Severity.WARNING
    return found


def _fixes(model: FileModel, facts: ClassFacts, state: ClassState) -> Iterable[Fix]:
    cls, statement = facts.cls, state.statement
    if not stands_alone(model, statement.span) or len(cls.node.body.body) == 1:
        return
    if isinstance(statement.node, cst.Assign) and len(statement.node.targets) != 1:
        return
    used_by_others = any(
        state.attribute in set(names_in(assignment.value))
        for assignment in cls.assignments
        if assignment is not statement.node and assignment.value is not None
    )
    if used_by_others:
        return
    if _is_hidden(facts, state):
        title = "Delete this line: each instance then uses the one that it registers"
        yield Fix(title, False, (delete_lines(model, statement.span),))
        return
    insertion = after_super_call(model, cls)
    moved = _moved(model, cls, state)
    if insertion is None or moved is None:
        return
    made, imports = moved
    made = reindented(made, indentation(model, statement.span.start), insertion.indent)
    if isinstance(state.value, Tensor):
        persistent = "" if persistence(state.value)[0] else ", persistent=False"
        line = f'self.register_buffer("{state.attribute}", {made}{persistent})'
        consequence = "each instance has its own, and `.to()` moves it"
    else:
        line = f"self.{state.attribute} = {made}"
        gain = "`state_dict()` gets its keys" if _has_tensors(state) else "`eval()` reaches it"
        consequence = f"each instance has its own, and {gain}"
    comment = trailing_comment(model, statement.span)
    yield Fix(
        f"Create it in `__init__`: {consequence}",
        False,
        (*imports, delete_lines(model, statement.span), insertion.edit([line + comment])),
    )


def _moved(model: FileModel, cls: ClassModel, state: ClassState) -> tuple[str, tuple[Edit, ...]] | None:
    """The expression as it must read in a method, its containers registered, and the imports that this needs."""
    place = Place(state.statement.statement, state.expression)
    own_names = {
        target.value
        for assignment in cls.assignments
        for target in (
            [assignment.target]
            if isinstance(assignment, cst.AnnAssign)
            else [part.target for part in assignment.targets]
        )
        if isinstance(target, cst.Name)
    }
    edits: list[Edit] = []
    for option in options_of(state.value):
        if isinstance(option, Container):
            kinds = PARAMETERS if any(isinstance(held, Parameter) for held in contents(option)) else MODULES
            wrapping = registered_containers(model, option, kinds)
            if wrapping is None or _is_tensor(state):
                return None
            edits += wrapping
    whole = place.whole
    inside = [edit for edit in edits if whole.start <= edit.start and edit.end <= whole.end]
    inside += [
        Edit(span.start, span.start, "self.")
        for span in (place.statement.span(node) for node in _free_names(place.node, own_names - {state.attribute}))
    ]
    shifted = [Edit(edit.start - whole.start, edit.end - whole.start, edit.content) for edit in inside]
    return apply_edits(text_of(model, whole), shifted), tuple(edit for edit in edits if edit not in inside)


def _free_names(node: cst.CSTNode, names: set[str]) -> Iterable[cst.Name]:
    if isinstance(node, cst.Name):
        if node.value in names:
            yield node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _free_names(node.value, names)
    else:
        for child in node.children:
            yield from _free_names(child, names)
