"""Tensors that are made once, outside of the module that uses them."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.before_super_init import first_statement
from torchstray.rules.meetings import by_origin, device_source, first_fate
from torchstray.rules.moving import end_of_state, free_attribute
from torchstray.rules.repairs import indentation, line_start, row_of, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.evaluate import name_nodes, names_in
from torchstray.semantics.facts import ClassFacts, Fate, Meeting
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import walk
from torchstray.semantics.values import Made, Origin, Tensor
from torchstray.text.edits import Edit, Span


class GlobalTensor(Rule):
    """## What it finds

    Tensors that are made once and for all outside of the module that uses them, and meet tensors that have moved:

    - `MEAN = torch.tensor([…])` at file level, also in a list or dict, used in `forward()`, in a step method, or in
      what those call;
    - a default argument, `def forward(self, x, weights=torch.ones(3))`;
    - what a function of the file that is decorated with `functools.cache` or `lru_cache` has made without a device.

    ## Why it matters

    `model.to(device)` moves what the model has registered. What belongs to the file, to a function's definition or to a
    cache is out of its reach and stays on the CPU, so the first operation that mixes it with an input fails on a GPU:

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

    ## Example

    ```python
    MEAN = torch.tensor([0.48, 0.46, 0.41]).view(-1, 1, 1)

    class Normalise(nn.Module):
        def __init__(self):
            super().__init__()

        def forward(self, image):
            return image - MEAN
    ```

    ## Repair

    ```python
    MEAN = torch.tensor([0.48, 0.46, 0.41]).view(-1, 1, 1)

    class Normalise(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", MEAN, persistent=False)

        def forward(self, image):
            return image - self.mean
    ```

    A default argument becomes a buffer, too, and `None` its default. What a cached function returns is moved where it
    is used; better, but for you to do, is a `device` argument, which then is part of the cache's key. None of these is
    called safe: another file may use the same name, and a buffer follows half-precision casts. The tensors of a list or
    dict have to be registered one by one.

    ## When to ignore it

    Where the model never leaves the CPU.

    Nothing is said of tensors that every use moves (`MEAN.to(x.device)`), that were made on a device of the file's
    choice, that only index (`x[ORDER]`), of 0-dim ones in arithmetic, of those that a buffer or parameter is made from,
    and of caches that are asked for a device: `causal(n, x.device)`. A cached *method* is `stale-cache`.
    """

    name = "global-tensor"
    summary = "a tensor made at file level, in a cached function or as a default argument, and used in `forward()`"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn

«MEAN» = torch.tensor([0.48, 0.46, 0.41]).view(-1, 1, 1)
_ORDER = torch.tensor([2, 1, 0])


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, image):
        return image[_ORDER] - MEAN
""",
            messages=(
                "`MEAN` is made at file level, so no `.to()` reaches it and `forward` (line 13) fails on a GPU; "
                "register it as "
                "a buffer in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn

MEAN = torch.tensor([0.48, 0.46, 0.41]).view(-1, 1, 1)
_ORDER = torch.tensor([2, 1, 0])


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", MEAN, persistent=False)

    def forward(self, image):
        return image[_ORDER] - self.mean
""",
            build="Normalise()",
            inputs="(torch.rand(3, 2, 2),)",
        ),
        Bad(
            code="""\
import torch
import torch.nn.functional as F
from torch import nn

«TAPS» = torch.outer(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 1.0])) / 16
«OFFSETS» = torch.arange(4) - 2


class Blur(nn.Module):
    def blur(self, x):
        return F.conv2d(x, TAPS.expand(1, 1, 3, 3), padding=1)

    def forward(self, x):
        return self.blur(x) + OFFSETS
""",
            messages=(
                "`TAPS` is made at file level, so no `.to()` reaches it and `forward` (line 11) fails on a GPU; "
                "register it as "
                "a buffer in `__init__`.",
                "`OFFSETS` is made at file level, so no `.to()` reaches it and `forward` (line 14) fails on a GPU; "
                "register "
                "it as a buffer in `__init__`.",
            ),
            repaired="""\
import torch
import torch.nn.functional as F
from torch import nn

