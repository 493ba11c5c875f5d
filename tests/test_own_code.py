"""Our own code is clean under our own checks, and the generated pages are those of the rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ["server", "tests", "scripts", "benches", "noxfile.py"]


def test_our_code_has_no_findings() -> None:
    command = [sys.executable, "-m", "torchstray", "check", "--min-severity", "hint", *FOLDERS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert result.stdout.startswith("No problems found in ")


@pytest.mark.parametrize("arguments", [["--check"], []])
def test_docs_are_up_to_date(arguments: list[str], tmp_path: Path) -> None:
    """Both ways: `--check` finds no difference, and a fresh run writes what is committed."""
    target = [] if arguments else ["--folder", str(tmp_path)]
    command = [sys.executable, "scripts/generate_docs.py", *arguments, *target]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    committed = {page.name: page.read_bytes() for page in (ROOT / "docs" / "rules").iterdir()}
    written = {page.name: page.read_bytes() for page in tmp_path.iterdir()}
    assert written == ({} if arguments else committed)


def test_outdated_docs_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("old", encoding="utf-8")
    (tmp_path / "no-such-rule.md").write_text("old", encoding="utf-8")
    command = [sys.executable, "scripts/generate_docs.py", "--check", "--folder", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "index.md" in result.stderr
    assert "no-such-rule.md" in result.stderr
    assert (tmp_path / "no-such-rule.md").read_text(encoding="utf-8") == "old"
