"""Cuts Python text at its statements without parsing it, whatever state it is in.

Strings, brackets and comments are skipped by regular expressions. What was never closed does not run on to the end of
the text: no bracket can hold a line that starts like a statement (`class`, `return`, `self.x = ...`), so such a line
ends it. Every pattern here is deterministic: none can be made to backtrack over more than the line it is on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NEWLINE = r"(?:\r\n?|\n)"
_PLAIN = r"[^'\"#\\()\[\]{}\r\n]"
_DEFINITION = rf"(?:(?:@[^\r\n]*{_NEWLINE}[ \t]*){{0,8}}(?:class|def|async[ \t]+def)\b)"
_IMPORT = r"(?:import\b|from[ \t]+[.\w]+[ \t]+import\b)"
# How a line starts that no expression can hold: with a reserved word, or with the assignment of an attribute.
_STATEMENT = (
    rf"(?:{_DEFINITION}|{_IMPORT}"
    r"|(?:assert|break|continue|del|elif|except|finally|global|nonlocal|pass|raise|return|try|while|with)\b"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*)+[ \t]*=(?!=))"
)
# What has no say in where a statement ends; a string is one of these only if it is on one line and has no fields.
_SKIPPED = (
    rf"{_PLAIN}+|\({_PLAIN}*\)|\[{_PLAIN}*\]|\#[^\r\n]*"
    rf"|\\{_NEWLINE}(?!(?:class|def)\b)|(?<![^\r\n])\\{_NEWLINE}|\\[^\r\n]"
    r"|(?<![fFtT])(?<![fFtT][rR])(?:"
    r"\"(?!\"\")[^\"\\\r\n]*(?:\\(?:\r\n|[\s\S])[^\"\\\r\n]*)*\""
    r"|'(?!'')[^'\\\r\n]*(?:\\(?:\r\n|[\s\S])[^'\\\r\n]*)*')"
)
_LINE = re.compile(rf"(?:{_SKIPPED})*")
# A line with the indented, blank and comment lines after it. A form feed sets the column back to 0.
_BLOCK = re.compile(rf"(?:{_SKIPPED}|{_NEWLINE}(?=[ \t#\r\n])(?![ \t]+\f))*")
_BRACKET = re.compile(rf"(?:{_SKIPPED}|{_NEWLINE}(?![ \t\f]*{_STATEMENT}))*")
# The same in a text that is known to have something unclosed: any line at column 0 ends a bracket.
_BRACKET_AT_RISK = re.compile(rf"(?:{_SKIPPED}|{_NEWLINE}(?![ \t\f]*{_STATEMENT}|[^\W\d]|@))*")

_STRING_END = {
    '"': re.compile(r"[^\"\\\r\n]*(?:\\(?:\r\n|[\s\S])[^\"\\\r\n]*)*\""),
    "'": re.compile(r"[^'\\\r\n]*(?:\\(?:\r\n|[\s\S])[^'\\\r\n]*)*'"),
    '"""': re.compile(r"[^\"\\]*(?:(?:\\[\s\S]|\"(?!\"\"))[^\"\\]*)*\"\"\""),
    "'''": re.compile(r"[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*'''"),
}
# f-strings and t-strings: `match` at a quote says whether its string has fields.
_FIELD_STRING = re.compile(r"(?:(?<=[fFtT])|(?<=[fFtT][rR]))['\"]")
_ESCAPED = r"\{\{|\\N\{[^}\r\n]*\}|\\(?=\{)|\\(?:\r\n|[\s\S])"
_FIELD_STRING_TEXT = {
    '"': re.compile(rf"(?:[^{{\\\"\r\n]+|{_ESCAPED})*"),
    "'": re.compile(rf"(?:[^{{\\'\r\n]+|{_ESCAPED})*"),
    '"""': re.compile(rf"(?:[^{{\\\"]+|\"(?!\"\")|{_ESCAPED})*"),
    "'''": re.compile(rf"(?:[^{{\\']+|'(?!'')|{_ESCAPED})*"),
}
_FIELD_PLAIN = re.compile(rf"(?:[^'\"#\\()\[\]{{}}:\r\n]+|\\|\#[^\r\n]*|{_NEWLINE}(?![ \t\f]*{_STATEMENT}))*")
_FORMAT_PLAIN = re.compile(r"[^{}'\"\r\n]*")
_MOST_NESTED_STRINGS = 20
_WORD_AFTER_STRING = re.compile(r"(?!(?:and|as|else|for|if|in|is|not|or)\b)[^\W\d]")
_TO_LINE_END = re.compile(r"[^\r\n]*")
_NEXT_LINE = re.compile(rf"{_NEWLINE}?")

