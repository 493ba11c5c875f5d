"""Repairing: in rounds, never for the worse, and written so that nothing is lost."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchstray import files, run
from torchstray.config import Configuration
from torchstray.repair import repair
from torchstray.rules.rule import Finding, Fix, Severity
from torchstray.syntax.document import Document
from torchstray.text.edits import Edit, Span

from .conftest import MODEL, REPAIRED, UNSAFE, Run

Check = Callable[[Document], list[Finding]]


def _replacing(pattern: str, replacement: str, *, safe: bool = True, first_line: str = "") -> Check:
    """A check that finds a pattern and has it replaced; its fix also inserts a first line where that is missing."""

    def check(document: Document) -> list[Finding]:
        found = []
        for match in re.finditer(pattern, document.text):
            edits = [Edit(*match.span(), match.expand(replacement))]
            if first_line and not document.text.startswith(first_line):
                edits.append(Edit(0, 0, first_line))
            fix = Fix("Replace it", safe, tuple(edits))
            found.append(Finding("rule", Severity.ERROR, f"`{match[0]}`", Span(*match.span()), fixes=(fix,)))
        return found

    return check


def test_all_findings_of_a_round_are_repaired_together() -> None:
    rounds = []
    check = _replacing("bad", "good")

    def counting(document: Document) -> list[Finding]:
        rounds.append(document.text)
        return check(document)

    repaired = repair(Document("bad\nbad\nbad\n"), counting, unsafe=False)
    assert repaired.document.text == "good\ngood\ngood\n"
    assert (len(repaired.applied), repaired.left, repaired.refused) == (3, [], [])
    assert rounds == ["bad\nbad\nbad\n", "good\ngood\ngood\n"]


def test_what_two_fixes_both_insert_is_inserted_once() -> None:
    repaired = repair(Document("bad\nbad\n"), _replacing("bad", "good", first_line="import x\n"), unsafe=False)
    assert repaired.document.text == "import x\ngood\ngood\n"
    assert len(repaired.applied) == 2


def test_overlapping_fixes_wait_for_the_next_round() -> None:
    def check(document: Document) -> list[Finding]:
        depth = document.text.count("f(")
        found = []
        for level in range(depth):
            start, end = 2 * level, len(document.text.rstrip()) - level
            fix = Fix("Unwrap it", True, (Edit(start, end, document.text[start + 2 : end - 1]),))
            found.append(Finding("rule", Severity.ERROR, "m", Span(start, end), fixes=(fix,)))
        return found

    repaired = repair(Document("f(f(f(1)))\n"), check, unsafe=False)
    assert repaired.document.text == "1\n"
    assert len(repaired.applied) == 3


def test_unsafe_fixes_are_made_only_when_asked_for() -> None:
    check = _replacing("bad", "good", safe=False)
    assert repair(Document("bad\n"), check, unsafe=False).document.text == "bad\n"
    assert repair(Document("bad\n"), check, unsafe=True).document.text == "good\n"


def test_the_first_safe_fix_is_made_where_the_preferred_one_is_not_safe() -> None:
    def check(document: Document) -> list[Finding]:
        place = document.text.find("bad")
        fixes = (
            Fix("Preferred", False, (Edit(place, place + 3, "best"),)),
            Fix("Second", True, (Edit(place, place + 3, "good"),)),
        )
        return [Finding("rule", Severity.ERROR, "m", Span(place, place + 3), fixes=fixes)] if place >= 0 else []

    assert repair(Document("bad\n"), check, unsafe=False).document.text == "good\n"
    assert repair(Document("bad\n"), check, unsafe=True).document.text == "best\n"


def test_a_fix_that_breaks_the_syntax_is_refused_and_the_others_are_made() -> None:
    text = "bad = 1\nworse = 2\nbad = 3\n"

    def check(document: Document) -> list[Finding]:
        return _replacing("bad", "good")(document) + _replacing("worse", "(")(document)

    repaired = repair(Document(text), check, unsafe=False)
    assert repaired.document.text == "good = 1\nworse = 2\ngood = 3\n"
    assert [finding.message for finding in repaired.applied] == ["`bad`", "`bad`"]
    assert [finding.message for finding in repaired.refused] == ["`worse`"]
    assert repaired.left == repaired.refused


def test_fixes_that_break_the_syntax_only_together_are_not_both_made() -> None:
    def check(document: Document) -> list[Finding]:
        return _replacing("one", '"')(document) + _replacing("two", "'")(document) if "one" in document.text else []

    text = 'x = "one"\n'
    repaired = repair(Document(text), check, unsafe=False)
    assert len(repaired.document.problems) == 0


def test_a_fix_that_does_not_help_is_refused_so_nothing_grows() -> None:
    check = _replacing(r"bad\(", "bad(not ")
    repaired = repair(Document("bad(1)\n"), check, unsafe=False)
    assert repaired.document.text == "bad(1)\n"
    assert ([f.message for f in repaired.refused], repaired.applied) == (["`bad(`"], [])


def test_a_fix_that_does_not_help_does_not_keep_its_neighbours_back() -> None:
    def check(document: Document) -> list[Finding]:
        return _replacing("bad", "good")(document) + _replacing(r"(?<!\w)odd", "odd + odd")(document)

    repaired = repair(Document("bad\nodd\nbad\n"), check, unsafe=False)
    assert repaired.document.text == "good\nodd\ngood\n"


def test_fixes_that_undo_each_other_come_to_an_end() -> None:
    def check(document: Document) -> list[Finding]:
        if "one" in document.text:
            return [_named(finding, "a") for finding in _replacing("one", "two")(document)]
        return [_named(finding, "b") for finding in _replacing("two", "one")(document)]

    def _named(finding: Finding, rule: str) -> Finding:
        return Finding(rule, finding.severity, finding.message, finding.span, fixes=finding.fixes)

    assert repair(Document("one\n"), check, unsafe=False).document.text in ("one\n", "two\n")


def test_fix_and_a_second_run(torchstray_: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    done = torchstray_("check", "--fix")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Repaired 1 problem. No problems left in 1 file.\n"
    assert model.read_text() == REPAIRED
    before = model.stat()
    assert torchstray_("check", "--fix").stdout == "No problems found in 1 file.\n"
    assert model.stat() == before


def test_unsafe_fixes_on_the_command_line(torchstray_: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(UNSAFE)
    done = torchstray_("check", "--fix")
    assert done.returncode == 1
    assert done.stdout.endswith("Found 1 problem (1 error); 1 can be repaired with --fix --unsafe-fixes.\n")
    assert model.read_text() == UNSAFE
    assert torchstray_("check", "--fix", "--unsafe-fixes").returncode == 0
    assert "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])\n" in model.read_text()


def test_what_is_left_is_reported_in_the_repaired_text(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL + UNSAFE.replace("Model", "Other").partition("nn\n")[2])
    done = torchstray_("check", "--fix", "--output-format", "concise")
    assert done.returncode == 1
    assert re.match(r"model\.py:17:9: error unregistered-module ", done.stdout)
    assert "\nRepaired 1 problem. Left 1 problem (1 error); " in done.stdout


def test_hints_are_not_repaired_unless_shown(torchstray_: Run, tmp_path: Path) -> None:
    text = MODEL.replace("x + self.k", "x + self.k.to(x.device)")
    (tmp_path / "model.py").write_text(text)
    torchstray_("check", "--fix")
    assert (tmp_path / "model.py").read_text() == text
    torchstray_("check", "--fix", "--min-severity", "hint")
    assert 'self.register_buffer("k"' in (tmp_path / "model.py").read_text()


def test_diff(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "unsafe.py").write_text(UNSAFE)
    done = torchstray_("check", "--diff")
    assert done.stdout.splitlines() == [
        "--- model.py",
        "+++ model.py",
        "@@ -5,7 +5,7 @@",
        " class Model(nn.Module):",
        "     def __init__(self):",
        "         super().__init__()",
        "-        self.k = torch.zeros(3)",
        '+        self.register_buffer("k", torch.zeros(3), persistent=False)',
        " ",
        "     def forward(self, x):",
        "         return x + self.k",
    ]
    assert (done.returncode, done.stderr) == (1, "Would repair 1 problem in 1 file.\n")
    both = torchstray_("check", "--diff", "--unsafe-fixes")
    assert "+++ unsafe.py\n" in both.stdout
    assert (tmp_path / "model.py").read_text() == MODEL
    assert (tmp_path / "unsafe.py").read_text() == UNSAFE
    (tmp_path / "model.py").write_text(REPAIRED)
    done = torchstray_("check", "--diff")
    assert (done.returncode, done.stdout) == (0, "")


def test_diff_changes_nothing_even_with_fix(torchstray_: Run, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    done = torchstray_("check", "--fix", "--diff")
    assert (done.returncode, file.read_text()) == (1, MODEL)
    assert done.stdout == torchstray_("check", "--diff").stdout != ""


def test_diff_names_the_files_that_cannot_be_read(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_bytes(b"import torch  # \xff\n")
    done = torchstray_("check", "--diff")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bad.py:1:1: error unreadable-file ")


def test_standard_input(torchstray_: Run, tmp_path: Path) -> None:
    done = torchstray_("check", "-", "--output-format", "concise", stdin=MODEL.encode())
    assert done.stdout.startswith("-:8:9: error unregistered-tensor ")
    assert done.returncode == 1
    (tmp_path / "pyproject.toml").write_text(
        '[tool.torchstray.per-file-ignores]\n"legacy/*" = ["unregistered-tensor"]\n'
    )
    named = torchstray_(
        "check", "-", "--stdin-filename", "pkg/m.py", "--output-format", "concise", stdin=MODEL.encode()
    )
    assert named.stdout.startswith(f"{Path('pkg', 'm.py')}:8:9: error unregistered-tensor ")
    ignored = torchstray_("check", "-", "--stdin-filename", "legacy/m.py", stdin=MODEL.encode())
    assert ignored.returncode == 0


def test_standard_input_is_repaired_to_standard_output(torchstray_: Run) -> None:
    data = (MODEL + UNSAFE.replace("Model", "Other")).replace("\n", "\r\n").encode()
    done = torchstray_("check", "-", "--fix", "--output-format", "concise", stdin=data)
    assert done.stdout.encode() == data.replace(
        b"self.k = torch.zeros(3)", b'self.register_buffer("k", torch.zeros(3), persistent=False)'
    )
    assert done.stderr.startswith("-:19:9: error unregistered-module ")
    assert done.returncode == 1


@pytest.mark.parametrize("data", [b"print(1)\n", b"import torch\r\nprint(torch)", b""])
def test_standard_input_with_nothing_to_repair_is_passed_on(torchstray_: Run, data: bytes) -> None:
    done = torchstray_("check", "-", "--fix", stdin=data)
    assert (done.returncode, done.stdout.encode()) == (0, data)


def test_undecodable_standard_input_is_passed_on(tmp_path: Path) -> None:
    data = b"import torch\n\xff\n"
    result, output = run.check_stream(Path("-"), data, Configuration(tmp_path), run.Task(repair=True))
    assert [finding.rule for finding in result.findings] == ["unreadable-file"]
    assert output == data


def test_diff_of_standard_input(torchstray_: Run) -> None:
    done = torchstray_("check", "-", "--diff", "--stdin-filename", "m.py", stdin=MODEL.encode())
    assert done.stdout.startswith("--- m.py\n+++ m.py\n")
    assert done.returncode == 1


def test_mode_and_link_are_kept(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    model = tmp_path / "real" / "model.py"
    model.write_text(MODEL)
    model.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(Path("real", "model.py"))
    assert torchstray_("check", "link.py", "--fix").returncode == 0
    assert link.is_symlink()
    assert model.read_text() == REPAIRED
    assert stat.S_IMODE(model.stat().st_mode) == 0o750
    assert [path.name for path in model.parent.iterdir()] == ["model.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="the mode has no such bits")
def test_a_read_only_file_stays(torchstray_: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    model.chmod(0o444)
    done = torchstray_("check", "--fix", "--output-format", "concise")
    assert done.returncode == 2
    assert done.stderr == "model.py is read-only, so the repair was not written.\n"
    assert done.stdout.startswith("model.py:8:9: error unregistered-tensor ")
    assert model.read_text() == MODEL


def test_a_file_that_changed_after_it_was_read_is_not_written(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    data = files.read(model)
    model.write_text("import torch  # meanwhile\n")
    with pytest.raises(files.UnwritableFile, match="has changed since it was read"):
        files.write(model, REPAIRED.encode(), expected=data)
    assert model.read_text() == "import torch  # meanwhile\n"
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


def test_a_file_that_vanished_after_it_was_read_is_not_written(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    data = files.read(model)
    model.unlink()
    with pytest.raises(files.UnwritableFile, match="has vanished since it was read"):
        files.write(model, REPAIRED.encode(), expected=data)
    assert list(tmp_path.iterdir()) == []


def test_the_findings_of_a_file_that_was_not_written_are_those_of_the_file(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    task = run.Task(repair=True, write=True)
    data = files.read(model)
    result = run.check_data(model, data, Configuration(tmp_path), task)
    model.write_text(MODEL + "# meanwhile\n")
    after = run.write_result(result, data, Configuration(tmp_path), task)
    assert after.failure == "has changed since it was read, so the repair was not written; run again"
    assert [finding.rule for finding in after.findings] == ["unregistered-tensor"]
    assert model.read_text() == MODEL + "# meanwhile\n"


def test_a_character_that_the_encoding_lacks(tmp_path: Path) -> None:
    """Nothing that a rule inserts today; a fix may some day."""
    model = tmp_path / "model.py"
    model.write_bytes(b"# coding: ascii\nimport torch\n")
    data = files.read(model)
    result = run.FileResult(model, before="import torch\n", after="import torch  # \N{SNOWMAN}\n")
    after = run.write_result(result, data, Configuration(tmp_path), run.Task(repair=True, write=True))
    assert after.failure is not None
    assert "ascii" in after.failure
    assert model.read_bytes() == data
