"""The last line of a report: how many problems, and how many of them can be repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchstray.rules.rule import Finding, Severity


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def render(findings: Sequence[Finding], repaired: int, checked: int) -> str:
    """Return the summary of what is left to find in `checked` files after `repaired` problems were repaired."""
    done = f"Repaired {counted(repaired, 'problem')}. " if repaired else ""
    if not findings:
        return f"{done}No problems {'left' if repaired else 'found'} in {counted(checked, 'file')}."
    from torchstray.repair import choose

    loudness = Counter(finding.severity for finding in findings)
    parts = ", ".join(counted(loudness[level], level.label) for level in reversed(Severity) if loudness[level])
    found = f"{'Left' if repaired else 'Found'} {counted(len(findings), 'problem')} ({parts})"
    safe = sum(choose(finding, unsafe=False) is not None for finding in findings)
    more = sum(bool(finding.fixes) for finding in findings) - safe
    repairs = []
    if safe:
        repairs.append(f"{safe} can be repaired with --fix")
    if more:
        repairs.append(
            f"{more} more with --unsafe-fixes" if safe else f"{more} can be repaired with --fix --unsafe-fixes"
        )
    return f"{done}{found}{'; ' if repairs else ''}{', '.join(repairs)}."
