"""Tensors that are kept for later calls, although the module may move in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchstray.rules.repairs import argument_span, row_of, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.devices import asks_for_device
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, Fate, KeptItem, Meeting, Phase, Remembered, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import children, dotted, walk
from torchstray.semantics.values import (
    Device,
    FunctionValue,
    Input,
    Origin,
    Parameter,
    Place,
    Source,
    Tensor,
    Value,
    contents,
)
from torchstray.text.edits import Edit


class StaleCache(Rule):
    """## What it finds

    Tensors that a module makes when they are first needed and keeps for later calls, where nothing asks for the device
    before they are used again:

    - `if self.mask is None: self.mask = torch.ones(…, device=x.device)`, in `forward()`, a step method, a property or
      what those call; also with `hasattr`, or where only a size is compared;
    - a dict of the module whose keys are sizes: `if n not in self.masks: self.masks[n] = …`;
    - `functools.cached_property`, and methods with `functools.cache` or `lru_cache`, that return tensors and are not
      given a device;
    - a device that is remembered, `self.device = self.weight.device`, in `__init__` or in a `to()` of one's own, where
      `forward()` makes tensors on it.

    ## Why it matters

    Such a tensor is on the device of the first call. A module moves: it is tried on the CPU and then trained on a GPU,
    loaded on one GPU and used on another. `.to(device)` does not reach the cache, so the next call mixes the two:

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

    It is a warning, because nothing fails as long as the module stays where it was first called. It is an error where
    the tensor is made on the CPU and the very first call on a GPU fails.

    ## Example

    ```python
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = None

        def forward(self, x):
            n = x.size(1)
            if self.mask is None or self.mask.size(0) != n:
                self.mask = torch.ones(n, n, device=x.device).tril()
            return x * self.mask
    ```

    ## Repair

    ```python
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = None

        def forward(self, x):
            n = x.size(1)
            if self.mask is None or self.mask.size(0) != n or self.mask.device != x.device:
                self.mask = torch.ones(n, n, device=x.device).tril()
            return x * self.mask
    ```

    This is safe: on one device, the test is never true. In a dict the device becomes a part of the key. A cached
    property becomes a property, which is safe for what can be computed again from constants; what depends on parameters
    or is drawn at random is another one at each call. Where its size is known in `__init__`, a buffer is better than
    any cache.

    ## When to ignore it

    Where the module is moved before its first call, and never after it.

    Nothing is said where the test asks for the device, where the device is a part of the key or an argument of the
    cached method, where whatever reads the cache moves it (`self.mask.to(x.device)`), of state that every call sets
    anew, such as hidden states, of numbers and sizes, and of classes that move their own in `_apply`. A tensor that
    `__init__` keeps is `unregistered-tensor`.
    """

    name = "stale-cache"
    summary = "a tensor kept for later calls, whose reuse does not check the device"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        n = x.size(1)
        if self.mask is None or self.mask.size(0) != n:
            «self.mask» = torch.ones(n, n, device=x.device).tril()
        return x * self.mask
""",
            messages=(
                "`self.mask` is kept for later calls whatever the device is by then, so once the module has moved, "
                "`forward` (line 14) gets it on the old one and fails; compare its device, too.",
            ),
            repaired="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        n = x.size(1)
        if self.mask is None or self.mask.size(0) != n or self.mask.device != x.device:
            self.mask = torch.ones(n, n, device=x.device).tril()
        return x * self.mask
