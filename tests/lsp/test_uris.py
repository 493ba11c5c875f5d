"""Documents of all names, and of none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lsprotocol import types

from tests.lsp.documents import program
from tests.lsp.editor import Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

FOUND = [("unregistered-tensor", "self.k")]
RULE = "unregistered-tensor"


@pytest.mark.parametrize(
    "name", ["with space.py", "100%.py", "a%20b.py", "模型 🙂.py", "q?.py", "h#.py", "[x] & 'y'.py", "a+b;c=d.py"]
)
async def test_files_of_any_name_have_their_settings(editor: Editor, folder: Path, name: str) -> None:
    """The file's own name is meant by its glob, however its URI is written."""
    glob = "".join(f"\\{character}" if character in "[]?#" else character for character in name)
    (folder / "pyproject.toml").write_text(
        f"[tool.torchstray.per-file-ignores]\n\"{glob}\" = ['{RULE}']\n".replace("\\", "\\\\"), encoding="utf-8"
    )
    await editor.settle(editor.open(folder / name, program("k")), [])
    await editor.settle(editor.open(folder / "other.py", program("k")), FOUND)
    assert editor.messages == []


@pytest.mark.parametrize(
    "uri",
    [
        "file:///c%3A/Users/me/my%20models/model.py",
        "file:///C:/Users/me/my%20models/model.py",
        "file:///home/me/mod%c3%a8le%2Bx/model.py",
        "file:///home/me/modèle+x/model.py",
        "file://server/share/model.py",
        "untitled:Untitled-1",
        "untitled:/home/me/new%20file.py",
        "file://[::1/model.py",
        "vscode-remote://wsl%2Bubuntu/home/me/model.py",
    ],
)
async def test_a_document_is_called_what_the_editor_calls_it(editor: Editor, uri: str) -> None:
    buffer = editor.open(uri, program("k", "m"))
    first, _ = await editor.look(buffer)
    if editor.profile.pulls:
        assert first.related_information is not None
        assert {related.location.uri for related in first.related_information} == {uri}
    else:
        assert {one.uri for one in editor.published} == {uri}
    actions = await editor.actions(buffer, buffer.after("self.k"))
    edits = [await editor.edit_of(action) for action in actions]
    assert len(edits) > 2
    for edit in edits:
        changes = [change for change in edit.document_changes or [] if isinstance(change, types.TextDocumentEdit)]
        assert {*(edit.changes or {}), *(change.text_document.uri for change in changes)} == {uri}
    await editor.apply(actions[0])
    await editor.look(buffer)
    assert editor.findings(buffer) == [(RULE, "self.m")]


async def test_a_drive_letter_may_be_spelled_differently_in_a_question(vscode: Editor) -> None:
    buffer = vscode.open("file:///c%3A/models/model.py", program("k"))
    await vscode.look(buffer)
    place = types.Position(program("k")[: buffer.after("class ")].count("\n"), 7)
    other = types.TextDocumentIdentifier("file:///C:/models/model.py")
    assert await vscode.text_document_hover_async(types.HoverParams(other, place)) is not None


async def test_untitled_documents_are_several(editor: Editor) -> None:
    one, two = editor.open("untitled:Untitled-1", program("k")), editor.open("untitled:Untitled-2", "import torch\n")
    await editor.settle(one, FOUND)
    await editor.settle(two, [])


async def test_a_file_need_not_exist(editor: Editor, folder: Path) -> None:
    await editor.settle(editor.open(folder / "not" / "there" / "yet.py", program("k")), FOUND)


async def test_what_the_disk_holds_does_not_matter(editor: Editor, folder: Path) -> None:
    path = folder / "model.py"
    path.write_bytes(b"\xff\xfe not even text")
    await editor.settle(editor.open(path, program("k")), FOUND)


async def test_a_file_without_torch_costs_next_to_nothing(vscode: Editor, folder: Path) -> None:
    """Nothing of it is parsed."""
    row = "class Row{0}:\n    def area(self):\n        return {0}\n\n\n"
    rows = "".join(row.format(number) for number in range(600))
    took = []
    for name, text in (("warm.py", program("k")), ("rows.py", rows), ("torch.py", f"import torch\n{rows}")):
        start = time.perf_counter()
        await vscode.look(vscode.open(folder / name, text))
        took.append(time.perf_counter() - start)
    assert took[1] < took[2] / 2