_BLANK_LINES = re.compile(rf"(?:[ \t\f]*(?:#[^\r\n]*)?{_NEWLINE})*(?:[ \t\f]*(?:#[^\r\n]*)?\Z)?")
# A backslash in front of all else hands its line over to the next one, as libcst sees it.
_INDENTATION = re.compile(rf"(?:[ \t\f]|\\{_NEWLINE})*")
_COLUMN_0 = re.compile(r"[\f\r\n]")
_CONTINUATION = re.compile(r"(?:elif|else|except|finally)\b")
_CONTINUED = re.compile(r"(?:if|for|while|try|async)\b")
_DECORATED = re.compile(r"@|(?:class|def|async)\b")
# Where to go on after something unclosed, best first. The line end before it belongs to the match.
_TOP_LEVEL_DEFINITION = re.compile(rf"{_NEWLINE}(?={_DEFINITION}|{_IMPORT})")
_TOP_LEVEL_LINE = re.compile(rf"{_NEWLINE}(?=[^\W\d]|@)")
_INNER_DEFINITION = re.compile(rf"{_NEWLINE}(?=[ \t]*{_DEFINITION}|{_IMPORT})")


class _Unclosed(Exception):
    """A bracket or string that reaches the end of the text."""


def split(text: str) -> list[int]:
    """Return the 0-based offsets at which a module's top-level statements start; the first is always 0.

    A statement reaches up to the start of the next one: the blank lines and comments behind it are its own, those
    before the first statement belong to that. Decorators stay with their `def` or `class`, and `elif`, `else`,
    `except` and `finally` with the statement that they continue. Takes linear time.
    """
    starts: list[int] = []
    at_risk = continued = decorated = False
    position = _end(_BLANK_LINES, text, 0)
    while position < len(text):
        word = _end(_INDENTATION, text, position)
        indented = word > position and text[word - 1] in " \t"
        continues = continued and _CONTINUATION.match(text, word)
        if not (starts and (indented or continues or (decorated and _DECORATED.match(text, word)))):
            starts.append(position)
            continued = _CONTINUED.match(text, word) is not None
        decorated = text.startswith("@", word)
        try:
            position = _line_end(text, word, _BLOCK, at_risk=at_risk)
        except _Unclosed:
            at_risk = True
            position = _first(text, word, _TOP_LEVEL_DEFINITION, _TOP_LEVEL_LINE)
        position = _end(_BLANK_LINES, text, position)
    return [0, *starts[1:]]


@dataclass(frozen=True)
class LogicalLine:
    """A line with the lines that brackets, strings and backslashes add to it, in 0-based offsets.

    `start` is where its first line starts, `word` where its indentation ends, and `end` where the text ends that is
    neither white space nor its line end.
    """

    start: int
    word: int
    end: int
    indentation: str


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """Yield the logical lines of a text, blank ones and comments left out."""
    position = _end(_BLANK_LINES, text, 0)
    while position < len(text):
        word = _end(_INDENTATION, text, position)
        try:
            end = _line_end(text, word, _LINE)
        except _Unclosed:
            end = _first(text, word, _INNER_DEFINITION)
        line = text[word:end].rstrip()
        yield LogicalLine(position, word, word + len(line), _COLUMN_0.split(text[position:word])[-1])
        position = _end(_BLANK_LINES, text, _end(_NEXT_LINE, text, end))


