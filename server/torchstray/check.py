"""From one document to its findings: the one way in for the command line and the editor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from torchstray import rules
from torchstray.config import Configuration, rule_names
from torchstray.rules.rule import Finding, Severity
from torchstray.semantics.project import Project
from torchstray.suppression import Suppressions
from torchstray.syntax.document import Document, SyntaxProblem
from torchstray.text.edits import Span


def check(
    document: Document, project: Project, configuration: Configuration, path: Path | None = None
) -> list[Finding]:
    """Return the findings in `document`, sorted by place: those of the rules that are on, and what does not parse.

    `path` is where the document lies, for what is configured by file. Suppressed findings are left out, severities are
    as configured, and the texts of fixes have the document's own line ends.
    """
    if (nul := document.text.find("\0")) >= 0:
        # A file with one is not even decoded; an editor has one all the same.
        message = f"This file contains a NUL character at offset {nul}, so it is not Python source."
        finding = Finding("unreadable-file", Severity.ERROR, message, Span(nul, nul + 1))
        return [_reported(finding, configuration, document)] if finding.rule not in configuration.off(path) else []
    off = configuration.off(path)
    names = [name for name in rule_names() if name not in off]
    found = [_unparsed(problem) for problem in document.problems]
    found += rules.run(document, project, names, path)
    suppressions = Suppressions(document)
    found = suppressions.silence(found)
    if configuration.report_unused_suppressions and not document.problems:
        found += suppressions.unused(names)
    return sorted(
        (_reported(finding, configuration, document) for finding in found if finding.rule not in off), key=_place
    )


def _unparsed(problem: SyntaxProblem) -> Finding:
    """The finding for a piece that has not been checked; where it may well be valid, that is only a hint."""
    from torchstray.syntax.parsing import TOO_DEEP  # this loads libcst, which a problem has needed already

    severity = Severity.HINT if problem.message == TOO_DEEP else Severity.ERROR
    return Finding("syntax-error", severity, problem.message, problem.span)


def _reported(finding: Finding, configuration: Configuration, document: Document) -> Finding:
    """The finding as it leaves this module: free of syntax trees, so that it can travel between processes."""
    fixes = finding.fixes
    newline = document.lines.newline if fixes else "\n"
    if newline != "\n":
        fixes = tuple(
            replace(fix, edits=tuple(replace(edit, content=edit.content.replace("\n", newline)) for edit in fix.edits))
            for fix in fixes
        )
    severity = configuration.loudness(finding.rule, finding.severity)
    return replace(finding, severity=severity, fixes=fixes, subject=None)


def _place(finding: Finding) -> tuple[int, int, str, str]:
    return finding.span.start, finding.span.end, finding.rule, finding.message


def loud(findings: Iterable[Finding], minimum: Severity) -> list[Finding]:
    """Return the findings that are at least as loud as `minimum`."""
    return [finding for finding in findings if finding.severity >= minimum]
