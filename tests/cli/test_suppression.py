"""Comments that silence findings, and those that silence nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from torchstray.check import check
from torchstray.config import Configuration
from torchstray.repair import repair
from torchstray.rules import all_rules
from torchstray.rules.rule import Finding, Rule
from torchstray.semantics.project import Project
from torchstray.suppression import suppress
from torchstray.syntax.document import Document
from torchstray.text.edits import Edit, apply_edits

from .conftest import MODEL, Run

STATEMENT = "        self.k = torch.zeros(3)"
TENSOR = "unregistered-tensor"


def _with(statement: str) -> str:
    return MODEL.replace(STATEMENT, statement)


def _check(text: str, *, unused: bool = False, ignore: frozenset[str] = frozenset()) -> list[Finding]:
    configuration = Configuration(Path.cwd(), ignore=ignore, report_unused_suppressions=unused)
    return check(Document(text), Project(), configuration)


def _codes(text: str, *, unused: bool = False) -> list[str]:
    return [finding.rule for finding in _check(text, unused=unused)]


@pytest.mark.parametrize(
    "comment",
    [
        "# torchstray: ignore",
        "#torchstray:ignore",
        f"# torchstray: ignore[{TENSOR}]",
        f"# torchstray: ignore [ {TENSOR} ]",
        f"# torchstray: ignore[discarded-move, {TENSOR}]",
        f"# torchstray: ignore[{TENSOR}] moved by hand",
        f"# noqa # torchstray: ignore[{TENSOR}]",
    ],
)
def test_a_comment_on_the_line_silences(comment: str) -> None:
    assert _codes(_with(f"{STATEMENT}  {comment}")) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# torchstray: ignored",
        "# torchstray: ignore[discarded-move]",
        "# torchstray: ignore[]",
        f"# torchstray: ignore[{TENSOR}",
        "# torchstray ignore",
        "# torchstray: ignore-file",
        f"; self.s = '# torchstray: ignore[{TENSOR}]'",
        f'; self.s = f"{{x}} # torchstray: ignore[{TENSOR}]"',
    ],
)
def test_what_is_no_such_comment_does_not(comment: str) -> None:
    assert _codes(_with(f"{STATEMENT}  {comment}")) == [TENSOR]


def test_the_lines_around_do_not_count() -> None:
    comment = "        # torchstray: ignore"
    assert _codes(_with(f"{comment}\n{STATEMENT}\n{comment}\n        self.n = 1  {comment}")) == [TENSOR]


def test_in_a_statement_over_several_lines_its_last_line_counts() -> None:
    def written(first: str = "", inner: str = "", last: str = "") -> str:
        return _with(f"        self.k = torch.zeros({first}\n            3,{inner}\n        ){last}")

    comment = f"  # torchstray: ignore[{TENSOR}]"
    assert _codes(written()) == [TENSOR]
    assert _codes(written(first=comment)) == []
    assert _codes(written(last=comment)) == []
    assert _codes(written(inner=comment)) == [TENSOR]


def test_after_a_string_over_several_lines() -> None:
    text = _with(f'{STATEMENT}; self.s = """\n  # torchstray: ignore\n"""')
    assert _codes(text) == [TENSOR]
    assert _codes(text.replace('"""\n\n', '"""  # torchstray: ignore\n\n')) == []


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_line_ends(newline: str) -> None:
    text = _with(f"{STATEMENT}  # torchstray: ignore[{TENSOR}]\n        self.j = torch.ones(3)")
    text = text.replace("x + self.k", "x + self.k + self.j").replace("\n", newline)
    assert [text[finding.span.start : finding.span.end] for finding in _check(text)] == ["self.j"]


@pytest.mark.parametrize(
    ("line", "silent"),
    [
        ("# torchstray: ignore-file", True),
        (f"# torchstray: ignore-file[{TENSOR}]", True),
        ("# torchstray: ignore-file[discarded-move]", False),
        ("x = 1  # torchstray: ignore-file", False),
        ('"""\n# torchstray: ignore-file\n"""', False),
    ],
)
def test_the_whole_file(line: str, silent: bool) -> None:
    for text in (f"{line}\n{MODEL}", f"{MODEL}\n\n{line}\n"):
        assert _codes(text) == ([] if silent else [TENSOR])


