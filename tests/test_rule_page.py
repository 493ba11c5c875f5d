"""The page of a rule as a file, and as the short text of a hover."""

from __future__ import annotations

import pytest

from torchstray.report import rule_page
from torchstray.rules import all_rules
from torchstray.rules.rule import Rule

RULES = [pytest.param(rule, id=rule.name) for rule in all_rules()]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_page(rule: Rule) -> None:
    page = rule_page.file(rule.name)
    assert page is not None
    assert page.read_text("utf-8").endswith(rule_page.render(rule))


def test_what_is_no_rule_has_none() -> None:
    assert rule_page.file("syntax-error") is None


@pytest.mark.parametrize("rule", RULES)
def test_the_summary_says_what_and_why(rule: Rule) -> None:
    first, *rest = rule_page.summary(rule).split("\n\n")
    assert first == f"**{rule.name}**: {rule.summary}"
    assert rest
    assert "## " not in "".join(rest)
    assert "```" not in "".join(rest)
    words = " ".join(rule_page.render(rule).split())
    assert all(" ".join(part.split()) in words for part in rest if not part.startswith("**"))


@pytest.mark.parametrize("rule", RULES)
def test_the_summary_has_no_line_breaks_but_those_that_mean_something(rule: Rule) -> None:
    for paragraph in rule_page.summary(rule).rstrip("\n").split("\n\n"):
        for line in paragraph.split("\n")[1:]:
            assert line.startswith(("- ", "    "))


def test_the_summary_keeps_what_is_indented() -> None:
    (rule,) = [rule for rule in all_rules() if rule.name == "before-super-init"]
    assert (
        "\n\n    AttributeError: cannot assign module before Module.__init__() call\n"
        "    AttributeError: cannot assign parameters before Module.__init__() call\n"
    ) in rule_page.summary(rule)
