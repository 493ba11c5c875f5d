"""What is set in the editor and in pyproject.toml, and that a change needs no restart."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import pytest
from lsprotocol import types

from tests.lsp.conftest import Launch
from tests.lsp.documents import program
from tests.lsp.editor import SECTION, Buffer, Editor

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.filterwarnings("error")]

RULE = "unregistered-tensor"
FOUND = [(RULE, "self.k")]
Findings = Sequence[tuple[str, str]]


async def test_the_editors_settings_are_asked_for_and_hold_at_once(editor: Editor, folder: Path) -> None:
    assert editor.profile.can("workspace.configuration")
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.settle(buffer, FOUND)
    for settings, expected in (
        ({"ignore": [RULE]}, []),
        ({"select": ["discarded-move"]}, []),
        ({"select": ["discarded-move"], "extendSelect": [RULE]}, FOUND),
        ({"severity": {RULE: "off"}}, []),
        ({"perFileIgnores": {"model.py": [RULE]}}, []),
        ({"perFileIgnores": {"other.py": [RULE]}}, FOUND),
        ({"exclude": ["model.py"]}, []),
        ({"exclude": ["other.py"]}, FOUND),
        (dict.fromkeys(["select", "extendSelect", "ignore", "exclude", "severity"]), FOUND),
    ):
        editor.configure(settings)
        await editor.settle(buffer, expected)
    assert editor.messages == []


async def test_how_loud_a_rule_is(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.settle(buffer, FOUND)
    assert buffer.shown[0].severity == types.DiagnosticSeverity.Error
    editor.configure({"severity": {RULE: "hint"}})
    if not editor.profile.pulls:
        await editor.until(lambda: buffer.shown[0].severity == types.DiagnosticSeverity.Hint, "hint")
    assert [one.severity for one in await editor.look(buffer)] == [types.DiagnosticSeverity.Hint]


async def test_an_editor_that_pulls_is_told_to_pull_again(vscode: Editor, folder: Path) -> None:
    assert vscode.profile.can("workspace.diagnostics.refresh_support")
    await vscode.look(vscode.open(folder / "model.py", program("k")))
    before = vscode.diagnostic_refresh_count
    vscode.configure({"ignore": [RULE]})
    await vscode.until(lambda: vscode.diagnostic_refresh_count > before, "request to pull again")


async def test_an_editor_that_cannot_be_told_is_not(neovim: Editor, folder: Path) -> None:
    assert not neovim.profile.can("workspace.diagnostics.refresh_support")
    buffer = neovim.open(folder / "model.py", program("k"))
    await neovim.settle(buffer, FOUND)
    neovim.configure({"ignore": [RULE]})
    await neovim.settle(buffer, [])
    assert neovim.diagnostic_refresh_count == 0


async def test_what_is_set_for_one_folder_is_not_for_another(editor: Editor, folder: Path) -> None:
    (folder / "one").mkdir()
    editor.configure({"ignore": [RULE]}, folder / "one")
    try:
        await editor.settle(editor.open(folder / "one" / "model.py", program("k")), [])
        await editor.settle(editor.open(folder / "model.py", program("k")), FOUND)
    finally:
        editor.configure({}, folder / "one")


async def test_a_mistaken_setting_is_said_once_and_the_last_good_ones_hold(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k"))
    editor.configure({"ignore": [RULE]})
    await editor.settle(buffer, [])
    for _ in range(2):
        editor.configure({"ignore": ["unregistered-tensr"]})
        await editor.settle(buffer, [])
        await editor.until(lambda: bool(editor.messages), "message")
    (message,) = editor.messages
    assert message.type == types.MessageType.Error
    assert "`torchstray.ignore`" in message.message
    assert "did you mean `unregistered-tensor`?" in message.message
    editor.configure({})
    await editor.settle(buffer, FOUND)
    editor.complaints.clear()


async def test_the_settings_of_the_extension_itself_are_passed_over(vscode: Editor, folder: Path) -> None:
    vscode.configure({"interpreter": "/usr/bin/python3", "importStrategy": "useBundled", "trace": {"server": "off"}})
    await vscode.settle(vscode.open(folder / "model.py", program("k")), FOUND)
    assert vscode.messages == []


async def _saw(editor: Editor, file: Path, buffer: Buffer, expected: Findings) -> None:
    """See that a configuration file was looked at: an editor that watches tells of it; for any other the server looks
    itself when there is something to check."""
    if editor.profile.can("workspace.did_change_watched_files.dynamic_registration"):
        change = types.FileChangeType.Changed if file.exists() else types.FileChangeType.Deleted
        assert editor.tell(file, change)
    else:
        assert not editor.tell(file, types.FileChangeType.Changed)
        editor.change(buffer, (0, 0, "# typed\n"))
    await editor.settle(buffer, expected)


def _write(file: Path, text: str) -> None:
    """Write a file all at once, as editors do: the server may look at any time."""
    draft = file.with_name("draft")
    draft.write_text(text)
    draft.replace(file)


async def test_pyproject_is_written_changed_broken_mended_and_removed(editor: Editor, folder: Path) -> None:
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.settle(buffer, FOUND)
    file = folder / "pyproject.toml"
    _write(file, '[tool.torchstray]\nignore = ["unregistered-tensor"]\n')
    await _saw(editor, file, buffer, [])
    _write(file, '[tool.torchstray]\nignore = ["discarded-move"]\n')
    await _saw(editor, file, buffer, FOUND)
    _write(file, '[tool.torchstray]\nignore = ["unregistered-tensor"]\n\n')
    await _saw(editor, file, buffer, [])
    assert editor.messages == []
    for text, words in (
        ("[tool.torchstray]\nignore = [\n", "is not valid TOML"),
        ('[tool.torchstray]\n\nignore = "all"\n', "`ignore`: must be a list of rule names"),
    ):
        _write(file, text)
        await _saw(editor, file, buffer, [])
        await editor.until(lambda: bool(editor.messages), "message")
        (message,) = editor.messages
        assert message.type == types.MessageType.Error
        assert message.message.startswith("pyproject.toml, line 3 is not used. ")
        assert words in message.message
        assert message.message.endswith(f"({file})")
        await _saw(editor, file, buffer, [])
        assert len(editor.messages) == 1
        editor.messages.clear()
    _write(file, "[tool.torchstray]\n")
    await _saw(editor, file, buffer, FOUND)
    file.unlink()
    await _saw(editor, file, buffer, FOUND)
    assert editor.messages == []
    editor.complaints.clear()


async def test_the_editor_has_the_last_word(editor: Editor, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.torchstray]\nselect = ["discarded-move"]\n')
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.settle(buffer, [])
    editor.configure({"select": [RULE]})
    await editor.settle(buffer, FOUND)


async def test_a_pyproject_that_says_nothing_of_torchstray_is_passed_over(editor: Editor, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.torchstray]\nignore = ["unregistered-tensor"]\n')
    inner = folder / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("this is = = no TOML\n")
    await editor.settle(editor.open(inner / "model.py", program("k")), [])
    assert editor.messages == []


async def test_a_file_outside_of_the_workspace_is_checked_too(editor: Editor, tmp_path: Path) -> None:
    await editor.settle(editor.open(tmp_path / "model.py", program("k")), FOUND)


@pytest.mark.parametrize("name", ["exclude", "ignore"])
async def test_nothing_is_said_of_an_excluded_file(editor: Editor, folder: Path, name: str) -> None:
    """Excluded, a file is left alone; of what is merely ignored, hovers on a class still tell."""
    value = "model.py" if name == "exclude" else RULE
    (folder / "pyproject.toml").write_text(f'[tool.torchstray]\n{name} = ["{value}"]\n')
    buffer = editor.open(folder / "model.py", program("k"))
    await editor.settle(buffer, [])
    assert await editor.actions(buffer, 0, len(buffer.text)) == []
    assert (await editor.hover(buffer, buffer.after("class N")) is None) is (name == "exclude")


async def test_the_innermost_workspace_folder_counts(launch: Launch, tmp_path: Path) -> None:
    editor = await launch("vscode")
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (outer / "pyproject.toml").write_text('[tool.torchstray]\nignore = ["unregistered-tensor"]\n')
    (inner / "pyproject.toml").write_text('[tool.torchstray]\nignore = ["discarded-move"]\n')
    editor.set_configuration({"exclude": ["/left.py"]}, section=SECTION)
    await editor.greet(outer, inner)
    assert editor.can("workspace.workspace_folders.supported")
    for file, expected in (
        (outer / "model.py", []),
        (inner / "model.py", FOUND),
        (inner / "deep" / "model.py", FOUND),
        (inner / "left.py", []),
        (inner / "deep" / "left.py", FOUND),
        (outer / "other" / "left.py", []),
    ):
        await editor.settle(editor.open(file, program("k")), expected)


async def test_workspace_folders_come_and_go(launch: Launch, tmp_path: Path) -> None:
    editor = await launch("vscode")
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    editor.set_configuration({"exclude": ["/model.py"]}, section=SECTION)
    await editor.greet(tmp_path / "outer")
    assert editor.can("workspace.workspace_folders.change_notifications")
    buffer = editor.open(inner / "model.py", program("k"))
    await editor.settle(buffer, FOUND)
    added = types.WorkspaceFolder(inner.as_uri(), "inner")
    _change_folders(editor, [added], [])
    await editor.settle(buffer, [])
    _change_folders(editor, [], [added])
    await editor.settle(buffer, FOUND)


def _change_folders(editor: Editor, added: list[types.WorkspaceFolder], removed: list[types.WorkspaceFolder]) -> None:
    event = types.WorkspaceFoldersChangeEvent(added, removed)
    editor.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))


def _without_questions(capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
    """The capabilities of an editor that cannot be asked for its settings."""
    plain = copy.deepcopy(capabilities)
    assert plain.workspace is not None
    plain.workspace.configuration = None
    return plain


@pytest.mark.parametrize("options", [{"perFileIgnores": {"a.py": [RULE]}}, {"per-file-ignores": {"a.py": [RULE]}}])
async def test_an_editor_that_is_not_asked_says_it_at_the_start(
    launch: Launch, tmp_path: Path, options: dict[str, object]
) -> None:
    editor = await launch("emacs")
    await editor.greet(tmp_path, capabilities=_without_questions(editor.profile.capabilities), options=options)
    ignored, other = editor.open(tmp_path / "a.py", program("k")), editor.open(tmp_path / "b.py", program("k"))
    await editor.settle(ignored, [])
    await editor.settle(other, FOUND)
    choices: list[dict[str, object]] = [{SECTION: {"ignore": [RULE]}}, {"ignore": [RULE]}]
    for settings in choices:
        editor.workspace_did_change_configuration(types.DidChangeConfigurationParams({SECTION: {}}))
        await editor.settle(other, FOUND)
        editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
        await editor.settle(other, [])
    assert editor.messages == []
    assert await editor.leave() == 0


@pytest.mark.parametrize("options", [None, {}, [], "text", {"nonsense": 1}])
async def test_odd_options_at_the_start_stop_nothing(launch: Launch, tmp_path: Path, options: object) -> None:
    editor = await launch("emacs")
    await editor.greet(tmp_path, capabilities=_without_questions(editor.profile.capabilities), options=options)
    await editor.settle(editor.open(tmp_path / "a.py", program("k")), FOUND)
    assert len(editor.messages) == (options not in (None, {}))
