"""What a module keeps without registering it, and how surely that fails."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchstray.semantics import ecosystem
from torchstray.semantics.facts import ClassFacts, Handling, Phase, Store, Use
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import (
    Container,
    Distribution,
    Instance,
    ModuleInstance,
    Parameter,
    Source,
    Tensor,
    Value,
    contents,
    options_of,
)


class Kind(enum.Enum):
    """What stays behind."""

    MODULE = enum.auto()
    COMPUTED = enum.auto()
    PARAMETER = enum.auto()
    TENSOR = enum.auto()


@dataclass(frozen=True)
class Stray:
    """What an attribute keeps without registering it. `store` is the first assignment that keeps such a thing,
    `values` the strays themselves, `holder` the value that the attribute has: the stray itself, or what it is in."""

    kind: Kind
    facts: ClassFacts
    store: Store
    holder: Value
    values: tuple[Value, ...]

    @property
    def attribute(self) -> str:
        """The attribute's name; `{}` stands for each part that is made at run time."""
        return self.store.attribute

    @property
    def state(self) -> State:
        """The state of the modules that stay behind."""
        states = [value.whole_state() for value in self.values if isinstance(value, ModuleInstance)]
        known = [state if state is not None else _ANY_STATE for state in states]
        return State(
            parameters=any(state.parameters for state in known),
            buffers=any(state.buffers for state in known),
            mode=any(state.mode for state in known),
        )

    @property
    def placed(self) -> bool:
        """Whether all of it was made on a device that somebody chose, so that it works until the module moves again."""
        return all(isinstance(value, Tensor) and value.chosen for value in self.values)

    @property
    def handed_in(self) -> bool:
        """Whether all of it comes from the caller, who may have put it where it belongs."""
        return all(
            value.argument
            if isinstance(value, ModuleInstance)
            else isinstance(value, Tensor) and value.source is Source.ARGUMENT
            for value in self.values
        )

    @property
    def later(self) -> list[Store]:
        """The stores by which methods that do not build the module give the attribute a new value."""
        own = [store for store in self.facts.stores if store.attribute == self.attribute]
        building = {store.statement.node for store in own if store.phase is Phase.INIT}
        return [store for store in own if store.statement.node not in building]

    @property
    def moved_later(self) -> bool:
        """Whether a method of the class moves it, so that it works where that is called."""
        values = [option for store in self.later for option in options_of(store.value)]
        return any(isinstance(value, Tensor) and value.chosen for value in values)

    @property
    def overwritten_later(self) -> bool:
        """Whether another method gives the attribute a new value, so that this one may be a placeholder."""
        return bool(self.later)

    @property
    def failing(self) -> Use | None:
        """The first use in `forward` that fails on another device."""
        if self.placed or self.moved_later:
            return None
        return next(
            (use for use in self.uses if use.handling is Handling.FAILS and use.phase is Phase.FORWARD),
            None,
        )

    @property
    def uses(self) -> list[Use]:
        """The uses of what the attribute holds once the module is built."""
        return [use for use in self.facts.uses_of(self.attribute) if use.phase is not Phase.INIT]


# What a module that was handed in, or copied from one, is taken to have.
_ANY_STATE = State(parameters=True, buffers=True, mode=True)


def strays(facts: ClassFacts, everywhere: bool = False) -> tuple[Stray, ...]:
    """What is left behind by a module's `.to()`, one for each assignment that keeps it; with `everywhere`, also what
    bases in other files keep. To be asked once everything has been run."""
    if everywhere:
        return tuple(_strays(facts, everywhere))
    if facts.strays is None:
        facts.strays = tuple(_strays(facts, everywhere))
    return facts.strays


def _strays(facts: ClassFacts, everywhere: bool) -> Iterator[Stray]:
    reported: set[Store] = set()
    for store in lasting(facts):
        if store.elsewhere and not everywhere:
            continue
        found = _stray(facts, store)
        if found is None:
            continue
        earlier = _first(facts, found) if not store.elsewhere else found
        if earlier.store not in reported:
            reported.add(earlier.store)
            yield earlier


def lasting(facts: ClassFacts) -> Iterator[Store]:
    """The stores whose values the built module has, and those by which a method other than the steps fills it later."""
    for stores in facts.live.values():
        yield from stores
    known = {store for stores in facts.live.values() for store in stores}
    building = {store.statement.node for store in facts.stores if store.phase is Phase.INIT}
    for store in facts.stores:
        later = store.phase is Phase.OTHER and store.statement.node not in building
        if later and store not in known and store.attribute not in facts.live:
            yield store


