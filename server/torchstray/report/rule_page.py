"""The page of a rule, in Markdown, from its docstring and its examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchstray.config import NOTICES
from torchstray.rules.rule import Rule

# In the package, or beside it in a checkout of the repository.
_FOLDERS = tuple(Path(__file__).parents[level] / "docs" / "rules" for level in (1, 3))
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_SOFT_BREAK = re.compile(r"(?<=\S)\n {0,3}(?!\s|- )")


def render(rule: Rule) -> str:
    """Return the whole page."""
    return "\n\n".join(_paragraphs(rule)) + "\n"


def file(rule: str) -> Path | None:
    """Return the Markdown page of the rule of this name; None where it has none, or the pages are not installed."""
    return next((page for folder in _FOLDERS if (page := folder / f"{rule}.md").is_file()), None)


def summary(rule: Rule) -> str:
    """Return what a rule is about and why that matters, in Markdown, each paragraph on a line: editors break lines."""
    _, *parts = _SECTION.split(inspect.getdoc(rule) or "")
    why = dict(zip(parts[::2], parts[1::2], strict=True))["Why it matters"]
    return f"**{rule.name}**: {rule.summary}\n\n{_SOFT_BREAK.sub(' ', why.strip())}\n"


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
