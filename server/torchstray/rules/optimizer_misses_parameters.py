"""Layers that come after the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.placing import last_offset, lines_of, path_to
from torchstray.rules.repairs import delete_lines, indentation, line_end, row_of, stands_alone, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Late
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.text.edits import Edit


class OptimizerMissesParameters(Rule):
    """DOC"""

    name = "optimizer-misses-parameters"
    summary = "a layer is added to a module after an optimizer was given its parameters"
    severity = Severity.ERROR
    bad = ()
    good = ()

    def check(self, model: FileModel) -> Iterable[Finding]:
        seen: set[cst.CSTNode] = set()
        for late in [*model.late, *(late for facts in model.modules for late in facts.late)]:
            if late.target.node not in seen:
                seen.add(late.target.node)
                yield self._finding(model, late)

    def _finding(self, model: FileModel, late: Late) -> Finding:
        name = " ".join(text_of(model, late.target.span).split())
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if late.certain else Severity.WARNING,
            message=f"`{name}` comes after the optimizer took the module's parameters (line "
            f"{row_of(model, late.optimizer)}), so the new layer never trains; build the optimizer afterwards.",
            span=late.target.span,
            related=(Related(late.optimizer.span, "the optimizer is built here"),),
            fixes=tuple(_fixes(model, late)),
            subject=late.statement.node,
        )


def _fixes(model: FileModel, late: Late) -> Iterator[Fix]:
    lines = lines_of(model, late.function, late.target)
    layer, optimizer = path_to(lines, late.statement.node), path_to(lines, late.optimizer.node)
    if not layer or not optimizer:
        return
    block, after = layer[-1]
    own, before = optimizer[-1]
    if block[0].node is not own[0].node or before >= after:
        return
    built, changed = block[before], block[after]
    if not isinstance(built.node, cst.SimpleStatementLine) or len(built.node.body) != 1:
        return
    assign = built.node.body[0]
    if not isinstance(assign, cst.Assign | cst.AnnAssign) or not stands_alone(model, built.span):
        return
    targets = [target.target for target in assign.targets] if isinstance(assign, cst.Assign) else [assign.target]
    names = {dotted(target) for target in targets}
    between = block[before + 1 : after]
    used = {name.partition(".")[0] for name in names if name is not None and not name.startswith("self.")}
    attributes = {name for name in names if name is not None and name.startswith("self.")}
    if None in names or any(used & set(names_in(line.node)) for line in between):
        return
    texts = [text_of(model, line.span) for line in between]
    if any(attribute in text for attribute in attributes for text in texts):
        return
    if not stands_alone(model, changed.span):
        return
    end = line_end(model, last_offset(changed))
    newline = "" if model.document.text[:end].endswith(("\n", "\r")) else "\n"
    indent = indentation(model, built.span.start)
    start = model.document.lines.offset(model.document.lines.position(built.span.start)[0], 1)
    moved = model.document.text[start : line_end(model, built.span.end)].rstrip()
    yield Fix(
        "Build the optimizer afterwards",
        False,
        (delete_lines(model, built.span), Edit(end, end, f"{newline}{indent}{moved.lstrip()}\n")),
    )
