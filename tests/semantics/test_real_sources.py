"""The rules get through the sources of torch itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from torchstray.rules import all_rules, run
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document

PACKAGES = ("nn", "optim", "distributions", "ao/nn")
NAMES = [rule.name for rule in all_rules()]


def sources() -> list[Path]:
    """The files of the installed torch."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    return sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))


FILES = sources()


def test_there_are_sources() -> None:
    assert len(FILES) > 100


@pytest.mark.parametrize("file", [pytest.param(file, id="/".join(file.parts[-3:])) for file in FILES])
def test_rules_get_through(file: Path) -> None:
    document = Document(file.read_text("utf-8"))
    for finding in run(document, Project(), NAMES):
        assert 0 <= finding.span.start < finding.span.end <= len(document.text)
        assert finding.rule in NAMES
        for fix in finding.fixes:
            assert all(0 <= edit.start <= edit.end <= len(document.text) for edit in fix.edits)
