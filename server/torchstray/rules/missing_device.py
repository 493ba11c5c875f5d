"""Tensors made in `forward` without a device."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.meetings import assigned_name, by_origin, device_source, first_fate, meets
from torchstray.rules.repairs import argument_span, row_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.facts import ClassFacts, Fate, Meeting
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.values import Made, Origin, Place
from torchstray.text.edits import Edit


class MissingDevice(Rule):
    """## What it finds

    Tensors that are made without a device while the model runs, and then meet tensors that have moved:

    - `torch.zeros(n)`, `torch.arange(n)`, `torch.tensor([…])`, `torch.from_numpy(…)` and the like in `forward()`, in a
      step method (`training_step`, `validation_step`, `compute_loss`, `generate`, …), or in the methods and functions
      of the file that those call;
    - where such a tensor, or what is computed from it, meets an input, a parameter, a buffer or the output of a layer,
      in an operation that refuses to mix devices, or is handed to a layer or to a loss: an error;
    - where such a tensor is filled with the module's results step by step and returned: a warning, because nothing
      fails there, and the caller gets a tensor on the CPU.

    ## Why it matters

    A factory without `device=` makes its tensor on the CPU, wherever the model is. On a CPU that is the right device,
    so all tests pass. On a GPU the first operation that mixes the two ends in

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

    ## Example

    ```python
    class Recurrent(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.cell = nn.GRUCell(size, size)

        def forward(self, x):
            h = torch.zeros(x.size(1), x.size(2))
            for step in x:
                h = self.cell(step, h)
            return h
    ```

    ## Repair

    ```python
    class Recurrent(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.cell = nn.GRUCell(size, size)

        def forward(self, x):
            h = torch.zeros(x.size(1), x.size(2), device=x.device)
            for step in x:
                h = self.cell(step, h)
            return h
    ```

    The repair is safe: on the CPU nothing changes. The device is that of the tensor it meets or, where that has no name
    yet, of another input, or of a parameter of the module. What takes no `device`, such as `torch.from_numpy`, gets
    `.to(x.device)` instead; so does what is drawn with a generator, which has a device of its own. Where the type is
    taken from the same tensor, `x.new_zeros(n)` is offered as well.

    ## When to ignore it

    Where the model never leaves the CPU.

    Only what is certain to fail is reported. Nothing is said where PyTorch takes CPU tensors: a 0-dim tensor in
    arithmetic (`loss + torch.tensor(0.0)`, but not in `torch.stack`), an index in `x[index]` (but not in `gather`,
    `index_select` or an embedding), lengths for `pack_padded_sequence`, values that are assigned into a slice or copied
    with `copy_`. Nor is anything said of tensors that are moved on the way (`.to(x.device)`, `.type_as(x)`, `.cuda()`,
    also in a branch that asks for the device), of tensors made with an input's or any other device, under `with
    torch.device(…)` or after `torch.set_default_device(…)`, or of what meets something that nobody can see.
    """

    name = "missing-device"
    summary = "a tensor made in `forward()` without a device, which meets tensors of the module's device"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.cell = nn.GRUCell(size, size)

    def forward(self, x):
        h = «torch.zeros(x.size(1), x.size(2))»
        for step in x:
            h = self.cell(step, h)
        return h
""",
            messages=(
                "`torch.zeros` makes `h` on the CPU, and `self.cell` (line 13) fails once the module is on a GPU; pass "
                "`device=x.device`.",
            ),
            repaired="""\
import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.cell = nn.GRUCell(size, size)

    def forward(self, x):
        h = torch.zeros(x.size(1), x.size(2), device=x.device)
        for step in x:
            h = self.cell(step, h)
        return h
""",
            build="Recurrent(3)",
            inputs="(torch.rand(2, 1, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import Tensor, nn


def waves(width, octaves):
    steps = «torch.arange(octaves)» + 1
    return 2.0**steps * width


class Encoding(nn.Module):
    def forward(self, points: Tensor) -> Tensor:
        angles = points[..., None] * waves(points.size(-1), 4)
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
""",
            messages=(
                "`torch.arange` makes a tensor on the CPU, where it meets a tensor of the module's device (line 12) "
                "and "
                "fails once that is a GPU; make it on the device of what it meets.",
            ),
            repaired=None,
            build="Encoding()",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, every=2):
        super().__init__()
        self.every = every

    def forward(self, frames):
        rows = «torch.arange(0, frames.size(1), self.every)»
        first = frames[:, torch.arange(1)]
        return frames.index_select(1, rows) + first
""",
            messages=(
                "`torch.arange` makes `rows` on the CPU, and `frames.index_select` (line 13) fails once the module is "
                "on a "
                "GPU; pass `device=frames.device`.",
            ),
            repaired="""\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, every=2):
        super().__init__()
        self.every = every

    def forward(self, frames):
        rows = torch.arange(0, frames.size(1), self.every, device=frames.device)
        first = frames[:, torch.arange(1)]
        return frames.index_select(1, rows) + first
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, size, steps):
        super().__init__()
        self.steps = steps
        self.next = nn.Linear(size, size)

    def forward(self, state):
        states = «torch.zeros(self.steps, *state.shape, dtype=state.dtype)»
        for step in range(self.steps):
            state = self.next(state).tanh()
            states[step] = state
        return states
""",
            messages=(
                "`torch.zeros` makes `states` on the CPU, so what `forward` returns stays there although it is filled "
                "with "
                "tensors of the module's device (line 15); pass `device=state.device`.",
            ),
            repaired="""\
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, size, steps):
        super().__init__()
        self.steps = steps
        self.next = nn.Linear(size, size)

    def forward(self, state):
        states = torch.zeros(self.steps, *state.shape, dtype=state.dtype, device=state.device)
        for step in range(self.steps):
            state = self.next(state).tanh()
            states[step] = state
        return states
""",
        ),
        Bad(
            code="""\
import torch
import torch.nn.functional as F
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def weights(self):
        return «torch.tensor([0.2, 0.3, 0.5])»

    def forward(self, logits, target):
        data = F.cross_entropy(logits * self.gain, target, weight=self.weights())
        return torch.stack([data, «torch.tensor(0.0)»]).sum()
""",
            messages=(
                "`torch.tensor` makes a tensor on the CPU, and `F.cross_entropy` (line 15) fails once the module is "
                "on a GPU; "
                "pass `device=self.gain.device`.",
                "`torch.tensor` makes a tensor on the CPU, and `torch.stack` (line 16) fails once the module is on a "
                "GPU; "
                "pass `device=data.device`.",
            ),
            repaired="""\
import torch
import torch.nn.functional as F
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def weights(self):
        return torch.tensor([0.2, 0.3, 0.5], device=self.gain.device)

    def forward(self, logits, target):
        data = F.cross_entropy(logits * self.gain, target, weight=self.weights())
        return torch.stack([data, torch.tensor(0.0, device=data.device)]).sum()
""",
            build="Objective()",
            inputs="(torch.rand(2, 3), torch.tensor([0, 2]))",
        ),
        Bad(
            code="""\
import numpy as np
import torch
from torch import nn


class Window(nn.Module):
    def forward(self, wave):
        taps = «torch.from_numpy(np.hanning(wave.size(-1)))».float()
        noise = «torch.rand(wave.shape, generator=torch.Generator().manual_seed(3))»
        return wave * taps + noise
""",
            messages=(
                "`torch.from_numpy` makes `taps` on the CPU, where it meets `wave` (line 10) and fails once that is "
                "on a GPU; "
                "move it with `.to(wave.device)`.",
                "`torch.rand` makes `noise` on the CPU, where it meets `wave * taps` (line 10) and fails once that is "
                "on a "
                "GPU; move it with `.to(wave.device)`.",
            ),
            repaired="""\
import numpy as np
import torch
from torch import nn


class Window(nn.Module):
    def forward(self, wave):
        taps = torch.from_numpy(np.hanning(wave.size(-1))).to(wave.device).float()
        noise = torch.rand(wave.shape, generator=torch.Generator().manual_seed(3)).to(wave.device)
        return wave * taps + noise
""",
            build="Window()",
            inputs="(torch.rand(2, 5),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Ranking(nn.Module):
    def __init__(self, size, top):
        super().__init__()
        self.top = top
        self.score = nn.Linear(size, 8)

    def training_step(self, batch):
        scores = self.score(batch)
        best = scores.argsort(dim=1).gather(1, «torch.arange(self.top)».expand(len(scores), -1))
        return scores.gather(1, best).mean()
""",
            messages=(
                "`torch.arange` makes a tensor on the CPU, and `scores.argsort(dim=1).gather` (line 13) fails once the "
                "module is on a GPU; pass `device=scores.device`.",
            ),
            repaired="""\
import torch
from torch import nn


class Ranking(nn.Module):
    def __init__(self, size, top):
        super().__init__()
        self.top = top
        self.score = nn.Linear(size, 8)

    def training_step(self, batch):
        scores = self.score(batch)
        best = scores.argsort(dim=1).gather(1, torch.arange(self.top, device=scores.device).expand(len(scores), -1))
        return scores.gather(1, best).mean()
""",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        total = torch.tensor(0.0)
        for _ in range(3):
            total = total + self.layer(x).square().mean()
        return total * torch.ones(())
""",
            why="0-dim tensors on the CPU may join arithmetic with tensors on any device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Gather(nn.Module):
    def forward(self, x: torch.Tensor, lengths: list[int]):
        last = torch.tensor(lengths) - 1
        own = torch.arange(x.size(0))
        return x[own, last] + x[:, torch.arange(1)].squeeze(1)
""",
            why="an index may be on the CPU",
        ),
        Good(
            code="""\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.rnn = nn.GRU(size, size, batch_first=True)
        self.criterion = nn.CTCLoss()

    def forward(self, x, lengths, targets):
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        steps = torch.full((x.size(0),), x.size(1))
        return self.rnn(packed), self.criterion(x.transpose(0, 1), targets, steps, steps)
""",
            why="these lengths belong on the CPU",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Mask(nn.Module):
    def forward(self, x):
        mask = torch.ones(x.size(-1)).tril()
        x = x * mask.to(x.device)
        scale = torch.arange(x.size(-1)).type_as(x)
        shift = torch.zeros_like(x) + x.new_ones(x.size(-1))
        return x * scale + shift + torch.zeros(3, device=x.device)
""",
            why="moved where it is used, or made where the input is",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Fill(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        y[:, 0] = torch.zeros(x.size(0))
        y[:, 1:].copy_(torch.ones(x.size(0), x.size(1) - 1))
        return y + x
""",
            why="assignment to a slice and `copy_` take their values from any device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Old(nn.Module):
    def forward(self, x):
        noise = torch.rand(x.size(-1))
        if x.is_cuda:
            noise = noise.cuda(x.get_device())
        index = torch.LongTensor([0, 1])
        if torch.cuda.is_available():
            index = index.cuda()
        return (x + noise).index_select(1, index)
""",
            why="a branch moves it where that is needed",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Size(nn.Module):
    def forward(self, x: torch.Tensor, scale: float):
        sizes = torch.tensor([2, 2])
        count = torch.ones(3).sum().item()
        window = torch.hann_window(4) * scale
        print(window)
        return x.roll(int(sizes[0]), 0) * count, window.numpy()
""",
            why="what is computed on the CPU stays there: nothing of the module's device meets it",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device

    def forward(self, x):
        with torch.device(self.device):
            start = torch.zeros(x.size(-1))
        with x.device:
            shift = torch.ones(x.size(-1))
        return x + torch.rand(x.size(-1), device=self.device) + shift
""",
            why="somebody chose the device",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Table(nn.Module):
    def encode(self, text):
        ids = torch.tensor([ord(letter) for letter in text])
        return ids.unsqueeze(0)

    def collate(self, texts):
        return torch.cat([self.encode(text) for text in texts])
""",
            why="a method that no `forward` calls: its caller moves what it makes",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for origin, meetings in by_origin(facts, Made.HERE):
                finding = self._finding(model, facts, origin, meetings)
                if finding is not None:
                    yield finding

    def _finding(self, model: FileModel, facts: ClassFacts, origin: Origin, meetings: list[Meeting]) -> Finding | None:
        fatal = first_fate(meetings, Fate.FAILS)
        collected = first_fate(meetings, Fate.COLLECTS)
        if fatal is None and (collected is None or first_fate(meetings, Fate.RETURNED) is None):
            return None
        meeting = fatal or collected
        assert meeting is not None
        source = device_source(facts, origin, meeting)
        named = assigned_name(origin)
        made = f"`{origin.name}` makes {f'`{named}`' if named else 'a tensor'} on the CPU"
        where = meets(model, meeting, named) if fatal is not None else _is_returned(model, meeting)
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if fatal is not None else Severity.WARNING,
            message=f"{made}, {where}; {_advice(origin, source)}.",
            span=origin.place.span,
            related=(Related(meeting.place.span, "It meets a tensor of the module's device here."),),
            fixes=tuple(_fixes(model, origin, source)),
            subject=origin.place.node,
        )


def _is_returned(model: FileModel, meeting: Meeting) -> str:
    return (
        f"so what `{meeting.entry}` returns stays there although it is filled with tensors of the module's device "
        f"(line {row_of(model, meeting.place)})"
    )


def _advice(origin: Origin, source: str | None) -> str:
    if source is None:
        return "make it on the device of what it meets"
    return f"pass `device={source}.device`" if _takes_device(origin) else f"move it with `.to({source}.device)`"


def _keywords(call: cst.CSTNode) -> dict[str, cst.Arg]:
    arguments = call.args if isinstance(call, cst.Call) else ()
    return {argument.keyword.value: argument for argument in arguments if argument.keyword is not None}


def _takes_device(origin: Origin) -> bool:
    """Whether the call that makes the tensor can be given a device: not with a generator, which has its own."""
    return origin.takes_device and not _keywords(origin.place.node).keys() & {"generator", "pin_memory"}


def _fixes(model: FileModel, origin: Origin, source: str | None) -> Iterable[Fix]:
    call, place = origin.place.node, origin.place
    if source is None or not isinstance(call, cst.Call) or "device" in _keywords(call):
        return
    if not _takes_device(origin):
        if "pin_memory" not in _keywords(call):
            edit = Edit(place.whole.end, place.whole.end, f".to({source}.device)")
            yield Fix(f"Move it to the device of `{source}`", True, (edit,))
        return
    yield Fix(f"Make it on the device of `{source}`", True, (_with_argument(place, call, f"device={source}.device"),))
    new = _new_method(model, place, call, source)
    if new is not None:
        yield Fix(f"Use `{source}.new_{origin.name.rpartition('.')[2]}`", True, new)


def _with_argument(place: Place, call: cst.Call, argument: str) -> Edit:
    """Adds an argument to a call, behind the others."""
    if not call.args:
        end = place.span.end - 1
        return Edit(end, end, argument)
    end = argument_span(place, call, len(call.args) - 1).end
    return Edit(end, end, f", {argument}")


def _new_method(model: FileModel, place: Place, call: cst.Call, source: str) -> tuple[Edit, ...] | None:
    """`torch.zeros(n, dtype=x.dtype)` as `x.new_zeros(n)`, which is the same where the type is `x`'s."""
    name = (dotted(call.func) or "").rpartition(".")[2]
    dtype = _keywords(call).get("dtype")
    if name not in {"zeros", "ones", "empty", "full"} or dtype is None or dotted(dtype.value) != f"{source}.dtype":
        return None
    position = call.args.index(dtype)
    if position == 0 or len(_keywords(call)) > 1 or position != len(call.args) - 1:
        return None
    start = argument_span(place, call, position - 1).end
    func = place.statement.span(call.func)
    return (
        Edit(func.start, func.end, f"{source}.new_{name}"),
        Edit(start, argument_span(place, call, position).end, ""),
    )
