"""What torch's own names mean, from the tables that `scripts/generate_torch_api.py` makes from an installed torch.

All names are fully qualified (`torch.nn.functional.relu`); every look-up takes any public name of a thing, also
`torch.nn.modules.linear.Linear`. What the tables do not know is None, or empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

Returns: TypeAlias = Literal["tensor", "tensors", "module", "other"]
"""`tensors` is a tuple or list of tensors; `other` holds no tensor: numbers, bools, sizes, dtypes, None, handles."""

DtypeKind: TypeAlias = Literal["int", "float", "bool", "complex", "data", "uninitialised"]

Kind: TypeAlias = Literal[
    "autograd_function",
    "buffer",
    "device",
    "distribution",
    "dtype",
    "generator",
    "module",
    "optimizer",
    "packed_sequence",
    "parameter",
    "scheduler",
    "size",
    "tensor",
]

Given: TypeAlias = Mapping[str | int, object]
"""The arguments of a call, by keyword or 0-based position: a literal's value, or `...` where the value is not known."""


@dataclass(frozen=True, slots=True)
class Variant:
    """With this argument (if `value` is set: with this value of it) a call returns something else than without.

    With `integers`, a positional argument counts only if it is an integer literal: `torch.max(x, 1)` gives two
    tensors, `torch.max(x, y)` one.
    """

    argument: str
    position: int | None
    returns: Returns
    value: bool | None = None
    integers: bool = False

    def applies(self, given: Given) -> bool:
        """Whether a call with the arguments `given` is one of this kind; what is not known is taken not to be."""
        if self.argument in given:
            argument = given[self.argument]
        elif self.position is not None and self.position in given:
            argument = given[self.position]
            if self.integers and (not isinstance(argument, int) or isinstance(argument, bool)):
                return False
        else:
            return False
        return argument is not None if self.value is None else argument is self.value


@dataclass(frozen=True, slots=True)
class Function:
    """A function, a static or class method of a layer, or a class that makes plain tensors (`torch.FloatTensor`).

    `factory`: it makes tensors where no tensor is given. `like`: it takes a `device` and, without one, uses the
    device of its tensor argument. `random`: another seed gives another result. `same_object`: it may return its
    first argument. `dtype_kind` is for factories: `data` follows the data or the fill value; `int` for `arange`
    holds for integers. `module` is the class of the layer that a class method such as
    `torch.nn.Embedding.from_pretrained` makes.
    """

    name: str
    returns: Returns | None
    device: bool = False
    factory: bool = False
    random: bool = False
    dtype: bool = False
    dtype_kind: DtypeKind | None = None
    requires_grad: bool = False
    like: bool = False
    same_object: bool = False
    module: str | None = None
    variants: tuple[Variant, ...] = ()

    def returned(self, given: Given) -> Returns | None:
        """What a call with the arguments `given` returns."""
        return _returned(self, given)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of torch.Tensor; positions of its variants do not count `self`.

    `inplace`: changes and returns the tensor. `moves`: may put the result on another device. `like`: makes a new
    tensor on the device of this one if no `device` is given. `same_object`: may return the very tensor, if there is
    nothing to do. `keeps_parameter`: returns the very `nn.Parameter`, if that is a float32 one on the CPU and the
    arguments ask for nothing else.
    """

    name: str
    returns: Returns | None
    device: bool = False
    inplace: bool = False
    moves: bool = False
    like: bool = False
    random: bool = False
    same_object: bool = False
    keeps_parameter: bool = False
    variants: tuple[Variant, ...] = ()

    def returned(self, given: Given) -> Returns | None:
        """What a call with the arguments `given` returns."""
        return _returned(self, given)


def _returned(callee: Function | Method, given: Given) -> Returns | None:
    for variant in callee.variants:
        if variant.applies(given):
            return variant.returns
    return callee.returns


@dataclass(frozen=True, slots=True)
class State:
    """What a module has that `to`, `state_dict`, `parameters` and `eval` must reach."""

    parameters: bool
    buffers: bool
    mode: bool

    @property
    def any(self) -> bool:
        """Whether it has anything."""
        return self.parameters or self.buffers or self.mode


@dataclass(frozen=True, slots=True)
class ModuleClass:
    """A class of layers.

    `bases` are all its bases within torch, nearest first. `arguments` are the positional parameters of the
    constructor in order (`*args` with its star), `keywords` those by keyword only. `state` is what an instance has
    by default, a layer that must be given being taken to have state. A tensor given for one of `tensor_arguments`
    becomes a parameter or a buffer; a module, or a list or dict of modules, given for one of `submodule_arguments` a
    submodule.
    """

    name: str
    bases: tuple[str, ...]
    arguments: tuple[str, ...]
    keywords: tuple[str, ...]
    state: State
    tensor_arguments: tuple[str, ...]
    submodule_arguments: tuple[str, ...]
    device: bool
    switches: Mapping[str, Mapping[str, Mapping[str, bool]]]

    def state_for(self, given: Mapping[str, object]) -> State:
        """The state of an instance built with the arguments `given`, by keyword, as literal values.

        Only what `given` holds counts: a value that is not known is left out, or `...`, and leaves the default's
        state. Whether a tensor or a module is given is for the caller to see: `tensor_arguments`,
        `submodule_arguments`.
        """
        facts = {"parameters": self.state.parameters, "buffers": self.state.buffers, "mode": self.state.mode}
        for argument, value in given.items():
            word = _word(value)
            if word is not None:
                facts |= self.switches.get(argument, {}).get(word, {})
        return State(**facts)


def _word(value: object) -> str | None:
    """The tables' word for an argument's value, None for what no table asks about."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "nonzero" if value else "zero"
    return None