""",
            build="Attention()",
            inputs="(torch.rand(2, 3, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Ramp(nn.Module):
    def forward(self, x):
        if not hasattr(self, "ramp"):
            «self.ramp» = torch.linspace(0, 1, x.size(-1))
        return x * self.ramp
""",
            messages=(
                "`self.ramp` is made on the CPU and kept for later calls, so `forward` (line 9) fails on a GPU; "
                "compare its device, too.",
            ),
            repaired="""\
import torch
from torch import nn


class Ramp(nn.Module):
    def forward(self, x):
        if not hasattr(self, "ramp") or self.ramp.device != x.device:
            self.ramp = torch.linspace(0, 1, x.size(-1), device=x.device)
        return x * self.ramp
""",
            build="Ramp()",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import Tensor, nn


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.grids: dict[int, Tensor] = {}

    def grid(self, like):
        size = like.size(-1)
        if size not in self.grids:
            steps = torch.arange(size, device=like.device)
            «self.grids[size]» = torch.stack([steps, steps.flip(0)])
        return self.grids[size]

    def forward(self, x: Tensor):
        return x[:, None] + self.grid(x)
""",
            messages=(
                "`self.grids[size]` is kept for later calls whatever the device is by then, so once the module has "
                "moved, `forward` gets it on the old one and fails; make the device a part of the key.",
            ),
            repaired="""\
import torch
from torch import Tensor, nn


class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.grids: dict[int, Tensor] = {}

    def grid(self, like):
        size = like.size(-1)
        if (size, like.device) not in self.grids:
            steps = torch.arange(size, device=like.device)
            self.grids[(size, like.device)] = torch.stack([steps, steps.flip(0)])
        return self.grids[(size, like.device)]

    def forward(self, x: Tensor):
        return x[:, None] + self.grid(x)
""",
            build="Grid()",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
from functools import cached_property

import torch
from torch import nn


class Window(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    @cached_property
    def half(self):
        return self.size // 2

    @cached_property
    def «taps»(self):
        return torch.hann_window(self.size)

    def forward(self, x):
        return (x * self.taps)[..., : self.half]
""",
            messages=(
                "`taps` is made on the CPU and kept for later calls, so `forward` (line 21) fails on a GPU; compute"
                " it each time, or register it as a buffer.",
            ),
            repaired=None,
            build="Window(4)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import functools

import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    @functools.lru_cache(maxsize=8)
    def «window»(self, size):
        return torch.hann_window(size, device=self.gain.device)

    def forward(self, wave):
        return (wave * self.window(wave.size(-1))).square().mean() * self.gain
""",
            messages=(
                "`window` is kept for later calls whatever the device is by then, so once the module has moved, "
                "`forward` (line 17) gets it on the old one and fails; compute it each time, or register it as a "
                "buffer.",
            ),
            repaired="""\
import functools

import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def window(self, size):
        return torch.hann_window(size, device=self.gain.device)

    def forward(self, wave):
        return (wave * self.window(wave.size(-1))).square().mean() * self.gain
""",
            build="Energy()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Noise(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        «self.device» = self.scale.device

    def forward(self, x):
        return x + torch.ones(x.shape, device=self.device) * self.scale
""",
            messages=(
                "`self.device` remembers a device, and a move of a module that holds this one does not set it anew,"
                " so `forward` (line 12) makes tensors on the old one and fails; make `device` a property.",
            ),
            repaired=None,
            build="Noise(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 0

    def bias(self, x):
        if x.size(1) > self.size:
            self.size = x.size(1)
            «self.table» = torch.arange(self.size, device=x.device)
        return self.table[: x.size(1)]

    def forward(self, x: torch.Tensor):
        return x + self.bias(x)
""",
            messages=(
                "`self.table` is kept for later calls whatever the device is by then, so once the module has moved,"
                " `forward` gets it on the old one and fails; compare its device, too.",
            ),
            repaired=None,
            build="Bias()",
            inputs="(torch.rand(2, 3),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None or self.mask.device != x.device:
            self.mask = torch.ones(x.size(1), x.size(1), device=x.device).tril()
        return x * self.mask
""",
            why="the test asks for the device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {}

    def forward(self, x):
        key = (x.size(1), x.device)
        if key not in self.masks:
            self.masks[key] = torch.ones(x.size(1), device=x.device)
        return x * self.masks[key]
