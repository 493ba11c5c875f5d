"""What a place in the source tells: a finding, or what a module class registers and what it merely holds."""

from __future__ import annotations

from lsprotocol import types

from torchstray import overview
from torchstray.lsp.analysis import Analysis
from torchstray.lsp.client import Client
from torchstray.report import rule_page
from torchstray.rules import all_rules
from torchstray.text.edits import Span


def hover(analysis: Analysis, position: types.Position, client: Client) -> types.Hover | None:
    """Return what is to be said at a position; None where there is nothing."""
    if analysis.configuration is None or "torch" not in analysis.snapshot.text:
        return None
    positions = analysis.snapshot.positions
    offset = positions.offset(position)
    rules = {rule.name: rule for rule in all_rules()}
    findings = [
        finding
        for finding in analysis.findings
        if finding.span.start <= offset <= finding.span.end and finding.rule in rules
    ]
    parts = []
    spans = [finding.span for finding in findings]
    for found in overview.overviews(analysis.document, analysis.project, analysis.path):
        named = found.name_span.start <= offset <= found.name_span.end
        if named or any(found.span.start <= span.start < found.span.end for span in spans):
            parts.append(overview.markdown(found))
            spans = spans or [found.name_span]
            break
    parts += dict.fromkeys(rule_page.summary(rules[finding.rule]) for finding in findings)
    if not parts:
        return None
    kind = types.MarkupKind.Markdown if client.markdown else types.MarkupKind.PlainText
    shown = Span(max(span.start for span in spans), min(span.end for span in spans))
    return types.Hover(types.MarkupContent(kind, "\n\n---\n\n".join(parts)), positions.range(shown))