def _line_end(text: str, position: int, plain: re.Pattern[str], *, at_risk: bool = False) -> int:
    """Return where the logical line (`plain` is _LINE) or block (_BLOCK) ends that holds `position`: at a line end.

    Raises _Unclosed where the text ends inside a bracket or string.
    """
    bracket = _BRACKET_AT_RISK if at_risk else _BRACKET
    depth = 0
    while True:
        position = _end(bracket if depth else plain, text, position)
        character = text[position : position + 1]
        if not character:
            if depth:
                raise _Unclosed
            return position
        if character in "\r\n":
            if not depth:
                return position
            depth = 0  # The next line cannot be in a bracket.
        elif character in "([{":
            depth += 1
            position += 1
        elif character in ")]}":
            depth = max(depth - 1, 0)
            position += 1
        elif character == "\\":
            position += 1
        else:
            position = _string_end(text, position, at_risk=at_risk)


def _string_end(text: str, start: int, *, at_risk: bool) -> int:
    """Return where the string ends whose quote is at `start`, or the line end at which it must have been meant to.

    Raises _Unclosed for a triple-quoted string that reaches the end of the text.
    """
    quote = _quote(text, start)
    end = _closed_string_end(text, start, 0)
    if end < 0:
        # Fields that are not closed: the quotes may be.
        end = _match_end(_STRING_END[quote], text, start + len(quote))
    if len(quote) == 1:
        return end if end >= 0 else _end(_TO_LINE_END, text, start)
    boundary = None
    if at_risk:
        boundary = _TOP_LEVEL_DEFINITION.search(text, start, end if end >= 0 else len(text))
    elif end >= 0 and _WORD_AFTER_STRING.match(text, end):
        # Quotes right before a word are opening ones: this string took another's for its end.
        boundary = _INNER_DEFINITION.search(text, start, end)
    if boundary:
        return boundary.start()
    if end < 0:
        raise _Unclosed
    return end


def _closed_string_end(text: str, start: int, nesting: int) -> int:
    """Return where the string ends whose quote is at `start`, with strings inside its fields (PEP 701); -1 if open."""
    quote = _quote(text, start)
    position = start + len(quote)
    if not _FIELD_STRING.match(text, start):
        return _match_end(_STRING_END[quote], text, position)
    if nesting > _MOST_NESTED_STRINGS:
        return -1
    while True:
        position = _end(_FIELD_STRING_TEXT[quote], text, position)
        if text.startswith(quote, position):
            return position + len(quote)
        if not text.startswith("{", position):
            return -1
        position = _field_end(text, position + 1, quote, nesting)
        if position < 0:
            return -1


def _field_end(text: str, position: int, quote: str, nesting: int) -> int:
    """Return where the replacement field ends whose expression starts at `position`; -1 if it is not closed."""
    depth = 0
    while True:
        position = _end(_FIELD_PLAIN, text, position)
        character = text[position : position + 1]
        if character == "}" and not depth:
            return position + 1
        if character == ":" and not depth:
            return _format_end(text, position + 1, quote, nesting)
        if not character or character in "\r\n":
            return -1
        if character in "\"'":
            position = _closed_string_end(text, position, nesting + 1)
            if position < 0:
                return -1
            continue
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        position += 1


def _format_end(text: str, position: int, quote: str, nesting: int) -> int:
    """Return where the replacement field ends whose format specification starts at `position`; -1 if it is open."""
    while True:
        position = _end(_FORMAT_PLAIN, text, position)
        character = text[position : position + 1]
        if character == "}":
            return position + 1
        if character == "{":
            if nesting > _MOST_NESTED_STRINGS:
                return -1
            position = _field_end(text, position + 1, quote, nesting + 1)
            if position < 0:
                return -1
        elif not character or text.startswith(quote, position) or (character in "\r\n" and len(quote) == 1):
            return -1
        else:
            position += 1


def _quote(text: str, start: int) -> str:
    triple = text[start : start + 3]
    return triple if triple in ('"""', "'''") else text[start]


def _first(text: str, start: int, *boundaries: re.Pattern[str]) -> int:
    """Return where the first of the patterns that is found at all is found after `start`, or the end of the text."""
    return next((found.start() for boundary in boundaries if (found := boundary.search(text, start))), len(text))


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the match at `position` ends, of a pattern that can match the empty string."""
    match = pattern.match(text, position)
    return match.end() if match else position


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return where the match at `position` ends; -1 if there is none."""
    match = pattern.match(text, position)
    return match.end() if match else -1
