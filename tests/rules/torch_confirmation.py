"""What real torch says about an example: what a move leaves behind, what `forward` builds, and what comes out.

Each observation runs the example anew, four times: once to run `forward` on the CPU, once to move the module and walk
it, once to run it moved, and once to run it, move it and run it again. A repair moves constructions to other places, so
the random numbers of a program and of its repair would be drawn in another order; `SteadyDraws` keeps them comparable.

The move that is walked replaces the data of every registered tensor by a copy, exactly as a move to a GPU does:
parameters change in place, so an alias of one follows; buffers are replaced, so an alias of one stays behind.
The move that is run goes to the meta device, where most operations refuse to mix devices.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

MODULE_NAME = "example"
SEED = 20
MIXED_DEVICES = re.compile(r"(on|at) the (same|expected) device|not on the expected device|same device")


@dataclass(frozen=True)
class Observation:
    """What an example shows. `failure` says why it could not be built or run on the CPU; then there is no `output`."""

    failure: BaseException | None
    strays: tuple[str, ...]
    built_in_forward: tuple[str, ...]
    mixed_devices: str | None
    state_keys: frozenset[str]
    output: Any

    @property
    def faults(self) -> tuple[str, ...]:
        """All that is wrong, in words; nothing for a module that can be moved."""
        faults = [f"{stray} stays behind" for stray in self.strays]
        faults += [f"forward builds {built}" for built in self.built_in_forward]
        if self.mixed_devices is not None:
            faults.append(f"fails when moved: {self.mixed_devices}")
        if self.failure is not None:
            faults.append(f"{type(self.failure).__name__}: {self.failure}")
        return tuple(faults)


def observe(code: str, build: str, inputs: str) -> Observation:
    """Run `code`, make the module with `build` and call it with `inputs`, and tell what happens.

    Only an AttributeError is an observation, since that is how torch answers to layers that are assigned before
    `super().__init__()`, or lost by a second one. Every other exception is a mistake in the example, and raised.
    """
    try:
        with fresh_program(code) as evaluate:
            module = evaluate(build)
            keys = frozenset(module.state_dict())
            arguments = evaluate(inputs)
            with constructions() as built:
                output = module(*arguments)
    except AttributeError as failure:
        return Observation(failure, (), (), None, frozenset(), None)
    with fresh_program(code) as evaluate:
        strays = tuple(sorted(left_behind(evaluate(build))))
    mixed = run_moved(code, build, inputs) or run_moved(code, build, inputs, after_a_call=True)
    return Observation(None, strays, tuple(dict.fromkeys(kept_kinds(built))), mixed, keys, output)


@contextmanager
def fresh_program(code: str) -> Iterator[Callable[[str], Any]]:
    """Run `code` as a module of its own and give a function that evaluates expressions in it, all under one seed."""
    program = types.ModuleType(MODULE_NAME)
    before = sys.modules.get(MODULE_NAME)
    sys.modules[MODULE_NAME] = program  # dataclasses and pickle look a class's module up
    try:
        random.seed(SEED)
        np.random.seed(SEED)  # the examples use the global generator
        with FarDevices(), SteadyDraws():
            exec(compile(code, f"<{MODULE_NAME}>", "exec"), program.__dict__)

        def evaluate(expression: str) -> Any:
            with FarDevices(), SteadyDraws():
                return eval(expression, program.__dict__)

        with FarDevices(), SteadyDraws():
            yield evaluate
    finally:
        if before is None:
            del sys.modules[MODULE_NAME]
        else:
            sys.modules[MODULE_NAME] = before


class SteadyDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes what is drawn at random independent of what else is drawn before.

    Draws of one operation with arguments of one shape are a sequence of their own, each with its own seed. So a layer
    gets the same weights in `forward` as in `__init__`, as long as layers of the same shape are made in the same
    order. (One seed for all would not do: rejection sampling would draw the same rejected numbers for ever.)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._numbers: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            signature = repr((str(func), tree_map_only(torch.Tensor, lambda tensor: tuple(tensor.shape), args)))
            self._numbers[signature] += 1
            torch.default_generator.manual_seed(SEED + self._numbers[signature])
        return func(*args, **(kwargs or {}))


class FarDevices(TorchFunctionMode):
    """Makes a move to a device a copy, as it is where that device is another one, and takes the CPU for every GPU.

    So `nn.Parameter(...).to(device)` is the computed tensor that it is in real life.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0].clone()
        args, kwargs = tuple(map(reachable, args)), {key: reachable(value) for key, value in (kwargs or {}).items()}
        result = func(*args, **kwargs)
        moves = func is torch.Tensor.to and any(map(is_device, (*args[1:], *kwargs.values())))
        return result.clone() if moves and result is args[0] else result


def is_device(argument: object) -> bool:
    """Tell whether an argument of `Tensor.to` names a device."""
    return isinstance(argument, (str, torch.device))


def reachable(argument: object) -> object:
    """Return the CPU for the name of a GPU, and everything else as it is."""
    return "cpu" if is_device(argument) and str(argument).startswith("cuda") else argument