TAPS = torch.outer(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 1.0])) / 16
OFFSETS = torch.arange(4) - 2


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("taps", TAPS, persistent=False)
        self.register_buffer("offsets", OFFSETS, persistent=False)

    def blur(self, x):
        return F.conv2d(x, self.taps.expand(1, 1, 3, 3), padding=1)

    def forward(self, x):
        return self.blur(x) + self.offsets
""",
            build="Blur()",
            inputs="(torch.rand(1, 1, 4, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn

«PALETTES» = {
    "warm": torch.tensor([1.0, 0.6, 0.2]),
    "cold": torch.tensor([0.2, 0.6, 1.0]),
}


class Tint(nn.Module):
    def __init__(self, palette="warm"):
        super().__init__()
        self.palette = palette
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.gain * PALETTES[self.palette]
""",
            messages=(
                "The tensors in `PALETTES` are made at file level, so no `.to()` reaches them and `forward` (line 17) "
                "fails "
                "on a GPU; register each as a buffer in `__init__`.",
            ),
            repaired=None,
            build="Tint()",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Grey(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, image, «weights»=torch.tensor([0.3, 0.6, 0.1])):
        return (image * weights).sum(-1) * self.gain
""",
            messages=(
                "The default of `weights` is made only once, with the function, so no `.to()` reaches it and "
                "`forward` (line "
                "11) fails on a GPU; register it as a buffer, and make the default `None`.",
            ),
            repaired="""\
import torch
from torch import nn


