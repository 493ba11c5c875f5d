"""The server's text is the editor's, whatever is typed; what is shown is of that text and goes when it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.documents import AWKWARD, AWKWARD_FINDINGS, IMPORTS, program
from tests.lsp.editor import Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

FOUND = [("unregistered-tensor", "self.k")]


async def test_the_server_wants_to_hear_of_every_change(editor: Editor) -> None:
    sync = editor.can("text_document_sync")
    assert isinstance(sync, types.TextDocumentSyncOptions)
    assert sync.open_close is True
    assert sync.change == types.TextDocumentSyncKind.Incremental
    assert sync.save


async def test_findings_come_and_go_while_typing(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k").replace("torch.zeros(3)", "3"))
    assert await editor.look(buffer) == []
    editor.replace(buffer, "self.k = 3", "self.k = torch.zeros(3)")
    await editor.look(buffer)
    assert editor.findings(buffer) == FOUND
    editor.replace(buffer, "torch.zeros(3)", "3")
    assert await editor.look(buffer) == []


async def test_several_changes_in_one_message_build_on_each_other(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", "")
    head, tail = program("k").split("torch.zeros")
    editor.change(buffer, (0, 0, tail), (0, 0, "torch.😀zeros"), (0, 0, head))
    editor.replace(buffer, "😀", "")
    await editor.look(buffer)
    assert editor.findings(buffer) == FOUND


async def test_a_document_typed_character_by_character(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", "")
    for character in AWKWARD:
        editor.change(buffer, (len(buffer.text), len(buffer.text), character))
    await editor.look(buffer)
    assert editor.findings(buffer) == AWKWARD_FINDINGS


LINE_ENDS = ["\r", "\r\n", "\n"]
NO_LINE_ENDS = ["\f", "\x0b", "\x1c", "\x85", "\u2028", "\u2029", "🙂", "é", "\ufeff"]


@pytest.mark.parametrize("character", [*LINE_ENDS, *NO_LINE_ENDS], ids=ascii)
async def test_lines_stay_counted_alike_behind_any_character(editor: Editor, folder: Path, character: str) -> None:
    """Typed into a comment, so that it breaks nothing unless it ends the line."""
    buffer = editor.open(folder / "model.py", "# start \n" + program("k"))
    editor.change(buffer, (buffer.after("start "), buffer.after("start "), f"{character}{character} #"))
    editor.replace(buffer, "zeros", "ones")
    editor.replace(buffer, "self.k = ", "self.k = 1 + ")
    await editor.look(buffer)
    assert [finding for finding in editor.findings(buffer) if finding[0] != "syntax-error"] == FOUND


@pytest.mark.parametrize(
    ("line", "start", "end", "new"),
    [
        pytest.param(0, 5, 9999, "# to the end", id="behind the line's end"),
        pytest.param(0, 9999, 9999, "  # at the end", id="wholly behind the line's end"),
    ],
)
async def test_columns_behind_the_line_end_mean_its_end(
    editor: Editor, folder: Path, line: int, start: int, end: int, new: str
) -> None:
    buffer = editor.open(folder / "model.py", "a = 'é🙂'\n" + program("k"))
    where = types.Range(types.Position(line, start), types.Position(line, end))
    buffer.text = new.join(["a = 'é🙂'"[:start], ""]) + "\n" + program("k")
    buffer.version += 1
    _change(editor, buffer.uri, buffer.version, [types.TextDocumentContentChangePartial(where, new)])
    editor.replace(buffer, "self.k = ", "self.k = 1 + ")
    await editor.look(buffer)
    assert [finding for finding in editor.findings(buffer) if finding[0] != "syntax-error"] == FOUND


async def test_versions_need_not_follow_each_other(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", IMPORTS, version=-3)
    for version, attribute in ((100, "a"), (7, "b"), (7, "c"), (2**31 - 1, "k")):
        editor.rewrite(buffer, program(attribute), version=version)
    await editor.look(buffer)
    assert editor.findings(buffer) == FOUND


async def test_what_is_opened_again_is_what_counts(editor: Editor, folder: Path) -> None:
    path = folder / "model.py"
    buffer = editor.open(path, program("k"))
    assert len(await editor.look(buffer)) == 1
    editor.close(buffer)
    again = editor.open(path, program("k", "m"))
    assert len(await editor.look(again)) == 2
    # Some editors open a document a second time when they lose count.
    twice = editor.open(path, program("a", "b", "c"), version=5)
    assert len(await editor.look(twice)) == 3


async def test_nothing_is_shown_of_a_closed_document(emacs: Editor, folder: Path) -> None:
    buffer = emacs.open(folder / "model.py", program("k"))
    assert len(await emacs.look(buffer)) == 1
    emacs.close(buffer)
    await emacs.until(lambda: emacs.last_published(buffer.uri) == [], "empty publication after closing")


async def test_nothing_is_shown_of_a_deleted_or_renamed_file(emacs: Editor, folder: Path) -> None:
    """Emacs keeps the buffer of a file that was deleted behind its back; the file is gone all the same."""
    path = folder / "model.py"
    path.write_text(program("k"), encoding="utf-8")
    buffer = emacs.open(path, program("k"))
    assert len(await emacs.look(buffer)) == 1
    path.rename(folder / "renamed.py")
    assert emacs.tell(path, types.FileChangeType.Deleted)
    await emacs.until(lambda: emacs.last_published(buffer.uri) == [], "empty publication after deletion")
    moved = emacs.open(folder / "renamed.py", program("k"))
    assert len(await emacs.look(moved)) == 1


async def test_questions_about_a_document_that_is_not_open(editor: Editor, folder: Path) -> None:
    """They cross the closing on their way."""
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.look(buffer)
    offset = buffer.after("self.k")
    editor.close(buffer)
    questions: list[Awaitable[object]] = [editor.hover(buffer, offset), editor.actions(buffer, offset)]
    if editor.profile.pulls:
        questions.append(editor.ask_diagnostics(buffer))
    for question in questions:
        with pytest.raises(JsonRpcException, match="is not open"):
            await question


async def test_nothing_is_shown_of_a_document_that_was_closed_while_it_was_checked(emacs: Editor, folder: Path) -> None:
    buffers = []
    for number in range(30):
        buffers.append(emacs.open(folder / f"model{number}.py", program("k")))
        if number % 2:
            await emacs.look(buffers[-1])
        emacs.close(buffers[-1])
    await emacs.look(emacs.open(folder / "last.py", program("k")))
    assert [len(emacs.last_published(buffer.uri) or []) for buffer in buffers] == [0] * len(buffers)


async def test_changes_of_a_document_that_is_not_open_are_passed_over(editor: Editor, folder: Path) -> None:
    uri = (folder / "model.py").as_uri()
    _change(editor, uri, 3, [types.TextDocumentContentChangeWholeDocument(program("k"))])
    editor.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    editor.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
    assert len(await editor.look(editor.open(folder / "other.py", program("k", "m")))) == 2
    assert [one for one in editor.published if one.uri == uri and one.diagnostics] == []


async def test_half_a_character_is_no_reason_to_stop(vscode: Editor, folder: Path) -> None:
    """An editor that counts in UTF-16 can cut an emoji in two; the protocol carries the halves."""
    buffer = vscode.open(folder / "model.py", "a = '🙂'\n" + program("k"))
    vscode.replace(buffer, "🙂", "\ud83d")
    await vscode.look(buffer)
    assert FOUND[0] in vscode.findings(buffer)
    vscode.replace(buffer, "\ud83d", "🙂")
    await vscode.look(buffer)
    assert vscode.findings(buffer) == FOUND


def _change(editor: Editor, uri: str, version: int, events: Sequence[types.TextDocumentContentChangeEvent]) -> None:
    identifier = types.VersionedTextDocumentIdentifier(version, uri)
    editor.text_document_did_change(types.DidChangeTextDocumentParams(identifier, list(events)))
