"""When a branch is taken: tests brought into a form in which two of them can be compared.

Conditions are a set of clauses, all of which hold; a clause is a set of tests with their outcomes, one of which is so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from torchstray.semantics.names import dotted
from torchstray.semantics.values import Conditions

ALWAYS: Conditions = frozenset()
CUDA = "torch.cuda.is_available()"
_COUNT = "torch.cuda.device_count()"
_DEEPEST = 16
_MOST_CLAUSES = 32
_DEVICES = re.compile(r"cuda|gpu|device|mps|xpu|npu|accelerator|cpu", re.IGNORECASE)
_MANY = re.compile(r"count|multi|parallel|distribut|world|n_?gpus?\b|num_?gpus?", re.IGNORECASE)
_COMPARED: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.Is: "is",
    cst.IsNot: "is not",
}
_TRUTH = {"True": True, "False": False}
_NEGATED = {"!=": "==", "not in": "in", "is not": "is", "<=": ">", "<": ">="}


@dataclass(frozen=True)
class Reader:
    """Reads tests. `meaning` gives what a dotted name was assigned last, None where nobody knows; `imported` the full
    name of what an import binds."""

    meaning: Callable[[str], cst.BaseExpression | None]
    imported: Callable[[str], str | None]

    def of(self, test: cst.BaseExpression, outcome: bool, depth: int = 0) -> Conditions:
        """What holds where `test` comes out as `outcome`."""
        if depth > _DEEPEST:
            return _single(self.text(test), outcome)
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self.of(test.expression, not outcome, depth + 1)
        if isinstance(test, cst.BooleanOperation):
            left, right = self.of(test.left, outcome, depth + 1), self.of(test.right, outcome, depth + 1)
            both = isinstance(test.operator, cst.And) is outcome
            return _bounded(left | right if both else either(left, right))
        name = dotted(test)
        known = self.meaning(name) if name is not None else None
        if known is not None:
            return self.of(known, outcome, depth + 1)
        if isinstance(test, cst.IfExp):
            body, orelse = _TRUTH.get(dotted(test.body) or ""), _TRUTH.get(dotted(test.orelse) or "")
            if body is not None and orelse is not None and body is not orelse:
                return self.of(test.test, outcome is body, depth + 1)
        if isinstance(test, cst.Call) and dotted(test.func) == "bool" and len(test.args) == 1:
            return self.of(test.args[0].value, outcome, depth + 1)
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            return self._comparison(test, outcome, depth)
        return _about_counts(self.text(test), outcome)

    def _comparison(self, test: cst.Comparison, outcome: bool, depth: int) -> Conditions:
        target = test.comparisons[0]
        operator = _COMPARED.get(type(target.operator), "?")
        left, right = test.left, target.comparator
        if operator == "in":
            left, right = right, left
        device = self.device(left, depth + 1)
        literal = right.evaluated_value if isinstance(right, cst.SimpleString) else None
        if device is not None and isinstance(literal, str) and operator in {"==", "!=", "in", "not in"}:
            accelerated = (operator in {"==", "in"}) is not literal.startswith("cpu")
            return device if accelerated is outcome else negated(device)
        if operator in _NEGATED:
            operator, outcome = _NEGATED[operator], not outcome
        return _about_counts(f"{self.text(test.left)} {operator} {self.text(target.comparator)}", outcome)

    def device(self, node: cst.BaseExpression, depth: int = 0) -> Conditions | None:
        """When the device that `node` stands for is not the CPU, if that is decided by a test that can be read."""
        if depth > _DEEPEST:
            return None
        name = dotted(node)
        known = self.meaning(name) if name is not None else None
        if known is not None:
            return self.device(known, depth + 1)
        if isinstance(node, cst.Attribute) and node.attr.value == "type":
            return self.device(node.value, depth + 1)
        if isinstance(node, cst.Call) and node.args and self.text(node.func) in {"torch.device", "str"}:
            return self.device(node.args[0].value, depth + 1)
        if isinstance(node, cst.IfExp):
            body, orelse = (self.is_cpu(part) for part in (node.body, node.orelse))
            if body is not None and orelse is not None and body is not orelse:
                return self.of(node.test, orelse, depth + 1)
        return None

    def is_cpu(self, node: cst.BaseExpression) -> bool | None:
        """Whether a device written as a literal is the CPU."""
        if isinstance(node, cst.Call) and node.args and self.text(node.func) == "torch.device":
            node = node.args[0].value
        value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
        return value.startswith("cpu") if isinstance(value, str) else None

    def text(self, node: cst.BaseExpression, depth: int = 0) -> str:
        """The text of an expression, with names as imports and assignments explain them."""
        if isinstance(node, cst.Name) or depth > _DEEPEST:
            full = self.imported(node.value) if isinstance(node, cst.Name) else None
            known = self.meaning(node.value) if isinstance(node, cst.Name) and depth <= _DEEPEST else None
            return full or (self.text(known, depth + 1) if known is not None else _source(node))
        if isinstance(node, cst.Attribute):
            name = dotted(node)
            known = self.meaning(name) if name is not None else None
            if known is not None:
                return self.text(known, depth + 1)
            return f"{self.text(node.value, depth + 1)}.{node.attr.value}"
        if isinstance(node, cst.Call):
            arguments = ", ".join(_source(argument.value) for argument in node.args)
            return f"{self.text(node.func, depth + 1)}({arguments})"
        return _source(node)


def contradictory(conditions: Conditions) -> bool:
    """Whether not all of these clauses can hold."""
    units: set[tuple[str, bool]] = set()
    while True:
        left = [
            frozenset((test, said) for test, said in clause if (test, not said) not in units) for clause in conditions
        ]
        if any(not clause for clause in left):
            return True
        found = {literal for clause in left if len(clause) == 1 for literal in clause}
        if found <= units:
            return False
        units |= found


def either(left: Conditions, right: Conditions) -> Conditions:
    """What holds where one of two conditions does."""
    if not left or not right:
        return ALWAYS
    return frozenset(one | other for one in left for other in right)


def negated(conditions: Conditions) -> Conditions:
    """What holds where these conditions do not."""
    result: Conditions | None = None
    for clause in conditions:
        opposite = frozenset(frozenset({(test, not said)}) for test, said in clause)
        result = opposite if result is None else either(result, opposite)
    return ALWAYS if result is None else _bounded(result)


def speaks_of_devices(conditions: Conditions) -> bool:
    """Whether a test among these asks for a device, and not just for how many there are."""
    return any(_DEVICES.search(test) and not _MANY.search(test) for clause in conditions for test, _ in clause)


def on_cuda() -> Conditions:
    """What holds where something lies on a CUDA device."""
    return _single(CUDA, True)


def _single(test: str, outcome: bool) -> Conditions:
    return frozenset({frozenset({(test, outcome)})})


def _about_counts(text: str, outcome: bool) -> Conditions:
    """A test, with what a number of GPUs says of there being one."""
    if text in {_COUNT, f"{_COUNT} > 0", f"{_COUNT} >= 1"}:
        return _single(CUDA, outcome)
    if text == f"{_COUNT} == 0":
        return _single(CUDA, not outcome)
    if text.startswith(f"{_COUNT} > ") and outcome:
        return _single(text, True) | _single(CUDA, True)
    return _single(text, outcome)


def _bounded(conditions: Conditions) -> Conditions:
    return conditions if len(conditions) <= _MOST_CLAUSES else ALWAYS


def _source(node: cst.CSTNode) -> str:
    return " ".join(cst.Module([]).code_for_node(node).split())
