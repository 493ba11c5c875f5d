"""Moves of tensors whose results nobody keeps."""

from __future__ import annotations

from collections.abc import Iterable

from torchstray.rules.repairs import shortened, text_of
from torchstray.rules.rule import Finding, Fix, Rule, Severity
from torchstray.semantics import facts
from torchstray.semantics.model import FileModel
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
        call, receiver = shortened(model, move.call), text_of(model, move.call.statement.span(move.receiver))
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=_message(move, call, receiver),
            span=(move.assigned or move.call).span,
            fixes=tuple(_fixes(move, receiver)),
            subject=move.call.node,
        )


def _message(move: facts.DiscardedMove, call: str, receiver: str) -> str:
    if move.assigned is None:
        return f"`{call}` returns a new {move.gives} and does not change `{receiver}`; write `{receiver} = {call}`."
    advice = f"assign to `{move.item}`" if move.item else "build a new container from the moved tensors"
    return (
        f"`{receiver} = {call}` changes the loop variable only, so what it was taken from stays where it is; {advice}."
    )


def _fixes(move: facts.DiscardedMove, receiver: str) -> Iterable[Fix]:
    if move.assigned is not None:
        if move.item is not None:
            start = move.assigned.span.start
            yield Fix(f"Assign it to `{move.item}`", True, (Edit(start, move.call.whole.start, f"{move.item} = "),))
    elif move.assignable is not False:
        start = move.call.whole.start
        edits = (Edit(start, start, f"{receiver} = "),)
        yield Fix(f"Assign the result to `{receiver}`", move.assignable is True, edits)
