"""The rules, one file each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from torchstray.rules.rule import Finding, Rule

if TYPE_CHECKING:
    from torchstray.semantics.project import Project
    from torchstray.syntax.document import Document


def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of precedence: of one value, the first that speaks is heard."""
    return ()


def run(document: Document, project: Project, names: Collection[str]) -> list[Finding]:
    """Return what the named rules find in `document`, in no particular order."""
    return []
