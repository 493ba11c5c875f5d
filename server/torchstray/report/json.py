"""Findings as a JSON list, in the schema that tools for Python linters read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from torchstray.config import absolute
from torchstray.report import FileFindings
from torchstray.rules.rule import Finding, Fix
from torchstray.text.edits import Span


def render(files: Iterable[FileFindings]) -> str:
    """Return the JSON text; rows and columns (in characters) count from 1, and an end is the first place behind."""
    found = [_finding(file, finding) for file in files for finding in file.findings]
    return json.dumps(found, indent=2, ensure_ascii=True)


def _finding(file: FileFindings, finding: Finding) -> dict[str, Any]:
    filename = str(file.path) if str(file.path) == "-" else str(absolute(file.path))
    return {
        "code": finding.rule,
        "filename": filename,
        **_range(file, finding.span),
        "message": finding.message,
        "severity": finding.severity.label,
        "url": None,
        "related": [
            {"filename": filename, **_range(file, related.span), "message": related.message}
            for related in finding.related
        ],
        "fix": _fix(file, finding.fixes[0]) if finding.fixes else None,
    }


def _fix(file: FileFindings, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": "safe" if fix.safe else "unsafe",
        "message": fix.title,
        "edits": [
            {"content": edit.content, **_range(file, Span(edit.start, edit.end))} for edit in dict.fromkeys(fix.edits)
        ],
    }


def _range(file: FileFindings, span: Span) -> dict[str, Any]:
    (row, column), (end_row, end_column) = file.lines.position(span.start), file.lines.position(span.end)
    return {"location": {"row": row, "column": column}, "end_location": {"row": end_row, "column": end_column}}