@contextmanager
def constructions() -> Iterator[list[nn.Module | nn.Parameter]]:
    """Collect the modules and parameters that are built inside."""
    built: list[nn.Module | nn.Parameter] = []
    plain_init, plain_new = nn.Module.__init__, nn.Parameter.__dict__["__new__"]

    def init(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        built.append(module)
        plain_init(module, *args, **kwargs)

    def new(cls: type, *args: Any, **kwargs: Any) -> nn.Parameter:
        parameter: nn.Parameter = plain_new.__func__(cls, *args, **kwargs)
        built.append(parameter)
        return parameter

    nn.Module.__init__, nn.Parameter.__new__ = init, staticmethod(new)  # type: ignore[method-assign, assignment]
    try:
        yield built
    finally:
        nn.Module.__init__, nn.Parameter.__new__ = plain_init, plain_new  # type: ignore[method-assign]


def kept_kinds(built: Iterable[nn.Module | nn.Parameter]) -> Iterator[str]:
    """Name the kinds of what was built, without the modules that are as good as functions."""
    for thing in built:
        if isinstance(thing, nn.Parameter) or must_be_registered(thing):
            yield type(thing).__name__


def must_be_registered(module: nn.Module) -> bool:
    """Tell whether a module has something to move, to train or to save, or behaves otherwise in training."""
    if any(True for _ in itertools.chain(module.parameters(), module.buffers())):
        return True
    forwards = (part.forward for part in module.modules() if isinstance(part.forward, types.MethodType))
    return any("training" in forward.__code__.co_names for forward in forwards)


def left_behind(root: nn.Module) -> Iterator[str]:
    """Move `root` and yield the paths of the tensors that did not move, and of modules that are not registered."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if nn.parameter.is_lazy(tensor) else tensor.clone()

    root._apply(copied)  # type: ignore[no-untyped-call]
    registered = {id(module): module for module in root.modules()}
    moved = {id(tensor) for tensor in itertools.chain(root.parameters(), root.buffers())}
    seen: dict[int, object] = {}

    def walk(path: str, value: object) -> Iterator[str]:
        if isinstance(value, torch.Tensor):
            if id(value) not in moved:
                yield path
            return
        if id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, nn.Module) and id(value) not in registered and must_be_registered(value):
            yield path
            return
        for step, held in held_by(value):
            yield from walk(path + step, held)

    for name, module in root.named_modules(prefix="self"):
        yield from walk(name, module)


REGISTERED_IN = {"_parameters", "_buffers", "_modules"}


def held_by(value: object) -> Iterator[tuple[str, object]]:
    """Yield what a value that is no tensor holds, each with its step in the path; registered state is left out."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", held) for key, held in value.items())
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        yield from ((f"[{number}]", held) for number, held in enumerate(value))
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if name != "__class__":
                yield f".<{name}>", cell.cell_contents
    elif not isinstance(value, (type, types.ModuleType)):
        slots = (name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ()))
        attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(
            value, "__dict__", {}
        )
        yield from ((f".{name}", held) for name, held in attributes.items() if name not in REGISTERED_IN)
        yield from held_by_class(type(value))


def held_by_class(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the class attributes of a class of the example and of its bases there; methods hold nothing."""
    for owner in cls.__mro__:
        if owner.__module__ == MODULE_NAME:
            for name, held in vars(owner).items():
                if not isinstance(held, (types.FunctionType, staticmethod, classmethod, property)):
                    yield f".{owner.__name__}.{name}", held


def run_moved(code: str, build: str, inputs: str, after_a_call: bool = False) -> str | None:
    """Run the module on the meta device and return the message where devices are mixed; `after_a_call`, it has been run
    on the CPU before it was moved.

    None also where it ends in another way: what depends on values cannot run without data.
    """
    with fresh_program(code) as evaluate:
        module = evaluate(build)
        arguments = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), evaluate(inputs))
        try:
            if after_a_call or any(is_lazy(parameter) for parameter in module.parameters()):
                module(*evaluate(inputs))  # a move to the meta device takes the laziness away, one to a GPU does not
            with parameters_changed_in_place():
                module.to("meta")
            module(*arguments)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            return str(error) if MIXED_DEVICES.search(str(error)) else None
    return None


@contextmanager
def parameters_changed_in_place() -> Iterator[None]:
    """Have a move to the meta device change parameters in place, as one to a GPU does."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def same(one: object, other: object) -> bool:
    """Tell whether two outputs are equal, tensors up to rounding. Raises TypeError for what cannot be compared."""
    pairs = itertools.zip_longest(tree_leaves(one), tree_leaves(other))
    return all(_same_leaf(left, right) for left, right in pairs)


def _same_leaf(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and torch.allclose(one, other, atol=1e-6, equal_nan=True)
    if isinstance(one, (int, float, str, bool, types.NoneType)):
        return one == other
    raise TypeError(f"an output of type {type(one).__name__} cannot be compared")
