"""What an expression is worth."""

from __future__ import annotations

import abc
import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.devices import asks_for_device, named_device
from torchstray.semantics.facts import ClassFacts, Fate, FixedDevice, Handling, Meeting, Phase, Remembered, Use
from torchstray.semantics.names import FileNames, children, dotted
from torchstray.semantics.values import (
    ANY_SCALAR,
    MISSING,
    NONE,
    UNKNOWN,
    Arguments,
    Batch,
    ClassValue,
    Container,
    Device,
    Distribution,
    FunctionValue,
    Home,
    Input,
    Instance,
    Loader,
    Made,
    Method,
    ModuleInstance,
    Name,
    OneOf,
    Origin,
    Parameter,
    Partial,
    Place,
    Qualified,
    Scalar,
    SelfValue,
    Shape,
    Source,
    SuperValue,
    Tensor,
    Value,
    contents,
    distinct,
    each,
    from_holder,
    holders,
    one_of,
    options_of,
)
from torchstray.syntax.document import Statement

if TYPE_CHECKING:
    from torchstray.semantics.imports import OtherFile

INPUT = Input(proven=True)
PLACED = Input(proven=True, given=True)
SLICE = Value()
DTYPE = Scalar("dtype")  # that of a tensor, of whatever kind: a conversion to it moves nothing

_LITERALS: dict[str, Value] = {"None": NONE, "True": Scalar(True), "False": Scalar(False)}
_CONSTANTS = frozenset(
    f"{module}.{name}" for module in ("math", "numpy", "torch") for name in ("pi", "e", "inf", "nan")
)
_PERCENT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]")
_WIDTH = {"bool": 0, "int": 1, "float": 2, "complex": 3}


@lru_cache(maxsize=10_000)
def _literal(text: str) -> object:
    """The value of a number or string as it is written; None for an escape that Python refuses, which libcst reads."""
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return None


def _wider(left: str | None, right: str | None) -> str | None:
    """The kind of dtype that two tensors of these kinds give."""
    if left is None or right is None:
        return None
    return left if _WIDTH[left] >= _WIDTH[right] else right


def _either_zero_dim(left: bool | None, right: bool | None) -> bool | None:
    """Whether two tensors give one without dimensions."""
    return False if left is False or right is False else left if left == right else None


def _faulty(left: Tensor, right: Tensor, tolerant: bool) -> frozenset[Origin]:
    """What made two tensors that are combined, and keeps the result on the CPU: not a 0-dim one beside another."""
    if tolerant and left.zero_dim is False and right.zero_dim is not False:
        return left.origins
    if tolerant and right.zero_dim is False and left.zero_dim is not False:
        return right.origins
    return left.origins | right.origins


