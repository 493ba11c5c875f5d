"""Parses a text with libcst, and says in the user's words why it cannot."""

from __future__ import annotations

import re

import libcst as cst

from torchstray.syntax.splitter import logical_lines

# A tree has a few Python calls per level when it is walked or written: this many levels stay well below Python's limit.
_DEEPEST_TREE = 150
# The native parser's own calls are counted by nobody: this much of one kind in one line would end the process.
_DEEPEST_BRACKETS = 100
_LONGEST_CHAIN = 1000
_LONGEST_ELIF_CHAIN = 500
# Python reads no more, for that takes time quadratic in the number; hexadecimal numbers and fractions are not limited.
_MOST_DIGITS = 4300

_BRACKETS = re.compile(r"[(\[{]+|[)\]}]+")
# Strings side by side nest, too.
_OPERATOR = re.compile(r"[-+*/%@&|^~.<>=([{'\"]|\b(?:and|await|else|for|if|in|is|lambda|not|or)\b")
_ITEM_END = re.compile(r"[,;]")
_STRING = re.compile(
    r"(?:\b[a-zA-Z]{1,2})?(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:[^\"\\\r\n]|\\[\s\S])*\"|'(?:[^'\\\r\n]|\\[\s\S])*'|\#[^\r\n]*)"
)
_NOT_A_BRACKET = re.compile(r"[^()\[\]{}]+")
_ELIF_OR_LAMBDA = re.compile(r"\b(?:elif|lambda)\b")
_ELIF = re.compile(r"\belif\b")
_MANY_LAMBDAS = re.compile(r"(?:\blambda\b[^:\r\n]*:\s*){200}")
_DEEP_BLOCK = re.compile(r"[\r\n][ \t]{40}[^\r\n]*:(?=[ \t]*[\r\n])")
_LONG_NUMBER = re.compile(rf"\b[0-9][0-9_]{{{_MOST_DIGITS},}}")
_PLACE = re.compile(r"error at (\d+):(\d+): (.*)", re.S)
_LINES = re.compile(r"\r\n|\r|\n")
_EXPECTED = {"NAME": "a name", "NUMBER": "a number", "NEWLINE": "a line end", "EOF": "the end", "ASYNC": "`async`"}
_PAIRS = {")": "(", "]": "[", "}": "{"}


TOO_DEEP = "nested too deeply"
"""What is said of text that may be Python, but that a parser in a recursive language cannot take in."""


