"""Layers in a Python container, a plain object or a function."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import (
    MODULES,
    annotation_edits,
    is_made_by,
    lacks_method,
    may_be_key,
    registered_containers,
    shown_attribute,
    wrapped,
)
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.facts import How
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import (
    Container,
    Instance,
    ModuleInstance,
    Place,
    Scalar,
    Shape,
    Value,
    contents,
    options_of,
)
from torchstray.text.edits import Edit


class UnregisteredModule(Rule):
    """## What it finds

    Layers that an attribute of a module reaches, but not as a registered submodule:

    - in a list, tuple, dict, set or deque, nested ones too, made at once, by a comprehension or by a function of the
      file, or filled later by `append`, `extend`, `insert`, `+=` or an item assignment;
    - in a plain object of a class of yours that is no `nn.Module`;
    - in a lambda, a function or a `functools.partial` that is kept in an attribute.

    What counts as a layer is decided by what it has: parameters, buffers, or another behaviour in training, as
    `nn.Dropout`. It may be a class of PyTorch or one of yours, however many classes lie between it and `nn.Module`.
    Layers with none of these (`nn.ReLU`, `nn.Flatten`, `nn.MSELoss`) can be kept anywhere.

    Layers with parameters or buffers are an error, layers that only have a mode a warning.

    ## Why it matters

    A module registers a submodule when it is assigned to an attribute directly. It does not look into lists. So for
    the layers in one

    - `model.to(device)` leaves the weights on the CPU. The data is on the GPU, and the call ends in
      `Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same`, or in
      `Expected all tensors to be on the same device`;
    - `parameters()` does not list the weights, so they keep their random start. A model that has no others ends in
      `ValueError: optimizer got an empty parameter list`;
    - `state_dict()` does not save them, so a loaded model has other weights than the one that was saved;
    - `eval()` and `train()` do not reach them: a Dropout in a list goes on dropping in evaluation.

    Calling `.to(device)` on each layer of the list heals the first point only. Metric objects that are modules, as in
    torchmetrics, are lost in the same way (torchmetrics issue 340).

    ## Example

    ```python
    class MyModule(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears = [nn.Linear(10, 10) for i in range(10)]

        def forward(self, x):
            for linear in self.linears:
                x = linear(x)
            return x
    ```

    ## Repair

    ```python
    class MyModule(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears = nn.ModuleList([nn.Linear(10, 10) for i in range(10)])

        def forward(self, x):
            for linear in self.linears:
                x = linear(x)
            return x
    ```

    An `nn.ModuleList` is indexed, sliced, iterated and appended to like a list, an `nn.ModuleDict` is used like a
    dict.

    With parameters or buffers this is not safe, though `forward` computes the same at first: the layers start to
    train, and `state_dict()` gets new keys (`linears.0.weight`, …), so `load_state_dict()` refuses old checkpoints
    unless it is called with `strict=False`. They never held these weights, so there is nothing to rescue. For layers
    with a mode only, such as `nn.Dropout`, it is safe: no key is added, and `eval()` now does what it says.

    There is no repair for sets, deques, plain objects and functions, for dicts whose keys are no strings or have dots
    in them, where the list holds other things as well, and where it is used in ways that `nn.ModuleList` does not have
    (`remove`, `sort`, `copy`).

    ## When to ignore it

    Where a module is to be kept out on purpose, such as a frozen teacher that shall not be saved. The usual ways to do
    that are not reported: `self.teacher = [teacher]` with a use that moves it (`self.teacher[0].to(x.device)`),
    `self.__dict__[…]` and `object.__setattr__`.

    Nothing is said of layers that are registered by another road: `add_module`, `setattr`, an `nn.ModuleList` or
    `nn.Sequential` that is made of the list later, an attribute of their own. Lists of classes, and the lists of
    frameworks that do look into them, such as MLX, are silent too.
    """

    name = "unregistered-module"
    summary = "layers that a module holds without registering them"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        «self.linears» = [nn.Linear(10, 10) for i in range(10)]

    def forward(self, x):
        # ModuleList can act as an iterable, or be indexed using ints
        for i, l in enumerate(self.linears):
            x = self.linears[i // 2](x) + l(x)
        return x
""",
            messages=(
                "The layers in `self.linears` are in a plain list, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        self.linears = nn.ModuleList([nn.Linear(10, 10) for i in range(10)])

    def forward(self, x):
        # ModuleList can act as an iterable, or be indexed using ints
        for i, l in enumerate(self.linears):
            x = self.linears[i // 2](x) + l(x)
        return x
""",
            build="MyModule()",
            inputs="(torch.rand(1, 10) / 10,)",
        ),
        Bad(
            code="""\
import torch
from torch import nn as layers


def block(width):
    return layers.Sequential(layers.Linear(width, width), layers.ReLU())


class Stack(layers.Module):
    def __init__(self, width, depth):
        super().__init__()
        blocks = []
        for _ in range(depth):
            blocks.append(block(width))
        «self.blocks» = blocks

    def forward(self, x):
        for layer in self.blocks:
            x = layer(x)
        return x
""",
            messages=(
                "The layers in `self.blocks` are in a plain list, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
from torch import nn as layers


def block(width):
    return layers.Sequential(layers.Linear(width, width), layers.ReLU())


class Stack(layers.Module):
    def __init__(self, width, depth):
        super().__init__()
        blocks = []
        for _ in range(depth):
            blocks.append(block(width))
        self.blocks = layers.ModuleList(blocks)

    def forward(self, x):
        for layer in self.blocks:
            x = layer(x)
        return x
""",
            build="Stack(4, 2)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


class Experts(Module):
    def __init__(self, width, count):
        super().__init__()
        «self.experts» = []
        self.experts += [Linear(width, width) for _ in range(count)]
        self.experts.extend([Bilinear(width, width, width)] if count > 8 else [])

    def forward(self, x):
        return sum(expert(x) for expert in self.experts)
""",
            messages=(
                "The layers in `self.experts` are in a plain list, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
from torch.nn import *


class Experts(Module):
    def __init__(self, width, count):
        super().__init__()
        self.experts = ModuleList()
        self.experts += [Linear(width, width) for _ in range(count)]
        self.experts.extend([Bilinear(width, width, width)] if count > 8 else [])

    def forward(self, x):
        return sum(expert(x) for expert in self.experts)
""",
            build="Experts(4, 2)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        «self.heads» = {}  # one a task
        for name, classes in tasks.items():
            self.heads[name] = nn.Linear(8, classes)

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))
""",
            messages=(
                "The layers in `self.heads` are in a plain dict, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleDict`.",
            ),
            repaired="""\
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.heads = nn.ModuleDict()  # one a task
        for name, classes in tasks.items():
            self.heads[name] = nn.Linear(8, classes)

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))
""",
            build='MultiTask({"colour": 3})',
            inputs='(torch.rand(2, 8), "colour")',
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return x + self.layer(x)


class Gated(Residual):
    pass


class Grid(nn.Module):
    def __init__(self, width):
        super().__init__()
        «self.rows» = [[Gated(width), Gated(width)], [Gated(width)]]

    def forward(self, x):
        for row in self.rows:
            for cell in row:
                x = cell(x)
        return x
""",
            messages=(
                "The layers in `self.rows` are in a plain list, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return x + self.layer(x)


class Gated(Residual):
    pass


class Grid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rows = nn.ModuleList([nn.ModuleList([Gated(width), Gated(width)]), nn.ModuleList([Gated(width)])])

    def forward(self, x):
        for row in self.rows:
            for cell in row:
                x = cell(x)
        return x
""",
            build="Grid(4)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        «self.drops» = [nn.Dropout(rate) for rate in (0.1, 0.3, 0.5)]

    def forward(self, x):
        return sum(drop(self.layer(x)) for drop in self.drops)
""",
            messages=(
                "The layers in `self.drops` are in a plain list, so `eval()` skips them and they go on as"
                " in training; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.drops = nn.ModuleList([nn.Dropout(rate) for rate in (0.1, 0.3, 0.5)])

    def forward(self, x):
        return sum(drop(self.layer(x)) for drop in self.drops)
""",
            build="Ensemble()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self, deep):
        super().__init__()
        if deep:
            «self.layers» = (nn.Linear(4, 4), nn.Linear(4, 4))
        else:
            «self.layers» = (nn.Linear(4, 4),)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
            messages=(
                "The layers in `self.layers` are in a plain tuple, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
                "The layers in `self.layers` are in a plain tuple, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; use `nn.ModuleList`.",
            ),
            repaired="""\
import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self, deep):
        super().__init__()
        if deep:
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        else:
            self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
            build="Chosen(True)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Scorer:
    def __init__(self, width):
        self.layer = nn.Linear(width, 1)

    def score(self, x):
        return self.layer(x).squeeze(-1)


class Ranker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width)
        «self.scorer» = Scorer(width)

    def forward(self, x):
        return self.scorer.score(self.body(x))
