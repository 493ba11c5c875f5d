"""Tensors in plain attributes."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import indentation, line_end, row_of, shown_attribute, stands_alone, text_of, wrapped
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Handling, How, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, is_stub, strays
from torchstray.semantics.values import (
    Container,
    Distribution,
    FunctionValue,
    Input,
    Instance,
    Partial,
    Place,
    Scalar,
    Source,
    Tensor,
    Value,
    options_of,
)
from torchstray.text.edits import Edit


class UnregisteredTensor(Rule):
    """## What it finds

    Tensors in attributes of an `nn.Module` that were never registered:

    - `self.mask = torch.ones(n, n)`, and every other way to make a tensor: factories such as `zeros`, `arange`,
      `linspace`, `randn`, `tensor`, `from_numpy`, what tensor methods and arithmetic return, and what comes back from
      a helper method or a function of the file;
    - tensors that take a detour: through local variables, branches, loops, `self.low, self.high = …` or `setattr`;
    - tensors in a list, tuple or dict of the module, also where `append` or an item assignment fills it;
    - things that carry tensors: a distribution of `torch.distributions`, or an object of a class of yours that is no
      module.

    It is an error where `forward` uses the tensor together with one that has moved, and a warning where nobody can
    tell. It is a hint where the program works all the same: every use moves the tensor itself
    (`self.mask.to(x.device)`), it was made on a device that the caller chose, or nothing uses it.

    ## Why it matters

    `model.to(device)`, `.cuda()` and `.half()` visit parameters, buffers and submodules. Any other attribute is
    invisible to them, so the tensor stays where it was made, mostly on the CPU. On a CPU nothing is wrong and the
    tests pass. On a GPU the first operation that mixes the two ends in

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

    The tensor is also missing from `state_dict()`: what was drawn at random or derived from data is another one after
    the model has been saved and loaded.

    ## Example

    ```python
    class Attention(nn.Module):
        def __init__(self, context):
            super().__init__()
            self.mask = torch.ones(context, context).tril()

        def forward(self, scores):
            return scores.masked_fill(self.mask == 0, float("-inf"))
    ```

    ## Repair

    ```python
    class Attention(nn.Module):
        def __init__(self, context):
            super().__init__()
            self.register_buffer("mask", torch.ones(context, context).tril(), persistent=False)

        def forward(self, scores):
            return scores.masked_fill(self.mask == 0, float("-inf"))
    ```

    Nothing else changes: `self.mask` is read as before.

    A constant that can be computed again is registered with `persistent=False`. It is not part of `state_dict()` then,
    and old checkpoints go on loading. This is safe for integers, booleans and floats of moderate size. It is not
    called safe for large floats and complex numbers, because `.half()` and `.bfloat16()` convert buffers too: bfloat16
    rounds 2049 to 2048, and a complex buffer loses its imaginary part.

    A tensor that is random, loaded, derived from data or handed in cannot be computed again, so it is registered with
    `persistent=True`. This is not safe: `state_dict()` has a new key, and `load_state_dict()` refuses old checkpoints
    (`Missing key(s) in state_dict`) unless it is called with `strict=False`.

    Further choices are `nn.Buffer(…)`, offered where the file uses it already (it needs PyTorch 2.5), and
    `nn.Parameter(…, requires_grad=False)`, which adds an entry to `parameters()` as well as to `state_dict()`. Nothing
    is repaired where `register_buffer` would raise `KeyError: "attribute 'k' already exists"`, because a class
    attribute or an earlier `self.k = None` has taken the name; for lists and dicts of tensors; and for distributions.
    Register their tensors one by one, and build a distribution from buffers in `forward`.

    ## When to ignore it

    Where the tensor belongs on the CPU, such as lengths for `pack_padded_sequence`, or a large table from which
    `forward` picks a few rows that it moves itself.

    Nothing is said of Python numbers, sizes and NumPy arrays, of activations that every `forward` overwrites, of a
    name that is registered elsewhere (also in a base class), or of second names for registered parameters: parameters
    move in place. A second name for a *buffer* is reported, because a move replaces buffers and the second name keeps
    the old tensor (PyTorch issues 29807 and 43815). Data sets, optimizers and other classes that are no modules are
    not looked at.
    """

    name = "unregistered-tensor"
    summary = "a tensor in a plain attribute of a module"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self, k):
        super(MyModule, self).__init__()
        «self.k» = torch.zeros(k)
    def forward(self):
            ...
            # 这里使用 self.k 即可
""",
            messages=("`self.k` is a plain tensor, so `.to(device)` leaves it on the CPU; register it as a buffer.",),
            repaired="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self, k):
        super(MyModule, self).__init__()
        self.register_buffer("k", torch.zeros(k), persistent=False)
    def forward(self):
            ...
            # 这里使用 self.k 即可
