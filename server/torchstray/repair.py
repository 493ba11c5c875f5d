"""Applies fixes, in rounds, until nothing is left to repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchstray.rules.rule import Finding, Fix
from torchstray.syntax.document import Document
from torchstray.text.edits import Edit, Span, apply_edits

ROUNDS = 100
"""Fixes that insert at one place take a round each, so there may be many; but two that undo each other must end."""


@dataclass(frozen=True)
class Repaired:
    """The document after the repair and what is left to find in it. `applied` holds the findings that were repaired,
    each as it was in its round, and `refused` those of `left` whose fix did not help or would have spoilt the file."""

    document: Document
    left: list[Finding]
    applied: list[Finding]
    refused: list[Finding]


def choose(finding: Finding, unsafe: bool) -> Fix | None:
    """Return the fix that `--fix` applies, the first safe one; with `unsafe` the preferred one, safe or not."""
    return next((fix for fix in finding.fixes if fix.safe or unsafe), None)


def repair(document: Document, check: Callable[[Document], list[Finding]], unsafe: bool) -> Repaired:
    """Repair what `check` finds. A fix is kept if its finding is gone afterwards and the file parses no worse.

    The fixes of one round do not overlap; those that would wait for the next, and are then made for the new text.
    """
    findings = check(document)
    applied: list[Finding] = []
    refused: list[Finding] = []
    for _ in range(ROUNDS):
        chosen = _together(findings, unsafe)
        step = _helpful(document, findings, chosen, check, unsafe)
        refused = [finding for finding in chosen if finding not in step.applied]
        if not step.applied:
            break
        document, findings = step.document, step.left
        applied += step.applied
    return Repaired(document, findings, applied, refused)


def _together(findings: Sequence[Finding], unsafe: bool) -> list[Finding]:
    """Choose findings whose fixes can be made at once.

    Two insertions at one place cannot: what the second needs may be there after the first, an import or a free name.
    """
    chosen = []
    taken: list[Edit] = []
    for finding in findings:
        fix = choose(finding, unsafe)
        if fix is not None and not any(_meet(edit, other) for edit in fix.edits for other in taken):
            chosen.append(finding)
            taken += fix.edits
    return chosen


def _meet(one: Edit, other: Edit) -> bool:
    if one.start == one.end or other.start == other.end:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


def _helpful(
    document: Document,
    findings: Sequence[Finding],
    chosen: Sequence[Finding],
    check: Callable[[Document], list[Finding]],
    unsafe: bool,
) -> Repaired:
    """Make as many of the chosen fixes as help."""
    chosen = list(chosen)
    while chosen:
        edits = [edit for finding in chosen for edit in _edits(finding, unsafe)]
        after = Document(apply_edits(document.text, edits), document)
        if len(after.problems) > len(document.problems):
            spoilers = [finding for finding in chosen if _spoils(document, _edits(finding, unsafe))]
            chosen = [finding for finding in chosen if finding not in spoilers] if spoilers else chosen[:-1]
            continue
        left = check(after)
        useless = [finding for finding in chosen if _stands(finding, unsafe, edits, findings, left)]
        if not useless:
            return Repaired(after, left, chosen, [])
        chosen = [finding for finding in chosen if finding not in useless]
    return Repaired(document, list(findings), [], [])


def _edits(finding: Finding, unsafe: bool) -> tuple[Edit, ...]:
    fix = choose(finding, unsafe)
    return fix.edits if fix is not None else ()


def _spoils(document: Document, edits: Sequence[Edit]) -> bool:
    return len(Document(apply_edits(document.text, edits), document).problems) > len(document.problems)


def _stands(
    finding: Finding, unsafe: bool, edits: Sequence[Edit], before: Sequence[Finding], after: Sequence[Finding]
) -> bool:
    """Whether the place of a finding, with its own fix's edits that touch it, has no fewer findings of its rule."""
    start, end = finding.span.start, finding.span.end
    for edit in _edits(finding, unsafe):
        if edit.start <= finding.span.end and finding.span.start <= edit.end:
            start, end = min(start, edit.start), max(end, edit.end)
    place = Span(_moved(start, edits, False), _moved(end, edits, True))
    return _count(finding.rule, place, after) >= _count(finding.rule, Span(start, end), before)


def _count(rule: str, place: Span, findings: Sequence[Finding]) -> int:
    end = max(place.end, place.start + 1)
    return sum(
        f.rule == rule and f.span.start < end and place.start < max(f.span.end, f.span.start + 1) for f in findings
    )


def _moved(offset: int, edits: Sequence[Edit], behind: bool) -> int:
    """Where an offset lies after the edits; `behind` what is put in its place or inserted there, or before it."""
    shift = 0
    for edit in dict.fromkeys(edits):
        if edit.end < offset or (edit.end == offset and (behind or edit.start < edit.end)):
            shift += len(edit.content) - (edit.end - edit.start)
        elif edit.start < offset:
            shift += (len(edit.content) if behind else 0) - (offset - edit.start)
    return offset + shift