""",
            messages=(
                "The layers in `self.scorer` are in an object of `Scorer`, which is no module, so "
                "`.to()`, `parameters()`, `state_dict()` and `eval()` skip them and they never train; "
                "make `Scorer` an `nn.Module`.",
            ),
            repaired=None,
            build="Ranker(4)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Deferred(nn.Module):
    def __init__(self, width):
        super().__init__()
        projection = nn.Linear(width, width)
        «self.project» = lambda x: projection(x).relu()

    def forward(self, x):
        return self.project(x)
""",
            messages=(
                "The layers in `self.project` are only held by a function, so `.to()`, `parameters()`, "
                "`state_dict()` and `eval()` skip them and they never train; keep them in an attribute of"
                " their own.",
            ),
            repaired=None,
            build="Deferred(4)",
            inputs="(torch.rand(2, 4),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        self.linears = nn.ModuleList([nn.Linear(10, 10) for i in range(10)])

    def forward(self, x):
        # ModuleList can act as an iterable, or be indexed using ints
        for i, l in enumerate(self.linears):
            x = self.linears[i // 2](x) + l(x)
        return x
""",
            why="the list is an `nn.ModuleList`",
        ),
        Good(
            code="""\
from torch import nn


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(width, width) for _ in range(depth)]
        layers.append(nn.LayerNorm(width))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)
