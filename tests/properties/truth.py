"""What real torch says about a program: which assignments leave something behind when the module moves."""

from __future__ import annotations

import enum
import itertools
import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tests.rules.torch_confirmation import FarDevices, held_by, must_be_registered

FILE = "<program>"


class Left(enum.Enum):
    """What stays behind."""

    TENSOR = "tensor"
    PARAMETER = "parameter"
    TRACKED = "tensor with a gradient"
    MODULE = "module"


@dataclass(frozen=True)
class Kept:
    """What the module of class `owner` has in an attribute once it is built: `lines` are those that assigned it, the
    one that counts last; `left` is what of it stays behind."""

    owner: str
    attribute: str
    lines: tuple[int, ...]
    left: frozenset[Left]


@dataclass
class _Record:
    """The modules that a program builds, and the lines on which it assigns their attributes."""

    modules: dict[int, nn.Module] = field(default_factory=dict)
    lines: dict[tuple[int, str], list[int]] = field(default_factory=dict)


def observe(text: str, choices: int) -> frozenset[Kept]:
    """Run a program once for each way through its choices, and tell what was kept. Raises what the program raises."""
    code = compile(text, FILE, "exec")
    return frozenset(kept for way in range(2**choices) for kept in _run(code, way))


def _run(code: types.CodeType, way: int) -> Iterator[Kept]:
    program = types.ModuleType("program")
    program.__dict__["chance"] = lambda number: bool(way >> number & 1)
    sys.modules[program.__name__] = program
    torch.manual_seed(0)
    random.seed(0)
    try:
        with FarDevices(), recorded() as record:
            exec(code, program.__dict__)
            root: nn.Module = program.__dict__["Net"]()
        yield from _kept(root, record)
    finally:
        del sys.modules[program.__name__]


@contextmanager
def recorded() -> Iterator[_Record]:
    """Record the modules that are built, and what the program itself assigns to their attributes."""
    record = _Record()
    plain_setattr, plain_init = nn.Module.__setattr__, nn.Module.__init__

    def assign(module: nn.Module, name: str, value: Any) -> None:
        caller = sys._getframe(1)
        if caller.f_code.co_filename == FILE:
            record.modules[id(module)] = module
            record.lines.setdefault((id(module), name), []).append(caller.f_lineno)
        plain_setattr(module, name, value)

    def init(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        record.modules[id(module)] = module
        plain_init(module, *args, **kwargs)

    nn.Module.__setattr__, nn.Module.__init__ = assign, init  # type: ignore[method-assign, assignment]
    try:
        yield record
    finally:
        nn.Module.__setattr__, nn.Module.__init__ = plain_setattr, plain_init  # type: ignore[method-assign]


def _kept(root: nn.Module, record: _Record) -> Iterator[Kept]:
    """Move `root`, and then each module that is not registered below it by itself, and look at what they keep."""
    reached = {id(module) for module in root.modules()}
    hidden = [module for module in record.modules.values() if id(module) not in reached]
    yield from _moved(root, list(root.modules()), record)
    for module in hidden:
        yield from _moved(module, [module], record)


def _moved(root: nn.Module, looked_at: list[nn.Module], record: _Record) -> Iterator[Kept]:
    copies: list[torch.Tensor] = []

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        copies.append(tensor.clone())
        return copies[-1]

    root._apply(copied)  # type: ignore[no-untyped-call]
    registered = {id(module) for module in root.modules()}
    moved = {id(tensor) for tensor in itertools.chain(root.parameters(), root.buffers())}
    moved |= {id(tensor) for tensor in copies if not tensor.requires_grad}  # an optimizer would miss the others
    for module in looked_at:
        for (owner, name), lines in record.lines.items():
            if owner == id(module):
                held = vars(module).get(name)
                left = frozenset(_left_behind(held, registered, moved, set()))
                yield Kept(type(module).__name__, name, tuple(lines), left)


def _left_behind(value: object, registered: set[int], moved: set[int], seen: set[int]) -> Iterator[Left]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        if id(value) not in moved:
            if isinstance(value, nn.Parameter):
                yield Left.PARAMETER
            else:
                yield Left.TRACKED if value.requires_grad else Left.TENSOR
    elif isinstance(value, nn.Module):  # what it keeps without registering it is told of its own attributes
        if id(value) not in registered and must_be_registered(value):
            yield Left.MODULE
    else:
        for _, held in held_by(value):
            yield from _left_behind(held, registered, moved, seen)
