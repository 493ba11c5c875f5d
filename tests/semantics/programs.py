"""Small programs that say in comments what must be found in them."""

from __future__ import annotations

import re
import textwrap

from torchstray.rules import all_rules, run
from torchstray.rules.rule import Finding, Severity
from torchstray.semantics.model import FileModel
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
RULES = [rule.name for rule in all_rules()]
SEVERITIES = {
    "expect": {Severity.WARNING, Severity.ERROR},
    "error": {Severity.ERROR},
    "warning": {Severity.WARNING},
    "hint": {Severity.HINT},
}
"""The severities that a mark allows: `# expect: rule` leaves open how loud the finding is, short of a hint."""

_MARK = re.compile(rf"# ({'|'.join(SEVERITIES)}): ([a-z-]+)")


def module(build: str, forward: str = "return x", *, methods: str = "", before: str = "") -> str:
    """A program with one module class: `build` goes on with `__init__`, `before` stands above the class."""
    parts = [
        IMPORTS,
        textwrap.dedent(before),
        "class Net(nn.Module):\n    def __init__(self, size, count):\n        super().__init__()\n",
        textwrap.indent(textwrap.dedent(build).strip("\n") + "\n", " " * 8),
        "    def forward(self, x):\n",
        textwrap.indent(textwrap.dedent(forward).strip("\n") + "\n", " " * 8),
        textwrap.indent(textwrap.dedent(methods), " " * 4),
    ]
    return "".join(parts)


def script(code: str) -> str:
    """A program of the usual imports and `code`."""
    return IMPORTS + textwrap.dedent(code)


def findings(code: str) -> list[Finding]:
    """All that the rules find in a program, in the order of the text."""
    return sorted(run(Document(code), Project(), RULES), key=lambda finding: (finding.span, finding.rule))


def the_finding(code: str) -> Finding:
    """The only finding of a program."""
    (finding,) = findings(code)
    return finding


def model_of(code: str) -> FileModel:
    """What is known of a program."""
    return FileModel(Document(code), Project())


def assert_marked(code: str) -> None:
    """Assert that exactly what the marks of a program say is found in it."""
    compile(code, "<program>", "exec")
    assert Document(code).problems == ()
    assert_found(code)


def assert_found(code: str) -> None:
    """Assert the same of a program that is too deep to be read as a whole."""
    marks = [(row, mark[1], mark[2]) for row, line in enumerate(code.splitlines(), 1) for mark in _MARK.finditer(line)]
    lines = Document(code).lines
    found = []
    for finding in findings(code):
        row, _ = lines.position(finding.span.start)
        marked = {word for at, word, rule in marks if (at, rule) == (row, finding.rule)}
        agreed = [word for word in marked if finding.severity in SEVERITIES[word]]
        found.append((row, agreed[0] if agreed else finding.severity.label, finding.rule))
    assert sorted(found) == sorted((row, word, rule) for row, word, rule in marks), code
