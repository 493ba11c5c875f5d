"""Findings with the lines they are about, for reading on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click

from torchstray.report import FileFindings
from torchstray.rules.rule import Finding, Fix, Severity
from torchstray.text.edits import Span
from torchstray.text.lines import Lines

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}
_TAB = 4
_MOST_ROWS = 5
_MOST_COLUMNS = 160
_SOME_COLUMNS = 40


@dataclass(frozen=True)
class _Mark:
    """A range to underline, and what to say beside it."""

    span: Span
    sign: str
    words: str
    colour: str


def render(files: Iterable[FileFindings], colour: bool) -> Iterator[str]:
    """Yield the lines of the report; rows and columns (in characters) count from 1."""
    for file in files:
        for finding in file.findings:
            for line in _finding(file, finding):
                yield line if colour else click.unstyle(line)


def _finding(file: FileFindings, finding: Finding) -> Iterator[str]:
    row, column = file.lines.position(finding.span.start)
    loudness = click.style(finding.severity.label, fg=_COLOURS[finding.severity], bold=True)
    rule = click.style(finding.rule, bold=True)
    yield f"{click.style(f'{file.shown_path}:{row}:{column}', bold=True)}: {loudness} {rule}"
    yield f"  {finding.message}"
    if file.text:
        marks = [_Mark(finding.span, "^", "", _COLOURS[finding.severity])]
        marks += [_Mark(related.span, "-", related.message, "blue") for related in finding.related]
        yield from _source(file.lines, marks)
    for how, fix in _repairs(finding):
        yield f"  {click.style('help', fg='green')}: {fix.title} ({how})"
    yield ""


def _repairs(finding: Finding) -> Iterator[tuple[str, Fix]]:
    """Yield the fixes that the command line can make, each with the options that make it."""
    from torchstray.repair import choose

    safe, preferred = choose(finding, unsafe=False), choose(finding, unsafe=True)
    if preferred is not None and preferred != safe:
        yield "--fix --unsafe-fixes", preferred
    if safe is not None:
        yield "--fix", safe


def _source(lines: Lines, marks: list[_Mark]) -> Iterator[str]:
    """Yield the lines of all marks, each underlined."""
    width = max(4, *(len(str(lines.position(mark.span.end)[0])) for mark in marks))
    bar = click.style("|", fg="blue")
    for mark in marks:
        (first, start), (last, end) = lines.position(mark.span.start), lines.position(mark.span.end)
        rows = range(first, last + 1)
        shown = [*rows] if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS - 2], rows[-1]]
        previous = first
        for row in shown:
            if row > previous + 1:
                yield f"  {'...':>{width}}"
            previous = row
            line = lines.line(row)
            indent = len(line) - len(line.lstrip())
            left = start - 1 if row == first else indent
            right = end - 1 if row == last else len(line.rstrip())
            text, before, underlined = _fitted(line, left, max(right, left))
            words = f" {mark.words}" if mark.words and row == shown[-1] else ""
            yield f"  {click.style(f'{row:>{width}}', fg='blue')} {bar} {text}".rstrip()
            underline = click.style(mark.sign * max(underlined, 1) + words, fg=mark.colour)
            yield f"  {'':>{width}} {bar} {' ' * before}{underline}"


def _fitted(line: str, left: int, right: int) -> tuple[str, int, int]:
    """Return a line as it can be shown, and the widths before and of its characters from `left` up to `right`."""
    head, tail = "", ""
    if len(line) > _MOST_COLUMNS:
        start = max(0, left - _SOME_COLUMNS)
        stop = start + _MOST_COLUMNS
        head, tail = "…" if start else "", "…" if stop < len(line) else ""
        line, left, right = line[start:stop], left - start, min(right, stop) - start
    before = head + _visible(line[:left])
    middle = _visible(line[left:right], len(before))
    shown = before + middle
    shown += _visible(line[right:], len(shown)) + tail
    return shown, _width(before), _width(middle)


def _visible(text: str, column: int = 0) -> str:
    """Return `text`, which starts at `column`, with spaces for tabs and a picture for any other control character."""
    shown = []
    for character in text:
        if character == "\t":
            character = " " * (_TAB - column % _TAB)
        elif character < " " or character == "\x7f":
            character = chr(0x2400 + ord(character)) if character < " " else "\u2421"
        elif not character.isprintable():
            character = "\ufffd"
        shown.append(character)
        column += len(character)
    return "".join(shown)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
