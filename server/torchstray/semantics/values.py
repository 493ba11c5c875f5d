"""What an expression can be worth, as far as devices and registration are concerned."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from torchstray.semantics.torch_api import State

if TYPE_CHECKING:
    from torchstray.semantics.classes import ClassModel
    from torchstray.semantics.imports import OtherFile
    from torchstray.syntax.document import Statement
    from torchstray.text.edits import Span


@dataclass(frozen=True)
class Place:
    """A syntax node together with the top-level statement it stands in."""

    statement: Statement
    node: cst.CSTNode

    @property
    def span(self) -> Span:
        """The node's characters in the document, without its own parentheses."""
        return self.statement.span(self.node)

    @property
    def whole(self) -> Span:
        """The node's characters in the document, with its own parentheses."""
        return self.statement.whole_span(self.node)


class Value:
    """Something about which nothing is known."""

    __slots__ = ()


UNKNOWN = Value()


class _Missing(enum.Enum):
    MISSING = enum.auto()


MISSING = _Missing.MISSING


@dataclass(frozen=True, slots=True)
class Scalar(Value):
    """A number, string, None, size, dtype or device: no tensor and no module. `literal` is its Python value where
    that is written in the source."""

    literal: object = MISSING


NONE = Scalar(None)
ANY_SCALAR = Scalar()


@dataclass(frozen=True, slots=True)
class Name(Value):
    """A string used as an attribute's name; `{}` stands for each part that is made at run time."""

    text: str


@dataclass(frozen=True, slots=True)
class Device(Value):
    """A device, or a tensor or module whose device is meant. `literal` is the text of a literal such as `cuda:0`;
    `read` says that it was read from a tensor (`x.device`), `placed` that it is, in a step, the module's device."""

    literal: str | None = None
    read: bool = False
    placed: bool = False


Conditions: TypeAlias = frozenset[frozenset[tuple[str, bool]]]
"""What holds on a path: of each set of tests and their outcomes, at least one came out so."""


@dataclass(frozen=True, eq=False, slots=True)
class Put:
    """The move of a value to a device, by the call at `place` in `function` (None: at file level). `conditions`
    hold where the value is then not on the CPU; `known` says that nothing else decides it. `guards` are
    the `if` statements around it in `function`, with the outcome of each. `test` is that of `torch.cuda.FloatTensor if
    test else torch.FloatTensor`, which has chosen the device."""

    place: Place
    function: cst.FunctionDef | cst.Lambda | None
    conditions: Conditions = frozenset()
    known: bool = True
    guards: tuple[tuple[cst.If, bool], ...] = ()
    test: cst.BaseExpression | None = None


class Source(enum.IntEnum):
    """Where a tensor's numbers come from; the larger one wins when two tensors meet."""

    CONSTANT = 0
    RANDOM = 1
    DATA = 2
    ARGUMENT = 3


class Home(enum.IntEnum):
    """Which device a tensor is on; the larger one wins when two tensors meet. PLACED is, in a step, the module's."""

    CPU = 0
    FIXED = 1
    GIVEN = 2
    FOLLOWS = 3
    PLACED = 4


class Made(enum.Enum):
    """When a tensor is made that nobody gives a device: by a call in `forward` or in what that calls, at file level,
    with a function's definition, as a default argument, or by a function that remembers what it has returned."""

    HERE = enum.auto()
    FILE = enum.auto()
    DEFAULT = enum.auto()
    CACHED = enum.auto()


