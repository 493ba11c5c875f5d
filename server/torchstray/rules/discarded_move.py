"""Moves of tensors whose results nobody keeps."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import text_of
from torchstray.rules.rule import Finding, Fix, Rule, Severity
from torchstray.semantics import facts
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.text.edits import Edit


class DiscardedMove(Rule):
    """TODO"""

    name = "discarded-move"
    summary = "the result of moving a tensor is thrown away"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        for move in model.moves:
            yield self._finding(model, move)

    def _finding(self, model: FileModel, move: facts.DiscardedMove) -> Finding:
        call = text_of(model, move.call.span)
        receiver = text_of(model, move.call.statement.span(move.receiver))
        if "\n" in call:
            call = f"{receiver}.to(…)"
        place = move.assigned or move.call
        if move.assigned is not None:
            kept = move.item or "the container"
            message = f"`{receiver} = {call}` changes the loop variable only, so what it was taken from stays where it is; assign to `{kept}`."
            if move.item is None:
                message = f"`{receiver} = {call}` changes the loop variable only, so what it was taken from stays where it is; build a new container from the moved tensors."
        else:
            message = f"`{call}` returns a new tensor and does not change `{receiver}`; write `{receiver} = {call}`."
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=message,
            span=place.span,
            fixes=tuple(_fixes(move, receiver)),
            subject=move.call.node,
        )


def _fixes(move: facts.DiscardedMove, receiver: str) -> Iterable[Fix]:
    if move.assigned is not None:
        if move.item is not None:
            start = move.assigned.span.start
            yield Fix(f"Assign it to `{move.item}`", True, (Edit(start, move.call.whole.start, f"{move.item} = "),))
        return
    if dotted(move.receiver) is None and not isinstance(move.receiver, cst.Subscript):
        return
    start = move.call.whole.start
    yield Fix(f"Assign the result to `{receiver}`", True, (Edit(start, start, f"{receiver} = "),))
