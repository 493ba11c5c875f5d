"""The page of a rule, in Markdown, from its docstring and its examples."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

from torchstray.config import NOTICES
from torchstray.rules.rule import Rule


def render(rule: Rule) -> str:
    """Return the whole page."""
    return "\n\n".join(_paragraphs(rule)) + "\n"


def _paragraphs(rule: Rule) -> Iterator[str]:
    yield f"# {rule.name}"
    yield rule.summary
    repaired = any(example.repaired is not None for example in rule.bad)
    yield f"Severity: {rule.severity.label}. {'There is a repair.' if repaired else 'There is no repair.'}"
    yield inspect.getdoc(rule) or ""
    yield "## More examples"
    for bad in rule.bad:
        yield "Reported:"
        yield _code(bad.code.replace("«", "").replace("»", ""))
        yield from bad.messages
        if bad.repaired is not None:
            yield "Repaired:"
            yield _code(bad.repaired)
    for good in rule.good:
        yield f"Not reported: {good.why}"
        yield _code(good.code)


def _code(text: str) -> str:
    return f"```python\n{text.strip(chr(10))}\n```"


def overview(rules: Sequence[Rule]) -> Iterator[str]:
    """Yield a line for each rule, and for what is reported besides."""
    summaries = {rule.name: rule.summary for rule in rules} | NOTICES
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        yield f"{name:<{width}}  {summary}"