""",
            build="MyModule(3)",
        ),
        Bad(
            code="""\
import torch as t
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, context):
        super().__init__()
        self.project = nn.Linear(dim, dim)
        «self.allowed» = self.make_mask(context)  # lower triangle

    def make_mask(self, size):
        ones = t.ones(size, size, dtype=t.bool)
        return ones.tril()

    def forward(self, x):
        scores = self.project(x) @ x.transpose(1, 2)
        scores = scores.masked_fill(~self.allowed, float("-inf"))
        return scores.softmax(-1) @ x
""",
            messages=(
                "`self.allowed` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` "
                "(line 17) fails on a GPU; register it as a buffer.",
            ),
            repaired="""\
import torch as t
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, context):
        super().__init__()
        self.project = nn.Linear(dim, dim)
        self.register_buffer("allowed", self.make_mask(context), persistent=False)  # lower triangle

    def make_mask(self, size):
        ones = t.ones(size, size, dtype=t.bool)
        return ones.tril()

    def forward(self, x):
        scores = self.project(x) @ x.transpose(1, 2)
        scores = scores.masked_fill(~self.allowed, float("-inf"))
        return scores.softmax(-1) @ x
""",
            build="Attention(4, 3)",
            inputs="(t.rand(2, 3, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


def angles(width, base=10_000):
    exponents = torch.arange(0, width, 2) / width
    return base**-exponents


class Positions(Module):
    def __init__(self, width):
        super().__init__()
        rates = angles(width)
        «self.rates» = rates

    def forward(self, steps):
        phase = steps[:, None] * self.rates
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
""",
            messages=(
                "`self.rates` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` "
                "(line 17) fails on a GPU; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch.nn import *


def angles(width, base=10_000):
    exponents = torch.arange(0, width, 2) / width
    return base**-exponents


class Positions(Module):
    def __init__(self, width):
        super().__init__()
        rates = angles(width)
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, steps):
        phase = steps[:, None] * self.rates
        return torch.cat([phase.sin(), phase.cos()], dim=-1)