@dataclass(frozen=True, eq=False)
class Origin:
    """What makes a tensor on the CPU because nobody names a device: the call, the assigned name, the default argument
    or the cached function at `place`. `name` is what the user calls it by, `function` the one it stands in, `guards`
    the tests around it. `near` are the names there of tensors that are on the module's device; `takes_device` says that
    the call can be given a device. `owner` is the class of a cached method, `call` where the cached function is
    called."""

    made: Made
    place: Place
    name: str
    function: FunctionValue | None = None
    guards: tuple[cst.BaseExpression, ...] = ()
    near: tuple[str, ...] = ()
    takes_device: bool = True
    owner: ClassModel | None = None
    call: Place | None = None


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor that is not, itself, an `nn.Parameter` made here.

    `dtype` is `float`, `int`, `bool`, `complex` or None where unknown. `bounded` says that its numbers are small
    enough (at most 256 in size) for a half-precision cast to be harmless. `strays` names the attributes of `self`
    whose unregistered tensors it is made of without having been moved. `alias` is `parameter` or `buffer` for a
    tensor read from a registered attribute, `Buffer` for an `nn.Buffer`, which registers itself wherever it is kept.
    `zero_dim` is None where its number of dimensions is not known. `tracked` says that it was computed from a
    registered parameter, whose gradient would flow through it. `parameter` is the `nn.Parameter` it was computed from,
    `leaf` False for a result of an operation. `put` is the move that a script has made of it, or of what it was
    computed from. `origins` are what made the tensors that it was computed from on the CPU; with one of them, it is
    certainly there.
    """

    source: Source = Source.CONSTANT
    home: Home = Home.CPU
    dtype: str | None = None
    bounded: bool = False
    zero_dim: bool | None = False
    requires_grad: bool = False
    leaf: bool = True
    strays: frozenset[str] = frozenset()
    alias: str | None = None
    tracked: bool = False
    parameter: Parameter | None = None
    made: Place | None = None
    put: Put | None = None
    origins: frozenset[Origin] = frozenset()

    @property
    def chosen(self) -> bool:
        """Whether somebody chose the device that it is on."""
        return self.home in {Home.GIVEN, Home.PLACED}


@dataclass(eq=False, slots=True)
class Parameter(Value):
    """An `nn.Parameter`, or with `buffer` an `nn.Buffer`, made by the call at `place`."""

    place: Place
    data: Value
    buffer: bool = False
    registered: bool = False


@dataclass(eq=False, slots=True)
class ModuleInstance(Value):
    """An instance of an `nn.Module` class. `state` is None where its class cannot be seen. `place` is the call that
    makes it; `argument` says that it was handed in by the caller, `registered` that some module holds it by a
    registered road. `cls` is its class where that can be seen, `name` the words a user knows the class by. `find` works
    out the state of a class in another file, when it is asked for. `identity` is one for all values that stand for the
    same object. `given` are the tensors made on the CPU that a layer built in `forward` has got."""

    name: str
    state: State | None
    place: Place | None = None
    cls: ClassModel | None = None
    children: list[Value] = field(default_factory=list)
    attributes: dict[str, Value] = field(default_factory=dict)
    argument: bool = False
    registered: bool = False
    inner: bool = False
    find: Callable[[], State | None] | None = None
    identity: object = field(default_factory=object)
    given: list[Value] = field(default_factory=list)

    def whole_state(self, seen: frozenset[int] = frozenset(), fresh: bool = False) -> State | None:
        """The state of this module and of all that it registers; None where nothing is known of any of it. With
        `fresh`, what another module registers or the caller has handed in is left out."""
        if id(self) in seen:
            return None
        own = self.state
        if own is None and self.find is not None:
            own = self.find()
        elif own is None and self.cls is not None:
            own = self.cls.state
        known = [own] if own is not None else []
        for child in modules_in(self.children):
            if fresh and (child.registered or child.argument):
                continue
            state = child.whole_state(seen | {id(self)}, fresh)
            if state is not None:
                known.append(state)
        known += [
            State(parameters=not child.buffer, buffers=child.buffer, mode=False)
            for child in parameters_in(self.children)
        ]
        if not known:
            return None
        return State(
            parameters=any(state.parameters for state in known),
            buffers=any(state.buffers for state in known),
            mode=any(state.mode for state in known),
        )

    def register(self) -> None:
        """Note that a module holds this one by a registered road, and so all that it holds itself."""
        if self.registered:
            return
        self.registered = True
        for child in modules_in(self.children):
            child.register()


class Shape(enum.Enum):
    """The Python type of a container."""

    LIST = "list"
    TUPLE = "tuple"
    DICT = "dict"
    SET = "set"
    DEQUE = "deque"
    OBJECT = "object"


@dataclass(eq=False, slots=True)
class Container(Value):
    """A list, tuple, dict, set or deque. `items` are the values seen to go in, in order; `keys` the keys of a dict.
    `exact` says that the items are all there is, one for each position. `owners` names the attributes of `self` that
    hold it."""

    shape: Shape
    items: list[Value] = field(default_factory=list)
    keys: list[Value] = field(default_factory=list)
    place: Place | None = None
    exact: bool = False
    owners: set[str] = field(default_factory=set)
    grown_at: list[Place] = field(default_factory=list)

    def holds_itself(self) -> bool:
        """Whether it is, at some depth, an item of itself."""
        return any(held is self for item in self.items for held in contents(item))

    def element(self) -> Value:
        """What iteration over the values, or an unknown index, gives."""
        return from_holder(one_of(self.items), self.owners)

    def at(self, key: Value) -> Value:
        """What the item of this key or position is."""
        literal = key.text if isinstance(key, Name) else key.literal if isinstance(key, Scalar) else MISSING
        if self.exact and isinstance(literal, int) and self.shape is not Shape.DICT:
            if -len(self.items) <= literal < len(self.items):
                return from_holder(self.items[literal], self.owners)
        elif isinstance(literal, int) and self.shape is not Shape.DICT:
            return self.one_element()
        elif literal is not MISSING and self.shape is Shape.DICT:
            return self._under(literal) or self.element()
        return self.element()

    def _under(self, literal: object) -> Value | None:
        """What may be kept under this literal key: what is under keys made at run time may be, too. None where nothing
        is known to be."""
        if len(self.keys) != len(self.items):
            return self.named(literal) if self.exact else None
        found, others = [], []
        for key, item in zip(self.keys, self.items, strict=True):
            known = key.text if isinstance(key, Name) else key.literal if isinstance(key, Scalar) else MISSING
            if known == literal:
                found.append(item)
            elif known is MISSING or (isinstance(known, str) and "{}" in known):
                others.append(item)
        return from_holder(one_of([*found, *others]), self.owners) if found else None

    def one_element(self) -> Value:
        """One of the elements, where one value stands for many: what happens to it does not happen to all."""
        return one_of(
            replace(option) if isinstance(option, ModuleInstance | Parameter) else option
            for option in options_of(self.element())
        )

    def named(self, key: object) -> Value | None:
        """What the item, or the field, of this literal key is; None where there is none."""
        for known, item in zip(self.keys, self.items, strict=False):
            if key == (known.text if isinstance(known, Name) else known.literal if isinstance(known, Scalar) else None):
                return from_holder(item, self.owners)
        return None


@dataclass(eq=False, slots=True)
class Distribution(Value):
    """A `torch.distributions` object; `tensors` are its tensors, made on the CPU where it got numbers."""

    name: str
    tensors: list[Value]
    place: Place
    owners: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Instance(Value):
    """An object of a class that can be seen and is no module. `owners` names the attributes of `self` that hold it."""

    cls: ClassModel
    attributes: dict[str, Value] = field(default_factory=dict)
    place: Place | None = None
    owners: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class SelfValue(Value):
    """`self` of the module class that is being looked at."""

    cls: ClassModel


@dataclass(frozen=True, slots=True)
class SuperValue(Value):
    """`super()`: attributes are looked up after `after` in the order of resolution of `of`'s class."""

    of: Value
    after: ClassModel


