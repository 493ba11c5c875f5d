"""Runs the real command line in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torchstray

Run = Callable[..., subprocess.CompletedProcess[str]]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.zeros(3)

    def forward(self, x):
        return x + self.k
"""

REPAIRED = MODEL.replace("self.k = torch.zeros(3)", 'self.register_buffer("k", torch.zeros(3), persistent=False)')

UNSAFE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3) for _ in range(2)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which the package is found from every folder."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TORCHSTRAY_LOG")}
    return {**kept, "PYTHONPATH": str(Path(torchstray.__file__).parents[1]), "PYTHONIOENCODING": "utf-8", **more}


@pytest.fixture
def torchstray_(tmp_path: Path) -> Run:
    """Run `torchstray` with these arguments in the test's folder; `stdin` is what it reads."""

    def run(*arguments: str | Path, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "torchstray", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=environment(**more),
            timeout=120,
            check=False,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in out + err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run
