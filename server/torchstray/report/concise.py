"""One line a finding: `path:row:column: severity rule message`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchstray.report import FileFindings


def render(files: Iterable[FileFindings]) -> Iterator[str]:
    """Yield the line of each finding; rows and columns (in characters) count from 1."""
    for file in files:
        for finding in file.findings:
            row, column = file.lines.position(finding.span.start)
            yield f"{file.shown_path}:{row}:{column}: {finding.severity.label} {finding.rule} {finding.message}"
