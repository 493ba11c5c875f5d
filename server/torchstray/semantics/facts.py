"""What running a module class on paper has shown: the facts that rules speak of."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import libcst as cst

from torchstray.semantics.classes import ClassModel
from torchstray.semantics.values import (
    UNKNOWN,
    FunctionValue,
    ModuleInstance,
    Parameter,
    Place,
    Put,
    Tensor,
    Value,
    contents,
    from_holder,
    one_of,
    options_of,
)

FunctionNode: TypeAlias = cst.FunctionDef | cst.Lambda | None
"""The function that something stands in; None at file level."""


class Phase(enum.Enum):
    """When a statement runs: while the module is built, in `forward` or a step method, in another method, or at file
    level."""

    INIT = enum.auto()
    FORWARD = enum.auto()
    OTHER = enum.auto()
    SCRIPT = enum.auto()


class How(enum.Enum):
    """By what kind of statement an attribute is set; ELEMENT is one of several in `self.a, self.b = [], []`."""

    ASSIGN = enum.auto()
    ELEMENT = enum.auto()
    UNPACK = enum.auto()
    SETATTR = enum.auto()


@dataclass(frozen=True, eq=False)
class Store:
    """`self.attribute = value`. `target` is the place of `self.attribute`, `statement` the assignment (or the call
    of `setattr`), `expression` the right-hand side. `overwrites` are the stores whose values it replaces; `method`
    the function it stands in. `lazily` says that it only runs where the attribute is not there yet."""

    attribute: str
    value: Value
    how: How
    target: Place
    statement: Place
    expression: cst.BaseExpression | None
    phase: Phase
    overwrites: tuple[Store, ...] = ()
    method: FunctionValue | None = None
    in_loop: bool = False
    lazily: bool = False


class Handling(enum.Enum):
    """What happens to a stray where it is used."""

    MOVED = enum.auto()
    HARMLESS = enum.auto()
    HANDED_ON = enum.auto()
    FAILS = enum.auto()


@dataclass(frozen=True)
class Use:
    """A place where what an attribute holds is used."""

    attribute: str
    handling: Handling
    place: Place
    phase: Phase
    method: str | None


@dataclass(frozen=True, eq=False)
class Built:
    """A module or parameter made by the call at `value.place` in `forward` or a step method, `entry`, or in what it
    calls: in `function`. `lazily` says that it is only made where an attribute is not there yet."""

    value: ModuleInstance | Parameter
    entry: str
    function: FunctionValue | None
    in_loop: bool
    lazily: bool


@dataclass(frozen=True, eq=False)
class Registration:
    """The call, at `place`, of `register_buffer` or its like: `kind` is `buffer`, `parameter` or `module`."""

    attribute: str
    kind: str
    value: Value
    place: Place


@dataclass(frozen=True, eq=False)
class Early:
    """A layer, parameter or buffer that is kept at `place` before `nn.Module.__init__` has run. `never` says that it
    never runs."""

    attribute: str
    place: Place
    never: bool


@dataclass(frozen=True, eq=False)
class Emptied:
    """A call, at `place`, that runs `nn.Module.__init__` again and loses the attributes `lost`."""

    place: Place
    statement: Place
    lost: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ClassState:
    """A layer, parameter or tensor that the class statement itself makes and keeps."""

    attribute: str
    value: Value
    target: Place
    statement: Place
    expression: cst.BaseExpression


@dataclass(frozen=True, eq=False)
class DiscardedMove:
    """A tensor's `.to(...)` at `call` whose result nobody keeps; `receiver` is what stays where it is. `gives` is
    what the call returns, and `assignable` whether the receiver can be assigned to, None where that is not known.
    `plain` says that the call is nothing but the move. `assigned` is the assignment to a loop variable that is not
    read again; `item` the text that leads to it in its container."""

    call: Place
    receiver: cst.BaseExpression
    gives: str = "tensor"
    assignable: bool | None = True
    plain: bool = True
    alone: bool = True
    assigned: Place | None = None
    item: str | None = None


@dataclass(frozen=True, eq=False)
class NonLeaf:
    """A tensor assigned at `target` by `statement`, computed from one that requires a gradient, which an optimizer
    gets at `optimizer`."""

    target: Place
    statement: Place
    expression: cst.BaseExpression
    value: Tensor
    optimizer: Place


@dataclass(frozen=True, eq=False)
class Binding:
    """The name that a module gets, such as `self.model`, by `statement` in `function` (None: at file level)."""

    name: str
    statement: Place
    function: FunctionNode


@dataclass(frozen=True, eq=False)
class Attached:
    """A layer that `statement` puts on a module: `target` is what is assigned to, or the call that adds the layer,
    `value` the layer's expression. `moved` is the call that has moved the module before."""

    target: Place
    statement: Place
    value: cst.BaseExpression | None
    function: FunctionNode
    moved: Place | None


