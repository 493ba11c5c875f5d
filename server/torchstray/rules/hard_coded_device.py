"""CUDA devices that are written out in a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.meetings import device_of
from torchstray.rules.repairs import argument_span, delete_lines, shortened, stands_alone, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Rule, Severity
from torchstray.semantics.devices import asks_for_device, literal_device, named_device
from torchstray.semantics.facts import ClassFacts, FixedDevice, Phase
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted, holds, walk
from torchstray.semantics.strays import strays
from torchstray.semantics.values import (
    Container,
    Input,
    ModuleInstance,
    Parameter,
    SelfValue,
    Tensor,
    Value,
    contents,
    options_of,
)
from torchstray.text.edits import Edit, Span


class HardCodedDevice(Rule):
    """## What it finds

    CUDA devices that are written out inside of a module, in its `__init__`, in `forward()` or in another method:

    - `.cuda()`, `.cuda(0)` and `.to("cuda")`, on tensors and on layers;
    - `device="cuda"` or `torch.device("cuda:0")` for a factory or a layer;
    - the old types, `torch.cuda.FloatTensor(…)`.

    ## Why it matters

    Where a module lives is for its user to say, with `model.to(device)`. A module with a device written into it fails
    on a machine without CUDA, on Apple's and other accelerators, on the second GPU, and in tests on the CPU:

        AssertionError: Torch not compiled with CUDA enabled
        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!

    ## Example

    ```python
    class Positions(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(size, device="cuda"))

        def forward(self, x):
            return x + torch.arange(x.size(-1)).cuda() * self.scale
    ```

    ## Repair

    ```python
    class Positions(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(size))

        def forward(self, x):
            return x + torch.arange(x.size(-1)).to(x.device) * self.scale
    ```

    In `forward()` the device becomes that of an input, or of a parameter of the module; in `__init__` it goes, since
    what is registered moves with the module; and inputs are for the caller to move. None of these is called safe: a
    program that relied on the module to go to the GPU by itself has to do it now.

    ## When to ignore it

    In a program that is only ever to run on this one GPU.

    Nothing is said where a test decides (`if x.is_cuda`, `if torch.cuda.is_available()`, `try`), where the device is a
    variable, an argument or an attribute, in a module that names two devices, because it spreads its layers over them,
    in scripts and functions outside of modules, and where another rule already speaks of the value, such as
    `unregistered-tensor` or `layer-in-forward`.
    """

    name = "hard-coded-device"
    summary = "`.cuda()` or a CUDA device that is written out inside of a module"
    severity = Severity.WARNING
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(«torch.ones(size, device="cuda")»)

    def forward(self, x):
        return x + «torch.arange(x.size(-1)).cuda()» * self.scale
""",
            messages=(
                '`torch.ones(size, device="cuda")` is fixed to the current CUDA device, so the module fails without'
                " CUDA or on another GPU; leave it to `.to(device)`.",
                "`.cuda()` fixes this tensor to the current CUDA device, so the module fails without CUDA or on "
                "another GPU; take the device from `x`.",
            ),
            repaired="""\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x + torch.arange(x.size(-1)).to(x.device) * self.scale
""",
            build="Positions(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Bins(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, cost):
        bins = «torch.arange(self.count, dtype=torch.float32, device="cuda:0")»
        return (cost * bins).sum(1)
""",
            messages=(
                '`torch.arange(self.count, dtype=torch.float32, device="cuda:0")` is fixed to `cuda:0`, so the '
                "module fails without CUDA or on another GPU; take the device from `cost`.",
            ),
            repaired="""\
import torch
from torch import nn


class Bins(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, cost):
        bins = torch.arange(self.count, dtype=torch.float32, device=cost.device)
        return (cost * bins).sum(1)
