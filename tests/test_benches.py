"""The benches that judge findings: scoring against facts, making the facts, and comparing with an accepted state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benches import findings, ground_truth
from benches.accuracy import Score, compare
from benches.findings import Found

SOURCE = "a\nb\nc\nd\ne\n"
FACTS: dict[str, Any] = {
    "strays": [
        {"file": "p/m.py", "line": 1, "attr": "one", "kind": "tensor", "also": [5]},
        {"file": "p/m.py", "line": 2, "attr": "two", "kind": "module", "argument": True},
        {"file": "p/m.py", "line": 3, "attr": "three", "kind": "tensor"},
    ],
    "clean": [["p/m.py", 4, "four", ["module"]]],
}


class Keeps(nn.Module):
    """Keeps things in all ways that matter."""

    def __init__(self, size: int, mask: torch.Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(size, size)
        self.same = self.fc.weight
        self.mask = mask  # torchstray: ignore[unregistered-tensor]
        self.layers = [nn.Linear(size, size)]  # torchstray: ignore[unregistered-module]
        self.drop = (nn.Dropout(),)  # torchstray: ignore[unregistered-module]
        self.noise = torch.distributions.Beta(1.0, 2.0)  # torchstray: ignore[unregistered-tensor]
        self.method = nn.BatchNorm1d(size).forward  # torchstray: ignore[unregistered-module]
        self.size = size


def finding(file: Path, row: int, rule: str = "unregistered-tensor") -> dict[str, Any]:
    return {"code": rule, "filename": str(file), "location": {"row": row}}


def test_findings_are_scored(tmp_path: Path) -> None:
    file = tmp_path / "p" / "m.py"
    file.parent.mkdir()
    file.write_text(SOURCE, encoding="utf-8")
    given = [
        finding(file, 5),
        finding(file, 2),
        finding(file, 4),
        finding(file, 99),
        finding(file, 3, "discarded-move"),
    ]
    score = compare(FACTS, given, tmp_path)
    assert (score.right, score.wrong, score.unjudged) == (2, 1, 1)
    assert (score.found, score.strays, score.found_arguments, score.arguments) == (1, 2, 1, 1)
    assert score.precision == pytest.approx(2 / 3)
    assert score.recall == 0.5
    missed, wrong = score.disagreements
    assert missed == "  missed: p/m.py:3: tensor in three\n      c"
    assert wrong == "  false alarm: p/m.py:4: unregistered-tensor, but it keeps module\n      d"
    pooled = Score()
    pooled.add(score)
    pooled.add(score)
    assert (pooled.precision, pooled.recall, pooled.strays) == (score.precision, score.recall, 4)


def test_facts_come_from_a_move() -> None:
    with ground_truth.Recorder() as recorder:
        module = Keeps(3, torch.ones(3))
    found = {stray.attr: (stray.kind, stray.argument) for stray in ground_truth.strays(module, recorder, "tests")}
    assert found == {
        "mask": ("tensor", True),
        "layers": ("container of module", False),
        "drop": ("container of mode", False),
        "noise": ("object", False),
        "method": ("module", False),
    }


def test_arguments_are_guessed() -> None:
    module = ground_truth.build(Keeps)
    assert isinstance(module, Keeps)
    assert module.mask.ndim == 2


def test_a_job_that_fails_is_told_of() -> None:
    def fails() -> dict[str, Any]:
        raise SystemExit(3)

    assert ground_truth.in_process(fails, 10) == {"error": "SystemExit"}
    assert ground_truth.in_process(lambda: {"answer": 1}, 10) == {"answer": 1}


def test_accepted_states_are_read_as_they_were_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = {
        Found("one", "one/a.py", 3, "unregistered-tensor", "hint"),
        Found("two", "two/b.py", 7, "discarded-move", "error"),
    }
    assert findings.read(findings.written(before)) == before
    now = {Found("one", "one/a.py", 3, "unregistered-tensor", "error", "Say it.")}
    assert findings.show(before, now, tmp_path)
    output = capsys.readouterr().out.splitlines()
    assert output == [
        "+ one/a.py:3 unregistered-tensor error",
        "    Say it.",
        "- one/a.py:3 unregistered-tensor hint",
        "- two/b.py:7 discarded-move error",
        "1 findings; 1 appear, 2 vanish",
    ]
    assert not findings.show(before, before, tmp_path)


def test_the_table_is_pinned() -> None:
    requirements = findings.pinned(findings.PINNED.read_text("utf-8"))
    assert len(requirements) >= 12
    assert all(len(requirement.split("==")) == 2 for requirement in requirements)