@dataclass(frozen=True, slots=True)
class ModuleMethod:
    """A method of torch.nn.Module: `returns_self` if its result is the module, `moves` if it moves the module."""

    name: str
    returns_self: bool = False
    moves: bool = False


@cache
def _tables() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("torch_api.json").read_bytes()
    tables: dict[str, Any] = json.loads(text)
    return tables


def canonical(name: str) -> str:
    """The shortest public name for what `name` means; `name` itself if it is not known."""
    aliases: dict[str, str] = _tables()["aliases"]
    return aliases.get(name, name)


@cache
def function(name: str) -> Function | None:
    """The function of that name."""
    entry = _tables()["functions"].get(canonical(name))
    return None if entry is None else Function(canonical(name), **_with_variants(entry))


@cache
def method(name: str) -> Method | None:
    """The method of torch.Tensor of that plain name."""
    entry = _tables()["methods"].get(name)
    return None if entry is None else Method(name, **_with_variants(entry))


def _with_variants(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"variants": tuple(Variant(**{"position": None} | line) for line in entry.get("variants", ()))}


def attribute(name: str) -> Literal["tensor", "other"] | None:
    """What the attribute of a tensor of that plain name is."""
    found: Literal["tensor", "other"] | None = _tables()["attributes"].get(name)
    return found


@cache
def module_class(name: str) -> ModuleClass | None:
    """The class of layers of that name."""
    entry = _tables()["modules"].get(canonical(name))
    if entry is None:
        return None
    return ModuleClass(
        name=canonical(name),
        bases=tuple(entry["bases"]),
        arguments=tuple(entry["arguments"]),
        keywords=tuple(entry.get("keywords", ())),
        state=State(*(entry.get(fact, False) for fact in ("parameters", "buffers", "mode"))),
        tensor_arguments=tuple(entry.get("tensor_arguments", ())),
        submodule_arguments=tuple(entry.get("submodule_arguments", ())),
        device=entry.get("device", False),
        switches=entry.get("switches", {}),
    )


@cache
def module_method(name: str) -> ModuleMethod | None:
    """The method of torch.nn.Module of that plain name."""
    entry = _tables()["module_methods"].get(name)
    return None if entry is None else ModuleMethod(name, **entry)


def module_methods() -> tuple[str, ...]:
    """The plain names of the methods of torch.nn.Module."""
    return tuple(_tables()["module_methods"])


def module_attributes() -> tuple[str, ...]:
    """The plain names of what else every module holds, such as `training`."""
    return tuple(_tables()["module_attributes"])


def kind(name: str) -> Kind | None:
    """What an instance of the class of that name is."""
    found: Kind | None = _tables()["kinds"].get(canonical(name))
    return found


def exports(module: str) -> tuple[str, ...]:
    """The names of torch's own things that `from module import *` binds."""
    return tuple(_tables()["exports"].get(module, ()))


@cache
def _namespaces() -> frozenset[str]:
    return frozenset(_tables()["namespaces"])


def is_namespace(name: str) -> bool:
    """Whether `name` is a public module of torch."""
    return name in _namespaces()


def dtype_kind(name: str) -> Literal["int", "float", "bool", "complex"] | None:
    """What the dtype of that name, such as `torch.float32` or `torch.half`, holds."""
    found: Literal["int", "float", "bool", "complex"] | None = _tables()["dtypes"].get(name)
    return found


def optimizers() -> Mapping[str, tuple[str, ...]]:
    """The optimizers with the names of their constructor's arguments, in order."""
    return {name: tuple(arguments) for name, arguments in _tables()["optimizers"].items()}


def distributions() -> Mapping[str, tuple[str, ...]]:
    """The distributions with the names of their constructor's arguments, in order."""
    return {name: tuple(arguments) for name, arguments in _tables()["distributions"].items()}


def distribution_member(name: str) -> Literal["tensor", "tensors", "other"] | None:
    """What the method of that plain name of a distribution returns, or its property is."""
    found: Literal["tensor", "tensors", "other"] | None = _tables()["distribution_members"].get(name)
    return found


@cache
def keeping_dimensions() -> frozenset[str]:
    """The plain names of functions and methods that never turn a tensor with dimensions into one without."""
    return frozenset(_tables()["keeping_dimensions"])


def tensor_arguments(name: str) -> frozenset[int | str] | None:
    """The arguments that may be tensors, or lists of them, in the function or method of that plain name: by position
    (`self` of a method counted) and keyword; None where that is not known."""
    found: list[int | str] | None = _tables()["tensor_arguments"].get(name)
    return None if found is None else frozenset(found)


def torch_version() -> str:
    """The version of the torch that the tables are made from."""
    version: str = _tables()["torch"]
    return version
