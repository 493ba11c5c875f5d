"""While a statement is half typed its last findings stay, and everything else is live."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.documents import IMPORTS, model
from tests.lsp.editor import Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

TEXT = IMPORTS + model("k", name="First") + model("m", name="Second")
K, M = ("unregistered-tensor", "self.k"), ("unregistered-tensor", "self.m")


@pytest.mark.parametrize("character", ["(", "'", "=", "🙂", '"""', ":", ")"])
async def test_a_broken_class_keeps_its_findings(editor: Editor, folder: Path, character: str) -> None:
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    end = buffer.after("super().__init__()")
    editor.change(buffer, (end, end, f"\n        x = {character}"))
    await editor.look(buffer)
    assert {K, M} <= {*editor.findings(buffer)}
    assert [code for code, _ in editor.findings(buffer)].count("syntax-error") >= 1
    editor.change(buffer, (0, 0, "# 🙂 above\n"))
    await editor.look(buffer)
    assert {K, M} <= {*editor.findings(buffer)}


async def test_the_findings_go_on_the_line_that_is_typed(editor: Editor, folder: Path) -> None:
    """Nobody wants to read of a value that is being replaced."""
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    editor.replace(buffer, "self.k = torch.zeros(3)", "self.")
    await editor.look(buffer)
    assert [finding for finding in editor.findings(buffer) if finding[0] != "syntax-error"] == [M]


async def test_the_other_statements_stay_live(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    editor.replace(buffer, "return x + self.k", "return x + self.k +")
    editor.replace(buffer, "self.m = torch.zeros(3)", "self.m = 3")
    await editor.look(buffer)
    assert [finding for finding in editor.findings(buffer) if finding[0] != "syntax-error"] == [K]
    editor.change(buffer, (len(buffer.text), len(buffer.text), model("n", name="Third")))
    await editor.look(buffer)
    shown = [finding for finding in editor.findings(buffer) if finding[0] != "syntax-error"]
    assert shown == [K, ("unregistered-tensor", "self.n")]


async def test_what_was_kept_goes_when_the_statement_is_whole_again(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    editor.replace(buffer, "        return x + self.k", "        return x + self.k +")
    await editor.look(buffer)
    editor.replace(buffer, "self.k = torch.zeros(3)", "self.k = 3")
    await editor.look(buffer)
    editor.replace(buffer, "x + self.k +", "x + self.k")
    await editor.look(buffer)
    assert editor.findings(buffer) == [M]


async def test_what_was_kept_goes_with_its_statement(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    editor.replace(buffer, "return x + self.k", "return x + self.k +")
    await editor.look(buffer)
    editor.replace(buffer, model("k", name="First").replace("self.k\n", "self.k +\n"), "\n")
    await editor.look(buffer)
    assert editor.findings(buffer) == [M]


async def test_what_was_kept_goes_when_its_rule_is_turned_off(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    editor.replace(buffer, "return x + self.k", "return x + self.k +")
    await editor.look(buffer)
    assert {K, M} <= {*editor.findings(buffer)}
    editor.configure({"ignore": ["unregistered-tensor"]})
    await editor.settle(buffer, [("syntax-error", "return x + self.k +")])


async def test_what_is_new_on_the_changed_lines_of_a_broken_class_is_shown(editor: Editor, folder: Path) -> None:
    text = TEXT.replace("return x + self.k", "return x + self.k + self.new")
    buffer = editor.open(folder / "model.py", text)
    await editor.look(buffer)
    end = buffer.after("super().__init__()")
    editor.change(buffer, (end, end, "\n        x = ("))
    await editor.look(buffer)
    editor.replace(buffer, "self.k = torch.zeros(3)", "self.k = self.new = torch.zeros(3)")
    await editor.look(buffer)
    assert {K, ("unregistered-tensor", "self.new"), M} <= {*editor.findings(buffer)}


async def test_a_document_that_is_opened_broken_shows_what_can_be_found(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", TEXT.replace("return x + self.k", "return x + self.k +"))
    await editor.look(buffer)
    found = editor.findings(buffer)
    assert M in found
    assert "syntax-error" in [code for code, _ in found]


async def test_typing_a_whole_line_key_by_key(editor: Editor, folder: Path) -> None:
    """At every key the other findings are there, each where its text is."""
    buffer = editor.open(folder / "model.py", TEXT)
    await editor.look(buffer)
    offset = buffer.after("super().__init__()")
    for key in "\n        self.new = torch.tensor([1, 2], dtype=torch.float32)":
        editor.change(buffer, (offset, offset, key))
        offset += 1
        await editor.look(buffer)
        assert {K, M} <= {*editor.findings(buffer)}
    assert "syntax-error" not in [code for code, _ in editor.findings(buffer)]
