"""The checks of the project; `nox` runs all of them, `nox -s NAME` one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = False  # smoke skips them, and says so
nox.options.error_on_external_run = True

PROJECT = nox.project.load_toml("pyproject.toml")
# What the wheel promises; the other sessions run on the Python that runs nox.
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
SAMPLE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.zeros(3)

    def forward(self, x):
        return x + self.k
"""


def group(name: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of pyproject.toml."""
    return nox.project.dependency_groups(PROJECT, name)


@nox.session
def lint(session: nox.Session) -> None:
    """Linter, formatter, type checker, and whether what is generated is up to date."""
    session.install("-e", ".", *group("lint"), *group("test"), *group("nox"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("python", "scripts/generate_torch_api.py", "--check")
    session.run("python", "scripts/generate_docs.py", "--check")
    session.run("python", "scripts/generate_settings.py", "--check")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests, with the pinned torch."""
    session.install(".", *group("test"))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS)
def smoke(session: nox.Session) -> None:
    """The wheel, installed alone and without torch, finds and repairs a mistake."""
    wheels = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), ".")
    (wheel,) = wheels.glob("*.whl")
    session.install(str(wheel))
    version = session.run("torchstray", "--version", silent=True)
    sample = wheels / "sample.py"
    sample.write_text(SAMPLE, encoding="utf-8")
    check = ["torchstray", "check", "--isolated"]
    output = session.run(*check, "--output-format", "json", str(sample), success_codes=[1], silent=True)
    session.run(*check, "--fix", str(sample))
    found = [(finding["code"], finding["location"]["row"]) for finding in json.loads(str(output))]
    if found != [("unregistered-tensor", 8)] or "register_buffer" not in sample.read_text(encoding="utf-8"):
        session.error(f"the sample gave {found} and was repaired to {sample.read_text(encoding='utf-8')}")
    session.log(f"{str(version).strip()} finds and repairs the sample")