@dataclass(frozen=True, slots=True)
class ClassValue(Value):
    """A class whose source can be seen."""

    cls: ClassModel


@dataclass(frozen=True, slots=True)
class Qualified(Value):
    """Something imported, by the full name it has where it is defined, such as `torch.nn.Linear`."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class FunctionValue(Value):
    """A function, with what it is bound to and what it captured. `home` is the file that it stands in, None for the one
    that is checked."""

    node: cst.FunctionDef | cst.Lambda
    statement: Statement
    owner: ClassModel | None = None
    bound: Value | None = None
    captured: dict[str, Value] = field(default_factory=dict)
    home: OtherFile | None = None

    @property
    def other_file(self) -> OtherFile | None:
        """The file that it stands in; None for the one that is checked."""
        return self.home if self.home is not None or self.owner is None else self.owner.home


@dataclass(frozen=True, slots=True)
class RecordType(Value):
    """A class made by `namedtuple`, with the names of its fields."""

    fields: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Partial(Value):
    """`functools.partial(function, ...)`: a call that waits."""

    function: Value
    arguments: Arguments


@dataclass(frozen=True, eq=False, slots=True)
class Method(Value):
    """An attribute of a value that is about to be called: `tensor.to`, `list.append`."""

    of: Value
    name: str
    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class OneOf(Value):
    """One of several values, by the branch taken; never nested, never empty."""

    options: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Input(Value):
    """What `forward` is given, or what a registered module computes: on the module's device, if it is a tensor.
    `proven` says that it is one, and `given` that it comes from where that device is certain."""

    proven: bool = False
    put: Put | None = None
    given: bool = False

    @property
    def placed(self) -> bool:
        """Whether it is certainly a tensor, and on the module's device."""
        return self.proven and self.given


@dataclass(frozen=True, slots=True)
class Moved(Value):
    """The result of `.to(device)` on something unknown."""

    put: Put | None = None


@dataclass(frozen=True, slots=True)
class Placed(Value):
    """Something unknown that a script has computed from, or read of, what it moved."""

    put: Put


@dataclass(frozen=True, slots=True)
class Part(Value):
    """A part, at some depth, of a module whose parts cannot be seen."""

    root: ModuleInstance


@dataclass(eq=False, slots=True)
class Optimizer(Value):
    """An optimizer, made by the call at `place` for the parameters of the modules of these identities."""

    place: Place
    identities: frozenset[object]


@dataclass(frozen=True, slots=True)
class Loader(Value):
    """A `torch.utils.data.DataLoader` that puts batches together in torch's own way: it yields tensors."""