def test_a_syntax_error_has_to_be_named() -> None:
    broken = "def broken(:  # torchstray: ignore{}\n    pass\n"
    assert _codes(broken.format("")) == ["syntax-error"]
    assert _codes(broken.format("[syntax-error]")) == []
    assert _codes("# torchstray: ignore-file\n" + broken.format("")) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "x = 1  # torchstray: ignore[discarded-move]",
            "x = 1",
            "This comment silences nothing of `discarded-move`; remove it.",
        ),
        ("x = 1  # torchstray: ignore", "x = 1", "This comment silences nothing; remove it."),
        ("x = 1  # torchstray: ignore because", "x = 1", "This comment silences nothing; remove it."),
        ("x = 1  # torchstray: ignore # noqa", "x = 1  # noqa", "This comment silences nothing; remove it."),
        ("x = 1  # noqa # torchstray: ignore", "x = 1  # noqa", "This comment silences nothing; remove it."),
        ("# torchstray: ignore-file[discarded-move]\nx = 1", "x = 1", None),
        (
            "x = 1  # torchstray: ignore[discardedmove]",
            "x = 1",
            "There is no rule `discardedmove`; did you mean `discarded-move`?",
        ),
    ],
)
def test_unused_comments_are_reported_on_request_and_removed(before: str, after: str, message: str | None) -> None:
    text = f"{before}\n{MODEL}"
    assert _codes(text) == [TENSOR]
    found = [finding for finding in _check(text, unused=True) if finding.rule == "unused-suppression"]
    assert len(found) == 1
    if message is not None:
        assert found[0].message == message
    repaired = repair(
        Document(text),
        lambda document: [f for f in check(document, Project(), UNUSED) if f.rule != TENSOR],
        unsafe=False,
    )
    assert repaired.document.text == f"{after}\n{MODEL}"


UNUSED = Configuration(Path.cwd(), report_unused_suppressions=True)


def test_only_the_unused_names_are_removed() -> None:
    text = _with(f"{STATEMENT}  # torchstray: ignore[discarded-move, {TENSOR}, unregistered-module]")
    (found,) = _check(text, unused=True)
    assert found.message == (
        "This comment silences nothing of `discarded-move`, `unregistered-module`; remove the names."
    )
    repaired = repair(Document(text), lambda document: check(document, Project(), UNUSED), unsafe=False)
    assert repaired.document.text == _with(f"{STATEMENT}  # torchstray: ignore[{TENSOR}]")


def test_what_was_not_checked_is_not_called_unused() -> None:
    text = "import torch\nx = 1  # torchstray: ignore[discarded-move]\ny = 1  # torchstray: ignore\n"
    assert len(_check(text, unused=True)) == 2
    assert _check(text, unused=True, ignore=frozenset({"discarded-move"})) == []
    broken = "def broken(:\n    pass\n"
    assert [finding.rule for finding in _check(text + broken, unused=True)] == ["syntax-error"]


def test_used_comments_are_not_reported() -> None:
    for comment in ("# torchstray: ignore", f"# torchstray: ignore[{TENSOR}]"):
        assert _codes(_with(f"{STATEMENT}  {comment}"), unused=True) == []


