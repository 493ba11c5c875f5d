"""What is found in one version of an open document, and what stays shown while a statement is half typed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchstray.check import check
from torchstray.config import NOTICES, Configuration
from torchstray.lsp.texts import Snapshot
from torchstray.rules.rule import Finding
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document
from torchstray.text.edits import Span


@dataclass(frozen=True)
class Analysis:
    """The findings of one version of a document, sorted by place. `kept` are the statements that do not parse and show
    what was last found in them when they did. `configuration` is None where the file is left alone. `project` is what
    is known of other files.

    The `number` is this analysis' own. One with equal findings has another: the editor has moved, and perhaps lost, the
    marks that it had from before.
    """

    snapshot: Snapshot
    document: Document
    configuration: Configuration | None
    path: Path | None
    findings: tuple[Finding, ...] = ()
    kept: tuple[Span, ...] = ()
    project: Project = field(default_factory=Project)
    number: int = field(default_factory=itertools.count(1).__next__)


def analyse(
    snapshot: Snapshot,
    path: Path | None,
    configuration: Configuration | None,
    previous: Analysis | None,
    project: Project,
) -> Analysis:
    """Analyse a version of a document. `previous` is the analysis of an earlier version, whose work is used again."""
    document = Document(snapshot.text, previous.document if previous is not None else None)
    if configuration is None or "torch" not in snapshot.text:
        return Analysis(snapshot, document, configuration, path)
    project.refresh()
    fresh = check(document, project, configuration, path)
    if previous is None or previous.configuration != configuration or not document.problems:
        return Analysis(snapshot, document, configuration, path, tuple(fresh), project=project)
    findings, kept = _keep(previous, document, fresh)
    return Analysis(snapshot, document, configuration, path, tuple(findings), kept, project)


@dataclass(frozen=True)
class _Change:
    """The shortest stretch of text that differs between two versions: from `start` up to `old_end` and `new_end`
    (0-based offsets)."""

    start: int
    old_end: int
    new_end: int

    @classmethod
    def between(cls, old: str, new: str) -> _Change:
        shorter = min(len(old), len(new))
        start = _common(shorter, lambda n: old[:n] == new[:n])
        end = _common(shorter - start, lambda n: n == 0 or old[-n:] == new[-n:])
        return cls(start, len(old) - end, len(new) - end)

    def moved(self, span: Span) -> Span | None:
        """Return where a span of the old text is in the new one; None where a part of it was changed."""
        if span.end <= self.start:
            return span
        if span.start >= self.old_end:
            shift = self.new_end - self.old_end
            return Span(span.start + shift, span.end + shift)
        return None


def _common(limit: int, same: Callable[[int], bool]) -> int:
    """Return the greatest number up to `limit` for which `same` holds; it holds for all smaller ones."""
    low = 0
    while low < limit:
        middle = (low + limit + 1) // 2
        low, limit = (middle, limit) if same(middle) else (low, middle - 1)
    return low


def _keep(previous: Analysis, document: Document, fresh: Sequence[Finding]) -> tuple[list[Finding], tuple[Span, ...]]:
    """Let the statements that no longer parse show what was found when they did, moved with the text.

    What is found in them now, with the half-typed line left out, is only believed on the lines that were changed.
    """
    change = _Change.between(previous.document.text, document.text)
    kept = tuple(_broken_since(previous, document, change))

    def inside(span: Span) -> bool:
        return any(statement.start <= span.start < statement.end for statement in kept)

    now = {(finding.rule, finding.span.start): finding for finding in fresh}
    findings = {}
    for finding in previous.findings:
        span = change.moved(finding.span)
        if span is None or finding.rule in NOTICES or not inside(span):
            continue
        same = now.get((finding.rule, span.start))
        if same is not None:
            moved = replace(same, severity=finding.severity, message=finding.message)
        else:
            related = [(one, change.moved(one.span)) for one in finding.related]
            places = tuple(replace(one, span=place) for one, place in related if place is not None)
            moved = replace(finding, span=span, related=places, fixes=())
        findings[finding.rule, span.start] = moved
    rows = range(document.lines.position(change.start)[0], document.lines.position(change.new_end)[0] + 1)
    for finding in fresh:
        row = document.lines.position(finding.span.start)[0]
        if finding.rule in NOTICES or not inside(finding.span) or row in rows:
            findings.setdefault((finding.rule, finding.span.start), finding)
    return sorted(findings.values(), key=lambda finding: (finding.span.start, finding.span.end, finding.rule)), kept


def _broken_since(previous: Analysis, document: Document, change: _Change) -> Iterator[Span]:
    """Yield the statements that do not parse and did so, or showed what was found when they did, in the previous
    version."""
    good = [
        statement.start
        for statement in previous.document.statements
        if statement.text.strip() and not statement.problems
    ]
    good += [span.start for span in previous.kept]
    starts = {place.start for start in good if (place := change.moved(Span(start, start))) is not None}
    for statement in document.statements:
        span = Span(statement.start, statement.start + len(statement.text))
        if statement.problems and any(span.start <= start < span.end for start in starts):
            yield span
