"""Comments that silence findings.

`# torchstray: ignore[rule, rule]` silences these rules on its line, `# torchstray: ignore` all of them: the findings
whose range touches the line, and those in a statement over several lines that ends on it. `# torchstray: ignore-file`,
with or without rules, does so for the whole file; it stands on a line of its own, not indented.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from torchstray.config import NOTICES, did_you_mean, rule_names
from torchstray.rules.rule import Finding, Fix, Severity
from torchstray.syntax.document import Document, Statement
from torchstray.syntax.splitter import logical_lines
from torchstray.text.edits import Edit, Span

_SUPPRESSION = re.compile(r"#[ \t]*torchstray:[ \t]*(ignore(?:-file)?)(?![\w-])[ \t]*(?:\[([^\[\]\r\n]*)\]|(?!\[))")

# What a `#` can stand in without starting a comment, and comments.
_STRING_OR_COMMENT = re.compile(
    r"""(?P<comment>\#[^\r\n]*)
    | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}
    | \"(?:[^\"\\\r\n]|\\(?:\r\n|.))*\" | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'""",
    re.DOTALL | re.VERBOSE,
)
_REST = re.compile(r"[^\r\n#]*")
_LINE_END = re.compile(r"\r\n|\r|\n|")


@dataclass
class _Suppression:
    """One comment (0-based offsets). `rules` is None where it silences all of them; `line` spans the logical line."""

    span: Span
    line: Span
    whole_file: bool
    rules: tuple[str, ...] | None
    used: set[str] = field(default_factory=set)

    def names(self, rule: str) -> bool:
        """Whether the comment is about `rule`; what does not parse has to be named, or its whole file ignored."""
        if self.rules is None:
            return self.whole_file or rule not in NOTICES
        return rule in self.rules


class Suppressions:
    """The suppression comments of one document, and which of them have silenced something."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._comments = list(_suppressions(document))

    def silence(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that no comment silences."""
        if not self._comments:
            return list(findings)
        return [finding for finding in findings if not self._silent(finding)]

    def unused(self, checked: Collection[str]) -> list[Finding]:
        """Return a finding for each comment, or name in one, that has silenced nothing although its rule was checked.

        To be asked after `silence`.
        """
        found = [self._unused(comment, checked) for comment in self._comments]
        return [finding for finding in found if finding is not None]

    def _silent(self, finding: Finding) -> bool:
        silent = False
        for comment in self._comments:
            if comment.names(finding.rule) and (comment.whole_file or self._covers(comment, finding.span)):
                comment.used.add(finding.rule)
                silent = True
        return silent

    def _covers(self, comment: _Suppression, span: Span) -> bool:
        row = self._row(comment.span.start)
        if self._row(span.start) <= row <= self._row(max(span.start, span.end - 1)):
            return True
        ends_here = self._row(comment.line.end) == row
        return ends_here and comment.line.start <= span.start < comment.line.end

    def _row(self, offset: int) -> int:
        return self._document.lines.position(offset)[0]

    def _unused(self, comment: _Suppression, checked: Collection[str]) -> Finding | None:
        text = self._document.text
        if comment.rules is None:
            if comment.used or not set(rule_names()) <= set(checked):
                return None
            kept: list[str] = []
            message = "This comment silences nothing; remove it."
        else:
            unknown = [name for name in comment.rules if name not in rule_names() and name not in NOTICES]
            idle = [n for n in comment.rules if n not in comment.used and (n in checked or n in unknown)]
            kept = [name for name in comment.rules if name not in idle]
            if comment.rules and not idle:
                return None
            message = f"This comment silences nothing{_of(idle)}; remove {_what(idle) if kept else 'it'}."
            if unknown:
                message = f"There is no rule `{unknown[0]}`{did_you_mean(unknown[0], rule_names()) or '.'}"
        if kept:
            what = "ignore-file" if comment.whole_file else "ignore"
            edit = Edit(comment.span.start, comment.span.end, f"# torchstray: {what}[{', '.join(kept)}]")
        else:
            edit = _removal(text, comment.span)
        fix = Fix("Remove what silences nothing", True, (edit,))
        return Finding("unused-suppression", Severity.WARNING, message, comment.span, fixes=(fix,), unnecessary=True)


