"""What a repair changes, as a unified diff."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click


def render(name: str, before: str, after: str, colour: bool) -> Iterator[str]:
    """Yield the lines of the diff, line ends included; they are those of the file, so that `patch` takes it."""
    import difflib

    for line in difflib.unified_diff(_lines(before), _lines(after), name, name):
        text = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        yield click.style(text, fg=_COLOURS.get(line[0])) if colour and line[0] in _COLOURS else text


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def _lines(text: str) -> list[str]:
    """Cut where diffs are cut, at LF alone."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
