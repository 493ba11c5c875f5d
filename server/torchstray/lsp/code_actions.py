"""The light bulb: repairs of the findings at a place, repairs of all, and comments that silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lsprotocol import types

from torchstray.check import check, loud
from torchstray.lsp.analysis import Analysis
from torchstray.lsp.client import Client
from torchstray.lsp.diagnostics import diagnostic
from torchstray.repair import choose, repair
from torchstray.rules.rule import Finding, Severity
from torchstray.semantics.project import Project
from torchstray.suppression import suppress
from torchstray.syntax.document import Document
from torchstray.text.edits import Edit, Span, difference

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.torchstray"
KINDS = (types.CodeActionKind.QuickFix.value, FIX_ALL)


def code_actions(
    analysis: Analysis, params: types.CodeActionParams, client: Client, go_on: Callable[[], None]
) -> Iterator[types.CodeAction]:
    """Yield what can be done about the findings in a range, the preferred repair of each first.

    `go_on` is called between the steps of long work, and may raise to end it.
    """
    wanted = params.context.only
    positions = analysis.snapshot.positions
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    here = [finding for finding in analysis.findings if finding.span.start <= end and start <= finding.span.end]
    if _asked_for(types.CodeActionKind.QuickFix.value, wanted):
        for finding in here:
            yield from _repairs(finding, analysis, client)
        repairable = [finding for finding in _loud(analysis.findings) if choose(finding, unsafe=False) is not None]
        # Without a client that asks for the edit once it is wanted, it would be worked out for each look at the menu.
        if client.resolves_edits and len(repairable) > 1 and any(finding in repairable for finding in here):
            title = f"Repair all {len(repairable)} safe problems in this file"
            yield _repair_all(title, types.CodeActionKind.QuickFix.value, analysis, client, go_on)
        for finding in here:
            yield from _silence(finding, analysis, client)
    # Unasked, it would stand beside the quick fixes on every line of the file.
    if wanted and _asked_for(FIX_ALL, wanted) and any(choose(finding, False) for finding in _loud(analysis.findings)):
        yield _repair_all("Repair all safe problems", FIX_ALL, analysis, client, go_on)


def resolved(
    action: types.CodeAction, analysis: Analysis, client: Client, go_on: Callable[[], None]
) -> types.CodeAction:
    """Return an action that was answered without its edit, with the edit for the present text; `go_on` as above."""
    action.edit = _workspace_edit(repair_all(analysis, go_on), analysis, client)
    return action


def repair_all(analysis: Analysis, go_on: Callable[[], None]) -> list[Edit]:
    """Return the edits that make all safe repairs, as `torchstray check --fix` would. Safe to be asked again: what is
    repaired stays as it is. `go_on` as above."""
    configuration = analysis.configuration
    if configuration is None:
        return []

    def find(document: Document) -> list[Finding]:
        go_on()
        return _loud(check(document, Project(), configuration, analysis.path))

    repaired = repair(analysis.document, find, unsafe=False)
    return list(difference(analysis.document.text, repaired.document.text))


def _loud(findings: Iterable[Finding]) -> list[Finding]:
    return loud(findings, Severity.WARNING)


def _asked_for(kind: str, wanted: Sequence[types.CodeActionKind | str] | None) -> bool:
    kinds = [str(getattr(one, "value", one)) for one in wanted or [kind]]
    return any(kind == one or not one or kind.startswith(f"{one}.") for one in kinds)


def _repairs(finding: Finding, analysis: Analysis, client: Client) -> Iterator[types.CodeAction]:
    for number, fix in enumerate(finding.fixes):
        yield types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, analysis, client)],
            is_preferred=True if number == 0 and client.preferred_actions else None,
            edit=_workspace_edit(fix.edits, analysis, client),
        )


def _silence(finding: Finding, analysis: Analysis, client: Client) -> Iterator[types.CodeAction]:
    edit = suppress(analysis.document, finding)
    if edit is not None:
        yield types.CodeAction(
            title=f"Ignore {finding.rule} on this line",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, analysis, client)],
            edit=_workspace_edit([edit], analysis, client),
        )


def _repair_all(
    title: str, kind: str, analysis: Analysis, client: Client, go_on: Callable[[], None]
) -> types.CodeAction:
    action = types.CodeAction(title=title, kind=kind)
    if client.resolves_edits:
        action.data = {"uri": analysis.snapshot.uri, "version": analysis.snapshot.version}
        return action
    return resolved(action, analysis, client, go_on)


def _workspace_edit(edits: Iterable[Edit], analysis: Analysis, client: Client) -> types.WorkspaceEdit:
    snapshot = analysis.snapshot
    converted = [
        types.TextEdit(snapshot.positions.range(Span(edit.start, edit.end)), edit.content)
        for edit in dict.fromkeys(edits)
    ]
    if not client.versioned_edits:
        return types.WorkspaceEdit(changes={snapshot.uri: converted})
    document = types.OptionalVersionedTextDocumentIdentifier(snapshot.uri, snapshot.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, converted)])