@dataclass(frozen=True, slots=True)
class Batch(Value):
    """What such a loader yields: a tensor, or a tuple or dict of them."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call. `complete` is False where `*args` or `**kwargs` hide some."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    complete: bool = True

    def get(self, position: int | None, keyword: str | None) -> Value | None:
        """The argument at this 0-based position or of this keyword; None where it is not given."""
        if keyword is not None and keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def named(self) -> dict[int | str, Value]:
        """All arguments by position or keyword."""
        named: dict[int | str, Value] = dict(enumerate(self.positional))
        named.update(self.keywords)
        return named

    def values(self) -> Iterator[Value]:
        """All arguments, positional ones first."""
        yield from self.positional
        yield from self.keywords.values()


_MOST_OPTIONS = 12


def one_of(values: Iterable[Value]) -> Value:
    """The value that is one of `values`; UNKNOWN where there are none."""
    distinct_values: dict[object, Value] = {}
    for value in values:
        for option in value.options if isinstance(value, OneOf) else (value,):
            distinct_values.setdefault(id(option) if isinstance(option, Tensor) else option, option)
    options = list(distinct_values.values())
    if not options:
        return UNKNOWN
    if len(options) > 1:
        options = [option for option in options if option is not UNKNOWN] or [UNKNOWN]
    if len(options) > _MOST_OPTIONS:  # of many activations, the one with parameters is what matters
        options.sort(key=lambda option: isinstance(option, ModuleInstance) and not (option.state and option.state.any))
    return options[0] if len(options) == 1 else OneOf(tuple(options[:_MOST_OPTIONS]))


def options_of(value: Value) -> tuple[Value, ...]:
    """The values that `value` may be."""
    return value.options if isinstance(value, OneOf) else (value,)


def each(value: Value, work: Callable[[Value], Value]) -> Value:
    """What `work` makes of `value`, whichever it is."""
    return one_of(map(work, value.options)) if isinstance(value, OneOf) else work(value)


def from_holder(value: Value, owners: Iterable[str]) -> Value:
    """`value` as read from something that the attributes `owners` of `self` hold."""
    owners = frozenset(owners)
    if not owners:
        return value
    taken: list[Value] = []
    for option in options_of(value):
        if isinstance(option, Tensor):
            taken.append(replace(option, strays=option.strays | owners, origins=frozenset()))
            continue
        if isinstance(option, Container | Instance | Distribution):
            option.owners |= owners
        taken.append(option)
    return one_of(taken)


def holders(value: Value) -> frozenset[str]:
    """The attributes of `self` that hold, without registering it, what `value` is or is made of."""
    if isinstance(value, Tensor):
        return value.strays
    if isinstance(value, Container | Instance | Distribution):
        return frozenset(value.owners)
    return frozenset()


def contents(value: Value) -> Iterator[Value]:
    """`value` and all that it holds without registering it, each once: items of containers, attributes of plain
    objects, what a partial or an inner function has captured."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        for option in options_of(waiting.pop()):
            if id(option) in seen:
                continue
            seen.add(id(option))
            yield option
            waiting += reversed(list(_inside(option)))


def _inside(value: Value) -> Iterable[Value]:
    if isinstance(value, Container):
        return value.items
    if isinstance(value, Instance):
        return value.attributes.values()
    if isinstance(value, Partial):
        return [value.function, *value.arguments.values()]
    if isinstance(value, Distribution):
        return value.tensors
    if isinstance(value, Method) and isinstance(value.of, ModuleInstance | Instance):
        return [value.of]
    if isinstance(value, FunctionValue):
        return value.captured.values()
    return ()


def made_by(value: Value, origin: Origin) -> Value:
    """`value` with `origin` in place of what made its tensors on the CPU; in containers and objects, they change."""
    for held in contents(value):
        if isinstance(held, Container):
            held.items[:] = [_made_by(item, origin) for item in held.items]
        elif isinstance(held, Instance):
            held.attributes.update({name: _made_by(item, origin) for name, item in held.attributes.items()})
        elif isinstance(held, Distribution):
            held.tensors[:] = [_made_by(tensor, origin) for tensor in held.tensors]
    return _made_by(value, origin)


def _made_by(value: Value, origin: Origin) -> Value:
    origins = frozenset({origin})
    return one_of(
        replace(option, origins=origins) if isinstance(option, Tensor) and option.origins else option
        for option in options_of(value)
    )


def distinct(values: Iterable[Value]) -> list[Value]:
    """`values` without those that are there already: a list that is added to itself again and again stays small."""
    return list({id(value): value for value in values}.values())


def modules_in(values: Iterable[Value]) -> Iterator[ModuleInstance]:
    """The modules among `values` and in what they hold."""
    for value in values:
        for held in contents(value):
            if isinstance(held, ModuleInstance):
                yield held


def parameters_in(values: Iterable[Value]) -> Iterator[Parameter]:
    """The parameters among `values` and in what they hold."""
    for value in values:
        for held in contents(value):
            if isinstance(held, Parameter):
                yield held
