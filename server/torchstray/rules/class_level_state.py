"""Layers, parameters and tensors as class attributes of a module."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.moving import after_super_call
from torchstray.rules.repairs import delete_lines, row_of, stands_alone, text_of
from torchstray.rules.rule import Finding, Fix, Related, Rule, Severity
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, ClassState
from torchstray.semantics.model import FileModel
from torchstray.semantics.values import Home, ModuleInstance, Parameter, Place, Tensor, contents
from torchstray.text.edits import Edit


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
        tensor = not any(isinstance(held, ModuleInstance | Parameter) for held in contents(state.value))
        failing = next((use for use in facts.uses_of(state.attribute) if tensor), None)
        when = f" and `{failing.method}` (line {row_of(model, failing.place)}) fails on a GPU" if failing else ""
        missed = "`.to()`" if tensor else "`.to()`, `parameters()` and `state_dict()`"
        if not tensor and not _has_tensors(state):
            missed = "`eval()`"
        related = (Related(failing.place.span, f"`{state.attribute}` is used here."),) if failing else ()
        verb = "miss" if " and " in missed else "misses"
        return Finding(
            rule=self.name,
            severity=severity,
            message=(
                f"`{state.attribute}` belongs to the class, so all instances share it and {missed} {verb} it{when}; create it in "
                "`__init__`."
            ),
            span=state.target.span,
            related=related,
            fixes=tuple(_fixes(model, facts, state)),
            subject=state.target.node,
        )


def _has_tensors(state: ClassState) -> bool:
    for held in contents(state.value):
        whole = held.whole_state() if isinstance(held, ModuleInstance) else None
        if isinstance(held, Parameter | Tensor) or (whole is not None and (whole.parameters or whole.buffers)):
            return True
    return False


def _severity(facts: ClassFacts, state: ClassState) -> Severity | None:
    """How bad the attribute is; None where it is no mistake: each instance makes its own, or nothing of it can stay behind."""
    if state.attribute in facts.live or state.attribute in facts.registered:
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
    if not stands_alone(model, statement.span) or (isinstance(state.value, Tensor) and len(facts.cls.assignments) == 0):
        return
    if isinstance(statement.node, cst.Assign) and len(statement.node.targets) != 1:
        return
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
    used_by_others = any(
        state.attribute in set(names_in(assignment.value))
        for assignment in cls.assignments
        if assignment is not statement.node and assignment.value is not None
    )
    if used_by_others or len(cls.node.body.body) == 1:
        return
    insertion = after_super_call(model, cls)
    if insertion is None:
        return
    moved = _with_self(model, Place(statement.statement, state.expression), own_names - {state.attribute})
    if any(isinstance(option, Tensor) for option in [state.value]):
        line = f'self.register_buffer("{state.attribute}", {moved}, persistent=False)'
        consequence = "each instance has its own, and `.to()` moves it"
    else:
        line = f"self.{state.attribute} = {moved}"
        consequence = "each instance has its own, and `state_dict()` gets its keys"
    yield Fix(
        f"Create it in `__init__`: {consequence}",
        False,
        (delete_lines(model, statement.span), insertion.edit([line])),
    )


def _with_self(model: FileModel, place: Place, names: set[str]) -> str:
    """The text of an expression of the class body as it must read in a method."""
    from torchstray.text.edits import apply_edits

    base = place.whole.start
    edits = [
        Edit(span.start - base, span.start - base, "self.")
        for span in (place.statement.span(node) for node in _free_names(place.node, names))
    ]
    return apply_edits(text_of(model, place.whole), edits)


def _free_names(node: cst.CSTNode, names: set[str]) -> Iterable[cst.Name]:
    if isinstance(node, cst.Name):
        if node.value in names:
            yield node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _free_names(node.value, names)
    else:
        for child in node.children:
            yield from _free_names(child, names)