""",
            build="Bins(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Pairs(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.score = nn.Linear(size, 1)

    def forward(self, items):
        first = «torch.cuda.LongTensor([0, 1])»
        return self.score(items).index_select(1, first)
""",
            messages=(
                "`torch.cuda.LongTensor([0, 1])` is fixed to the current CUDA device, so the module fails without "
                "CUDA or on another GPU; take the device from `items`.",
            ),
            repaired="""\
import torch
from torch import nn


class Pairs(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.score = nn.Linear(size, 1)

    def forward(self, items):
        first = torch.LongTensor([0, 1]).to(items.device)
        return self.score(items).index_select(1, first)
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = «nn.Linear(size, size).cuda()»
        self.register_buffer("shift", «torch.zeros(size).to("cuda")»)

    def forward(self, x):
        x = «x.cuda()»
        return self.layer(x) + self.shift
""",
            messages=(
                "`.cuda()` fixes this layer to the current CUDA device, so the module fails without CUDA or on "
                "another GPU; leave it to `.to(device)`.",
                '`.to("cuda")` fixes this tensor to the current CUDA device, so the module fails without CUDA or on'
                " another GPU; leave it to `.to(device)`.",
                "`.cuda()` fixes this tensor to the current CUDA device, so the module fails without CUDA or on "
                "another GPU; leave it to the caller to move its inputs.",
            ),
            repaired="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.register_buffer("shift", torch.zeros(size))

    def forward(self, x):
        return self.layer(x) + self.shift
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(9, size)
        self.cell = nn.GRUCell(size, size)

    def start(self, count):
        return «torch.zeros(count, self.cell.hidden_size).cuda(non_blocking=True)»

    def generate(self, count):
        tokens = «torch.ones(count, dtype=torch.long, device=torch.device("cuda"))»
        return self.cell(self.embed(tokens), self.start(count))
""",
            messages=(
                "`.cuda(non_blocking=True)` fixes this tensor to the current CUDA device, so the module fails "
                "without CUDA or on another GPU; take the device from `self.embed.weight`.",
                '`torch.ones(count, dtype=torch.long, device=torch.device("cuda"))` is fixed to the current CUDA '
                "device, so the module fails without CUDA or on another GPU; take the device from "
                "`self.embed.weight`.",
            ),
            repaired="""\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(9, size)
        self.cell = nn.GRUCell(size, size)

    def start(self, count):
        return torch.zeros(count, self.cell.hidden_size).to(self.embed.weight.device, non_blocking=True)

    def generate(self, count):
        tokens = torch.ones(count, dtype=torch.long, device=self.embed.weight.device)
        return self.cell(self.embed(tokens), self.start(count))
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = «nn.Linear(size, size, device="cuda")»
        «self.cuda()»

    def forward(self, x):
        return self.layer(x)
""",
            messages=(
                '`nn.Linear(size, size, device="cuda")` is fixed to the current CUDA device, so the module fails '
                "without CUDA or on another GPU; leave it to `.to(device)`.",
                "`.cuda()` fixes the module to the current CUDA device, so the module fails without CUDA or on "
                "another GPU; leave it to `.to(device)`.",
            ),
            repaired="""\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        return self.layer(x)
""",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn


class Old(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        if torch.cuda.is_available():
            self.cuda()

    def forward(self, x):
        noise = torch.rand(3).cuda() if x.is_cuda else torch.rand(3)
        try:
            shift = torch.zeros(3).cuda()
        except RuntimeError:
            shift = torch.zeros(3)
        return self.layer(x) + noise * 2 + shift
""",
            why="a test, or a `try`, decides about the device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3).to("cuda:0")
        self.second = nn.Linear(3, 3).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))
""",
            why="two devices: the module spreads its layers over them",
        ),
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x):
        h = torch.zeros(x.size(0), 3, device=device)
        return self.cell(x, h.to(device))
""",
            why="the file chooses a device once",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Placed(nn.Module):
    def __init__(self, device="cuda", rank=0):
        super().__init__()
        self.rank = rank
        self.layer = nn.Linear(3, 3, device=device)

    def forward(self, x):
        return self.layer(x.cuda(self.rank)) + torch.ones(3).cuda(x.get_device())
""",
            why="the caller chooses the device",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Linear(3, 3).cuda()


def main():
    batch = torch.rand(2, 3, device="cuda")
    print(model(batch.cuda()))


class Data:
    def __getitem__(self, number):
        return torch.full((3,), number).cuda()


main()
""",
            why="a script, and a class that is no module",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Device(nn.Module):
    def forward(self, x):
        if x.device.type == "cuda":
            torch.cuda.synchronize()
        memory = torch.cuda.memory_allocated("cuda")
        with torch.autocast("cuda"):
            return x * 2, memory
