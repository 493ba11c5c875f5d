"""Findings as the diagnostics of the protocol."""

from __future__ import annotations

from lsprotocol import types

from torchstray.lsp.analysis import Analysis
from torchstray.lsp.client import Client
from torchstray.report import rule_page
from torchstray.rules.rule import Finding, Severity

SOURCE = "torchstray"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}


def diagnostics(analysis: Analysis, client: Client) -> list[types.Diagnostic]:
    """Return a diagnostic for each finding, with what the client can show of it."""
    return [diagnostic(finding, analysis, client) for finding in analysis.findings]


def diagnostic(finding: Finding, analysis: Analysis, client: Client) -> types.Diagnostic:
    """Return the diagnostic for one finding of `analysis`."""
    positions = analysis.snapshot.positions
    related = None
    if client.related and finding.related:
        related = [
            types.DiagnosticRelatedInformation(
                types.Location(analysis.snapshot.uri, positions.range(one.span)), one.message
            )
            for one in finding.related
        ]
    page = rule_page.file(finding.rule) if client.descriptions else None
    return types.Diagnostic(
        range=positions.range(finding.span),
        message=finding.message,
        severity=_SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=types.CodeDescription(page.as_uri()) if page is not None else None,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if client.unnecessary and finding.unnecessary else None,
        related_information=related,
    )