def _separate(group: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The values of an argument: the items of a list one by one, each with its alternatives."""
    if len(group) == 1 and isinstance(group[0], Container) and not group[0].holds_itself():
        for item in group[0].items:
            yield from _separate(options_of(item))
    else:
        yield group


def decorators(function: cst.FunctionDef) -> set[str]:
    """The decorators of a function as they are written, without their arguments."""
    found = set()
    for decorator in function.decorators:
        node = decorator.decorator
        found.add(dotted(node.func if isinstance(node, cst.Call) else node) or "")
    return found


def _parts(value: Value) -> list[Value]:
    """The members of a tuple of classes, or the one class."""
    return value.items if isinstance(value, Container) else [value]


def names_in(node: cst.CSTNode) -> Iterator[str]:
    """The names that are read or bound anywhere in `node`, attributes' and keywords' names left out."""
    return (found.value for found in name_nodes(node))


def name_nodes(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Where names are read or bound in `node`, in its order, attributes' and keywords' names left out."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if isinstance(found, cst.Name):
            yield found
        elif isinstance(found, (cst.Attribute, cst.Arg)):
            waiting.append(found.value)
        else:
            waiting += reversed(children(found))


@dataclass
class Frame:
    """One running function, class body or file. `guards` are the tests of the `if` statements around the present
    statement, `passed` those of the ones before it that have left the function in a branch. `home` is the file that it
    stands in, None for the one that is checked."""

    statement: Statement
    names: dict[str, Value] = field(default_factory=dict)
    function: FunctionValue | None = None
    owner: ClassModel | None = None
    instance: Value | None = None
    returned: list[Value] = field(default_factory=list)
    loops: int = 0
    for_loops: list[cst.For] = field(default_factory=list)
    guards: tuple[cst.BaseExpression, ...] = ()
    passed: tuple[cst.BaseExpression, ...] = ()
    done: bool = False
    home: OtherFile | None = None


class Evaluator(abc.ABC):
    """Evaluates expressions in the present frame and notes what happens to strays."""

    def __init__(self, names: FileNames, facts: ClassFacts | None, phase: Phase) -> None:
        self.file_names = names
        self.facts = facts
        self.phase = phase
        self.frames: list[Frame] = []
        self.default_devices = 0
        self.muted = 0
        self.globals: dict[str, Value] = {}

    # What the interpreter adds

    @abc.abstractmethod
    def call(self, function: Value, arguments: Arguments, node: cst.Call) -> Value:
        """What calling `function` gives, with all that the call does."""

    @abc.abstractmethod
    def call_function(self, function: FunctionValue, arguments: Arguments, node: cst.CSTNode) -> Value:
        """What running a function of this file gives."""

    @abc.abstractmethod
    def bind(
        self, target: cst.BaseExpression, value: Value, statement: cst.CSTNode, expression: cst.BaseExpression | None
    ) -> None:
        """Assign `value` to a name, attribute, item or several of them."""

    @abc.abstractmethod
    def imported(self, full: str, node: cst.CSTNode) -> Value:
        """What something imported by this full name is; `node` names it."""

    @abc.abstractmethod
    def full_name(self, name: str) -> str | None:
        """The full name that an imported name of the checked file stands for; None where it is not imported."""

    @abc.abstractmethod
    def elsewhere(self, home: OtherFile, name: str) -> Value | None:
        """What a name at the top level of another file is."""

    @abc.abstractmethod
    def place(self, node: cst.CSTNode) -> Place:
        """`node` of the present frame's statement; from another file, the call in this one that leads there."""

    def evaluate_branch(self, branch: cst.BaseExpression, node: cst.IfExp, outcome: bool) -> Value:
        """What `branch` of the conditional expression `node` is worth, taken where its test comes out as `outcome`."""
        return self.evaluate(branch)

    def choice(self, values: Iterable[Value]) -> Value:
        """What is one of `values`, by the branch taken."""
        return one_of(values)

    # Helpers

    @property
    def frame(self) -> Frame:
        """The innermost running frame."""
        return self.frames[-1]

    def evaluate(self, node: cst.CSTNode) -> Value:
        """What the expression `node` is worth."""
        kind = self._kinds.get(type(node))
        return UNKNOWN if kind is None else kind(self, node)

    def note_use(self, value: Value, handling: Handling, node: cst.CSTNode) -> None:
        """Note what happens to the strays that `value` is made of."""
        if self.facts is None:
            return
        here = next((frame for frame in reversed(self.frames) if frame.home is None), None)
        if here is None and handling is Handling.FAILS:
            handling = Handling.HANDED_ON  # there is no line in this file to show for it
        function = (here or self.frame).function
        method = function.node.name.value if function and isinstance(function.node, cst.FunctionDef) else None
        for option in options_of(value):
            for attribute in holders(option):
                self.facts.uses.append(Use(attribute, handling, self.place(node), self.phase, method))

    # Tensors that nobody gives a device

    @property
    def guards(self) -> tuple[cst.BaseExpression, ...]:
        """The tests of all `if` statements and conditional expressions around what is evaluated."""
        return tuple(guard for frame in self.frames for guard in (*frame.passed, *frame.guards))

    @property
    def entry(self) -> str:
        """The method that is run."""
        first = self.frames[0].function if self.frames else None
        return first.node.name.value if first and isinstance(first.node, cst.FunctionDef) else "forward"

    def made_here(self, node: cst.CSTNode, name: str, takes_device: bool) -> frozenset[Origin]:
        """What to remember of a call that makes a tensor without a device; nothing where somebody decides about the
        device all the same, or in another file."""
        if self.phase not in {Phase.FORWARD, Phase.SCRIPT} or self.default_devices or self.frame.home is not None:
            return frozenset()
        guards = self.guards
        if any(asks_for_device(guard) for guard in guards):
            return frozenset()
        near = self._near() if self.phase is Phase.FORWARD else ()
        return frozenset({Origin(Made.HERE, self.place(node), name, self.frame.function, guards, near, takes_device)})

    def _near(self) -> tuple[str, ...]:
        known = {**(self.frame.function.captured if self.frame.function is not None else {}), **self.frame.names}
        return tuple(
            name for name, value in known.items() if all(self.is_placed(option) for option in options_of(value))
        )

    def is_placed(self, value: Value) -> bool:
        """Whether something is certainly a tensor on the module's device, while a step runs."""
        if isinstance(value, Tensor):
            registered = value.alias is not None and self.phase is Phase.FORWARD
            return registered or (value.home is Home.PLACED and not value.origins)
        return isinstance(value, Input) and value.placed

    def note_fate(self, value: Value, fate: Fate, node: cst.CSTNode) -> None:
        """Note what becomes of the tensors that `value` is, or holds, if they were made on the CPU."""
        if self.facts is None or self.phase is not Phase.FORWARD or self.muted:
            return
        if fate is not Fate.SPARED and all(frame.home is not None for frame in self.frames):
            return  # there is no line in this file to show for it
        place = self.place(node)
        for tensor in contents(value):
            for origin in tensor.origins if isinstance(tensor, Tensor) else ():
                key = (origin.place.node, fate, node)
                self.facts.meetings.setdefault(key, Meeting(origin, fate, place, self.entry))

    def has_origins(self, value: Value) -> bool:
        """Whether `value` is, or holds, a tensor made on the CPU because nobody named a device."""
        return any(isinstance(held, Tensor) and bool(held.origins) for held in contents(value))

    # Names and attributes

    def lookup(self, name: str) -> Value | None:
        """What `name` is bound to; None where nothing binds it."""
        if name in self.frame.names:
            return self.frame.names[name]
        if self.frame.function is not None and name in self.frame.function.captured:
            return self.frame.function.captured[name]
        if self.frame.home is not None:
            return self.elsewhere(self.frame.home, name)
        return self.globals.get(name)

    def _name(self, node: cst.Name) -> Value:
        literal = _LITERALS.get(node.value)
        if literal is not None:
            return literal
        found = self.lookup(node.value)
        if isinstance(found, Qualified) and (self.frame.home is None or node.value in self.frame.names):
            return self.imported(found.name, node)
        if found is not None:
            return found
        full = self.full_name(node.value) if self.frame.home is None else None
        return self.imported(full, node) if full is not None else Qualified(f"builtins.{node.value}")

    def _attribute(self, node: cst.Attribute) -> Value:
        if self.facts is not None and isinstance(node.value, cst.Attribute):
            first, _, path = (dotted(node) or "").partition(".")
            if path in self.facts.live and isinstance(self.frame.names.get(first), SelfValue):
                kept = self.facts.value_of(path)  # `self.layer.gain`, put on a layer by this class
                if kept is not None:
                    return kept
        return each(self.evaluate(node.value), lambda option: self.attribute(option, node.attr.value, node))

    def attribute(self, of: Value, name: str, node: cst.CSTNode) -> Value:
        """What the attribute `name` of `of` is."""
        if isinstance(of, Qualified):
            full = torch_api.canonical(f"{of.name}.{name}")
            return ANY_SCALAR if full in _CONSTANTS else self.imported(full, node)
        if isinstance(of, SelfValue | SuperValue):
            return self.self_attribute(of, name, node)
        if isinstance(of, Tensor | Parameter | Input | Batch):
            if name == "device" or torch_api.attribute(name) == "other":
                self.note_use(of, Handling.HARMLESS, node)
                if name == "device":
                    return Device(read=True, placed=self.is_placed(of))
                return DTYPE if name == "dtype" else ANY_SCALAR
            if torch_api.attribute(name) == "tensor":
                derived = self.derived(of, node)
                return replace(derived, tracked=False) if isinstance(derived, Tensor) and name == "data" else derived
            return Method(of, name, self.place(node))
        if isinstance(of, ModuleInstance):
            if name in of.attributes:
                return of.attributes[name]
            if name in {"weight", "bias"} and of.cls is None and of.state is not None and of.state.parameters:
                return Tensor(Source.DATA, dtype="float", requires_grad=True, alias="parameter", made=self.place(node))
            return Method(of, name, self.place(node))
        if isinstance(of, Instance):
            if name in of.attributes:
                return from_holder(of.attributes[name], of.owners)
            found = of.cls.find_method(name)
            if found is not None:
                return self._method_value(found, of, node)
            return UNKNOWN
        if isinstance(of, Container) and of.keys and (field := of.named(name)) is not None:
            return field
        if isinstance(of, Container | Distribution | Name | Scalar | Loader):
            return Method(of, name, self.place(node))
        if isinstance(of, ClassValue):
            found = of.cls.find_method(name)
            if found is not None:
                owner, method = found
                return FunctionValue(method, owner.statement, owner)
            return Method(of, name, self.place(node))
        return UNKNOWN

    def _method_value(self, found: tuple[ClassModel, cst.FunctionDef], bound: Value, node: cst.CSTNode) -> Value:
        owner, method = found
        kinds = decorators(method)
        function = FunctionValue(method, owner.statement, owner, None if "staticmethod" in kinds else bound)
        if kinds & {"property", "cached_property", "functools.cached_property"}:
            value = self.call_function(function, Arguments(), node)
            if "property" not in kinds:
                self.note_remembered(function, value, node)
            return value
        return function

    def note_remembered(self, function: FunctionValue, value: Value, node: cst.CSTNode) -> None:
        """Note that `value` is what a method has returned once and will return again."""
        here = function.other_file is None and self.frame.home is None
        if self.facts is not None and self.phase is Phase.FORWARD and here:
            self.facts.remembered.append(Remembered(function, value, self.place(node), self.entry))

    def self_attribute(self, of: SelfValue | SuperValue, name: str, node: cst.CSTNode) -> Value:
        """What `self.name` or `super().name` is."""
        if isinstance(of, SelfValue):
            facts = self.facts if self.facts is not None and self.facts.cls is of.cls else None
            known = facts.value_of(name) if facts is not None and not self._means_method(facts, name) else None
            if known is not None:
                assert self.facts is not None
                self.facts.reads.add(name)
                return known
            cls, after = of.cls, None
        else:
            if isinstance(of.of, SelfValue | Instance):
                cls, after = of.of.cls, of.after
            else:
                return UNKNOWN
        found = cls.find_method(name, after)
        if found is not None:
            return self._method_value(found, of if isinstance(of, SelfValue) else of.of, node)
        return Method(of, name, self.place(node))

    def _means_method(self, facts: ClassFacts, name: str) -> bool:
        """Whether `self.name` is a method of the class, of which an attribute that is set by another name, made at run
        time, does not take the place."""
        known = name in facts.live or name in facts.registered or name in facts.class_values
        return not known and facts.cls.find_method(name) is not None

    # Operators

    def derived(self, of: Value, node: cst.CSTNode, bounded: bool | None = None) -> Value:
        """A tensor computed from `of` alone."""
        if isinstance(of, Parameter):
            data = next((option for option in options_of(of.data) if isinstance(option, Tensor)), Tensor())
            return replace(
                data,
                parameter=of,
                leaf=False,
                requires_grad=True,
                alias=None,
                made=self.place(node),
                origins=frozenset(),
            )
        if isinstance(of, Tensor):
            if of.alias is not None and self.phase is Phase.FORWARD:
                return PLACED
            return replace(
                of,
                bounded=of.bounded if bounded is None else bounded,
                leaf=not of.requires_grad,
                alias=None,
                made=self.place(node),
                home=of.home if of.alias is None else Home.CPU,
                source=of.source if of.alias is None else Source.DATA,
                requires_grad=of.requires_grad and of.alias is None,
                tracked=of.tracked or of.alias == "parameter",
            )
        if isinstance(of, Input):
            return PLACED if of.placed else INPUT
        return INPUT if isinstance(of, Batch) else UNKNOWN

    def combined(self, values: Iterable[Value], node: cst.CSTNode, tolerant: bool) -> Value:
        """The tensor that an operation on several values gives. `tolerant` says that 0-dim CPU tensors may join it."""
        result: Value | None = None
        for value in values:
            parts = contents(value) if isinstance(value, Container) else (value,)
            for part in parts:
                if isinstance(part, Scalar | Name | Device | Qualified | Container):
                    continue
                tensor = self.derived(part, node)
                result = tensor if result is None else self._met(result, tensor, node, tolerant)
        return UNKNOWN if result is None else result

    def combined_options(self, groups: Sequence[Sequence[Value]], node: cst.CSTNode, tolerant: bool) -> Value:
        """The same for values that may each be one of several. Nothing is said to fail where that holds of two of them:
        the branch that chose a tensor on the CPU may have chosen all of them."""
        few = [list(part[:3]) for group in groups if group for part in _separate(group)]
        merged = [option for group in few for option in group]
        most = max((len(group) for group in few), default=0)
        if most <= 1 or not any(self.has_origins(option) for option in merged):
            return self.combined(merged, node, tolerant)
        self.muted += 1
        together = self.combined(merged, node, tolerant)
        self.muted -= 1
        uses = list(self.facts.uses) if self.facts is not None else []
        open_choices = sum(len(group) > 1 for group in few) > 1
        self.muted += open_choices
        results = [
            self.combined([group[min(number, len(group) - 1)] for group in few], node, tolerant)
            for number in range(most)
        ]
        self.muted -= open_choices
        if self.facts is not None:
            self.facts.uses[:] = uses
        return one_of(results) if any(self.has_origins(result) for result in results) else together

    def _met(self, left: Value, right: Value, node: cst.CSTNode, tolerant: bool) -> Value:
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            for one, another in ((left, right), (right, left)):
                if one.origins and self.is_placed(another) and (one.zero_dim is False or not tolerant):
                    self.note_fate(one, Fate.FAILS, node)
            met = self.is_placed(left) or self.is_placed(right)
            return replace(
                left,
                source=max(left.source, right.source),
                home=max(left.home, right.home),
                dtype=_wider(left.dtype, right.dtype),
                bounded=False,
                zero_dim=_either_zero_dim(left.zero_dim, right.zero_dim),
                origins=frozenset() if met else _faulty(left, right, tolerant),
                leaf=not (left.requires_grad or right.requires_grad),
                requires_grad=left.requires_grad or right.requires_grad,
                strays=left.strays | right.strays,
                tracked=left.tracked or right.tracked,
                parameter=left.parameter or right.parameter,
            )
        for tensor, other in ((left, right), (right, left)):
            if isinstance(tensor, Tensor):
                if tolerant and tensor.zero_dim:
                    self.note_use(tensor, Handling.HARMLESS, node)
                elif tolerant and tensor.zero_dim is None:
                    self.note_use(tensor, Handling.HANDED_ON, node)
                else:
                    self.note_use(tensor, Handling.FAILS if isinstance(other, Input) else Handling.HANDED_ON, node)
                fails = tensor.zero_dim is False or not tolerant
                if fails and isinstance(other, Input) and other.placed:
                    self.note_fate(tensor, Fate.FAILS, node)
                if tensor.origins and not tensor.strays and fails and not (isinstance(other, Input) and other.placed):
                    # With a number it stays on the CPU, and with a tensor on another device it fails here already.
                    return replace(tensor, source=Source.DATA, bounded=False, dtype=None, leaf=False)
                if isinstance(other, Input):
                    return other
                if self.phase is Phase.INIT:  # most likely a number that the constructor was given
                    kind = tensor.dtype if tensor.dtype in {"float", "complex"} else None
                    return replace(tensor, bounded=False, dtype=kind, zero_dim=tensor.zero_dim and None)
                return replace(
                    tensor,
                    strays=frozenset(),
                    home=Home.FOLLOWS,
                    source=Source.DATA,
                    zero_dim=None,
                    origins=frozenset(),
                )
        if isinstance(right, Input) and (right.placed or not isinstance(left, Input)):
            return right
        return left

    def _binary(self, node: cst.BinaryOperation) -> Value:
        left, right = options_of(self.evaluate(node.left))[:4], options_of(self.evaluate(node.right))[:4]
        open_choices = len(left) > 1 and len(right) > 1
        self.muted += open_choices
        result = one_of(self.operation(a, b, node.operator, node) for a in left for b in right)
        self.muted -= open_choices
        return result

    def operation(self, left: Value, right: Value, operator: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What a binary operator gives."""
        tensors = (Tensor, Parameter, Input, Batch)
        if isinstance(right, Container) and isinstance(operator, cst.Multiply):
            left, right = right, left
        if isinstance(left, Container) and isinstance(operator, cst.Multiply | cst.MultiplyAssign):
            return Container(left.shape, list(left.items), place=self.place(node), grown_at=left.grown_at)
        if isinstance(left, Container) and isinstance(operator, (cst.BitOr, cst.BitOrAssign)):
            more = right if isinstance(right, Container) else Container(left.shape, [UNKNOWN], [UNKNOWN])
            return Container(left.shape, left.items + more.items, left.keys + more.keys, self.place(node))
        if isinstance(left, Container) and isinstance(operator, (cst.Add, cst.AddAssign)):
            added = list(right.items) if isinstance(right, Container) else [UNKNOWN]
            return Container(left.shape, distinct(left.items + added), place=self.place(node))
        if isinstance(left, Name) and isinstance(operator, cst.Modulo):
            return Name(_PERCENT.sub("{}", left.text))
        if isinstance(left, Name | Scalar) and isinstance(operator, cst.Add) and isinstance(right, Name | Scalar):
            if isinstance(left, Name) or isinstance(right, Name):
                return Name("".join(part.text if isinstance(part, Name) else "{}" for part in (left, right)))
            return ANY_SCALAR
        if isinstance(left, tensors) or isinstance(right, tensors):
            other = right if isinstance(left, tensors) else left
            if (
                other is UNKNOWN
                and not isinstance(left, Tensor | Parameter)
                and not isinstance(right, Tensor | Parameter)
            ):
                placed = any(isinstance(value, Input) and value.placed for value in (left, right))
                return PLACED if placed else INPUT
            tensor = self.combined((left, right), node, tolerant=True)
            if isinstance(tensor, Tensor):
                return self._scaled(tensor, left, right, operator)
            return tensor
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            return ANY_SCALAR
        return UNKNOWN

    def _scaled(self, tensor: Tensor, left: Value, right: Value, operator: cst.CSTNode) -> Tensor:
        """`tensor`, the result of an operator, with what is known of the size of its numbers."""
        small = [value for value in (left, right) if isinstance(value, Tensor) and value.bounded]
        literals = [value.literal for value in (left, right) if isinstance(value, Scalar)]
        numbers = [literal for literal in literals if isinstance(literal, int | float) and abs(literal) <= 16]
        bounded = (
            bool(small)
            and len(small) + len(numbers) == 2
            and isinstance(
                operator,
                cst.Add | cst.Subtract | cst.Multiply | cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign,
            )
        )
        dtype = tensor.dtype
        if isinstance(operator, cst.Divide | cst.DivideAssign) and dtype in {"int", "bool"}:
            dtype = "float"
        if any(isinstance(literal, float) for literal in literals) and dtype in {"int", "bool"}:
            dtype = "float"
        if any(literal is MISSING for literal in literals) and dtype in {"int", "bool"}:
            dtype = None
        return replace(tensor, bounded=bounded, dtype=dtype)

    def _unary(self, node: cst.UnaryOperation) -> Value:
        value = self.evaluate(node.expression)
        if isinstance(node.operator, cst.Not):
            return ANY_SCALAR
        options: list[Value] = []
        for option in options_of(value):
            if isinstance(option, Scalar):
                number = option.literal
                negative = isinstance(node.operator, cst.Minus) and isinstance(number, int | float)
                options.append(Scalar(-number) if negative and isinstance(number, int | float) else ANY_SCALAR)
            else:
                options.append(self.derived(option, node))
        return one_of(options)

    def _boolean(self, node: cst.BooleanOperation) -> Value:
        return self.choice([self.evaluate(node.left), self.evaluate(node.right)])

    def _comparison(self, node: cst.Comparison) -> Value:
        values = [self.evaluate(node.left)]
        identity = False
        for target in node.comparisons:
            values.append(self.evaluate(target.comparator))
            identity = identity or isinstance(target.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn)
        if identity:
            return ANY_SCALAR
        groups = [options_of(value)[:2] for value in values]
        if any(isinstance(option, Tensor | Parameter | Input) for group in groups for option in group):
            result = self.combined_options(groups, node, tolerant=True)
            return one_of(
                replace(option, dtype="bool", bounded=True, requires_grad=False, parameter=None)
                if isinstance(option, Tensor)
                else option
                for option in options_of(result)
            )
        return ANY_SCALAR

    def _conditional(self, node: cst.IfExp) -> Value:
        self.evaluate(node.test)
        results: list[Value] = []
        guards = self.frame.guards
        self.frame.guards = (*guards, node.test)
        for branch, outcome in ((node.body, True), (node.orelse, False)):
            names = self.frame.names
            self.frame.names = {**names, **self.narrowed(node.test, outcome)}
            results.append(self.evaluate_branch(branch, node, outcome))
            self.frame.names = names
        self.frame.guards = guards
        return self.choice(results)

    def narrowed(self, test: cst.BaseExpression, outcome: bool) -> dict[str, Value]:
        """What names are once a test of their type, or of being None, has come out as `outcome`."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self.narrowed(test.expression, not outcome)
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) is outcome:
            return {**self.narrowed(test.left, outcome), **self.narrowed(test.right, outcome)}
        if isinstance(test, cst.BooleanOperation):  # one of the two decided it
            left, right = self.narrowed(test.left, outcome), self.narrowed(test.right, outcome)
            return {name: one_of([left[name], right[name]]) for name in left.keys() & right.keys()}
        if isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and len(test.comparisons) == 1:
            comparison = test.comparisons[0]
            if isinstance(comparison.operator, cst.Is | cst.IsNot) and dotted(comparison.comparator) == "None":
                is_none = outcome is isinstance(comparison.operator, cst.Is)
                return self._kept(test.left, lambda value: (value == NONE) is is_none or value is UNKNOWN)
        if isinstance(test, cst.Call) and test.args and isinstance(test.args[0].value, cst.Name):
            subject, called = test.args[0].value, dotted(test.func)
            if called is not None and called.rpartition(".")[2] in {"callable", "isfunction", "is_function"}:
                return self._kept(subject, lambda value: isinstance(value, FunctionValue | Partial) is outcome)
            if called is not None and called.rpartition(".")[2] == "is_tensor":
                return self._tensor_test(subject, outcome)
            if called == "isinstance" and len(test.args) == 2:
                kind = self.evaluate(test.args[1].value)
                if kind == Qualified("torch.nn.Parameter") and outcome:
                    return {subject.value: Tensor(Source.ARGUMENT, requires_grad=True, alias="parameter")}
                if kind == Qualified("torch.nn.Module"):
                    return self._kept(
                        subject, lambda value: isinstance(value, FunctionValue | Scalar | Container) is not outcome
                    )
                if kind == Qualified("torch.Tensor"):
                    return self._tensor_test(subject, outcome)
                parts = _parts(kind)
                excluded = outcome and not any(part == Qualified("torch.Tensor") for part in parts)
                if excluded and all(isinstance(part, Qualified) for part in parts):
                    return self._kept(subject, lambda value: not isinstance(value, Tensor))
        return {}

    def _tensor_test(self, name: cst.Name, outcome: bool) -> dict[str, Value]:
        """What a name is once it is known to be a tensor, or to be none."""
        if not outcome:
            return self._kept(name, lambda value: not isinstance(value, Tensor))
        known = options_of(self.lookup(name.value) or UNKNOWN)
        tensors = [
            replace(option, proven=True) if isinstance(option, Input) else option
            for option in known
            if isinstance(option, Tensor | Parameter | Input)
        ]
        if tensors:
            return {name.value: one_of(tensors)}
        if self.phase is Phase.INIT:  # what may be a number as well is for the caller to place
            return {}
        forward = self.phase is Phase.FORWARD
        return {name.value: INPUT if forward else Tensor(Source.DATA, zero_dim=None, made=self.place(name))}

    def _kept(self, name: cst.Name, keep: Callable[[Value], bool]) -> dict[str, Value]:
        known = self.lookup(name.value)
        return {} if known is None else {name.value: one_of(option for option in options_of(known) if keep(option))}

    # Items

    def _subscript(self, node: cst.Subscript) -> Value:
        of = self.evaluate(node.value)
        index = self._index(node)
        return each(of, lambda option: self.item(option, index, node))

    def _index(self, node: cst.Subscript) -> Value:
        parts: list[Value] = []
        for element in node.slice:
            if isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.Ellipsis):
                parts.append(SLICE)
            elif isinstance(element.slice, cst.Index):
                parts.append(self.evaluate(element.slice.value))
            elif isinstance(element.slice, cst.Slice):
                for bound in (element.slice.lower, element.slice.upper, element.slice.step):
                    if bound is not None:
                        self.evaluate(bound)
                parts.append(SLICE)
        return parts[0] if len(parts) == 1 else Container(Shape.TUPLE, parts, exact=True)

    def item(self, of: Value, index: Value, node: cst.CSTNode) -> Value:
        """What `of[index]` is."""
        if isinstance(of, Container):
            if index is SLICE:
                return Container(of.shape, [of.element()], place=self.place(node), owners=of.owners) if of.items else of
            return of.at(index)
        if isinstance(of, Tensor | Parameter | Input):
            indices = index.items if isinstance(index, Container) else [index]
            for part in indices:
                self.note_use(part, Handling.HARMLESS, node)
            if isinstance(of, Tensor) and any(isinstance(part, Input) for part in indices):
                self.note_use(of, Handling.FAILS, node)
                if any(self.is_placed(part) for part in indices):
                    self.note_fate(of, Fate.FAILS, node)
                elif of.origins and not of.strays:
                    return replace(of, zero_dim=None, made=self.place(node))
                return INPUT
            if isinstance(of, Input):
                return of
            result = self.derived(of, node)
            if isinstance(result, Tensor):
                whole = all(part is SLICE or part == NONE or isinstance(part, Tensor) for part in indices)
                return replace(result, zero_dim=False if whole or not result.origins else None)
            return result
        if isinstance(of, Batch):
            return INPUT if self.phase is Phase.FORWARD else Tensor(Source.DATA, leaf=False, made=self.place(node))
        if isinstance(of, ModuleInstance):
            if index is SLICE:
                return replace(of, place=self.place(node), attributes={})
            return one_of(of.children) if of.children else UNKNOWN
        if isinstance(of, Scalar):
            return ANY_SCALAR
        return UNKNOWN

    def iterate(self, of: Value, node: cst.CSTNode) -> Value:
        """What a loop variable over `of` is."""
        elements: list[Value] = []
        for option in options_of(of):
            if isinstance(option, Container):
                elements.append(one_of(option.keys) if option.shape is Shape.DICT else option.element())
            elif isinstance(option, Loader):
                elements.append(Batch())
            elif isinstance(option, Batch):
                elements.append(Tensor(Source.DATA, leaf=False, made=self.place(node)))
            elif isinstance(option, Input):
                elements.append(option)
            elif isinstance(option, Tensor | Parameter):
                item = self.derived(option, node)
                cut = isinstance(item, Tensor) and bool(item.origins)
                elements.append(replace(item, zero_dim=None) if cut and isinstance(item, Tensor) else item)
            elif isinstance(option, ModuleInstance):
                elements.append(one_of(option.children))
            elif isinstance(option, Scalar | Name):
                elements.append(ANY_SCALAR)
            else:
                elements.append(UNKNOWN)
        return one_of(elements)

    def _elements(self, elements: Iterable[cst.BaseElement]) -> tuple[list[Value], bool]:
        items: list[Value] = []
        exact = True
        for element in elements:
            value = self.evaluate(element.value)
            if isinstance(element, cst.StarredElement):
                exact = False
                items += [
                    item
                    for option in options_of(value)
                    for item in (option.items if isinstance(option, Container) else [self.iterate(option, element)])
                ]
            else:
                items.append(value)
        return items, exact

    def _list(self, node: cst.List) -> Value:
        items, exact = self._elements(node.elements)
        return Container(Shape.LIST, items, place=self.place(node), exact=exact)

    def _tuple(self, node: cst.Tuple) -> Value:
        items, exact = self._elements(node.elements)
        return Container(Shape.TUPLE, items, place=self.place(node), exact=exact)

    def _set(self, node: cst.Set) -> Value:
        items, _ = self._elements(node.elements)
        return Container(Shape.SET, items, place=self.place(node))

    def _dict(self, node: cst.Dict) -> Value:
        result = Container(Shape.DICT, place=self.place(node), exact=True)
        for element in node.elements:
            value = self.evaluate(element.value)
            if isinstance(element, cst.DictElement):
                result.keys.append(self.evaluate(element.key))
                result.items.append(value)
            else:
                result.exact = False
                for option in options_of(value):
                    if isinstance(option, Container):
                        result.keys += option.keys
                        result.items += option.items
        return result

    def _comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Value:
        saved = dict(self.frame.names)
        self._clauses(node.for_in)
        item = self._looped(node.elt)
        self.frame.names = saved
        shape = Shape.SET if isinstance(node, cst.SetComp) else Shape.LIST
        return Container(shape, [item], place=self.place(node))

    def _dict_comprehension(self, node: cst.DictComp) -> Value:
        saved = dict(self.frame.names)
        self._clauses(node.for_in)
        key, item = self._looped(node.key), self._looped(node.value)
        self.frame.names = saved
        return Container(Shape.DICT, [item], [key], place=self.place(node))

    def _looped(self, node: cst.BaseExpression) -> Value:
        self.frame.loops += 1
        value = self.evaluate(node)
        self.frame.loops -= 1
        return value

    def _clauses(self, clause: cst.CompFor) -> None:
        self.bind(clause.target, self.iterate(self.evaluate(clause.iter), clause), clause, None)
        for condition in clause.ifs:
            self.evaluate(condition.test)
        if clause.inner_for_in is not None:
            self._clauses(clause.inner_for_in)

    # Calls and the rest

    def arguments(self, node: cst.Call) -> Arguments:
        """The values of a call's arguments."""
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        complete = True
        for argument in node.args:
            value = self.evaluate(argument.value)
            if argument.star == "*":
                expanded = [
                    item for option in options_of(value) if isinstance(option, Container) for item in option.items
                ]
                exact = isinstance(value, Container) and value.exact
                positional += expanded if expanded else [self.iterate(value, argument)]
                complete = complete and exact
            elif argument.star == "**":
                found = False
                for option in options_of(value):
                    if isinstance(option, Container):
                        for key, item in zip(option.keys, option.items, strict=False):
                            if isinstance(key, Name):
                                keywords[key.text] = item
                                found = True
                complete = complete and found and isinstance(value, Container) and value.exact
            elif argument.keyword is not None:
                keywords[argument.keyword.value] = value
            else:
                positional.append(value)
        return Arguments(tuple(positional), keywords, complete)

    def _call(self, node: cst.Call) -> Value:
        function = self.evaluate(node.func)
        arguments = self.arguments(node)
        self._note_fixed_device(function, node)
        if not isinstance(function, OneOf):
            return self.call_option(function, arguments, node, 1)
        functions = function.options
        open_choices = any(len(options_of(value)) > 1 for value in arguments.values())
        self.muted += open_choices
        called = [self.call_option(option, arguments, node, len(functions)) for option in functions]
        self.muted -= open_choices
        if any(isinstance(made, Tensor) and made.home is not Home.CPU for made in called):
            # One of several types or functions was chosen, and most likely for its device.
            called = [replace(made, origins=frozenset()) if isinstance(made, Tensor) else made for made in called]
        return one_of(called)

    def call_option(self, function: Value, arguments: Arguments, node: cst.Call, options: int) -> Value:
        """What a call gives if `function`, one of so many `options`, is called."""
        return self.call(function, arguments, node)

    def _note_fixed_device(self, function: Value, node: cst.Call) -> None:
        """Note a call that names a CUDA device; one in another file is for the check of that file."""
        if self.facts is None or self.frame.home is not None:
            return
        if node in self.facts.fixed_devices or self.default_devices:
            return
        name = function.name if isinstance(function, Qualified) else None
        literal = named_device(node, name)
        if literal is None:
            return
        options = options_of(function)
        of = one_of(option.of for option in options if isinstance(option, Method)) if name is None else None
        near = self._near() if self.phase is Phase.FORWARD else ()
        self.facts.fixed_devices[node] = FixedDevice(
            self.place(node), literal, of, self.phase, self.frame.function, self.guards, near
        )

    def _lambda(self, node: cst.Lambda) -> Value:
        captured = self._captures(node)
        return FunctionValue(node, self.frame.statement, self.frame.owner, None, captured, self.frame.home)

    def _captures(self, node: cst.Lambda) -> dict[str, Value]:
        captured = self.captured(node.body)
        defaults = {
            parameter.name.value: self.evaluate(parameter.default)
            for parameter in (*node.params.params, *node.params.kwonly_params)
            if parameter.default is not None
        }
        return {**captured, **defaults}

    def captured(self, body: cst.CSTNode) -> dict[str, Value]:
        """The present frame's names that an inner function mentions in its body."""
        mentioned = set(names_in(body))
        return {name: value for name, value in self.frame.names.items() if name in mentioned}

    def _integer(self, node: cst.Integer) -> Value:
        return Scalar(_literal(node.value))

    def _float(self, node: cst.Float) -> Value:
        return Scalar(_literal(node.value))

    def _string(self, node: cst.SimpleString) -> Value:
        text = _literal(node.value)
        return Name(text) if isinstance(text, str) else ANY_SCALAR

    def _formatted_string(self, node: cst.FormattedString) -> Value:
        parts: list[str] = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                parts.append(part.value)
            elif isinstance(part, cst.FormattedStringExpression):
                value = self.evaluate(part.expression)
                parts.append(value.text if isinstance(value, Name) else "{}")
        return Name("".join(parts))

    def _concatenated_string(self, node: cst.ConcatenatedString) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        return Name(left.text + right.text) if isinstance(left, Name) and isinstance(right, Name) else ANY_SCALAR

    def _named(self, node: cst.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.bind(node.target, value, node, node.value)
        return value

    def _await(self, node: cst.Await) -> Value:
        self.evaluate(node.expression)
        return UNKNOWN

    def _yield(self, node: cst.Yield) -> Value:
        if isinstance(node.value, cst.From):
            self.frame.returned.append(self.evaluate(node.value.item))
        elif node.value is not None:
            item = self.evaluate(node.value)
            self.frame.returned.append(Container(Shape.LIST, [item], place=self.place(node)))
        return UNKNOWN

    def _starred(self, node: cst.StarredElement) -> Value:
        return self.iterate(self.evaluate(node.value), node)

    _kinds: ClassVar[dict[type[cst.CSTNode], Callable[[Evaluator, Any], Value]]] = {
        cst.Name: _name,
        cst.Attribute: _attribute,
        cst.Call: _call,
        cst.Subscript: _subscript,
        cst.BinaryOperation: _binary,
        cst.UnaryOperation: _unary,
        cst.BooleanOperation: _boolean,
        cst.Comparison: _comparison,
        cst.IfExp: _conditional,
        cst.List: _list,
        cst.Tuple: _tuple,
        cst.Set: _set,
        cst.Dict: _dict,
        cst.ListComp: _comprehension,
        cst.SetComp: _comprehension,
        cst.GeneratorExp: _comprehension,
        cst.DictComp: _dict_comprehension,
        cst.Lambda: _lambda,
        cst.Integer: _integer,
        cst.Float: _float,
        cst.SimpleString: _string,
        cst.FormattedString: _formatted_string,
        cst.ConcatenatedString: _concatenated_string,
        cst.NamedExpr: _named,
        cst.Await: _await,
        cst.Yield: _yield,
        cst.StarredElement: _starred,
    }