def test_on_the_command_line_and_in_the_configuration(torchstray_: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import torch\nx = 1  # torchstray: ignore\n")
    assert torchstray_("check").returncode == 0
    done = torchstray_("check", "--report-unused-suppressions", "--output-format", "concise")
    assert done.stdout.startswith("m.py:2:8: warning unused-suppression ")
    assert done.returncode == 1
    (tmp_path / "pyproject.toml").write_text("[tool.torchstray]\nreport-unused-suppressions = true\n")
    assert torchstray_("check").returncode == 1
    assert torchstray_("check", "--fix").returncode == 0
    assert (tmp_path / "m.py").read_text() == "import torch\nx = 1\n"


def _suppressed(text: str, rule: str = TENSOR) -> str | None:
    """The text once the first finding of a rule is suppressed; None where that cannot be."""
    finding = next(finding for finding in _check(text) if finding.rule == rule)
    edit = suppress(Document(text), finding)
    return None if edit is None else apply_edits(text, [edit])


@pytest.mark.parametrize(
    ("statement", "suppressed"),
    [
        (STATEMENT, f"{STATEMENT}  # torchstray: ignore[{TENSOR}]"),
        (f"{STATEMENT} \t", f"{STATEMENT}  # torchstray: ignore[{TENSOR}]"),
        (f"{STATEMENT}  # three", f"{STATEMENT}  # three  # torchstray: ignore[{TENSOR}]"),
        (f"{STATEMENT};", f"{STATEMENT};  # torchstray: ignore[{TENSOR}]"),
        (f"{STATEMENT}; self.n = '#'", f"{STATEMENT}; self.n = '#'  # torchstray: ignore[{TENSOR}]"),
        (
            f"{STATEMENT}  # torchstray: ignored",
            f"{STATEMENT}  # torchstray: ignored  # torchstray: ignore[{TENSOR}]",
        ),
        (
            f"{STATEMENT}  # torchstray: ignore[discarded-move] # noqa",
            f"{STATEMENT}  # torchstray: ignore[discarded-move, {TENSOR}] # noqa",
        ),
        (f"{STATEMENT}  # torchstray: ignore[a, b, ]", f"{STATEMENT}  # torchstray: ignore[a, b, {TENSOR}]"),
        (f"{STATEMENT}  # torchstray: ignore[]", f"{STATEMENT}  # torchstray: ignore[{TENSOR}]"),
        (
            "        self.k = torch.zeros(\n            3\n        )",
            f"        self.k = torch.zeros(  # torchstray: ignore[{TENSOR}]\n            3\n        )",
        ),
        (
            "        self.k = torch.zeros(  # of\n            3\n        )  # torchstray: ignore[a]",
            f"        self.k = torch.zeros(  # of  # torchstray: ignore[{TENSOR}]\n            3\n"
            "        )  # torchstray: ignore[a]",
        ),
        (
            "        self.k = \\\n            torch.zeros(3)",
            f"        self.k = \\\n            torch.zeros(3)  # torchstray: ignore[{TENSOR}]",
        ),
        (
            "        self.k = \\\n            torch.zeros(3)  # torchstray: ignore[a]",
            f"        self.k = \\\n            torch.zeros(3)  # torchstray: ignore[a, {TENSOR}]",
        ),
        (
            f'{STATEMENT}; self.s = """ # torchstray: ignore[a]\n # """',
            f'{STATEMENT}; self.s = """ # torchstray: ignore[a]\n # """  # torchstray: ignore[{TENSOR}]',
        ),
        (
            f'{STATEMENT}; self.s = f"""{{\n 1}}"""',
            f'{STATEMENT}; self.s = f"""{{\n 1}}"""  # torchstray: ignore[{TENSOR}]',
        ),
        (
            f"        if True: {STATEMENT.strip()}",
            f"        if True: {STATEMENT.strip()}  # torchstray: ignore[{TENSOR}]",
        ),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_finding_is_suppressed_by_a_comment(statement: str, suppressed: str, newline: str) -> None:
    text, expected = (_with(one).replace("\n", newline) for one in (statement, suppressed))
    assert _suppressed(text) == expected
    assert _codes(expected) == []


def test_the_last_line_of_a_file_needs_no_line_end() -> None:
    text = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    mean = torch.ones(3)"
    assert _suppressed(text, "class-level-state") == f"{text}  # torchstray: ignore[class-level-state]"


def test_what_does_not_parse_is_not_suppressed() -> None:
    assert _suppressed("def broken(:\n    pass\n", "syntax-error") is None
    broken = f"{MODEL}\ndef broken(:\n"
    assert _suppressed(broken) == broken.replace(STATEMENT, f"{STATEMENT}  # torchstray: ignore[{TENSOR}]")


def test_where_no_comment_can_stand_there_is_none() -> None:
    assert _suppressed(_with(f"{STATEMENT}\\\n")) is None


VARIANTS: dict[str, Callable[[str], str]] = {
    "as it is": lambda code: code,
    "CRLF": lambda code: code.replace("\n", "\r\n"),
    "no line end": lambda code: code.rstrip("\n"),
    "comments": lambda code: code if '"""' in code else code.replace("\n", "  # noqa: E501\n"),
    "suppressions": lambda code: code if '"""' in code else code.replace("\n", "  # torchstray: ignore[other]\n"),
    "continuations": lambda code: code.replace(" = ", " = \\\n"),
    "long calls": lambda code: code.replace("(", "(\n"),
    "half typed": lambda code: code + "\ndef broken(:\n",
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_only_what_is_suppressed_goes(rule: Rule, variant: Callable[[str], str]) -> None:
    for bad in rule.bad:
        text = variant(re.sub("[«»]", "", bad.code))
        found = [finding for finding in _check(text) if finding.rule != "syntax-error"]
        assert found != []
        for finding in found:
            edit = suppress(Document(text), finding)
            assert edit is not None
            after = Document(apply_edits(text, [edit]))
            assert len(after.problems) == len(Document(text).problems)
            left = check(after, Project(), Configuration(Path.cwd()))
            gone = Counter(_moved(one, edit) for one in _check(text))
            gone.subtract((one.rule, one.span.start, one.span.end) for one in left)
            assert gone[_moved(finding, edit)] == 1
            assert {key[0] for key, count in gone.items() if count} == {finding.rule}


def _moved(finding: Finding, edit: Edit) -> tuple[str, int, int]:
    """A finding's rule and place once an edit is made."""
    shift = len(edit.content) - (edit.end - edit.start)
    start, end = finding.span.start, finding.span.end
    return finding.rule, start + shift * (start >= edit.end), end + shift * (end > edit.end)