""",
            why="the device is a part of the key",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(3).tril()
        return x * self.mask.to(x.device)
""",
            why="whatever reads it moves it",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.hidden = None

    def forward(self, x):
        if self.hidden is None:
            self.hidden = torch.zeros(x.size(0), 3, device=x.device)
        self.hidden = self.cell(x, self.hidden)
        return self.hidden
""",
            why="state that every call sets anew, and no cache",
        ),
        Good(
            code="""\
from functools import cached_property

import torch
from torch import nn


class Sizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("taps", None)

    @cached_property
    def count(self):
        return int(torch.ones(3).sum())

    @property
    def device(self):
        return self.layer.weight.device

    @cached_property
    def weight(self):
        return self.layer.weight

    def forward(self, x):
        if self.taps is None:
            self.taps = torch.ones(3, device=x.device)
        return x * self.taps + self.count + torch.zeros(3, device=self.device) + self.weight
""",
            why="numbers do not move, parameters and buffers do, and a property asks each time",
        ),
        Good(
            code="""\
from functools import lru_cache

import torch
from torch import nn


class Energy(nn.Module):
    @lru_cache
    def window(self, size, device):
        return torch.hann_window(size, device=device)

    def forward(self, wave):
        return wave * self.window(wave.size(-1), wave.device)