class NotPython(Exception):
    """A text that does not parse. `row` is about where, from 1; the message says why."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.message = message
        self.row = row


def parse(text: str) -> cst.Module:
    """Parse a module. Raises NotPython, also for what is nested more deeply than its tree could be walked."""
    deep = _may_be_deep(text)
    if deep and _would_crash(text):
        raise NotPython(TOO_DEEP, 1)
    try:
        tree = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise _reworded(error, text) from None
    except (RecursionError, ValueError, cst.CSTLogicError, cst.CSTValidationError):
        raise NotPython("not valid Python", 1) from None
    if deep and _is_deep(tree):
        raise NotPython(TOO_DEEP, 1)
    if _LONG_NUMBER.search(text) and (number := _too_long_number(tree)) is not None:
        row = text[: text.index(number)].count("\n") + 1
        raise NotPython(f"a number of more than {_MOST_DIGITS:,} digits", row)
    return tree


def _too_long_number(tree: cst.Module) -> str | None:
    nodes: list[cst.CSTNode] = [tree]
    for node in nodes:
        if isinstance(node, cst.Integer):
            digits = node.value.replace("_", "")
            if len(digits) > _MOST_DIGITS and digits.isdecimal():
                return node.value
        nodes += node.children
    return None


def _may_be_deep(text: str) -> bool:
    """A cheap look, strings and comments included: whether there is enough of anything to nest."""
    return (
        _bracket_depth(text) > _DEEPEST_BRACKETS // 2
        or _chain_length(text) >= _DEEPEST_TREE // 2
        or len(_ELIF_OR_LAMBDA.findall(text)) >= _DEEPEST_TREE // 2
        or _DEEP_BLOCK.search(text) is not None
    )


def _would_crash(text: str) -> bool:
    if len(_ELIF.findall(text)) > _LONGEST_ELIF_CHAIN or _MANY_LAMBDAS.search(text):
        return True
    for line in logical_lines(text):
        code = _without_strings(text[line.word : line.end])
        if _bracket_depth(code) > _DEEPEST_BRACKETS or _chain_length(code) > _LONGEST_CHAIN:
            return True
    return False


def _without_strings(code: str) -> str:
    """The code with a quote for each string, and with the braces of f-strings and t-strings, for they nest."""

    def shortened(string: re.Match[str]) -> str:
        if string.group().startswith("#"):
            return ""
        prefix = string.group()[:2].lower()
        return '"' + _NOT_A_BRACKET.sub("", string.group()) if "f" in prefix or "t" in prefix else '"'

    return _STRING.sub(shortened, code)


def _bracket_depth(code: str) -> int:
    depth = deepest = 0
    for match in _BRACKETS.finditer(code):
        if match.group()[0] in "([{":
            depth += match.end() - match.start()
            deepest = max(deepest, depth)
        else:
            depth = max(0, depth - (match.end() - match.start()))
    return deepest


def _chain_length(code: str) -> int:
    """The most operators between two commas: `a + b + c` nests, `a, b, c` does not."""
    # An operator and its operand are two characters at least, so shorter items cannot matter.
    return max((len(_OPERATOR.findall(item)) for item in _ITEM_END.split(code) if len(item) > _DEEPEST_TREE), default=0)


def _is_deep(tree: cst.Module) -> bool:
    level: list[cst.CSTNode] = [tree]
    for _ in range(_DEEPEST_TREE):
        level = [child for node in level for child in node.children]
        if not level:
            return False
    return True


def _reworded(error: cst.ParserSyntaxError, text: str) -> NotPython:
    kind, _, reason = error.message.partition(" error: ")
    if kind == "tokenizer":
        return NotPython(_tokenizer_reason(reason), error.raw_line)
    place = _PLACE.match(reason)
    if place is None:
        return NotPython("not valid Python", error.raw_line)
    row, column = int(place[1]), int(place[2])
    # This is where the token behind the unexpected one starts. Mostly that one was a line end.
    before = "".join(_LINES.split(text)[row - 1 : row])[:column]
    if row > 1 and not before.strip():
        row -= 1
    if bracket := _unclosed_bracket(text):
        return NotPython(f"`{bracket}` is never closed", row)
    return NotPython(_parser_reason(place[3]), row)


def _tokenizer_reason(reason: str) -> str:
    if "triple-quoted" in reason:
        return "a triple-quoted string is never closed"
    if reason.startswith("unterminated"):
        return "a string is never closed"
    if "dedent" in reason:
        return "the indentation fits no block around it"
    if "mixing" in reason:
        return "the indentation mixes tabs and spaces"
    if "too many indentation" in reason:
        return TOO_DEEP
    if "line continuation" in reason:
        return "a backslash that is not at the end of a line, or ends the text"
    return reason[:1].lower() + reason[1:]


def _parser_reason(expectation: str) -> str:
    expected = expectation.removeprefix("expected one of ").removeprefix("expected ").split(", ")
    if expected == ["INDENT"]:
        return "an indented block is missing"
    if expected == ["except", "finally"]:
        return "`try` has neither `except` nor `finally`"
    if ":" in expected and "NEWLINE" not in expected:
        return "`:` is missing"
    if len(expected) > 4:
        return "not valid Python"
    names = [_EXPECTED.get(name, f"`{name}`") for name in expected]
    return "expected " + " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _unclosed_bracket(text: str) -> str | None:
    stack: list[str] = []
    for bracket in "".join(_BRACKETS.findall(_without_strings(text))):
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif stack and stack[-1] == _PAIRS[bracket]:
            stack.pop()
    return stack[-1] if stack else None