def _first(facts: ClassFacts, stray: Stray) -> Stray:
    """The same stray where the attribute first keeps one: an attribute that is assigned again is reported at the
    first."""
    found, waiting, seen = stray, list(stray.store.overwrites), {stray.store}
    while waiting:
        store = waiting.pop(0)
        if store in seen or store.elsewhere:
            continue
        seen.add(store)
        earlier = _stray(facts, store)
        if earlier is not None and earlier.kind is stray.kind:
            found = earlier
            waiting += store.overwrites
    return found


def _stray(facts: ClassFacts, store: Store) -> Stray | None:
    made_in_forward = {id(built.value) for built in facts.built}
    for holder in options_of(store.value):
        if isinstance(holder, ModuleInstance | Parameter) or (isinstance(holder, Tensor) and holder.alias == "Buffer"):
            continue
        everything = [value for value in contents(holder) if id(value) not in made_in_forward]
        modules = tuple(value for value in everything if isinstance(value, ModuleInstance) and _stays(value, holder))
        if modules:
            return Stray(Kind.MODULE, facts, store, holder, modules)
        if store.phase is not Phase.INIT:
            continue
        held = facts.held.get(store)
        kept = {id(value) for value in held} if held is not None else None
        inside = everything if kept is None else [value for value in everything if id(value) in kept]
        if isinstance(holder, Instance) and held is not None and options_of(store.value) == (holder,):
            inside = [value for value in held if id(value) not in made_in_forward]
        every = [value for value in inside if isinstance(value, Tensor)]
        computed = tuple(value for value in every if value.parameter is not None and not value.parameter.registered)
        if computed:
            return Stray(Kind.COMPUTED, facts, store, holder, computed)
        parameters = tuple(
            value
            for value in inside
            if (isinstance(value, Parameter) and not value.registered)
            or (
                isinstance(value, Tensor)
                and value.requires_grad
                and value.alias is None
                and value.parameter is None
                and not _cured_elsewhere(facts, store, value)
            )
        )
        if parameters:
            return Stray(Kind.PARAMETER, facts, store, holder, parameters)
        if facts.moves_everything or store.attribute in facts.moved_by_itself:
            continue
        if any(ecosystem.moves_itself(name, store.attribute) for name in facts.cls.outside):
            continue
        plain = tuple(
            value for value in every if value.alias != "parameter" and not _cured_elsewhere(facts, store, value)
        )
        if plain and not _only_arguments(holder, plain):
            return Stray(Kind.TENSOR, facts, store, holder, plain)
        if isinstance(holder, Distribution) and any(isinstance(tensor, Tensor) for tensor in holder.tensors):
            return Stray(Kind.TENSOR, facts, store, holder, tuple(holder.tensors))
    return None


def _cured_elsewhere(facts: ClassFacts, store: Store, tensor: Tensor) -> bool:
    """Whether a tensor is another name of one with a gradient that another attribute keeps, or computed from that."""
    others = (other for name in tensor.strays - {store.attribute} for other in facts.live.get(name, ()))
    kept = (held for other in others for held in contents(other.value))
    return tensor.requires_grad and any(isinstance(held, Tensor) and held.requires_grad for held in kept)


def _stays(module: ModuleInstance, holder: Value) -> bool:
    """Whether a module that `holder` keeps is left behind."""
    if module.registered:
        return False
    if module.argument:
        known = module.find() if module.find is not None else None
        if known is not None and not known.any:
            return False
        # One module in a list or tuple is how people keep a parent or a teacher out of the way.
        return isinstance(holder, Container) and not (holder.exact and len(holder.items) == 1)
    state = module.whole_state()
    return state.any if state is not None else module.cls is None


def _only_arguments(holder: Value, tensors: tuple[Value, ...]) -> bool:
    """Whether a plain object or a container holds nothing but tensors that the caller handed in."""
    return isinstance(holder, Container | Instance) and all(
        isinstance(tensor, Tensor) and tensor.source is Source.ARGUMENT for tensor in tensors
    )


def is_stub(method: cst.FunctionDef | None) -> bool:
    """Whether a method has no body to speak of, so that nothing can be said of what it uses."""
    if method is None:
        return True
    for line in method.body.body:
        small = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for statement in small if isinstance(small, list | tuple) else [line]:
            if isinstance(statement, cst.Pass | cst.Raise):
                continue
            if isinstance(statement, cst.Expr) and isinstance(
                statement.value, cst.Ellipsis | cst.SimpleString | cst.ConcatenatedString
            ):
                continue
            return False
    return True
