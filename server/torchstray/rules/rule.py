"""What a rule is, and what it says."""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from torchstray.text.edits import Edit, Span

if TYPE_CHECKING:
    from torchstray.semantics.model import FileModel


class Severity(enum.IntEnum):
    """How loud a finding is; `Severity["ERROR"]` is the loudest."""

    HINT = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The name that users read and write: `hint`, `warning` or `error`."""
        return self.name.lower()


@dataclass(frozen=True)
class Related:
    """Another place of the same file that explains a finding, such as the line that fails."""

    span: Span
    message: str


@dataclass(frozen=True)
class Fix:
    """A repair: edits to the text that the finding was made on, and a title that names the consequence.

    `safe` says that behaviour on the CPU and the loading of old checkpoints are provably kept.
    """

    title: str
    safe: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Finding:
    """One mistake at one place. The first of `fixes` is the preferred one.

    `subject` is what the finding is about (a syntax node): rules that come later in the order of precedence say
    nothing more of the same subject.
    """

    rule: str
    severity: Severity
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    unnecessary: bool = False
    subject: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Bad:
    """A program with mistakes.

    `code` marks the range of each expected finding with `«` and `»`; the marks are taken out before it is checked.
    `messages` are the findings' messages in the order of their ranges. `repaired` is the text after the preferred
    fix of every finding of the rule, safe or not; None where there is no repair. `build` is an expression that,
    evaluated after `code`, makes the module, and `inputs` one that makes the tuple of its arguments: with both,
    torch confirms the example; without, the example is only read. `same_output` is False where the repair changes
    what is computed on the CPU.
    """

    code: str
    messages: tuple[str, ...]
    repaired: str | None
    build: str | None = None
    inputs: str = "()"
    same_output: bool = True


@dataclass(frozen=True)
class Good:
    """A program that looks like the mistake and is none; `why` says what makes it right."""

    code: str
    why: str


class Rule(abc.ABC):
    """A kind of mistake. The class docstring is the rule's page, under these headings, in this order: `## What it
    finds`, `## Why it matters`, `## Example`, `## Repair`, `## When to ignore it`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    severity: ClassVar[Severity]
    bad: ClassVar[tuple[Bad, ...]]
    good: ClassVar[tuple[Good, ...]]

    @abc.abstractmethod
    def check(self, model: FileModel) -> Iterable[Finding]:
        """Yield the findings of this rule in one file, in any order."""