@dataclass(frozen=True, eq=False)
class Unmoved:
    """The call, at `call`, of a module with data that `put` has moved, while the module, or `culprit` in it, has not
    moved. `name` is what the module is called there; it is one of so many `choices`, by the branch that made it.
    `certain` says that no branch decides it; `elsewhere` is the call that moves it in another branch, `later` those
    that do so afterwards. `attached` says that `culprit` came too late for a move of the whole. `bindings` are the
    names that the module got, the first one first; `stack` the calls that led to `function`, each with the function it
    stands in."""

    call: Place
    function: FunctionNode
    module: ModuleInstance
    culprit: ModuleInstance
    name: str | None
    put: Put
    choices: int
    certain: bool
    elsewhere: Place | None
    attached: Attached | None
    bindings: tuple[Binding, ...]
    stack: tuple[tuple[Place, FunctionNode], ...]
    later: list[Place] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Late:
    """A layer or parameter that `statement` puts on a module after `optimizer` was built with the module's parameters.
    `target` is what is assigned to, or the call that adds it; `identities` are the modules that are new. `certain` says
    that the optimizer is provably used afterwards."""

    target: Place
    statement: Place
    function: FunctionNode
    optimizer: Place
    root: object
    identities: frozenset[object]
    certain: bool = False


@dataclass(frozen=True, eq=False)
class Left:
    """A layer, parameter or buffer that a module keeps, by `statement`, after it has moved itself by the call at
    `moved`. `module` is None where it is no module."""

    attribute: str
    target: Place
    statement: Place
    value: cst.BaseExpression | None
    module: ModuleInstance | None
    moved: Place


@dataclass(eq=False)
class ClassFacts:
    """All that is known of one module class. `live` maps each attribute to the stores whose values it may hold once
    the module is built, `held` each of these stores to all that it held then; `registered` are the names registered
    by `register_buffer` and the like, `class_values` what the class statement sets; `instance` stands for the module
    itself. `called` are the attributes that are called although nobody knows what they are, `left` and `late` what the
    constructor adds after it has moved the module, or built an optimizer."""

    cls: ClassModel
    instance: ModuleInstance
    live: dict[str, tuple[Store, ...]] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    registered: dict[str, Value] = field(default_factory=dict)
    registrations: list[Registration] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    built: list[Built] = field(default_factory=list)
    early: list[Early] = field(default_factory=list)
    emptied: list[Emptied] = field(default_factory=list)
    class_state: list[ClassState] = field(default_factory=list)
    class_values: dict[str, Value] = field(default_factory=dict)
    held: dict[Store, tuple[Value, ...]] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    moved_by_itself: frozenset[str] = frozenset()
    moves_everything: bool = False
    initialised: bool = False
    init_path: tuple[Place, ...] = ()
    left: list[Left] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)

    def value_of(self, attribute: str) -> Value | None:
        """What reading `self.attribute` gives; None where it is not known to be set."""
        if attribute in self.registered:
            return as_registered(self.registered[attribute])
        if attribute not in self.live:
            pattern = next((name for name in self.live if "{}" in name and matches(name, attribute)), None)
            if pattern is not None:
                return self.value_of(pattern)
            shared = self.class_values.get(attribute)
            return None if shared is None else from_holder(shared, [attribute])
        read: list[Value] = []
        for store in self.live[attribute]:
            for option in options_of(store.value):
                if isinstance(option, Parameter):
                    read.append(as_registered(option))
                elif store.phase is not Phase.INIT or (isinstance(option, Tensor) and option.alias == "parameter"):
                    read.append(option)
                else:
                    read.append(from_holder(option, [attribute]))
        return one_of(read) if read else UNKNOWN

    @property
    def unseen(self) -> Iterator[Store]:
        """The stores whose values may be modules that cannot be seen: what an unknown call gave, what is called, or one
        of two."""
        for store in (store for stores in self.live.values() for store in stores):
            options = options_of(store.value)
            made = isinstance(store.expression, cst.Call) or store.attribute in self.called
            one_seen = len(options) == 1 and isinstance(options[0], ModuleInstance)
            if any(type(option) is Value for option in options):
                if made:
                    yield store
            elif one_seen and isinstance(store.expression, cst.IfExp | cst.BooleanOperation):
                yield store

    def uses_of(self, attribute: str) -> list[Use]:
        """The uses of what an attribute holds, in the order they were met."""
        return [use for use in self.uses if use.attribute == attribute]


def matches(pattern: str, name: str) -> bool:
    """Whether `name` may be what `pattern` gives, with a text for each `{}`."""
    return re.fullmatch(".+".join(map(re.escape, pattern.split("{}"))), name) is not None


def as_registered(value: Value) -> Value:
    """What reading a registered attribute of this value gives."""
    read: list[Value] = []
    for option in options_of(value):
        if isinstance(option, Parameter):
            data = next((part for part in contents(option.data) if isinstance(part, Tensor)), Tensor())
            alias = "buffer" if option.buffer else "parameter"
            read.append(registered_tensor(data, alias))
        elif isinstance(option, Tensor):
            read.append(registered_tensor(option, "buffer"))
        else:
            read.append(option)
    return one_of(read)


def registered_tensor(data: Tensor, alias: str) -> Tensor:
    """A tensor that moves with the module, with the numbers of `data`."""
    return replace(data, alias=alias, strays=frozenset(), parameter=None, requires_grad=alias == "parameter")
