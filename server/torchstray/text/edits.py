"""Places in a text and changes to it, in 0-based character offsets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
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


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def difference(before: str, after: str) -> Iterator[Edit]:
    """Yield edits, in order, that turn `before` into `after`, each of whole lines and apart from the others."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    # What is equal at both ends need not be compared, and that is nearly everything.
    end = 0
    while end < min(len(old), len(new)) - same and old[-1 - end] == new[-1 - end]:
        end += 1
    middle, offset = old[same : len(old) - end], sum(map(len, old[:same]))
    # Its heuristic for frequent lines makes edits of long repetitive texts larger; without, they take minutes to find.
    matcher = difflib.SequenceMatcher(None, middle, new[same : len(new) - end])
    starts = [offset]
    for line in middle:
        starts.append(starts[-1] + len(line))
    for tag, start, stop, first, last in matcher.get_opcodes():
        if tag != "equal":
            yield Edit(starts[start], starts[stop], "".join(new[same + first : same + last]))
