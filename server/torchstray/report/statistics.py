"""How many problems there are of each rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from torchstray.report import FileFindings


def _counts(files: Iterable[FileFindings]) -> tuple[list[tuple[str, int]], Counter[str]]:
    """The rules with their numbers, the most frequent first, and how many of each can be repaired."""
    findings = [finding for file in files for finding in file.findings]
    counts = Counter(finding.rule for finding in findings)
    repairable = Counter(finding.rule for finding in findings if finding.fixes)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0])), repairable


def render(files: Iterable[FileFindings]) -> Iterator[str]:
    """Yield a line for each rule."""
    counts, repairable = _counts(files)
    width = max((len(str(count)) for _, count in counts), default=0)
    for rule, count in counts:
        repairs = f" ({repairable[rule]} with a repair)" if repairable[rule] else ""
        yield f"{count:>{width}}  {rule}{repairs}"


def render_json(files: Iterable[FileFindings]) -> str:
    """Return the same as a JSON list."""
    counts, repairable = _counts(files)
    return json.dumps(
        [{"code": rule, "count": count, "repairable": repairable[rule]} for rule, count in counts], indent=2
    )