""",
            why="the list is only used to fill an `nn.Sequential`",
        ),
        Good(
            code="""\
from torch import nn


class Branches(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.branches = []
        for number in range(count):
            branch = nn.Linear(4, 4)
            self.add_module(f"branch{number}", branch)
            self.branches.append(branch)

    def forward(self, x):
        return sum(branch(x) for branch in self.branches)
""",
            why="`add_module` registers each layer, and modules move in place",
        ),
        Good(
            code="""\
from torch import nn


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.order = [self.second, self.first]

    def forward(self, x):
        for layer in self.order:
            x = layer(x)
        return x
""",
            why="second names for layers that are registered as attributes",
        ),
        Good(
            code="""\
from torch import nn


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.activations = {"relu": nn.ReLU(), "tanh": nn.Tanh(), "flat": nn.Flatten()}
        self.kinds = [nn.Linear, nn.Conv2d, nn.Dropout]

    def forward(self, x, name):
        return self.activations[name](x)
""",
            why="layers without parameters, buffers or a training mode, and a list of classes",
        ),
        Good(
            code="""\
from torch import nn


class Distilled(nn.Module):
    def __init__(self, student, teacher: nn.Module):
        super().__init__()
        self.student = student
        self.teacher = [teacher]

    def forward(self, x):
        return self.student(x), self.teacher[0].to(x.device)(x)
""",
            why=(
                "a one-element list whose use moves the module: it is hidden on purpose, so that it is "
                "not trained or saved"
            ),
        ),
        Good(
            code="""\
from torch import nn


class Evaluator:
    def __init__(self):
        self.models = [nn.Linear(4, 2), nn.Linear(4, 2)]

    def to(self, device):
        self.models = [model.to(device) for model in self.models]
        return self
""",
            why="the class is no module and has its own `to`",
        ),
        Good(
            code="""\
from torch import nn


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.__dict__["reference"] = nn.Linear(4, 4)
        object.__setattr__(self, "oracle", nn.Linear(4, 4))
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(x)
""",
            why="the two ways to hide a module on purpose",
        ),
        Good(
            code="""\
import mlx.nn as nn


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = [nn.Linear(width, width) for _ in range(depth)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x  # torch would not find these layers, MLX does
""",
            why="MLX looks into lists",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.MODULE:
                    yield self._finding(model, stray)

    def _finding(self, model: FileModel, stray: Stray) -> Finding:
        state = stray.state
        grave = state.parameters or state.buffers
        related = [
            Related(value.place.span, f"This `{value.name}` stays behind.")
            for value in stray.values
            if isinstance(value, ModuleInstance) and value.place is not None and value.place is not stray.store.target
        ]
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if grave and not stray.handed_in else Severity.WARNING,
            message=_message(model, stray),
            span=stray.store.target.span,
            related=tuple(related[:3]),
            fixes=tuple(_fixes(model, stray)),
            subject=stray.store.target.node,
        )


def _message(model: FileModel, stray: Stray) -> str:
    state = stray.state
    skipped = ["`.to()`"] if state.parameters or state.buffers else []
    skipped += ["`parameters()`"] if state.parameters else []
    skipped += ["`state_dict()`"] if state.parameters or state.buffers else []
    skipped += ["`eval()`"] if state.mode or state.parameters else []
    consequence = " and they never train" if state.parameters else ""
    if not state.parameters and not state.buffers:
        consequence = " and they go on as in training"
    skip = f"{', '.join(skipped[:-1])} and {skipped[-1]}" if len(skipped) > 1 else skipped[0]
    verb = "skip" if len(skipped) > 1 else "skips"
    place, advice = _holder(stray.holder)
    return (
        f"The layers in `{shown_attribute(model, stray.store)}` are {place}, so {skip} {verb} "
        f"them{consequence}; {advice}."
    )


def _holder(holder: Value) -> tuple[str, str]:
    if isinstance(holder, Container):
        registered = "nn.ModuleDict" if holder.shape is Shape.DICT else "nn.ModuleList"
        if any(not _may_be_layer(item) for item in contents(holder)):
            return f"in a plain {holder.shape.value}", f"keep the layers in an `{registered}` of their own"
        if holder.shape is Shape.TUPLE and holder.keys:
            return "in a named tuple", "keep each in an attribute of its own"
        advice = f"use `{registered}`"
        if holder.shape is Shape.DICT and not all(may_be_key(key) for key in holder.keys):
            advice += " with keys that are strings, without dots, and no names of `nn.Module` attributes"
        return f"in a plain {holder.shape.value}", advice
    if isinstance(holder, Instance):
        return f"in an object of `{holder.cls.name}`, which is no module", f"make `{holder.cls.name}` an `nn.Module`"
    return "only held by a function", "keep them in an attribute of their own"


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    edits = _edits(model, stray)
    if edits is None:
        return
    state = stray.state
    name = (
        "nn.ModuleDict" if isinstance(stray.holder, Container) and stray.holder.shape is Shape.DICT else "nn.ModuleList"
    )
    grave = state.parameters or state.buffers
    consequence = (
        "the layers start to train, and `state_dict()` gets new keys" if grave else "`eval()` reaches the layers"
    )
    yield Fix(f"Use `{name}`: {consequence}", not grave, edits)


def _edits(model: FileModel, stray: Stray) -> tuple[Edit, ...] | None:
    holder, store = stray.holder, stray.store
    if not isinstance(holder, Container) or store.how not in {How.ASSIGN, How.ELEMENT} or store.expression is None:
        return None
    if any(not _may_be_layer(item) for item in contents(holder)) or (holder.shape is Shape.TUPLE and holder.keys):
        return None
    if lacks_method(model, stray) or _is_chain(stray):
        return None
    if isinstance(store.statement.node, cst.Assign) and len(store.statement.node.targets) > 1:
        return None
    place = Place(store.target.statement, store.expression)
    if holder.place is not None and is_made_by(store.expression, holder.place.node):
        edits = registered_containers(model, holder, MODULES)
    elif _can_be_wrapped(holder, place):
        spelling = model.names.spell(MODULES[1] if holder.shape is Shape.DICT else MODULES[0])
        edits = (*spelling.edits, *wrapped(model, place, f"{spelling.text}("))
    else:
        return None
    return edits if edits is None else (*edits, *annotation_edits(model, store, holder, MODULES))


def _is_chain(stray: Stray) -> bool:
    """Whether all that the class registers becomes a part of what it computes, as in an `nn.Sequential`."""
    return any(name in {"torch.nn.Sequential", *MODULES} for name in stray.facts.cls.outside)


def _can_be_wrapped(holder: Container, place: Place) -> bool:
    """Whether a container that comes from elsewhere can be wrapped where it is assigned: flat, and complete by then."""
    nested = any(isinstance(option, Container) for item in holder.items for option in options_of(item))
    if nested or holder.shape in {Shape.DEQUE, Shape.SET} or isinstance(place.node, cst.IfExp):
        return False
    return not any(
        grown.statement is place.statement and grown.span.start > place.span.end for grown in holder.grown_at
    )


def _may_be_layer(value: Value) -> bool:
    if isinstance(value, Scalar):
        return value.literal is None
    return isinstance(value, ModuleInstance | Container) or type(value) is Value
