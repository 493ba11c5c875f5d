"""`rule`, `config`, `--version`, and how quickly all of them start."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchstray
from torchstray.config import NOTICES, SETTINGS
from torchstray.rules import all_rules
from torchstray.rules.rule import Rule

from .conftest import MODEL, Run, environment


def test_version(torchstray_: Run) -> None:
    done = torchstray_("--version")
    assert (done.returncode, done.stdout) == (0, f"torchstray {torchstray.__version__}\n")


def test_rules_are_listed_in_their_order(torchstray_: Run) -> None:
    done = torchstray_("rule")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*(rule.name for rule in all_rules()), *NOTICES]
    assert done.returncode == 0


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_the_page_of_a_rule(torchstray_: Run, rule: Rule) -> None:
    done = torchstray_("rule", rule.name)
    assert done.returncode == 0
    assert done.stdout.startswith(f"# {rule.name}\n\n{rule.summary}\n")
    assert not re.search("[«»\x1b]", done.stdout)
    assert done.stdout.count("Not reported: ") == len(rule.good)
    for bad in rule.bad:
        assert all(message in done.stdout for message in bad.messages)


def test_unknown_rule(torchstray_: Run) -> None:
    done = torchstray_("rule", "unregistered-tenser")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no rule `unregistered-tenser`; did you mean `unregistered-tensor`?" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unused-suppression", "`report-unused-suppressions` turns it on"),
        ("syntax-error", "it is always on"),
        ("unreadable-file", "it is always on"),
    ],
)
def test_what_is_reported_besides_the_rules_cannot_be_selected(torchstray_: Run, name: str, words: str) -> None:
    done = torchstray_("check", "--select", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`{name}` is no rule to select; {words}" in done.stderr


def test_config_of_a_file(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.torchstray]\nignore = ["discarded-move"]\n\n'
        '[tool.torchstray.severity]\nunregistered-tensor = "warning"\nlayer-in-forward = "off"\n'
    )
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("config", "model.py")
    lines = done.stdout.splitlines()
    file = tmp_path / "pyproject.toml"
    assert done.returncode == 0
    assert lines[:3] == [
        f"path:          {tmp_path / 'model.py'}",
        "checked:       yes",
        f"configuration: {file}",
    ]
    assert f'  ignore = ["discarded-move"]  ({file}:2)' in lines
    assert f'  severity = {{ "unregistered-tensor" = "warning", "layer-in-forward" = "off" }}  ({file}:4)' in lines
    assert "  select = all rules  (default)" in lines
    assert "  discarded-move: off, in `ignore`" in lines
    assert '  layer-in-forward: off, "off" in `severity`' in lines
    assert "  unregistered-tensor: on, as warning" in lines
    assert "  unregistered-module: on" in lines
    assert all(any(line.startswith(f"  {setting.key} = ") for line in lines) for setting in SETTINGS)


def test_config_says_why_a_file_is_skipped(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(1)\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "model.py").write_text(MODEL)
    assert "checked:       no: the word torch is not in it\n" in torchstray_("config", "plain.py").stdout
    skipped = f"checked:       only when named: folders named build are not searched ({tmp_path / 'build'})\n"
    assert skipped in torchstray_("config", "build/model.py").stdout
    assert "configuration: none, so the defaults hold\n" in torchstray_("config").stdout
    done = torchstray_("config", "missing.py")
    assert (done.returncode, done.stderr) == (2, "Error: missing.py does not exist\n")


def test_mistaken_configuration(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.torchstray]\nselect = ["nothing"]\n')
    (tmp_path / "model.py").write_text(MODEL)
    for command in ("check", "config"):
        done = torchstray_(command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"Error: {tmp_path / 'pyproject.toml'}:2: `select`: there is no rule `nothing`\n"
    assert torchstray_("check", "--isolated").returncode == 1
    (tmp_path / "other.toml").write_text("[tool.torchstray]\n")
    assert torchstray_("check", "--config", "other.toml").returncode == 1


def _imported(folder: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "torchstray", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}


HEAVY = {"libcst", "rich", "pathspec", "multiprocessing", "concurrent", "logging", "torch", "numpy"}


def test_a_file_without_torch_costs_no_heavy_import(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(1)\n")
    imported = _imported(tmp_path, "check", "plain.py")
    assert "click" in imported
    assert not imported & HEAVY


def test_a_file_with_torch_needs_libcst_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    assert _imported(tmp_path, "check", "model.py") & HEAVY == {"libcst"}
