"""Places in a text and changes to it, in 0-based character offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Span:
    """The characters from `start` up to, not including, `end` (0-based offsets into the decoded text)."""

    start: int
    end: int


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces the characters from `start` up to `end` (0-based offsets) by `content`; an insertion where both are
    equal."""

    start: int
    end: int
    content: str


class OverlappingEdits(ValueError):
    """Two edits want to change the same characters."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with all `edits` made; equal edits are made once.

    Insertions at one offset are made in the order given. Raises OverlappingEdits where two edits share characters.
    """
    pieces: list[str] = []
    done = 0
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end)):
        if edit.start < done:
            raise OverlappingEdits(f"two edits change the characters before offset {done}")
        pieces += [text[done : edit.start], edit.content]
        done = edit.end
    pieces.append(text[done:])
    return "".join(pieces)
