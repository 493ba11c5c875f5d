"""The light bulb, and what is repaired on save."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.documents import AWKWARD, IMPORTS, model, program, repaired
from tests.lsp.editor import Buffer, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

ALL_IN_FILE = "Repair all 3 safe problems in this file"
ALL = "Repair all safe problems"
IGNORE = "Ignore unregistered-tensor on this line"


def resolves(editor: Editor) -> bool:
    """Whether the editor asks for an edit once it is wanted. To one that does not, the repair of all is only answered
    when it asks for it: it would be worked out for each look at the menu."""
    return bool(editor.can("code_action_provider.resolve_provider"))


async def all_in_file(editor: Editor, buffer: Buffer, place: str, title: str) -> types.CodeAction:
    """The repair of all safe problems, by the light bulb at a place if it is there."""
    if resolves(editor):
        return {action.title: action for action in await editor.actions(buffer, buffer.after(place))}[title]
    (action,) = await editor.actions(buffer, buffer.after(place), only=["source.fixAll"])
    return action


async def test_the_server_says_which_actions_it_has(editor: Editor) -> None:
    assert editor.can("code_action_provider.code_action_kinds") == ("quickfix", "source.fixAll.torchstray")
    properties = editor.profile.can("text_document.code_action.resolve_support.properties") or ()
    assert resolves(editor) is ("edit" in properties)


async def test_the_choices_for_a_finding_in_their_order(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    first, *_ = await editor.look(buffer)
    actions = await editor.actions(buffer, buffer.after("self.мас"))
    assert [action.title for action in actions] == [
        "Register it as a buffer (`persistent=False`): old checkpoints go on loading",
        "Register it as a buffer: it is saved, and strict loading of old checkpoints fails",
        "Make it an `nn.Parameter` that does not train: `state_dict()` and `parameters()` get a new entry",
        *([ALL_IN_FILE] if resolves(editor) else []),
        IGNORE,
    ]
    assert {action.kind for action in actions} == {types.CodeActionKind.QuickFix}
    assert [action.title for action in actions if action.is_preferred] == [actions[0].title]
    about = [[*(action.diagnostics or [])] for action in actions if action.title != ALL_IN_FILE]
    assert about == [[first], [first], [first], [first]]


async def test_each_finding_in_the_range_has_its_choices(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    actions = await editor.actions(buffer, buffer.after("self.層"), buffer.after("self.r"))
    preferred = [action for action in actions if action.is_preferred]
    codes = [(action.diagnostics or [])[0].code for action in preferred]
    assert codes == ["unregistered-module", "unregistered-tensor"]
    assert [action.title for action in actions].count(ALL_IN_FILE) == resolves(editor)


async def test_nothing_is_offered_where_nothing_is_found(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    assert await editor.actions(buffer, buffer.after("import ")) == []


async def test_the_caret_may_stand_at_either_end(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    end = buffer.after("self.маска")
    for offset in (end - len("self.маска"), end):
        assert (await editor.actions(buffer, offset))[0].is_preferred


async def test_a_repair_is_made_where_it_belongs(editor: Editor, folder: Path) -> None:
    """The editor edits its own text by the positions it was given, in its own encoding."""
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    expected = AWKWARD
    for old, new in (
        ("self.маска = torch.zeros(3)", 'self.register_buffer("маска", torch.zeros(3), persistent=False)'),
        ("self.r = torch.randn(3)", 'self.register_buffer("r", torch.randn(3))'),
    ):
        action, *_ = await editor.actions(buffer, buffer.after(old.partition(" = ")[0] + " =") - 2)
        await editor.apply(action)
        expected = expected.replace(old, new)
        assert buffer.text == expected
    await editor.look(buffer)
    assert editor.findings(buffer) == [("unregistered-module", "self.層"), ("discarded-move", "x.cuda()")]


async def test_all_safe_repairs_of_a_file_are_those_of_the_command_line(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    await editor.apply(await all_in_file(editor, buffer, "self.маска", ALL_IN_FILE))
    assert buffer.text == repaired(AWKWARD, folder)
    await editor.look(buffer)
    assert editor.findings(buffer) == [("unregistered-tensor", "self.r")]


async def test_hints_are_not_repaired_unasked(editor: Editor, folder: Path) -> None:
    """As on the command line; each by itself can be."""
    text = program("k", "m").replace("self.m = torch", "self.unused = torch.ones(2)\n        self.m = torch")
    buffer = editor.open(folder / "model.py", text)
    await editor.look(buffer)
    assert len(editor.findings(buffer)) == 3
    assert (await editor.actions(buffer, buffer.after("self.unused")))[0].is_preferred
    await editor.apply(await all_in_file(editor, buffer, "self.k", "Repair all 2 safe problems in this file"))
    assert buffer.text == repaired(text, folder)
    assert "self.unused = torch.ones(2)" in buffer.text
    assert await editor.actions(buffer, 0, len(buffer.text), ["source.fixAll"]) == []


async def test_a_single_safe_repair_is_not_offered_twice(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.look(buffer)
    titles = [action.title for action in await editor.actions(buffer, buffer.after("self.k"))]
    assert not [title for title in titles if title.startswith("Repair all")]


@pytest.mark.parametrize("only", ["source.fixAll.torchstray", "source.fixAll", "source"])
async def test_repairs_on_save_are_those_of_the_command_line(editor: Editor, folder: Path, only: str) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    (action,) = await editor.actions(buffer, 0, len(AWKWARD), [only])
    assert (action.title, action.kind) == (ALL, "source.fixAll.torchstray")
    await editor.apply(action)
    assert buffer.text == repaired(AWKWARD, folder)
    assert await editor.actions(buffer, 0, len(buffer.text), [only]) == []


@pytest.mark.parametrize(
    "only", [None, "quickfix", "refactor", "source.organizeImports", "source.fixAll.ruff", "source.fix"]
)
async def test_what_is_done_on_save_is_not_offered_unasked(editor: Editor, folder: Path, only: str | None) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    actions = await editor.actions(buffer, 0, len(AWKWARD), None if only is None else [only])
    assert ALL not in [action.title for action in actions]
    assert bool(actions) is (only in (None, "quickfix"))


async def test_only_the_way_to_all_repairs_is_worked_out_later(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    actions = await editor.actions(buffer, buffer.after("self.маска"))
    later = [action.title for action in actions if action.edit is None]
    assert later == ([ALL_IN_FILE] if resolves(editor) else [])


async def test_a_repair_of_a_text_that_has_changed_is_refused(vscode: Editor, folder: Path) -> None:
    buffer = vscode.open(folder / "model.py", AWKWARD)
    actions = {action.title: action for action in await vscode.actions(buffer, buffer.after("self.маска"))}
    vscode.change(buffer, (0, 0, "# a line above\r\n"))
    with pytest.raises(JsonRpcException) as refused:
        await vscode.edit_of(actions[ALL_IN_FILE])
    assert refused.value.code == types.LSPErrorCodes.ContentModified
    vscode.close(buffer)
    with pytest.raises(JsonRpcException, match="is not open"):
        await vscode.edit_of(actions[ALL_IN_FILE])


async def test_actions_are_always_those_of_the_newest_text(editor: Editor, folder: Path) -> None:
    """The diagnostics that an editor sends along may be of an older one."""
    buffer = editor.open(folder / "model.py", AWKWARD)
    await editor.look(buffer)
    editor.change(buffer, (0, 0, "# 🙂 a line above\r\n"))
    action, *_ = await editor.actions(buffer, buffer.after("self.маска"))
    await editor.apply(action)
    assert 'self.register_buffer("маска", torch.zeros(3), persistent=False)  # 😀' in buffer.text


IN_A_CALL = "self.k = torch.zeros(\n            3,\n        )"
SUPPRESSED = {
    "alone": ("self.k = torch.zeros(3)", "self.k = torch.zeros(3)  # torchstray: ignore[unregistered-tensor]"),
    "spaces behind": ("self.k = torch.zeros(3)   ", None),
    "a comment behind": ("self.k = torch.zeros(3)  # 🙂 noqa", None),
    "another rule silenced": ("self.k = torch.zeros(3)  # torchstray: ignore[discarded-move]", None),
    "over several lines": (IN_A_CALL, None),
    "continued": ("self.k = \\\n            torch.zeros(3)", None),
    "a text over several lines": ("self.k = torch.zeros(len('''\n漢字\n'''))", None),
    "two on a line": ("self.k = torch.zeros(3); self.m = [nn.Dropout(0.1)]", None),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(("line", "after"), SUPPRESSED.values(), ids=SUPPRESSED)
async def test_a_finding_is_silenced_by_a_comment(
    editor: Editor, folder: Path, line: str, after: str | None, newline: str
) -> None:
    text = program("k").replace("self.k = torch.zeros(3)", line).replace("\n", newline)
    text = f"# 🙂 漢字{newline}" + text.replace(
        "x + self.k", "self.m[0](x) + self.k" if "self.m" in line else "x + self.k"
    )
    buffer = editor.open(folder / "model.py", text)
    await editor.look(buffer)
    before = editor.findings(buffer)
    assert ("unregistered-tensor", "self.k") in before
    actions = await editor.actions(buffer, buffer.after("self.k"))
    (action,) = [action for action in actions if action.title == IGNORE]
    assert actions.index(action) == len(actions) - 1
    assert not action.is_preferred
    await editor.apply(action)
    await editor.look(buffer)
    assert editor.findings(buffer) == [finding for finding in before if finding != ("unregistered-tensor", "self.k")]
    if after is not None:
        assert buffer.text == text.replace(line, after)


async def test_nothing_is_offered_for_what_does_not_parse_but_its_finding_stays(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", IMPORTS + "x = = 1\n" + model("k"))
    await editor.look(buffer)
    assert not [one for one in await editor.actions(buffer, buffer.after("x = ")) if one.is_preferred]
    assert (await editor.actions(buffer, buffer.after("self.k")))[0].is_preferred