""",
            why="a device is named, but nothing is put on it",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Following(nn.Module):
    def forward(self, x, like):
        return x.to(like.device) + torch.ones(3).to(x) + torch.zeros(3, device=x.device).type_as(x)
""",
            why="the device of an input",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Half(nn.Module):
    def to(self, *args, **kwargs):
        return super().to(*args, **kwargs)

    def forward(self, x):
        return x.to(torch.float16).to("cpu")
""",
            why="to another type, or to the CPU",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            if not facts.fixed_devices or len(_literals(facts)) > 1:
                continue
            spoken_of = list(_of_other_rules(model, facts))
            for fixed in facts.fixed_devices.values():
                if not _is_guarded(fixed) and not _is_anything(fixed) and not _is_covered(facts, fixed, spoken_of):
                    yield self._finding(model, facts, fixed)

    def _finding(self, model: FileModel, facts: ClassFacts, fixed: FixedDevice) -> Finding:
        source = _source(facts, fixed)
        call, device = fixed.call.node, _which(fixed)
        assert isinstance(call, cst.Call)
        if isinstance(call.func, cst.Attribute) and fixed.receiver is not None:
            span = Span(fixed.call.statement.span(call.func.attr).start, fixed.call.span.end)
            moved = text_of(model, span) if "\n" not in text_of(model, span) else f"{call.func.attr.value}(…)"
            what = f"`.{moved}` fixes {_what(fixed.receiver)} to {device}"
        else:
            what = f"`{shortened(model, fixed.call)}` is fixed to {device}"
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=f"{what}, so the module fails without CUDA or on another GPU; {_advice(fixed, source)}.",
            span=fixed.call.span,
            fixes=tuple(_fixes(model, fixed, source)),
            subject=call,
        )


def _which(fixed: FixedDevice) -> str:
    return "the current CUDA device" if fixed.literal == "cuda" else f"`{fixed.literal}`"


def _what(receiver: Value) -> str:
    options = options_of(receiver)
    if all(isinstance(option, Tensor | Input | Parameter) for option in options):
        return "this tensor"
    if all(isinstance(option, ModuleInstance) for option in options):
        return "this layer"
    return "the module" if all(isinstance(option, SelfValue) for option in options) else "this"


def _advice(fixed: FixedDevice, source: str | None) -> str:
    if _moves_input(fixed):
        return "leave it to the caller to move its inputs"
    if source is not None:
        return f"take the device from `{source}`"
    return "leave it to `.to(device)`" if fixed.phase is Phase.INIT else "take the device from an input"


def _moves_input(fixed: FixedDevice) -> bool:
    options = options_of(fixed.receiver) if fixed.receiver is not None else ()
    return bool(options) and all(isinstance(option, Input) and option.given for option in options)


def _source(facts: ClassFacts, fixed: FixedDevice) -> str | None:
    if fixed.phase is Phase.INIT:
        return None
    return device_of(facts, fixed.near, fixed.function, fixed.call.node)


# Where nothing is said


def _literals(facts: ClassFacts) -> set[str]:
    """The CUDA devices that a class names: with two of them, it spreads its parts over both."""
    found: set[str] = set()
    for cls in facts.cls.own_classes:
        for node in walk(cls.node):
            literal = named_device(node, None) if isinstance(node, cst.Call) else None
            if literal is None and isinstance(node, cst.BaseExpression):
                literal = literal_device(node)
            if literal is not None:
                found.add(literal)
    return found


def _is_guarded(fixed: FixedDevice) -> bool:
    """Whether a test asks for the device, or a `try` for an error, before the call is made."""
    return any(asks_for_device(test) or dotted(test) == "__tried__" for test in fixed.guards)


def _is_anything(fixed: FixedDevice) -> bool:
    """Whether `.to("cuda")` is called on something of which nobody knows what it is."""
    call = fixed.call.node
    unknown = fixed.receiver is not None and all(type(option) is Value for option in options_of(fixed.receiver))
    moved = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return unknown and moved


def _of_other_rules(model: FileModel, facts: ClassFacts) -> Iterator[cst.CSTNode]:
    """The nodes of which other rules speak with all that stands in them."""
    for stray in strays(facts):
        if stray.store.expression is not None:
            yield stray.store.expression
        for held in contents(stray.holder):
            if isinstance(held, Tensor) and held.made is not None:
                yield held.made.node
            elif isinstance(held, Container):
                yield from (place.node for place in held.grown_at)
    yield from (move.call.node for move in model.moves)
    yield from (kept.expression for kept in facts.stores if kept.lazily and kept.expression is not None)


def _is_covered(facts: ClassFacts, fixed: FixedDevice, spoken_of: list[cst.CSTNode]) -> bool:
    """Whether another rule speaks of the value that the call makes or moves."""
    call = fixed.call.node
    made = [built.value.place.node for built in facts.built if built.value.place is not None]
    return any(holds(node, call) for node in spoken_of) or any(holds(call, node) for node in made)


# Repairs


def _fixes(model: FileModel, fixed: FixedDevice, source: str | None) -> Iterable[Fix]:
    call, place = fixed.call.node, fixed.call
    if not isinstance(call, cst.Call):
        return
    if isinstance(fixed.receiver, SelfValue) or _moves_input(fixed):
        line = _line_of(fixed)
        if line is not None and stands_alone(model, place.statement.span(line)):
            edit = delete_lines(model, place.statement.span(line))
            yield Fix("Leave it to a move of the module, or to the caller", False, (edit,))
        return
    if fixed.receiver is not None and isinstance(call.func, cst.Attribute):
        start = place.statement.whole_span(call.func.value).end
        rest = [argument for argument in call.args if _is_other(argument)]
        if source is None:
            if not rest and fixed.phase is Phase.INIT:
                yield Fix("Leave it to a move of the module", False, (Edit(start, place.span.end, ""),))
            return
        more = "".join(
            f", {text_of(model, argument_span(place, call, call.args.index(argument)))}" for argument in rest
        )
        edit = Edit(start, place.span.end, f".to({source}.device{more})")
        yield Fix(f"Move it to the device of `{source}`", False, (edit,))
        return
    named = next((argument for argument in call.args if argument.keyword is not None and not _is_other(argument)), None)
    if named is None:
        yield from _typed(model, fixed, source)
        return
    position = call.args.index(named)
    if source is not None:
        span = place.statement.whole_span(named.value)
        yield Fix(f"Make it on the device of `{source}`", False, (Edit(span.start, span.end, f"{source}.device"),))
    elif fixed.phase is Phase.INIT:
        span = argument_span(place, call, position)
        first = argument_span(place, call, position - 1).end if position else span.start
        yield Fix("Leave the device to a move of the module", False, (Edit(first, span.end, ""),))


def _line_of(fixed: FixedDevice) -> cst.SimpleStatementLine | None:
    """The line that does nothing but the move, `x = x.cuda()` or `self.cuda()`, if its block has others."""
    call, function = fixed.call.node, fixed.function
    for block in walk(function.node.body) if function is not None else ():
        if not isinstance(block, cst.IndentedBlock) or len(block.body) < 2:
            continue
        for line in block.body:
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                continue
            node = line.body[0]
            if isinstance(node, cst.Expr) and node.value is call:
                return line
            if isinstance(node, cst.Assign) and node.value is call and isinstance(call, cst.Call):
                receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
                if len(node.targets) == 1 and dotted(node.targets[0].target) == (dotted(receiver) or ""):
                    return line
    return None


def _typed(model: FileModel, fixed: FixedDevice, source: str | None) -> Iterable[Fix]:
    """`torch.cuda.LongTensor(…)` as `torch.LongTensor(…).to(x.device)`."""
    call, place = fixed.call.node, fixed.call
    assert isinstance(call, cst.Call)
    func = place.statement.span(call.func)
    text = text_of(model, func)
    if ".cuda." in text and source is not None:
        end = place.whole.end
        edits = (Edit(func.start, func.end, text.replace(".cuda.", ".")), Edit(end, end, f".to({source}.device)"))
        yield Fix(f"Move it to the device of `{source}`", False, edits)


def _is_other(argument: cst.Arg) -> bool:
    """Whether an argument of a move or factory is none that names the device."""
    if argument.keyword is not None:
        return argument.keyword.value != "device"
    return literal_device(argument.value) is None and not isinstance(argument.value, cst.Integer)
