"""What is underlined, and where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.conftest import PROFILES, Desk
from tests.lsp.documents import AWKWARD, AWKWARD_FINDINGS, IMPORTS, checked, long_program, model, program
from tests.lsp.editor import SECTION, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}


async def test_the_server_says_how_it_hands_out_diagnostics(editor: Editor) -> None:
    if editor.profile.pulls:
        assert editor.can("diagnostic_provider.identifier") == SECTION
        assert editor.can("diagnostic_provider.inter_file_dependencies") is False
        assert editor.can("diagnostic_provider.workspace_diagnostics") is False
    else:
        assert editor.can("diagnostic_provider") is None


async def test_columns_are_counted_as_the_editor_prefers(editor: Editor, folder: Path) -> None:
    assert editor.encoding == editor.profile.encoding
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    assert editor.findings(buffer) == AWKWARD_FINDINGS


async def test_the_command_line_says_the_same(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    shown = await editor.look(buffer)
    expected = [(code, SEVERITIES[severity], message) for code, severity, message in checked(AWKWARD, folder)]
    assert [(one.code, one.severity, one.message) for one in shown] == expected
    assert {one.source for one in shown} == {SECTION}


async def test_the_editors_count_columns_differently(desk: Desk, folder: Path) -> None:
    columns = {}
    for name in PROFILES:
        async with desk.lent(name) as editor:
            first, *_ = await editor.look(editor.open(folder / "model.py", AWKWARD))
            columns[name] = first.range.start.character
    assert columns == {"vscode": 19, "neovim": 26, "emacs": 18}


async def test_hints_are_shown_as_hints(editor: Editor, folder: Path) -> None:
    text = program("k").replace(" + self.k", " + self.k.to(x.device)")
    (finding,) = await editor.look(editor.open(folder / "model.py", text))
    assert (finding.code, finding.severity) == ("unregistered-tensor", types.DiagnosticSeverity.Hint)


async def test_places_that_explain_a_finding(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    first, *_ = await editor.look(buffer)
    if not editor.profile.shows("related_information"):
        assert first.related_information is None
        return
    (related,) = first.related_information or []
    assert related.location.uri == buffer.uri
    assert editor.marked(buffer, related.location.range) == "x + self.маска"
    assert related.message == "`self.маска` meets a tensor of the module's device here."


async def test_the_link_leads_to_the_rule(editor: Editor, folder: Path) -> None:
    (finding,) = await editor.look(editor.open(folder / "model.py", program("k")))
    if not editor.profile.shows("code_description_support"):
        assert finding.code_description is None
        return
    assert finding.code_description is not None
    link = urlsplit(finding.code_description.href)
    assert link.scheme == "file"
    page = Path(url2pathname(unquote(link.path)))
    assert "# unregistered-tensor" in page.read_text(encoding="utf-8").splitlines()


async def test_what_is_not_needed_is_greyed_out(editor: Editor, folder: Path) -> None:
    assert editor.profile.shows("tag_support")
    editor.configure({"reportUnusedSuppressions": True})
    text = program("k").replace("import torch\n", "import torch  # torchstray: ignore[unregistered-tensor]\n", 1)
    comment, tensor = await editor.look(editor.open(folder / "model.py", text))
    assert (comment.code, [*(comment.tags or [])]) == ("unused-suppression", [types.DiagnosticTag.Unnecessary])
    assert (tensor.code, tensor.tags) == ("unregistered-tensor", None)


async def test_a_line_end_of_any_kind_is_one_line_for_both(editor: Editor, folder: Path) -> None:
    """A form feed, U+0085 and U+2028 end no line; a lone CR does."""
    text = IMPORTS + "\f\na = '\x85 \u2028'\rb = '\x0b\x0c\x1c \u2029'\r\n" + model("k").replace("\n", "\r")
    buffer = editor.open(folder / "model.py", text)
    await editor.look(buffer)
    assert editor.findings(buffer) == [("unregistered-tensor", "self.k")]


async def test_what_does_not_parse(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k") + "\n\n'😀'; x = = 1\n")
    broken = (await editor.look(buffer))[-1]
    assert broken.severity == types.DiagnosticSeverity.Error
    assert editor.findings(buffer) == [("unregistered-tensor", "self.k"), ("syntax-error", "'😀'; x = = 1")]


async def test_a_character_that_no_source_may_hold(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k").replace("3", "len('🙂\0')"))
    (finding,) = await editor.look(buffer)
    assert (finding.code, editor.marked(buffer, finding.range)) == ("unreadable-file", "\0")
    editor.replace(buffer, "\0", "")
    await editor.look(buffer)
    assert editor.findings(buffer) == [("unregistered-tensor", "self.k")]


async def test_a_file_without_torch_has_nothing_even_where_it_does_not_parse(editor: Editor, folder: Path) -> None:
    assert await editor.look(editor.open(folder / "notes.py", "x = = 1\n")) == []


async def test_an_empty_document(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", "")
    assert await editor.look(buffer) == []
    editor.change(buffer, (0, 0, program("k")))
    assert len(await editor.look(buffer)) == 1
    editor.rewrite(buffer, "")
    assert await editor.look(buffer) == []


async def test_nothing_is_pushed_to_an_editor_that_pulls(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", program("k"))
    assert len(await vscode.look(buffer)) == 1
    vscode.close(buffer)
    await vscode.look(vscode.open(folder / "other.py", program("k")))
    assert vscode.published == []


async def test_what_was_pulled_is_not_sent_again(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", program("k"))
    first = await vscode.pull(buffer)
    again = await vscode.pull(buffer)
    assert isinstance(first, types.RelatedFullDocumentDiagnosticReport)
    assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
    assert again.result_id == first.result_id
    vscode.change(buffer, (0, 0, "# a line above\n"))
    moved = await vscode.pull(buffer)
    assert isinstance(moved, types.RelatedFullDocumentDiagnosticReport)
    assert moved.result_id != first.result_id
    assert moved.items[0].range.start.line == first.items[0].range.start.line + 1


async def test_a_result_of_another_document_or_time_is_not_taken_for_this_one(vscode: Editor, folder: Path) -> None:
    one = vscode.open(folder / "one.py", program("k"))
    two = vscode.open(folder / "two.py", program("k", "m"))
    await vscode.pull(one)
    for result_id in (one.result_id, "no such result"):
        two.result_id = result_id
        assert isinstance(await vscode.pull(two), types.RelatedFullDocumentDiagnosticReport)
        assert len(two.shown) == 2


async def test_a_superseded_pull_asks_to_be_sent_again(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", long_program(40))
    asked = []
    for number in range(5):
        asked.append(asyncio.ensure_future(vscode.ask_diagnostics(buffer)))
        await asyncio.sleep(0)  # so that it is sent
        vscode.change(buffer, (0, 0, f"# line {number}\n"))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, JsonRpcException)]
    assert refused
    assert {error.code for error in refused} == {types.LSPErrorCodes.ServerCancelled}
    assert [error.data for error in refused] == [{"retriggerRequest": True}] * len(refused)
    assert not [answer for answer in answers if isinstance(answer, BaseException) and answer not in refused]
    assert len(await vscode.look(buffer)) == 40
    assert {*vscode.findings(buffer)} == {("unregistered-tensor", "self.k")}


async def test_each_publication_names_its_version(emacs: Editor, folder: Path) -> None:
    buffer = emacs.open(folder / "model.py", program("k"), version=7)
    await emacs.look(buffer)
    emacs.replace(buffer, "torch.zeros(3)", "3")
    assert await emacs.look(buffer) == []
    published = [(one.version, len(one.diagnostics)) for one in emacs.published if one.uri == buffer.uri]
    assert published == [(7, 1), (8, 0)]


async def test_an_old_publication_never_follows_a_newer_one(emacs: Editor, folder: Path) -> None:
    """And of a text that has been typed over nothing is published, unless it was being looked at already."""
    buffer = emacs.open(folder / "model.py", long_program(40))
    for number in range(20):
        emacs.change(buffer, (0, 0, f"# line {number}\n"))
    assert len(await emacs.look(buffer)) == 40
    assert {*emacs.findings(buffer)} == {("unregistered-tensor", "self.k")}
    versions = [one.version for one in emacs.published if one.uri == buffer.uri and one.version is not None]
    assert versions == sorted(set(versions))
    assert len(versions) < 20
