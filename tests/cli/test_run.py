"""A run goes on whatever happens in one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchstray import rules, run
from torchstray.config import Configuration
from torchstray.rules.rule import Finding
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document

from .conftest import MODEL, environment


@pytest.fixture
def faulty_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rules fail in files that ask for it, as a mistake of ours would."""
    real = rules.run

    def faulty(document: Document, project: Project, names: list[str], path: Path | None = None) -> list[Finding]:
        if "RAISE" in document.text:
            raise KeyError("two\nlines")
        if "DIE" in document.text:
            os._exit(9)
        return real(document, project, names, path)

    monkeypatch.setattr(rules, "run", faulty)


def _work(folder: Path, **texts: str) -> list[run.Work]:
    configuration = Configuration(folder)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return [(folder / f"{name}.py", configuration) for name in texts]


def _codes(results: list[run.FileResult]) -> list[list[str]]:
    return [[finding.rule for finding in result.findings] for result in results]


@pytest.mark.usefixtures("faulty_rules")
def test_a_mistake_of_ours_is_a_finding(tmp_path: Path) -> None:
    work = _work(tmp_path, a=MODEL, b=MODEL + "# RAISE\n", c=MODEL)
    _, results = run.run(work, run.Task(repair=True, write=True), jobs=1)
    _, broken, _ = found = list(results)
    assert _codes(found) == [[], ["internal-error"], []]
    assert broken.findings[0].message == "The analysis of this file failed (KeyError: 'two\\nlines'); please report it."
    assert broken.trace is not None
    assert broken.trace.startswith("Traceback")
    assert (tmp_path / "b.py").read_text() == MODEL + "# RAISE\n"


@pytest.mark.usefixtures("faulty_rules")
@pytest.mark.skipif(sys.platform != "linux", reason="the processes inherit the faulty rules only where they are forked")
def test_a_process_that_dies_takes_its_file_alone(tmp_path: Path) -> None:
    work = _work(tmp_path, a=MODEL, b=MODEL + "# DIE\n", c=MODEL, d="import torch\n", e=MODEL)
    total, results = run.run(work, run.Task(), jobs=2)
    assert total == 5
    assert _codes(list(results)) == [
        *(["unregistered-tensor"], ["internal-error"], ["unregistered-tensor"], [], ["unregistered-tensor"])
    ]


def test_files_that_do_not_concern_torch_have_no_result_in_a_big_run(tmp_path: Path) -> None:
    texts = {f"m{number}": "print(1)\n" for number in range(run.ENOUGH_FOR_WORKERS)}
    total, results = run.run(_work(tmp_path, a=MODEL, **texts), run.Task())
    assert total == 1
    assert _codes(list(results)) == [["unregistered-tensor"]]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent in another way")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_quietly(tmp_path: Path, jobs: str) -> None:
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text(MODEL.replace("Model", f"Model{number}") * 40)
    with subprocess.Popen(
        [sys.executable, "-m", "torchstray", "check", "--verbose", "--jobs", jobs],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        assert said == [b"configuration: none\n", b"files: 200, of which 200 are looked into\n"]
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    # Python may end by the signal itself, if it comes during an import; a shell says 130 either way.
    assert process.returncode in (130, -signal.SIGINT)
    assert (out, err.strip()) == (b"", b"")


def test_log(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    subprocess.run(
        [sys.executable, "-m", "torchstray", "check"],
        cwd=tmp_path,
        env=environment(TORCHSTRAY_LOG=str(tmp_path / "log.txt")),
        capture_output=True,
        check=False,
    )
    assert (tmp_path / "log.txt").read_text() == "configuration: none\nfiles: 1, of which 1 are looked into\n"
