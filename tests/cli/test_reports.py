"""What `torchstray check` prints, and its exit status."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import MODEL, UNSAFE, Run, environment

MESSAGE = (
    "`self.k` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` (line 11) fails on a GPU; "
    "register it as a buffer."
)
HINT = MODEL.replace("x + self.k", "x + self.k.to(x.device)")


def test_concise(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("check", "model.py", "--output-format", "concise")
    assert done.stdout == (
        f"model.py:8:9: error unregistered-tensor {MESSAGE}\nFound 1 problem (1 error); 1 can be repaired with --fix.\n"
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_full_is_the_default_and_underlines_the_range(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    lines = torchstray_("check", "model.py").stdout.splitlines()
    assert lines[:4] == [
        "model.py:8:9: error unregistered-tensor",
        f"  {MESSAGE}",
        "     8 |         self.k = torch.zeros(3)",
        "       |         ^^^^^^",
    ]
    assert lines[4] == "    11 |         return x + self.k"
    assert lines[5].startswith("       |                ---------- ")
    assert lines[6].startswith("  help: ")
    assert lines[6].endswith(" (--fix)")


def test_full_aligns_the_underline_under_tabs_and_wide_characters(torchstray_: Run, tmp_path: Path) -> None:
    text = MODEL.replace("    ", "\t").replace("self.k = ", "self.漢字 = self.k = ")
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    lines = torchstray_("check", "model.py").stdout.splitlines()
    row = lines.index("     8 |         self.漢字 = self.k = torch.zeros(3)")
    assert lines[row + 1] == "       | " + " " * len("        self.1234 = ") + "^^^^^^"


def test_json_is_the_schema_of_the_design(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = torchstray_("check", "model.py", "--output-format", "json")
    (found,) = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert list(found) == [
        *("code", "filename", "location", "end_location", "message", "severity", "url", "related", "fix")
    ]
    assert (found["code"], found["severity"], found["message"]) == ("unregistered-tensor", "error", MESSAGE)
    assert found["filename"] == str(tmp_path / "model.py")
    assert (found["location"], found["end_location"]) == ({"row": 8, "column": 9}, {"row": 8, "column": 15})
    (related,) = found["related"]
    assert related["filename"] == found["filename"]
    assert related["location"]["row"] == related["end_location"]["row"] == 11
    assert found["fix"]["applicability"] == "safe"
    lines = MODEL.splitlines()
    for edit in sorted(found["fix"]["edits"], key=lambda edit: edit["location"]["column"], reverse=True):
        start, end = edit["location"], edit["end_location"]
        assert start["row"] == end["row"]
        line = lines[start["row"] - 1]
        lines[start["row"] - 1] = line[: start["column"] - 1] + edit["content"] + line[end["column"] - 1 :]
    assert lines[7] == '        self.register_buffer("k", torch.zeros(3), persistent=False)'


def test_json_of_nothing_is_an_empty_list(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n")
    done = torchstray_("check", "model.py", "--output-format", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


@pytest.mark.parametrize("output_format", ["concise", "full"])
def test_hints_are_shown_to_people_only_when_asked_for_and_do_not_count(
    torchstray_: Run, tmp_path: Path, output_format: str
) -> None:
    (tmp_path / "model.py").write_text(HINT)
    quiet = torchstray_("check", "model.py", "--output-format", output_format)
    loud = torchstray_("check", "model.py", "--output-format", output_format, "--min-severity", "hint")
    assert "unregistered-tensor" not in quiet.stdout
    assert "unregistered-tensor" in loud.stdout
    assert "hint" in loud.stdout
    assert (quiet.returncode, loud.returncode) == (0, 0)


def test_hints_are_always_in_json_and_do_not_count(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HINT)
    done = torchstray_("check", "model.py", "--output-format", "json")
    (found,) = json.loads(done.stdout)
    assert (found["severity"], done.returncode) == ("hint", 0)
    quiet = torchstray_("check", "model.py", "--output-format", "json", "--min-severity", "warning")
    assert json.loads(quiet.stdout) == []


def test_min_severity_error_hides_warnings(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text('[tool.torchstray.severity]\nunregistered-tensor = "warning"\n')
    assert torchstray_("check", "--output-format", "concise").stdout.startswith("model.py:8:9: warning ")
    done = torchstray_("check", "--min-severity", "error")
    assert (done.returncode, done.stdout) == (0, "No problems found in 1 file.\n")


def test_statistics(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MODEL)
    (tmp_path / "b.py").write_text(MODEL + UNSAFE.replace("Model", "Other"))
    done = torchstray_("check", "--statistics")
    assert done.stdout.splitlines() == [
        "2  unregistered-tensor (2 with a repair)",
        "1  unregistered-module (1 with a repair)",
        "Found 3 problems (3 errors); 2 can be repaired with --fix, 1 more with --unsafe-fixes.",
    ]
    assert json.loads(torchstray_("check", "--statistics", "--output-format", "json").stdout) == [
        {"code": "unregistered-tensor", "count": 2, "repairable": 2},
        {"code": "unregistered-module", "count": 1, "repairable": 1},
    ]


def test_exit_zero(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    assert torchstray_("check", "--exit-zero").returncode == 0
    assert torchstray_("check", "missing.py", "--exit-zero").returncode == 2


def test_select_and_ignore(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL + UNSAFE.replace("Model", "Other"))

    def codes(*options: str) -> list[str]:
        done = torchstray_("check", "--output-format", "json", *options)
        return [found["code"] for found in json.loads(done.stdout)]

    assert codes() == ["unregistered-tensor", "unregistered-module"]
    assert codes("--select", "unregistered-module") == ["unregistered-module"]
    assert codes("--select", "discarded-move, unregistered-tensor") == ["unregistered-tensor"]
    assert codes("--select", "discarded-move", "--select", "unregistered-tensor") == ["unregistered-tensor"]
    assert codes("--select", "discarded-move", "--extend-select", "unregistered-module") == ["unregistered-module"]
    assert codes("--ignore", "unregistered-module,discarded-move") == ["unregistered-tensor"]


def test_unknown_rule_name(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    for option in ("--select", "--extend-select", "--ignore"):
        done = torchstray_("check", option, "discarded-move,unregisterd-tensor")
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no rule `unregisterd-tensor`; did you mean `unregistered-tensor`?" in done.stderr


def test_order_and_output_do_not_depend_on_jobs(torchstray_: Run, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"m{number}.py").write_text(MODEL if number % 2 else "import torch\n")
    one = torchstray_("check", "--output-format", "concise", "--jobs", "1")
    two = torchstray_("check", "--output-format", "concise", "--jobs", "2")
    default = torchstray_("check", "--output-format", "concise")
    assert one.stdout.count("unregistered-tensor") == 25
    assert one.stdout == two.stdout == default.stdout
    names = [line.split(":")[0] for line in one.stdout.splitlines()[:-1]]
    assert names == sorted(names)


def test_nested_paths_are_shown_from_the_working_folder(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "model.py").write_text(MODEL)
    shown = str(Path("pkg", "model.py"))
    for argument in ("pkg", str(tmp_path / "pkg"), "pkg/model.py", "pkg/../pkg"):
        assert torchstray_("check", argument, "--output-format", "concise").stdout.startswith(f"{shown}:8:9: ")


def _in_terminal(folder: Path, *arguments: str, **more: str) -> str:
    """Run with standard output and error on a terminal, and return what it shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "torchstray", *arguments],
        cwd=folder,
        env=environment(TERM="xterm", **more),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # Linux says in this way that the other end is closed
            pass
        process.wait(timeout=60)
    os.close(ours)
    return shown.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_colour_on_a_terminal_and_not_with_no_color(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    plain = torchstray_("check").stdout
    assert "\x1b" not in plain
    assert "\x1b" in _in_terminal(tmp_path, "check")
    assert _in_terminal(tmp_path, "check", NO_COLOR="1").replace("\r\n", "\n") == plain
    assert "\x1b" in _in_terminal(tmp_path, "check", "--diff")
    assert "\x1b" in _in_terminal(tmp_path, "rule", "unregistered-tensor")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_is_shown_on_a_terminal_where_the_work_is_long(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    assert "Checking" not in _in_terminal(tmp_path, "check")
    for number in range(30):
        (tmp_path / f"m{number}.py").write_text(MODEL * 80)
    assert "Checking" in _in_terminal(tmp_path, "check", "--jobs", "1", "--statistics")


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"m{number}.py").write_text(MODEL)
    with subprocess.Popen(
        [sys.executable, "-m", "torchstray", "check", "--jobs", "1"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"m0.py:8:9: error")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1
