"""The rules, one file each."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from torchstray.rules.rule import Finding, Rule

if TYPE_CHECKING:
    from pathlib import Path

    from torchstray.semantics.project import Project
    from torchstray.syntax.document import Document


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of precedence: of one value, the first that speaks is heard."""
    from torchstray.rules.before_super_init import BeforeSuperInit
    from torchstray.rules.class_level_state import ClassLevelState
    from torchstray.rules.computed_parameter import ComputedParameter
    from torchstray.rules.discarded_move import DiscardedMove
    from torchstray.rules.global_tensor import GlobalTensor
    from torchstray.rules.hard_coded_device import HardCodedDevice
    from torchstray.rules.layer_in_forward import LayerInForward
    from torchstray.rules.missing_device import MissingDevice
    from torchstray.rules.model_not_moved import ModelNotMoved
    from torchstray.rules.optimizer_misses_parameters import OptimizerMissesParameters
    from torchstray.rules.stale_cache import StaleCache
    from torchstray.rules.unregistered_module import UnregisteredModule
    from torchstray.rules.unregistered_parameter import UnregisteredParameter
    from torchstray.rules.unregistered_tensor import UnregisteredTensor

    return (
        BeforeSuperInit(),
        ClassLevelState(),
        ComputedParameter(),
        LayerInForward(),
        UnregisteredModule(),
        UnregisteredParameter(),
        UnregisteredTensor(),
        GlobalTensor(),
        StaleCache(),
        MissingDevice(),
        HardCodedDevice(),
        DiscardedMove(),
        ModelNotMoved(),
        OptimizerMissesParameters(),
    )


def run(document: Document, project: Project, names: Collection[str], path: Path | None = None) -> list[Finding]:
    """Return what the named rules find in `document`, which lies at `path`, in no particular order."""
    from torchstray.semantics.model import FileModel

    model = FileModel(document, project, path)
    model.run_all()
    found: dict[tuple[str, int], Finding] = {}
    spoken_of: set[object] = set()
    for rule in all_rules():
        findings = [finding for finding in rule.check(model) if finding.subject not in spoken_of]
        spoken_of |= {finding.subject for finding in findings if finding.subject is not None}
        if rule.name not in names:
            continue
        for finding in findings:
            key = (finding.rule, finding.span.start)
            known = found.get(key)
            if known is None or known.severity < finding.severity:
                found[key] = finding
    return list(found.values())
