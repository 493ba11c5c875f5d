"""Modules that stay on the CPU while their data moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.placing import data_target, move_edits, moved_expression, target_of
from torchstray.rules.repairs import indentation, line_end, row_of, shortened, stands_alone, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.facts import ClassFacts, Left, Unmoved
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.values import Place
from torchstray.text.edits import Edit


class ModelNotMoved(Rule):
    """DOC"""

    name = "model-not-moved"
    summary = "data is moved to a device, the module that gets it is not"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        text = model.document.text
        if "set_default_device" in text or "set_default_tensor_type" in text:
            return
        for unmoved in model.unmoved:
            yield self._late_layer(model, unmoved) if unmoved.attached is not None else self._finding(model, unmoved)
        moved = model.moved_classes
        seen: set[cst.CSTNode] = set()
        for facts in model.modules:
            if not any(facts.cls in cls.own_classes for cls in moved):
                for left in facts.left:
                    if left.target.node not in seen:
                        seen.add(left.target.node)
                        yield self._left(model, facts, left)

    def _finding(self, model: FileModel, unmoved: Unmoved) -> Finding:
        call, made = unmoved.call, unmoved.culprit.place
        assert isinstance(call.node, cst.Call)
        name = _name(model, unmoved)
        target = data_target(model, unmoved.put)
        device = target.shown if target is not None else "the GPU"
        elsewhere = unmoved.elsewhere if unmoved.elsewhere is not None else None
        later = unmoved.later[0] if unmoved.later else None
        if elsewhere is not None:
            state = f"is moved in one branch only (line {row_of(model, elsewhere)})"
        elif later is not None:
            state = f"is moved only later (line {row_of(model, later)})"
        else:
            state = "is never moved"
        line = f" (made on line {row_of(model, made)})" if made is not None else ""
        advice = target.move(unmoved.name or name) if target is not None else "a move"
        fails = "this call fails" if unmoved.certain and elsewhere is None else "this call may fail"
        message = (
            f"`{name}`{line} {state} while its input is on {device}, so {fails} on a GPU; "
            f"add `{advice}` before this line."
        )
        related = [Related(unmoved.put.place.span, "the input is moved here")]
        if made is not None:
            related.insert(0, Related(made.span, f"`{name}` is made here, on the CPU"))
        if elsewhere is not None or later is not None:
            related.append(Related((elsewhere or later or call).span, f"`{name}` is moved here"))
        edits = move_edits(model, unmoved)
        title = f"Move `{name}` to {device}"
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if unmoved.certain and elsewhere is None else Severity.WARNING,
            message=message,
            span=call.span,
            related=tuple(related),
            fixes=(Fix(title, True, edits),) if edits is not None else (),
            subject=call.node,
        )

    def _late_layer(self, model: FileModel, unmoved: Unmoved) -> Finding:
        attached = unmoved.attached
        assert attached is not None and attached.moved is not None
        move, call = shortened(model, attached.moved), row_of(model, unmoved.call)
        name = _attached_name(model, attached.target)
        target = target_of(model, attached.moved, attached.function)
        edits: tuple[Edit, ...] | None = None
        if attached.value is not None and target is not None:
            edits = moved_expression(model, Place(attached.statement.statement, attached.value), target)
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if unmoved.certain else Severity.WARNING,
            message=f"{name} comes after `{move}` (line {row_of(model, attached.moved)}), so the new layer stays on the "
            f"CPU and line {call} fails on a GPU; move it as well.",
            span=attached.target.span,
            related=(
                Related(attached.moved.span, "the module is moved here"),
                Related(unmoved.call.span, "this call fails on a GPU"),
            ),
            fixes=(Fix("Move the new layer as well", True, edits),) if edits is not None else (),
            subject=attached.statement.node,
        )

    def _left(self, model: FileModel, facts: ClassFacts, left: Left) -> Finding:
        move = shortened(model, left.moved)
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            message=f"`self.{left.attribute}` is added after `{move}` (line {row_of(model, left.moved)}), so it stays "
            "on the CPU and `forward` fails on a GPU; move it as well.",
            span=left.target.span,
            related=(Related(left.moved.span, "the module moves itself here"),),
            fixes=tuple(_left_fixes(model, left)),
            subject=left.statement.node,
        )


def _name(model: FileModel, unmoved: Unmoved) -> str:
    """What a user calls the module that is called."""
    assert isinstance(unmoved.call.node, cst.Call)
    function = unmoved.call.node.func
    if unmoved.name is not None:
        return unmoved.name
    if isinstance(function, cst.Call):
        return dotted(function.func) or unmoved.module.name
    return " ".join(text_of(model, unmoved.call.statement.span(function)).split())


def _attached_name(model: FileModel, target: Place) -> str:
    return f"`{' '.join(text_of(model, target.span).split())}`"


def _left_fixes(model: FileModel, left: Left) -> Iterator[Fix]:
    target = target_of(model, left.moved, None)
    if target is None:
        return
    if left.module is not None and left.value is not None:
        value = Place(left.statement.statement, left.value)
        yield Fix(f"Move `self.{left.attribute}` as well", True, moved_expression(model, value, target))
    elif stands_alone(model, left.statement.span):
        end = line_end(model, left.statement.span.end)
        indent = indentation(model, left.statement.span.start)
        newline = "" if model.document.text[:end].endswith(("\n", "\r")) else "\n"
        edit = Edit(end, end, f"{newline}{indent}{shortened(model, left.moved)}\n")
        yield Fix(f"Move the module after `self.{left.attribute}` is there", True, (edit,))