""",
            build="Positions(6)",
            inputs="(torch.rand(5),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)


class Encoder(Base):
    pass


class RandomFeatures(Encoder):
    def __init__(self):
        super().__init__()
        «self.directions» = torch.randn(8, 16) / 8**0.5

    def forward(self, x):
        return torch.cos(self.body(x) @ self.directions)
""",
            messages=(
                "`self.directions` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward`"
                " (line 21) fails on a GPU; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)


class Encoder(Base):
    pass


class RandomFeatures(Encoder):
    def __init__(self):
        super().__init__()
        self.register_buffer("directions", torch.randn(8, 16) / 8**0.5)

    def forward(self, x):
        return torch.cos(self.body(x) @ self.directions)
""",
            build="RandomFeatures()",
            inputs="(torch.rand(2, 8),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self, grey=False):
        super().__init__()
        if grey:
            «self.mean» = torch.tensor([0.45])
        else:
            «self.mean» = torch.tensor([0.48, 0.46, 0.41])

    def forward(self, image):
        return image - self.mean.view(-1, 1, 1)
""",
            messages=(
                "`self.mean` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` (line"
                " 14) fails on a GPU; register it as a buffer.",
                "`self.mean` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` (line"
                " 14) fails on a GPU; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Normalise(nn.Module):
    def __init__(self, grey=False):
        super().__init__()
        if grey:
            self.register_buffer("mean", torch.tensor([0.45]), persistent=False)
        else:
            self.register_buffer("mean", torch.tensor([0.48, 0.46, 0.41]), persistent=False)

    def forward(self, image):
        return image - self.mean.view(-1, 1, 1)
""",
            build="Normalise()",
            inputs="(torch.rand(3, 2, 2),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, levels):
        super().__init__()
        «self.weights» = []
        for level in range(levels):
            self.weights.append(torch.full((1,), 0.5**level))

    def forward(self, losses):
        return sum(loss * weight for loss, weight in zip(losses, self.weights))
""",
            messages=(
                "The tensors in `self.weights` are in a plain list, so `.to(device)` leaves them on the "
                "CPU and `forward` (line 13) fails on a GPU; register each as a buffer.",
            ),
            repaired=None,
            build="Pyramid(2)",
            inputs="([torch.ones(1), torch.ones(1)],)",
        ),
        Bad(
            code="""\
import torch
from torch import nn
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.mean = nn.Linear(4, actions)
        «self.noise» = Normal(torch.zeros(actions), torch.ones(actions))

    def forward(self, state):
        return self.mean(state) + self.noise.sample()
""",
            messages=(
                "`self.noise` is a `Normal`, which is no module, so `.to(device)` leaves its tensors on "
                "the CPU and `forward` (line 13) fails on a GPU; register its arguments as buffers and "
                "build it in `forward`.",
            ),
            repaired=None,
            build="Policy(2)",
            inputs="(torch.rand(3, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self, size):
        super().__init__()
        «self.taper» = torch.hann_window(size)

    def forward(self, x):
        return x * self.taper.to(x.device)
""",
            messages=(
                "`self.taper` is a plain tensor that every use has to move, at the cost of a copy each "
                "time; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Window(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("taper", torch.hann_window(size), persistent=False)

    def forward(self, x):
        return x * self.taper.to(x.device)
""",
            build="Window(4)",
            inputs="(torch.rand(4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        «self.low», «self.high» = torch.zeros(channels), torch.ones(channels)

    def forward(self, x):
        return torch.minimum(torch.maximum(x, self.low), self.high)
""",
            messages=(
                "`self.low` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` (line "
                "11) fails on a GPU; register it as a buffer.",
                "`self.high` is a plain tensor, so `.to(device)` leaves it on the CPU and `forward` (line"
                " 11) fails on a GPU; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        low, high = torch.zeros(channels), torch.ones(channels)
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)

    def forward(self, x):
        return torch.minimum(torch.maximum(x, self.low), self.high)
""",
            build="Scale(2)",
            inputs="(torch.rand(3, 2),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.levels = len(counts)
        for level, count in enumerate(counts):
            «setattr(self, f"steps{level}", torch.arange(count))»

    def forward(self, x):
        return [x + getattr(self, f"steps{level}").sum() for level in range(self.levels)]
""",
            messages=(
                "`self.steps{level}` is a plain tensor, so `.to(device)` leaves it on the CPU; register "
                "it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.levels = len(counts)
        for level, count in enumerate(counts):
            self.register_buffer(f"steps{level}", torch.arange(count), persistent=False)

    def forward(self, x):
        return [x + getattr(self, f"steps{level}").sum() for level in range(self.levels)]
""",
            build="Steps([2, 3])",
            inputs="(torch.rand(1),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Ramp(nn.Module):
    def __init__(self, size, device):
        super().__init__()
        «self.ramp» = torch.linspace(0, 1, size, device=device)

    def forward(self, x):
        return x * self.ramp
""",
            messages=(
                "`self.ramp` is a plain tensor, so it stays on the device it was made on when the module "
                "moves; register it as a buffer.",
            ),
            repaired="""\
import torch
from torch import nn


class Ramp(nn.Module):
    def __init__(self, size, device):
        super().__init__()
        self.register_buffer("ramp", torch.linspace(0, 1, size, device=device), persistent=False)

    def forward(self, x):
        return x * self.ramp
""",
            build='Ramp(4, "cpu")',
            inputs="(torch.rand(4),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self, k):
        super(MyModule, self).__init__()
        self.register_buffer('k', torch.zeros(k))
        # self.k = torch.zeros(k)
    def forward(self):
            ...
            # 这里使用 self.k 即可
""",
            why="the tensor is a buffer",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.limit = nn.Buffer(torch.ones(1), persistent=False)

    def forward(self, x):
        self.seen = self.seen + 1
        return x * self.seen / self.limit
""",
            why=("both are buffers, and a tensor that is assigned to a buffer's name becomes the buffer's new value"),
        ),
        Good(
            code="""\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.zeros(4))


class FilledTable(Table):
    def __init__(self):
        super().__init__()
        self.codes = torch.linspace(0, 1, 4)

    def forward(self, x):
        return x * self.codes
""",
            why="the base class has registered a buffer of this name",
        ),
        Good(
            code="""\
import numpy as np
import torch
from torch import nn


class Histogram(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.edges = np.linspace(0.0, 1.0, bins + 1)
        self.top = torch.linspace(0, 1, bins).max().item()
        self.width = torch.zeros(bins).shape[0]

    def forward(self, x):
        return x.clamp(0, self.top) * self.width
""",
            why="a NumPy array, a Python number and a size: none of them is a tensor",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.activation = None

    def forward(self, x):
        self.activation = torch.relu(self.layer(x))
        return self.activation
""",
            why="an activation that each call of `forward` overwrites; it lives where the input lives",
        ),
        Good(
            code="""\
import torch
from torch.utils.data import Dataset


class Spirals(Dataset):
    def __init__(self, count):
        self.points = torch.rand(count, 2)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index]
""",
            why="a data set is no module; its tensors are moved batch by batch",
        ),
        Good(
            code="""\
import mlx.nn as nn
import torch


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.ones(3)

    def __call__(self, x):
        return x * self.factor
""",
            why="another framework's `Module`: the import decides, not the name `nn`",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 4, bias=False)
        self.decode_weight = self.encode.weight

    def forward(self, x):
        return torch.relu(self.encode(x)) @ self.decode_weight
""",
            why="a second name for a registered parameter, which moves in place",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, parts):
        super().__init__()
        uniform = torch.full((parts,), 1 / parts)
        self.register_buffer("prior", uniform.log())

    def forward(self, scores):
        noise = torch.rand_like(scores)
        return scores + self.prior + noise
""",
            why=("the local tensor only feeds a buffer, and `rand_like` makes its result where the scores are"),
        ),
        Good(
            code="""\
import torch
from torch import nn


class Crop(nn.Module):
    def __init__(self, size):
        super().__init__()
        rows = torch.arange(size)
        self.size = int(rows.numel())

    def forward(self, x):
        return x[..., : self.size]
""",
            why="what is kept is an integer",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        noise = torch.randn(x.shape, device=self.device)
        return self.layer(x) + noise
""",
            why="nothing is kept, and the tensor is made on a device that the caller chooses",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.TENSOR:
                    yield self._finding(model, stray)

    def _finding(self, model: FileModel, stray: Stray) -> Finding:
        failing = stray.failing
        related: tuple[Related, ...] = ()
        if failing is not None:
            related = (
                Related(failing.place.span, f"`self.{stray.attribute}` meets a tensor of the module's device here."),
            )
        return Finding(
            rule=self.name,
            severity=_severity(model, stray),
            message=_message(model, stray),
            span=stray.store.target.span,
            related=related,
            fixes=tuple(_fixes(model, stray)),
            subject=stray.store.target.node,
        )


def _severity(model: FileModel, stray: Stray) -> Severity:
    if stray.placed or stray.moved_later:
        return Severity.HINT
    if stray.failing is not None:
        return Severity.WARNING if stray.handed_in else Severity.ERROR
    if stray.overwritten_later:
        return Severity.HINT
    uses = stray.uses
    if any(use.handling in {Handling.HANDED_ON, Handling.FAILS} for use in uses):
        return Severity.WARNING
    if uses or isinstance(stray.holder, Instance | Distribution):
        return Severity.HINT
    forward = stray.facts.cls.find_method("forward")
    unseen = is_stub(forward[1] if forward is not None else None) or model.attribute_read(stray.attribute)
    return Severity.WARNING if unseen or stray.attribute in stray.facts.reads else Severity.HINT


def _message(model: FileModel, stray: Stray) -> str:
    name = f"`{shown_attribute(model, stray.store)}`"
    failing = stray.failing
    when = (
        f" and `{failing.method or 'forward'}` (line {row_of(model, failing.place)}) fails on a GPU" if failing else ""
    )
    if isinstance(stray.holder, Distribution):
        kind = stray.holder.name.rpartition(".")[2]
        return (
            f"{name} is a `{kind}`, which is no module, so `.to(device)` leaves its tensors on the CPU{when}; "
            f"register its "
            "arguments as buffers and build it in `forward`."
        )
    if isinstance(stray.holder, Instance):
        cls = stray.holder.cls.name
        return (
            f"{name} is an object of `{cls}`, which is no module, so `.to(device)` leaves its tensors on the "
            f"CPU{when}; make "
            f"`{cls}` an `nn.Module`."
        )
    if isinstance(stray.holder, Partial | FunctionValue):
        return (
            f"{name} is a function that holds a tensor, so `.to(device)` leaves it on the CPU{when}; register "
            f"the tensor as "
            "a buffer and pass it in `forward`."
        )
    if isinstance(stray.holder, Tensor) and stray.holder.tracked:
        return (
            f"{name} is computed once, from a parameter, so it does not follow what that learns and "
            f"`.to(device)` leaves it "
            f"on the CPU{when}; compute it in `forward`."
        )
    if isinstance(stray.holder, Container):
        shape = stray.holder.shape.value
        return (
            f"The tensors in {name} are in a plain {shape}, so `.to(device)` leaves them on the CPU{when}; "
            f"register each as a "
            "buffer."
        )
    if stray.placed:
        return (
            f"{name} is a plain tensor, so it stays on the device it was made on when the module moves; "
            f"register it as a "
            "buffer."
        )
    if not when and stray.uses and all(use.handling is Handling.MOVED for use in stray.uses):
        return (
            f"{name} is a plain tensor that every use has to move, at the cost of a copy each time; register "
            f"it as a buffer."
        )
    return f"{name} is a plain tensor, so `.to(device)` leaves it on the CPU{when}; register it as a buffer."


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    store, tensor = stray.store, stray.holder
    if not isinstance(tensor, Tensor) or tensor.tracked or not _can_register(stray):
        return
    if store.how is How.SETATTR and isinstance(store.statement.node, cst.Call):
        for persistent in persistence(tensor):
            yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), _setattr_edits(store, persistent))
        return
    if store.how in {How.UNPACK, How.ELEMENT}:
        edits = _unpacked(model, stray)
        if edits is not None:
            persistent = persistence(tensor)[0]
            yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), edits)
        return
    if store.expression is None or not isinstance(store.statement.node, cst.Assign | cst.AnnAssign):
        return
    if isinstance(store.statement.node, cst.Assign) and len(store.statement.node.targets) > 1:
        return
    place = Place(store.target.statement, store.expression)
    for persistent in persistence(tensor):
        keyword = "" if persistent else ", persistent=False"
        start = store.target.span.start
        owner = text_of(model, store.target.span).rpartition(".")[0]
        edits = (
            Edit(start, place.whole.start, f'{owner}.register_buffer("{store.attribute.rpartition(".")[2]}", '),
            Edit(place.whole.end, place.whole.end, f"{keyword})"),
        )
        yield Fix(_title(tensor, persistent), _is_safe(tensor, persistent), edits)
    if _uses_buffer_class(model):
        spelling = model.names.spell("torch.nn.Buffer")
        persistent = persistence(tensor)[0]
        after = ")" if persistent else ", persistent=False)"
        yield Fix(
            "Make it an `nn.Buffer`",
            _is_safe(tensor, persistent),
            (*spelling.edits, *wrapped(model, place, f"{spelling.text}(", after)),
        )
    spelling = model.names.spell("torch.nn.Parameter")
    yield Fix(
        "Make it an `nn.Parameter` that does not train: `state_dict()` and `parameters()` get a new entry",
        False,
        (*spelling.edits, *wrapped(model, place, f"{spelling.text}(", ", requires_grad=False)")),
    )


def _can_register(stray: Stray) -> bool:
    """Whether `register_buffer` works in place of the assignment: not over an attribute that is there already."""
    store = stray.store
    if store.overwrites or store.attribute == "{}" or (store.in_loop and "{}" not in store.attribute):
        return False
    if any(
        state
        for cls in stray.facts.cls.own_classes
        for state in _class_level(cls.assignments)
        if state == store.attribute
    ):
        return False
    if any(store.attribute in cls.methods for cls in stray.facts.cls.own_classes):
        return False
    if _may_be_no_tensor(store, stray.holder):
        return False
    later = [other for other in stray.facts.stores if other.attribute == store.attribute and store in other.overwrites]
    return all(_fits_buffer(option) for other in later for option in options_of(other.value))


def _may_be_no_tensor(store: Store, holder: Value) -> bool:
    """Whether what is assigned may as well be whatever the caller hands in, such as a number."""
    if isinstance(holder, Tensor) and holder.source is Source.ARGUMENT:
        return False
    method = store.method.node if store.method is not None else None
    parameters = method.params if method is not None else cst.Parameters()
    given = {parameter.name.value for parameter in (*parameters.params, *parameters.kwonly_params)}
    expression = store.expression
    parts = [expression.body, expression.orelse] if isinstance(expression, cst.IfExp) else [expression]
    return any(isinstance(part, cst.Name) and part.value in given for part in parts)


def _fits_buffer(value: Value) -> bool:
    """Whether a registered buffer may be assigned this value."""
    if isinstance(value, Scalar):
        return value.literal is None
    return isinstance(value, Tensor | Input) or type(value) is Value


def _class_level(assignments: list[cst.Assign | cst.AnnAssign]) -> Iterable[str]:
    for assignment in assignments:
        if isinstance(assignment, cst.AnnAssign):
            if assignment.value is not None and isinstance(assignment.target, cst.Name):
                yield assignment.target.value
        else:
            for target in assignment.targets:
                if isinstance(target.target, cst.Name):
                    yield target.target.value


def persistence(tensor: Tensor) -> tuple[bool, ...]:
    """The ways to register it, the preferred one first: what can be computed again need not be saved."""
    return (False, True) if tensor.source is Source.CONSTANT else (True, False)


def _is_safe(tensor: Tensor, persistent: bool) -> bool:
    """Whether registering keeps behaviour and checkpoints: a half-precision cast reaches buffers, and rounds large
    floats."""
    exact = tensor.dtype in {"int", "bool"} or (tensor.dtype == "float" and tensor.bounded)
    return not persistent and tensor.source is Source.CONSTANT and exact


def _title(tensor: Tensor, persistent: bool) -> str:
    if not persistent:
        again = "" if tensor.source is Source.CONSTANT else ", and it is not saved"
        return f"Register it as a buffer (`persistent=False`): old checkpoints go on loading{again}"
    return "Register it as a buffer: it is saved, and strict loading of old checkpoints fails"


def _setattr_edits(store: Store, persistent: bool) -> tuple[Edit, ...]:
    call = store.statement.node
    assert isinstance(call, cst.Call)
    statement = store.statement.statement
    owner, name, value = (argument.value for argument in call.args)
    end = statement.whole_span(value).end
    keyword = () if persistent else (Edit(end, end, ", persistent=False"),)
    start, first = statement.span(call.func).start, statement.whole_span(owner)
    if isinstance(call.func, cst.Attribute):
        return (
            Edit(statement.span(call.func.attr).start, statement.span(call.func.attr).end, "register_buffer"),
            *keyword,
        )
    return (
        (
            Edit(start, statement.whole_span(name).start, f"{_owner(owner)}.register_buffer("),
            *keyword,
        )
        if first.start > start
        else ()
    )


def _owner(node: cst.BaseExpression) -> str:
    return node.value if isinstance(node, cst.Name) else "self"


def _unpacked(model: FileModel, stray: Stray) -> tuple[Edit, ...] | None:
    """`self.a, self.b = f()` becomes `a, b = f()` and a registration for each."""
    statement = stray.store.statement
    node = statement.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not stands_alone(model, statement.span):
        return None
    targets = node.targets[0].target
    if not isinstance(targets, cst.Tuple) or stray.store.method is None:
        return None
    together = {other.target.node: other for other in stray.facts.stores if other.statement.node is node}
    taken = _names(stray.store.method.node)
    edits: list[Edit] = []
    lines: list[str] = []
    indent = indentation(model, statement.span.start)
    newline = "\n"
    for element in targets.elements:
        store = together.get(element.value)
        if store is None or not isinstance(element.value, cst.Attribute):
            return None
        tensors = [option for option in options_of(store.value) if isinstance(option, Tensor)]
        if len(tensors) != 1 or store.attribute in taken or not _can_register(stray):
            return None
        owner, _, _ = text_of(model, store.target.span).rpartition(".")
        edits.append(Edit(store.target.span.start, store.target.span.end, store.attribute))
        keyword = "" if persistence(tensors[0])[0] else ", persistent=False"
        lines.append(f'{indent}{owner}.register_buffer("{store.attribute}", {store.attribute}{keyword}){newline}')
    end = line_end(model, statement.span.end)
    if not model.document.text[:end].endswith(("\n", "\r")):
        lines[0] = newline + lines[0]
    return (*edits, Edit(end, end, "".join(lines)))


def _names(node: cst.CSTNode) -> set[str]:
    return set(names_in(node))


def _uses_buffer_class(model: FileModel) -> bool:
    """Whether the file already uses `nn.Buffer`, which torch has since 2.5."""
    return "Buffer(" in model.document.text.replace("_buffer(", "")
