"""The README shows what the program really says, and names all there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click

from torchstray.cli import cli
from torchstray.config import SETTINGS
from torchstray.rules import all_rules

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def torchstray(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "torchstray", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False).stdout


def first_cells(heading: str) -> list[str]:
    """The words in code style that start the rows of the tables under a heading."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| \[?`([^`]+)`", section, re.MULTILINE)


def test_the_example_is_what_happens(tmp_path: Path) -> None:
    before, after = blocks("python")[:2]
    file = tmp_path / "net.py"
    file.write_text(before, encoding="utf-8")
    assert torchstray(tmp_path, "check", "net.py").rstrip() == blocks("text")[0].rstrip()
    torchstray(tmp_path, "check", "--fix", "--unsafe-fixes", "net.py")
    assert file.read_text(encoding="utf-8") == after


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(blocks("toml")[0], encoding="utf-8")
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    assert torchstray(tmp_path, "check") == "No problems found in 1 file.\n"


def test_all_rules_are_listed() -> None:
    assert sorted(first_cells("Rules")) == sorted(rule.name for rule in all_rules())


def test_all_settings_are_listed() -> None:
    assert first_cells("Configuration") == [setting.key for setting in SETTINGS]


def test_the_extension_is_described() -> None:
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["contributes"]
    commands = [f"{command['category']}: {command['title']}" for command in manifest["commands"]]
    assert first_cells("In VS Code") == [*manifest["configuration"]["properties"], *commands]


def test_the_configuration_of_neovim_is_the_one_that_is_tested() -> None:
    tested = (ROOT / "tests" / "editor" / "neovim" / "neovim.lua").read_text(encoding="utf-8")
    assert blocks("lua") == [tested]


def test_all_options_are_listed() -> None:
    options = [param.opts[0] for param in cli.commands["check"].params if isinstance(param, click.Option)]
    listed = [cell.split()[0] for cell in first_cells("Command line") if cell.startswith("--")]
    assert sorted(listed) == sorted(options)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
