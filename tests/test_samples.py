"""The samples have the mistakes that they are to show, and their repaired counterparts none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.torch_confirmation import observe

SAMPLES = Path(__file__).parent.parent / "samples"
MISTAKES = {
    "layer_stack.py": ("unregistered-module", "self.linears"),
    "smoothing.py": ("unregistered-tensor", "self.k"),
    "task_weights.py": ("unregistered-parameter", "self.sigmas"),
    "two_stages.py": ("layer-in-forward", "SecondStage()"),
}
# How each model is built, and what it is called with.
RUNS = {
    "layer_stack.py": ("LayerStack()", "(torch.ones(4, 10),)"),
    "smoothing.py": ("Smoothing()", "(torch.ones(2, 1, 30),)"),
    "task_weights.py": ("TwoTaskLoss()", "(torch.tensor(0.5), torch.tensor(2.0))"),
    "two_stages.py": ("FirstStage()", "(torch.ones(1, 3, 16, 16),)"),
}


def check(*arguments: str) -> str:
    command = [sys.executable, "-m", "torchstray", "check", "--isolated", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stdout


def test_each_sample_has_its_mistake_and_no_other() -> None:
    found = {}
    for finding in json.loads(check("--output-format", "json", str(SAMPLES))):
        file = Path(finding["filename"])
        start, end = finding["location"], finding["end_location"]
        line = file.read_text(encoding="utf-8").splitlines()[start["row"] - 1]
        assert file.parent == SAMPLES and file.name not in found
        found[file.name] = (finding["code"], line[start["column"] - 1 : end["column"] - 1])
    assert found == MISTAKES


def test_the_repaired_samples_are_what_the_repairs_make_of_them(tmp_path: Path) -> None:
    for name in MISTAKES:
        shutil.copy(SAMPLES / name, tmp_path)
    check("--fix", "--unsafe-fixes", str(tmp_path))
    for name in MISTAKES:
        repaired = SAMPLES / "repaired" / name
        assert (tmp_path / name).read_text(encoding="utf-8") == repaired.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MISTAKES)
def test_torch_confirms_the_mistake_and_the_repair(name: str) -> None:
    assert observe((SAMPLES / name).read_text(encoding="utf-8"), *RUNS[name]).faults
    assert observe((SAMPLES / "repaired" / name).read_text(encoding="utf-8"), *RUNS[name]).faults == ()