class Grey(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.register_buffer("weights", torch.tensor([0.3, 0.6, 0.1]), persistent=False)

    def forward(self, image, weights=None):
        if weights is None:
            weights = self.weights
        return (image * weights).sum(-1) * self.gain
""",
            build="Grey()",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
from functools import lru_cache

import torch
from torch import nn


@lru_cache(maxsize=None)
def «causal»(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


class Attention(nn.Module):
    def forward(self, scores):
        allowed = causal(scores.size(-1))
        return scores.masked_fill(~allowed, float("-inf")).softmax(-1)
""",
            messages=(
                "`causal` keeps what it has made on the CPU for all later calls, so no `.to()` reaches it and "
                "`forward` (line "
                "15) fails on a GPU; give it a `device` argument.",
            ),
            repaired="""\
from functools import lru_cache

import torch
from torch import nn


@lru_cache(maxsize=None)
def causal(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


class Attention(nn.Module):
    def forward(self, scores):
        allowed = causal(scores.size(-1)).to(scores.device)
        return scores.masked_fill(~allowed, float("-inf")).softmax(-1)
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


def hat(size):
    rise = torch.linspace(0, 1, size // 2)
    return torch.cat([rise, rise.flip(0)])


if True:
    «WINDOW» = hat(6)


def shaped(frames):
    return frames * WINDOW


class Frames(nn.Module):
    def training_step(self, batch: torch.Tensor):
        return shaped(batch).mean()
""",
            messages=(
                "`WINDOW` is made at file level, so no `.to()` reaches it and `training_step` (line 15) fails on a "
                "GPU; "
                "register it as a buffer in `__init__`.",
            ),
            repaired=None,
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn

MEAN = torch.tensor([0.48, 0.46, 0.41])


class Normalise(nn.Module):
    def forward(self, image):
        return image - MEAN.to(image.device).view(-1, 1, 1)
""",
            why="every use moves it",
        ),
        Good(
            code="""\
import torch
from torch import nn

SCALE = torch.tensor(0.125)
ORDER = torch.tensor([2, 0, 1])
SIZES = torch.tensor([4, 8])


class Scale(nn.Module):
    def forward(self, x):
        return x[..., ORDER] * SCALE + int(SIZES[0]) + len(ORDER)
""",
            why="0-dim tensors may join arithmetic, indices may be on the CPU, and numbers are none",
        ),
        Good(
            code="""\
import torch
from torch import nn

BANDS = torch.linspace(0, 1, 5)


class Bands(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bands", BANDS.clone(), persistent=False)
        self.gains = nn.Parameter(BANDS + 1)

    def forward(self, x):
        return x * self.bands * self.gains
""",
            why="the module registers what it makes of it",
        ),
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WEIGHTS = torch.tensor([1.0, 2.0], device=device)
BIAS = torch.ones(2)
if torch.cuda.is_available():
    BIAS = BIAS.cuda()


class Head(nn.Module):
    def forward(self, x):
        return x * WEIGHTS + BIAS
""",
            why="the file chose a device for it",
        ),
        Good(
            code="""\
from functools import lru_cache

import torch
from torch import nn


@lru_cache
def causal(size, device):
    return torch.ones(size, size, device=device).tril()


@lru_cache
def edges(size):
    return [(i, i + 1) for i in range(size)]


class Attention(nn.Module):
    def forward(self, scores):
        return scores * causal(scores.size(-1), scores.device) + len(edges(3))
""",
            why="the device is part of the cache's key; a cache of numbers has none",
        ),
        Good(
            code="""\
import torch
from torch import nn

WEIGHTS = torch.ones(3)


class Model(nn.Module):
    def forward(self, x, weights=None, fill=torch.float32):
        return x if weights is None else x * weights.to(fill)


model = Model()
batch = torch.rand(2, 3) * WEIGHTS
print(model(batch, WEIGHTS))
""",
            why="a script hands it to the model, and may as well move it",
        ),
        Good(
            code="""\
import torch
from torch import nn

NOISE = torch.rand(3)


class Model(nn.Module):
    def forward(self, x, NOISE):
        return x + NOISE


class Data:
    def __getitem__(self, number):
        return NOISE * number
""",
            why="an argument of the same name, and a class that is no module",
        ),
        Good(
            code="""\
import torch
from torch import nn

torch.set_default_device("cuda")
MEAN = torch.tensor([0.48, 0.46, 0.41])


class Normalise(nn.Module):
    def forward(self, image):
        return image - MEAN
""",
            why="all tensors of this program are made on another device",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for made in (Made.FILE, Made.DEFAULT, Made.CACHED):
                for origin, meetings in by_origin(facts, made):
                    meeting = first_fate(meetings, Fate.FAILS)
                    if meeting is not None and not _is_method(origin):
                        yield self._finding(model, facts, origin, meeting)

    def _finding(self, model: FileModel, facts: ClassFacts, origin: Origin, meeting: Meeting) -> Finding:
        fails = f"`{meeting.entry}` (line {row_of(model, meeting.place)}) fails on a GPU"
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=_message(model, origin, fails),
            span=_span(origin),
            related=(Related(meeting.place.span, "It meets a tensor of the module's device here."),),
            fixes=tuple(_fixes(model, facts, origin, meeting)),
            subject=origin.place.node,
        )


def _is_method(origin: Origin) -> bool:
    """Whether a method remembers what it has returned, which is another rule's."""
    return origin.made is Made.CACHED and origin.owner is not None


def _span(origin: Origin) -> Span:
    node = origin.place.node
    return origin.place.statement.span(node.name) if isinstance(node, cst.FunctionDef) else origin.place.span


def _message(model: FileModel, origin: Origin, fails: str) -> str:
    name = f"`{origin.name}`"
    if origin.made is Made.DEFAULT:
        return (
            f"The default of {name} is made only once, with the function, so no `.to()` reaches it and {fails}; "
            f"register "
            "it as a buffer, and make the default `None`."
        )
    if origin.made is Made.CACHED:
        return (
            f"{name} keeps what it has made on the CPU for all later calls, so no `.to()` reaches it and {fails}; "
            f"give it "
            "a `device` argument."
        )
    if isinstance(model.globals.get(origin.name), Tensor):
        return (
            f"{name} is made at file level, so no `.to()` reaches it and {fails}; "
            "register it as a buffer in `__init__`."
        )
    return (
        f"The tensors in {name} are made at file level, so no `.to()` reaches them and {fails}; "
        "register each as a buffer in `__init__`."
    )


def _fixes(model: FileModel, facts: ClassFacts, origin: Origin, meeting: Meeting) -> Iterable[Fix]:
    if origin.made is Made.FILE:
        edits = _as_buffer(model, facts, origin)
        title = f"Register it as a buffer of `{facts.cls.name}`: it moves with the module"
    elif origin.made is Made.DEFAULT:
        edits = _default_as_buffer(model, facts, origin)
        title = "Register the default as a buffer: it moves with the module"
    else:
        source = device_source(facts, origin, meeting)
        edits = _moved(model, origin, source)
        title = f"Move what it returns to the device of `{source}`, at the cost of a copy each time"
    if edits is not None:
        yield Fix(title, False, edits)


def _as_buffer(model: FileModel, facts: ClassFacts, origin: Origin) -> tuple[Edit, ...] | None:
    """Registers the tensor in `__init__` and has the class's other methods use that; None where functions use it, too,
    that do not know `self`."""
    cls = facts.cls
    insertion = end_of_state(model, cls)
    if insertion is None or not isinstance(model.globals.get(origin.name), Tensor):
        return None
    attribute = _free(facts, origin.name.strip("_").lower())
    edits: list[Edit] = []
    for name, method in cls.methods.items():
        uses = [node for node in walk(method.body) if isinstance(node, cst.Name) and node.value == origin.name]
        if name == "__init__" or not uses:
            continue
        first = next(iter(method.params.params), None)
        if first is None or first.name.value != "self" or _binds(method, origin.name):
            return None
        read = set(map(id, (node for node in name_nodes(method.body) if node.value == origin.name)))
        spans = [cls.statement.span(node) for node in uses if id(node) in read]
        edits += [Edit(span.start, span.end, f"self.{attribute}") for span in spans]
    if not edits:
        return None
    line = f'self.register_buffer("{attribute}", {origin.name}, persistent=False)'
    return (*edits, insertion.edit([line]))


def _default_as_buffer(model: FileModel, facts: ClassFacts, origin: Origin) -> tuple[Edit, ...] | None:
    """Registers the default in `__init__`, and uses that where nothing is handed in."""
    parameter, function = origin.place.node, origin.function
    insertion = end_of_state(model, facts.cls)
    if not isinstance(parameter, cst.Param) or parameter.default is None or function is None or insertion is None:
        return None
    method = function.node
    if not isinstance(method, cst.FunctionDef) or method not in facts.cls.methods.values():
        return None
    first, owner = first_statement(method), next(iter(method.params.params), None)
    if first is None or owner is None or owner.name.value != "self":
        return None
    statement = origin.place.statement
    default = statement.whole_span(parameter.default)
    made = text_of(model, default)
    if "\n" in made:
        return None
    attribute = _free(facts, origin.name.strip("_"))
    start = line_start(model, statement.span(first).start)
    indent = indentation(model, start)
    step = indent[len(indentation(model, statement.span(method.name).start)) :]
    fallback = f"{indent}if {origin.name} is None:\n{indent}{step}{origin.name} = self.{attribute}\n"
    line = f'self.register_buffer("{attribute}", {made}, persistent=False)'
    return Edit(default.start, default.end, "None"), Edit(start, start, fallback), insertion.edit([line])


def _moved(model: FileModel, origin: Origin, source: str | None) -> tuple[Edit, ...] | None:
    """Moves what the only call of the function gives."""
    calls = sum(name == origin.name for statement in model.document.statements for name in names_in(statement.tree))
    if origin.call is None or source is None or calls != 2:  # it and its definition
        return None
    end = origin.call.whole.end
    return (Edit(end, end, f".to({source}.device)"),)


def _free(facts: ClassFacts, wanted: str) -> str:
    taken = {store.attribute for store in facts.stores} | set(facts.registered) | set(facts.class_values)
    read = {
        node.attr.value
        for node in walk(facts.cls.node)
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    }
    return free_attribute(facts.cls, taken | read, wanted)


def _binds(method: cst.FunctionDef, name: str) -> bool:
    """Whether a method gives the name a meaning of its own."""
    if any(node.name.value == name for node in walk(method.params) if isinstance(node, cst.Param)):
        return True
    targets = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)
    for node in walk(method.body):
        if (
            isinstance(node, targets)
            and name in set(names_in(node.target))
            and not isinstance(node.target, cst.Attribute | cst.Subscript)
        ):
            return True
        if isinstance(node, cst.Global) and any(item.name.value == name for item in node.names):
            return True
    return False