def suppress(document: Document, finding: Finding) -> Edit | None:
    """Return the edit that silences a finding of `document` by a comment on one of its lines, or on the last line of
    its statement; None where no comment can: of what does not parse, and where no line of it has room for one.

    A comment that already silences other rules there gets one more name; any other is kept, with ours behind it.
    """
    if finding.rule in NOTICES:
        return None
    comments = list(_suppressions(document))
    for row in _rows(document, finding.span):
        for comment in comments:
            here = document.lines.position(comment.span.start)[0] == row
            if here and not comment.whole_file and comment.rules is not None:
                return _named(document.text, comment, finding.rule)
        line = document.lines.line(row)
        end = document.lines.offset(row, len(line) + 1)
        start = end - len(line) + len(line.rstrip(" \t"))
        if _has_room(document, start):
            return Edit(start, end, f"  # torchstray: ignore[{finding.rule}]")
    return None


def _rows(document: Document, span: Span) -> list[int]:
    """The rows whose comments count for a finding: its own, and then the last one of its statement."""
    first, last = (document.lines.position(offset)[0] for offset in (span.start, max(span.start, span.end - 1)))
    line = _line_at(document, span.start)
    ends = [document.lines.position(line.end)[0]] if line is not None else []
    return list(dict.fromkeys([*range(first, last + 1), *ends]))


def _line_at(document: Document, offset: int) -> Span | None:
    """The logical line that holds an offset; None where there is only white space or a comment of its own."""
    index = bisect_right([statement.start for statement in document.statements], offset) - 1
    return next((line for line in _logical_lines(document.statements[index]) if line.start <= offset < line.end), None)


def _has_room(document: Document, end: int) -> bool:
    """Whether a comment can stand behind what ends a row: not in a string, and not behind a backslash."""
    line = _line_at(document, end - 1)
    if line is None:
        return False
    token = _token_at(document.text, line, end - 1)
    if token is None:
        return document.text[end - 1] != "\\"
    return token["comment"] is not None or token.end() == end


def _named(text: str, comment: _Suppression, rule: str) -> Edit:
    """Add a name to those in the brackets of a comment."""
    closing = comment.span.end - 1
    start = len(text[:closing].rstrip(" \t,"))
    return Edit(start, closing, f", {rule}" if comment.rules else rule)


def _what(names: Sequence[str]) -> str:
    return "the name" if len(names) == 1 else "the names"


def _of(names: Sequence[str]) -> str:
    return " of " + ", ".join(f"`{name}`" for name in names) if names else ""


def _removal(text: str, comment: Span) -> Edit:
    """Take the comment out, up to a further comment behind it; with its whole line where nothing else stands on it."""
    line = max(text.rfind("\n", 0, comment.start), text.rfind("\r", 0, comment.start)) + 1
    stop = _REST.match(text, comment.end).end()  # type: ignore[union-attr]  # it matches the empty text too
    if text[stop : stop + 1] == "#":
        return Edit(comment.start, stop, "")
    start = line + len(text[line : comment.start].rstrip(" \t"))
    if start == line:
        stop = _LINE_END.match(text, stop).end()  # type: ignore[union-attr]
    return Edit(start, stop, "")


def _suppressions(document: Document) -> Iterator[_Suppression]:
    """Find the comments by their words, and only then read the statements that hold them."""
    starts = [statement.start for statement in document.statements]
    lines: dict[int, list[Span]] = {}
    for match in _SUPPRESSION.finditer(document.text):
        start = match.start()
        index = bisect_right(starts, start) - 1
        if index not in lines:
            lines[index] = list(_logical_lines(document.statements[index]))
        # Between the logical lines there is nothing but comments.
        line = next((line for line in lines[index] if line.start <= start < line.end), Span(*match.span()))
        if _in_comment(document.text, line, start):
            whole_file = match[1] == "ignore-file"
            if not whole_file or document.lines.position(start)[1] == 1:
                yield _Suppression(Span(*match.span()), line, whole_file, _names(match[2]))


def _logical_lines(statement: Statement) -> Iterator[Span]:
    for line in logical_lines(statement.text):
        yield Span(statement.start + line.word, statement.start + line.end)


def _in_comment(text: str, line: Span, offset: int) -> bool:
    token = _token_at(text, line, offset)
    return token is not None and token["comment"] is not None


def _token_at(text: str, line: Span, offset: int) -> re.Match[str] | None:
    """The string or comment of a logical line that holds an offset."""
    tokens = _STRING_OR_COMMENT.finditer(text, line.start, line.end)
    return next((token for token in tokens if token.start() <= offset < token.end()), None)


def _names(listed: str | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(name for name in re.split(r"[\s,]+", listed) if name)