""",
            why="the cached method is asked for a device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = None

    def _apply(self, fn):
        if self.mask is not None:
            self.mask = fn(self.mask)
        return super()._apply(fn)

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(3, device=x.device)
        return x * self.mask
""",
            why="the class moves its own",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Trained(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        if self.training:
            self.last = torch.ones(x.size(0), device=x.device)
        y = self.layer(x)
        self.output = y
        return y + torch.zeros(3, device=self.device)
""",
            why="kept for others to look at, not used again; and a device that the caller chose",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            if facts.moves_everything:
                continue
            for kept in (*_attributes(facts), *_items(facts), *_methods(model, facts), *_devices(facts)):
                yield self._finding(model, facts, kept)

    def _finding(self, model: FileModel, facts: ClassFacts, kept: _Kept) -> Finding:
        meeting = _meeting(facts, kept)
        read = meeting.place if meeting is not None else kept.read
        where = f"`{kept.entry}`" + (f" (line {row_of(model, read)})" if read is not None else "")
        name = f"`{text_of(model, kept.named.span)}`"
        message = (
            f"{name} is kept for later calls whatever the device is by then, so once the module has moved, {where} "
            f"gets it "
            f"on the old one and fails; {kept.advice}."
        )
        if meeting is not None:
            message = f"{name} is made on the CPU and kept for later calls, so {where} fails on a GPU; {kept.advice}."
        if kept.device is not None:
            message = (
                f"{name} remembers a device, and a move of a module that holds this one does not set it anew, so "
                f"{where} "
                f"makes tensors on the old one and fails; make `{kept.device}` a property."
            )
        related = (Related(read.span, "It is used here."),) if read is not None else ()
        subjects = [origin.place.node for origin in _origins(kept.value)]
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if meeting is not None else Severity.WARNING,
            message=message,
            span=kept.named.span,
            related=related,
            fixes=tuple(kept.fixes(model)),
            subject=subjects[0] if len(subjects) == 1 else kept.named.node,
        )


@dataclass(frozen=True)
class _Kept:
    """Something that is kept. `named` is where, `entry` the method that uses it, `read` the place where that does."""

    named: Place
    value: Value
    entry: str
    advice: str
    read: Place | None = None
    store: Store | None = None
    item: KeptItem | None = None
    remembered: Remembered | None = None
    device: str | None = None

    def fixes(self, model: FileModel) -> Iterable[Fix]:
        """The repairs, the preferred one first."""
        edits = None
        if self.store is not None and self.store.near:
            source = self.store.near[0]
            edits = _compared(model, self.store, self.value, source)
            title = f"Make it again where the device is not that of `{source}`"
        elif self.item is not None and self.item.near:
            source = self.item.near[0]
            edits = _with_device_in_key(model, self.item, self.value, source)
            title = f"Keep one for each device: `{source}.device` becomes a part of the key"
        elif self.remembered is not None and not _origins(self.value):
            edits = _forgetting(model, self.remembered)
            title = "Compute it each time"
        if edits is not None:
            yield Fix(title, self.remembered is None or _is_constant(self.value), edits)


def _meeting(facts: ClassFacts, kept: _Kept) -> Meeting | None:
    """Where what is kept fails at once, because it was made on the CPU."""
    nodes = {origin.place.node for origin in _origins(kept.value)}
    fails = (meeting for meeting in facts.meetings.values() if meeting.fate is Fate.FAILS)
    return next((meeting for meeting in fails if meeting.origin.place.node in nodes), None)


def _origins(value: Value) -> list[Origin]:
    return [origin for held in contents(value) if isinstance(held, Tensor) for origin in held.origins]


def _is_constant(value: Value) -> bool:
    tensors = [held for held in contents(value) if isinstance(held, Tensor)]
    others = any(isinstance(held, Input) for held in contents(value))
    return bool(tensors) and not others and all(tensor.source is Source.CONSTANT for tensor in tensors)


def _keeps_tensor(kept: Store | KeptItem, expression: cst.BaseExpression | None) -> bool:
    """Whether what a method keeps is, or holds, a tensor that no move of the module reaches, and that it can make
    again: it takes sizes, types and devices from what it is given, and no numbers."""
    held = list(contents(kept.value))
    if any(isinstance(one, Tensor) and one.alias is None for one in held) and not any(
        isinstance(one, Input) for one in held
    ):
        return True
    function = kept.method.node if kept.method is not None else None
    if expression is None or not isinstance(function, cst.FunctionDef):
        return False
    placed = any(isinstance(one, Input) and one.placed for one in held)
    return placed and not _uses_numbers(expression, function, set(kept.near), set())


def _uses_numbers(node: cst.CSTNode, function: cst.FunctionDef, near: set[str], seen: set[str]) -> bool:
    """Whether an expression, with the local names that it is made of, computes with what the function is given."""
    if isinstance(node, cst.Name):
        name = node.value
        if name in seen or name == "self":
            return False
        made = [
            other.value
            for other in walk(function.body)
            if isinstance(other, cst.Assign) and any(name in set(names_in(goal.target)) for goal in other.targets)
        ]
        if not made:
            return name in near
        return any(_uses_numbers(value, function, near, seen | {name}) for value in made)
    if isinstance(node, cst.Attribute):
        if node.attr.value in _DESCRIBING or node.attr.value.startswith("new_"):
            return False
        return _uses_numbers(node.value, function, near, seen)
    if isinstance(node, cst.Call):
        called = (dotted(node.func) or "").rpartition(".")[2]
        parts: list[cst.CSTNode] = [node.func] if isinstance(node.func, cst.Attribute | cst.Call) else []
        if isinstance(node.func, cst.Attribute) and called in {"to", "type_as", "type"}:
            return _uses_numbers(node.func, function, near, seen)
        if not called.endswith("_like"):
            parts += [argument.value for argument in node.args]
        return any(_uses_numbers(part, function, near, seen) for part in parts)
    return any(_uses_numbers(child, function, near, seen) for child in children(node) if not isinstance(child, cst.Arg))


# What says how a tensor is, and not which numbers it holds.
_DESCRIBING = frozenset({"shape", "size", "device", "dtype", "dim", "ndim", "is_cuda", "layout", "numel"})


# Attributes


def _attributes(facts: ClassFacts) -> Iterator[_Kept]:
    """`if self.mask is None: self.mask = …`"""
    seen: set[str] = set()
    for store in facts.stores:
        name = store.attribute
        if store.elsewhere or store.phase is not Phase.FORWARD or "." in name or name in seen:
            continue
        if not _keeps_tensor(store, store.expression):
            continue
        if not _is_cached(facts, store) or _is_state(facts, name) or _held_from_the_start(facts, name):
            continue
        if name in facts.moved_by_itself or _always_moved(facts, name) or _is_made_of_state(facts, store):
            continue
        seen.add(name)
        first = _first_read(facts, name, store)
        yield _Kept(
            store.target,
            store.value,
            "forward",
            "compare its device, too",
            read=first,
            store=store,
        )


def _is_cached(facts: ClassFacts, store: Store) -> bool:
    """Whether an attribute is only set where it is not there yet, or does not fit, and no test asks for a device."""
    together = {store.attribute} | {
        other.attribute for other in facts.stores if other.method is store.method and other.guards == store.guards
    }
    tests = store.guards
    if any(asks_for_device(test) for test in tests):
        return False
    function = store.method.node if store.method is not None else None
    return any(together & _attributes_asked_for(test, function) for test in tests)


def _attributes_asked_for(test: cst.CSTNode, function: cst.CSTNode | None) -> set[str]:
    """The attributes of `self` that a test is about, also by way of local names."""
    found = _self_attributes(test)
    local = set(names_in(test)) - {"self"}
    for node in walk(function) if function is not None and local else ():
        if isinstance(node, cst.Assign) and any(
            isinstance(target.target, cst.Name) and target.target.value in local for target in node.targets
        ):
            found |= _self_attributes(node.value)
    return found


def _self_attributes(node: cst.CSTNode) -> set[str]:
    """The attributes of `self` that are read, or asked for by name."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name) and part.value.value == "self":
            found.add(part.attr.value)
        elif isinstance(part, cst.Call) and dotted(part.func) in {"hasattr", "getattr"} and len(part.args) > 1:
            name = part.args[1].value
            if isinstance(name, cst.SimpleString) and dotted(part.args[0].value) == "self":
                text = name.evaluated_value
                found |= {text} if isinstance(text, str) else set()
    return found


def _is_state(facts: ClassFacts, name: str) -> bool:
    """Whether a step also sets the attribute whatever it holds, or moves it: it is no cache, or a careful one."""
    for other in facts.stores:
        if other.attribute != name or other.phase is Phase.INIT:
            continue
        if any(asks_for_device(test) for test in other.guards) or _moves(other.expression):
            return True
        if other.phase is Phase.FORWARD and not _is_cached(facts, other):
            return True
    return False


def _is_made_of_state(facts: ClassFacts, store: Store) -> bool:
    """Whether what is kept is made of another tensor that a step keeps: then it goes on from call to call with that."""
    read = _self_attributes(store.expression) - {store.attribute} if store.expression is not None else set()
    return any(
        other.attribute in read and other.phase is Phase.FORWARD and isinstance(held, Tensor | Input)
        for other in facts.stores
        for held in contents(other.value)
    )


def _held_from_the_start(facts: ClassFacts, name: str) -> bool:
    """Whether `__init__` keeps a tensor in the attribute, or registers it: then it is another rule's, or right."""
    values = [store.value for store in facts.stores if store.attribute == name and store.phase is Phase.INIT]
    return name in facts.registered or any(
        isinstance(held, Tensor | Parameter) for value in values for held in contents(value)
    )


def _moves(node: cst.CSTNode | None) -> bool:
    return node is not None and any(
        isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and _is_move(part.func.attr.value)
        for part in walk(node)
    )


def _is_move(name: str) -> bool:
    known = torch_api.method(name)
    return known is not None and known.moves


def _always_moved(facts: ClassFacts, name: str) -> bool:
    """Whether whatever reads the attribute, besides tests, moves at once what it gets."""
    reads = 0
    for cls in facts.cls.own_classes:
        for method in cls.methods.values():
            parents = {child: parent for parent in walk(method.body) for child in children(parent)}
            for node in parents:
                if not (isinstance(node, cst.Attribute) and dotted(node) == f"self.{name}"):
                    continue
                if _is_target(node, parents) or _is_tested(node, parents):
                    continue
                reads += 1
                if not _moved_at_once(node, parents):
                    return False
    return reads > 0


def _is_target(node: cst.CSTNode, parents: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    parent = parents.get(node)
    while isinstance(parent, cst.Subscript) and parent.value is node:
        node, parent = parent, parents.get(parent)
    return isinstance(parent, cst.AssignTarget | cst.AnnAssign) and parent.target is node


def _is_tested(node: cst.CSTNode, parents: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    while (parent := parents.get(node)) is not None and not isinstance(parent, cst.BaseSuite):
        if isinstance(parent, cst.If | cst.IfExp | cst.While) and parent.test is node:
            return True
        node = parent
    return False


def _moved_at_once(node: cst.CSTNode, parents: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    while True:
        parent = parents.get(node)
        if isinstance(parent, cst.Subscript | cst.Call) and node in {
            parent.value if isinstance(parent, cst.Subscript) else parent.func
        }:
            node = parent
        elif isinstance(parent, cst.Attribute):
            if _is_move(parent.attr.value):
                return True
            node = parent
        else:
            return False


def _first_read(facts: ClassFacts, name: str, store: Store) -> Place | None:
    """Where the method that keeps the attribute, or `forward`, reads it."""
    function = store.method
    if function is None:
        return None
    for node in walk(function.node.body):
        if isinstance(node, cst.Return | cst.BinaryOperation | cst.Call) and dotted(node) is None:
            direct = [child for child in children(node) if dotted(child) == f"self.{name}"]
            if direct:
                return Place(function.statement, direct[0])
    return None


# Items of a dict


def _items(facts: ClassFacts) -> Iterator[_Kept]:
    """`if key not in self.masks: self.masks[key] = …`"""
    seen: set[str] = set()
    for item in facts.kept_items:
        if item.attribute in seen or item.method is None:
            continue
        function = item.method.node
        if not _keeps_tensor(item, _assigned(function, item.target.node)):
            continue
        if any(asks_for_device(test) for test in item.guards) or _device_in_key(item, function):
            continue
        if not any(item.attribute in _attributes_asked_for(test, function) for test in item.guards):
            continue
        if item.attribute in facts.moved_by_itself or _always_moved(facts, item.attribute):
            continue
        seen.add(item.attribute)
        yield _Kept(item.target, item.value, "forward", "make the device a part of the key", item=item)


def _assigned(function: cst.CSTNode, target: cst.CSTNode) -> cst.BaseExpression | None:
    """What is assigned to a target."""
    for node in walk(function):
        if isinstance(node, cst.Assign) and any(goal.target is target for goal in node.targets):
            return node.value
    return None


def _device_in_key(item: KeptItem, function: cst.CSTNode) -> bool:
    if any(isinstance(held, Device) for held in contents(item.key)):
        return True
    target = item.target.node
    key = target.slice[0] if isinstance(target, cst.Subscript) else target
    names = set(names_in(key))
    made = [
        node.value
        for node in walk(function)
        if isinstance(node, cst.Assign)
        and any(isinstance(goal.target, cst.Name) and goal.target.value in names for goal in node.targets)
    ]
    return any(asks_for_device(node) for node in (key, *made))


# Methods


def _methods(model: FileModel, facts: ClassFacts) -> Iterator[_Kept]:
    """Cached properties, and methods with a cache."""
    seen: set[cst.CSTNode] = set()
    own = list(facts.cls.own_classes)
    for kept in facts.remembered:
        node = kept.function.node
        if node in seen or not isinstance(node, cst.FunctionDef) or kept.function.owner not in own:
            continue
        seen.add(node)
        if not _stays_behind(kept.value) or _always_moved(facts, node.name.value):
            continue
        yield _Kept(
            Place(kept.function.statement, node.name),
            kept.value,
            kept.entry,
            "compute it each time, or register it as a buffer",
            read=kept.place,
            remembered=kept,
        )


def _stays_behind(value: Value) -> bool:
    """Whether what is kept is a tensor that does not move with the module, as a parameter does."""
    return any(
        (isinstance(held, Tensor) and held.alias != "parameter") or (isinstance(held, Input) and held.placed)
        for held in contents(value)
    )


# Devices


def _devices(facts: ClassFacts) -> Iterator[_Kept]:
    """`self.device = self.weight.device`, once and for all or in `to`, which a move of a module around it does not
    call, where steps make tensors on it."""
    own = list(facts.cls.own_classes)
    if any("_apply" in cls.methods for cls in own):
        return
    movers = [(cls, cls.methods[name]) for cls in own for name in ("to", "cuda") if name in cls.methods]
    found = [kept for cls, method in movers if cls.home is None for kept in _kept_devices(cls, method)]
    if not found:
        built = [(cls, cls.methods["__init__"]) for cls in own if cls.home is None and "__init__" in cls.methods]
        found = [kept for cls, method in built if not _places(method) for kept in _kept_devices(cls, method)]
    for attribute, place in found:
        used = _made_on(facts, attribute)
        if used is not None:
            yield _Kept(place, Device(), "forward", "", read=used, device=attribute)


def _kept_devices(cls: ClassModel, method: cst.FunctionDef) -> Iterator[tuple[str, Place]]:
    """The attributes to which a method assigns the device of something that the module registers."""
    for node in walk(method.body):
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Attribute):
            continue
        if node.value.attr.value != "device" or not _is_own(node.value.value):
            continue
        for target in node.targets:
            if isinstance(target.target, cst.Attribute) and isinstance(target.target.value, cst.Name):
                yield target.target.attr.value, Place(cls.statement, target.target)


def _is_own(node: cst.BaseExpression) -> bool:
    """Whether an expression is a part of the module, `self.layer.weight`, or `next(self.parameters())`."""
    if isinstance(node, cst.Call):
        inner = node.args[0].value if dotted(node.func) == "next" and len(node.args) == 1 else None
        return isinstance(inner, cst.Call) and dotted(inner.func) in {"self.parameters", "self.buffers"}
    return isinstance(node, cst.Attribute) and dotted(node) is not None


def _places(method: cst.FunctionDef) -> bool:
    """Whether a method makes or moves something on a device of its choice, which then is the one to remember."""
    return any(
        (isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "device")
        or (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _is_move(node.func.attr.value))
        for node in walk(method.body)
    )


def _made_on(facts: ClassFacts, attribute: str) -> Place | None:
    """Where a step makes a tensor on the device that an attribute remembers."""
    for cls in facts.cls.own_classes:
        for name, method in cls.methods.items():
            if cls.home is not None or name in {"__init__", "to", "cuda"}:
                continue
            for node in walk(method.body):
                named = isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "device"
                if named and isinstance(node, cst.Arg) and dotted(node.value) == f"self.{attribute}":
                    return Place(cls.statement, node.value)
    return None


# Repairs


def _compared(model: FileModel, store: Store, value: Value, source: str) -> tuple[Edit, ...] | None:
    """Has the test in front of the assignment compare the device."""
    function = store.method
    if function is None or not store.guards:
        return None
    test = store.guards[-1]
    holder = next(
        (
            node
            for node in walk(function.node.body)
            if isinstance(node, cst.If)
            and node.test is test
            and any(part is store.statement.node for part in walk(node.body))
        ),
        None,
    )
    parts = list(_alternatives(test))
    if holder is None or not any(_asks_whether_there(part, store.attribute) for part in parts):
        return None
    place = _makes_there(model, store, value, holder, source)
    if place is None:
        return None
    end = store.statement.statement.whole_span(test).end
    return (*place, Edit(end, end, f" or self.{store.attribute}.device != {source}.device"))


def _alternatives(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        yield from _alternatives(test.left)
        yield from _alternatives(test.right)
    else:
        yield test


def _asks_whether_there(test: cst.BaseExpression, attribute: str) -> bool:
    """Whether a test is true where the attribute is None, or missing."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        one = test.comparisons[0]
        is_none = isinstance(one.operator, cst.Is) and dotted(one.comparator) == "None"
        return is_none and dotted(test.left) == f"self.{attribute}"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        called = test.expression
        return (
            isinstance(called, cst.Call) and dotted(called.func) == "hasattr" and attribute in _self_attributes(called)
        )
    return False


def _makes_there(
    model: FileModel, store: Store, value: Value, holder: cst.CSTNode, source: str
) -> tuple[Edit, ...] | None:
    """What has the tensor made on the device of `source`; None where it is made on one of another choice."""
    origins = {origin.place.node: origin for origin in _origins(value)}
    edits: list[Edit] = []
    for origin in origins.values():
        call = origin.place.node
        if not origin.takes_device or source not in origin.near or not isinstance(call, cst.Call) or not call.args:
            return None
        end = argument_span(origin.place, call, len(call.args) - 1).end
        edits.append(Edit(end, end, f", device={source}.device"))
    if not edits:
        text = text_of(model, store.statement.statement.span(holder))
        return () if f"{source}.device" in text else None
    return tuple(edits)


def _with_device_in_key(model: FileModel, item: KeptItem, value: Value, source: str) -> tuple[Edit, ...] | None:
    """Makes the device a part of every key with which the method reads and fills the dict."""
    function, target = item.method, item.target.node
    if function is None or not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return None
    index = target.slice[0].slice
    if not isinstance(index, cst.Index) or any(origin for origin in _origins(value)):
        return None
    statement = item.target.statement
    written = text_of(model, statement.whole_span(index.value))
    edits: list[Edit] = []
    for node in walk(function.node.body):
        key: cst.BaseExpression | None = None
        if isinstance(node, cst.Subscript) and dotted(node.value) == f"self.{item.attribute}" and len(node.slice) == 1:
            key = node.slice[0].slice.value if isinstance(node.slice[0].slice, cst.Index) else None
        elif isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            one = node.comparisons[0]
            if isinstance(one.operator, cst.In | cst.NotIn) and dotted(one.comparator) == f"self.{item.attribute}":
                key = node.left
        elif isinstance(node, cst.Call) and (dotted(node.func) or "") == f"self.{item.attribute}.get" and node.args:
            key = node.args[0].value
        if key is None:
            continue
        span = statement.whole_span(key)
        if text_of(model, span) != written:
            return None
        edits.append(Edit(span.start, span.end, f"({written}, {source}.device)"))
    elsewhere = _reads_elsewhere(item, function)
    return None if elsewhere or not edits else tuple(edits)


def _reads_elsewhere(item: KeptItem, function: FunctionValue) -> bool:
    """Whether another method reads the dict, too."""
    owner = function.owner
    return owner is None or any(
        method is not function.node and name != "__init__" and item.attribute in _self_attributes(method.body)
        for name, method in owner.methods.items()
    )


def _forgetting(model: FileModel, kept: Remembered) -> tuple[Edit, ...] | None:
    """Turns a cached property into a property, and takes the cache from a method."""
    node, statement = kept.function.node, kept.function.statement
    if not isinstance(node, cst.FunctionDef) or len(node.decorators) != 1:
        return None
    decorator = node.decorators[0]
    name = dotted(decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator) or ""
    span = statement.span(decorator.decorator)
    if name.rpartition(".")[2] == "cached_property":
        return (Edit(span.start, span.end, "property"),)
    whole = statement.span(decorator)
    start = statement.span(node.name).start
    line = text_of(model, whole)
    if "\n" in line:
        return None
    define = model.document.text.rindex("def", whole.end, start)
    return (Edit(whole.start, define, ""),) if node.asynchronous is None else None
