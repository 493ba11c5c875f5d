"""What is found in random programs agrees with what torch says, and a disagreement would be noticed."""

from __future__ import annotations

import pytest

from tests.properties.agreement import Disagreement, disagreements, shrunk, smallest
from tests.properties.generator import Generator
from tests.properties.truth import Kept, Left, observe
from tests.semantics import programs
from torchstray.rules.rule import Finding

PROGRAMS = 150
SEED = 7
STRAY = """\
import torch
from torch import nn

class Other(nn.Module):
    pass

class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(3, 3)
        if chance(0):
            self.kept = torch.zeros(3)
        for _ in range(2):
            self.number = 3
"""
SMALLEST = """\
import torch
from torch import nn

class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(3)
"""


def test_findings_agree_with_torch() -> None:
    ran = strays = 0
    wrong: list[str] = []
    for program in Generator(SEED).programs(PROGRAMS):
        try:
            kept = observe(program.text, program.choices)
        except Exception:  # noqa: BLE001 - a random program may raise anything
            continue
        ran += 1
        strays += sum(bool(one.left) for one in kept)
        found = disagreements(program.text, program.choices)
        wrong += [f"# {one}\n{shrunk(program.text, program.choices, one)}" for one in found[:1]]
    assert wrong == []
    assert ran > PROGRAMS * 0.8
    assert strays > ran


def test_programs_are_the_same_for_the_same_seed() -> None:
    assert list(Generator(1).programs(5)) == list(Generator(1).programs(5)) != list(Generator(2).programs(5))


def test_truth_tells_what_each_way_leaves_behind() -> None:
    assert observe(STRAY, 1) == {
        Kept("Net", "other", (11,), frozenset()),
        Kept("Net", "kept", (13,), frozenset({Left.TENSOR})),
        Kept("Net", "number", (15, 15), frozenset()),
    }


def test_a_miss_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: list[Finding] = []
    monkeypatch.setattr(programs, "findings", lambda text: nothing)
    (missed,) = disagreements(STRAY, 1)
    assert missed == Disagreement(13, "kept", frozenset(), frozenset({Left.TENSOR}))
    assert str(missed) == "line 13: missed that a tensor stays behind in kept"
    assert shrunk(STRAY, 1, missed) == SMALLEST


def test_a_false_alarm_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = programs.findings(STRAY)
    monkeypatch.setattr(programs, "findings", lambda text: findings)
    (wrong,) = disagreements(STRAY.replace("torch.zeros(3)", "nn.Linear(3, 3)"), 1)
    assert wrong == Disagreement(13, "kept", frozenset({"unregistered-tensor"}), frozenset())
    assert str(wrong) == "line 13: unregistered-tensor, but nothing stays behind in kept"


def test_shrinking_keeps_what_is_wanted() -> None:
    assert smallest("a = 1\nif a:\n    b = 2\n    c = 3\n", lambda text: "b = 2" in text) == "b = 2\n"
