"""From findings to what a user, or a program, reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchstray.config import absolute
from torchstray.rules.rule import Finding
from torchstray.text.lines import Lines


@dataclass(frozen=True)
class FileFindings:
    """The findings in one file, sorted by place, and the text that their spans count in."""

    path: Path
    text: str = ""
    findings: tuple[Finding, ...] = ()

    @cached_property
    def lines(self) -> Lines:
        """The lines of the text."""
        return Lines(self.text)

    @property
    def shown_path(self) -> str:
        """The path for a human reader: relative to the working folder if the file lies below it, in one line and with
        escapes for what a terminal would not show but obey."""
        path = absolute(self.path)
        return _printable(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else self.path))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    import unicodedata

    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else character
        for character in text
    )
