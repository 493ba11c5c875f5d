"""What the one way in says of a text that no file can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchstray.check import check
from torchstray.config import Configuration
from torchstray.rules.rule import Severity
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document
from torchstray.text.edits import Span

DOCUMENT = Document("import torch\nx = 'a\0b'\n")
ROOT = Path("/project")


def test_a_nul_is_said_to_be_no_python() -> None:
    (finding,) = check(DOCUMENT, Project(), Configuration(ROOT))
    assert (finding.rule, finding.severity) == ("unreadable-file", Severity.ERROR)
    assert finding.span == Span(19, 20)
    assert DOCUMENT.text[19] == "\0"


@pytest.mark.parametrize(
    ("configuration", "severities"),
    [
        (Configuration(ROOT, ignore=frozenset({"unreadable-file"})), []),
        (Configuration(ROOT, severity={"unreadable-file": Severity.HINT}), [Severity.HINT]),
    ],
)
def test_it_is_as_loud_as_configured(configuration: Configuration, severities: list[Severity]) -> None:
    assert [finding.severity for finding in check(DOCUMENT, Project(), configuration)] == severities
