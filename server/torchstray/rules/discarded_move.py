"""Moves of tensors whose results nobody keeps."""

from __future__ import annotations

from collections.abc import Iterable

from torchstray.rules.repairs import shortened, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Rule, Severity
from torchstray.semantics import facts
from torchstray.semantics.model import FileModel
from torchstray.text.edits import Edit


class DiscardedMove(Rule):
    """## What it finds

    - `x.to(device)`, `x.cuda()` or `x.cpu()` as a statement of its own, where `x` is surely a tensor: made in the
      file, a result of arithmetic, annotated as `torch.Tensor`, an input of `forward` that is used as one;
    - `value = value.to(device)` in a loop over a list or dict of tensors, where `value` is not used after that: only
      the loop variable changes, and the container keeps the tensors it had;
    - a helper such as `self.to_device(batch)`, whose result, a list or dict of moved tensors, is dropped while `batch`
      is used further on.

    ## Why it matters

    `nn.Module.to` changes the module and returns it. `Tensor.to` cannot do that: a tensor does not change its device,
    so it returns another one. The two calls look the same, and `model.to(device)` on the line before makes the mistake
    easy. Nothing complains where it is made. The tensor is still on the CPU some lines later, when it meets one that
    is not:

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
        RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same

    On a CPU the program is right, only with a line too many.

    ## Example

    ```python
    model.to(device)
    for images, labels in loader:
        images = images / 255
        images.to(device)
        scores = model(images)
    ```

    ## Repair

    ```python
    model.to(device)
    for images, labels in loader:
        images = images / 255
        images = images.to(device)
        scores = model(images)
    ```

    The result is assigned to what was to be moved: to the name, the attribute, or, in a loop over `batch.items()`, to
    the item of the dict. This is safe: on the CPU the same tensor comes back, and no parameter, buffer or key of
    `state_dict()` is touched. Where a list or tuple was to be moved in a loop, there is no repair; build a new one,
    `batch = [value.to(device) for value in batch]`.

    ## When to ignore it

    Where the copy itself is wanted and its result is not, as in a measurement of transfer times or a warm-up of the
    GPU.

    Silent by design are modules, which move in place; what may be something else than a tensor, such as the batch of a
    tokenizer (`encoded.to(device)`), a graph of PyTorch Geometric or a `PackedSequence`; objects of classes of your
    own; and conversions such as `x.to(torch.float16)` or `x.float()`, which lose their result too, but do not decide
    on which device it is.
    """

    name = "discarded-move"
    summary = "the result of moving a tensor is thrown away"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.rand(8, 4)
«batch.to(device)»
scores = model(batch)
""",
            messages=(
                "`batch.to(device)` returns a new tensor and does not change `batch`; write `batch = "
                "batch.to(device)`.",
            ),
            repaired="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
batch = torch.rand(8, 4)
batch = batch.to(device)
scores = model(batch)
""",
        ),
        Bad(
            code="""\
import torch as t
from torch import nn as layers


class Noisy(layers.Module):
    def __init__(self):
        super().__init__()
        self.layer = layers.Linear(4, 4)

    def forward(self, x):
        noise = t.randn(x.shape) * 0.1
        «noise.to(x.device)»  # next to the input
        return self.layer(x + noise)
""",
            messages=(
                "`noise.to(x.device)` returns a new tensor and does not change `noise`; write `noise = "
                "noise.to(x.device)`.",
            ),
            repaired="""\
import torch as t
from torch import nn as layers


class Noisy(layers.Module):
    def __init__(self):
        super().__init__()
        self.layer = layers.Linear(4, 4)

    def forward(self, x):
        noise = t.randn(x.shape) * 0.1
        noise = noise.to(x.device)  # next to the input
        return self.layer(x + noise)
""",
            build="Noisy()",
            inputs="(t.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch


def train(model, loader, optimizer, device):
    model.to(device)
    for images, labels in loader:
        images = images / 255
        «images.cuda()»
        labels = labels.to(device)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
""",
            messages=(
                "`images.cuda()` returns a new tensor and does not change `images`; write `images = images.cuda()`.",
            ),
            repaired="""\
import torch


def train(model, loader, optimizer, device):
    model.to(device)
    for images, labels in loader:
        images = images / 255
        images = images.cuda()
        labels = labels.to(device)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
""",
        ),
        Bad(
            code="""\
import torch


def evaluate(model, device):
    batch = {"words": torch.randint(100, (2, 7)), "mask": torch.ones(2, 7)}
    for name, value in batch.items():
        «value = value.to(device)»
    return model(**batch)
""",
            messages=(
                "`value = value.to(device)` changes the loop variable only, so what it was taken from "
                "stays where it is; assign to `batch[name]`.",
            ),
            repaired="""\
import torch


def evaluate(model, device):
    batch = {"words": torch.randint(100, (2, 7)), "mask": torch.ones(2, 7)}
    for name, value in batch.items():
        batch[name] = value.to(device)
    return model(**batch)
""",
        ),
        Bad(
            code="""\
import torch


def stack(frames: list[torch.Tensor], device):
    video = torch.stack(frames)
    «video.to(device, non_blocking=True)»
    return video.permute(1, 0, 2, 3)
""",
            messages=(
                "`video.to(device, non_blocking=True)` returns a new tensor and does not change `video`; "
                "write `video = video.to(device, non_blocking=True)`.",
            ),
            repaired="""\
import torch


def stack(frames: list[torch.Tensor], device):
    video = torch.stack(frames)
    video = video.to(device, non_blocking=True)
    return video.permute(1, 0, 2, 3)
""",
        ),
        Bad(
            code="""\
import torch
from torch import Tensor


def score(query: Tensor, keys: Tensor) -> Tensor:
    if query.is_cuda:
        «keys.cuda()»
    return query @ keys.T
""",
            messages=("`keys.cuda()` returns a new tensor and does not change `keys`; write `keys = keys.cuda()`.",),
            repaired="""\
import torch
from torch import Tensor


def score(query: Tensor, keys: Tensor) -> Tensor:
    if query.is_cuda:
        keys = keys.cuda()
    return query @ keys.T
""",
        ),
        Bad(
            code="""\
import torch


class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.device = device

    def moved(self, batch):
        return [tensor.to(self.device) for tensor in batch]

    def step(self, batch):
        «self.moved(batch)»
        return self.model(*batch)
""",
            messages=(
                "`self.moved(batch)` returns a new list and does not change `batch`; write `batch = "
                "self.moved(batch)`.",
            ),
            repaired="""\
import torch


class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.device = device

    def moved(self, batch):
        return [tensor.to(self.device) for tensor in batch]

    def step(self, batch):
        batch = self.moved(batch)
        return self.model(*batch)
""",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
model.to(device)
model.cuda()
batch = torch.rand(8, 4).to(device)
""",
            why="a module moves in place, so its result may be thrown away",
        ),
        Good(
            code="""\
def answer(model, tokenizer, text, device):
    import torch

    encoded = tokenizer(text, return_tensors="pt")
    encoded.to(device)
    with torch.no_grad():
        return model(**encoded)
""",
            why="a batch of a tokenizer moves in place; only what is surely a tensor is reported",
        ),
        Good(
            code="""\
import torch


def embed(model, graph, device):
    graph.to(device)
    return torch.relu(model(graph))
""",
            why="nobody knows what `graph` is: a graph of PyTorch Geometric moves in place",
        ),
        Good(
            code="""\
import torch


def convert(image: torch.Tensor, device):
    image = image.to(device)
    moved = image.cuda()
    image.requires_grad_()
    return image, moved
""",
            why="the results are kept, and `requires_grad_` works in place",
        ),
        Good(
            code="""\
import torch


def collect(batch: dict[str, torch.Tensor], device):
    for name, value in batch.items():
        value = value.to(device)
        yield name, value
""",
            why="the moved value is used within the loop",
        ),
        Good(
            code="""\
import torch


class Buffer:
    def __init__(self):
        self.rows = []

    def to(self, device):
        self.rows = [row.to(device) for row in self.rows]
        return self


buffer = Buffer()
buffer.to(torch.device("cpu"))
""",
            why="a class of one's own whose `to` changes the object",
        ),
        Good(
            code="""\
import torch


def halve(x: torch.Tensor):
    y = x * 2
    y.to(torch.float16)
    x.clamp_(0, 1)
    return y
""",
            why="a conversion to another type stays on the device; what is lost here is no move",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for move in model.moves:
            yield self._finding(model, move)

    def _finding(self, model: FileModel, move: facts.DiscardedMove) -> Finding:
        call, receiver = shortened(model, move.call), text_of(model, move.call.statement.span(move.receiver))
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=_message(move, call, receiver),
            span=(move.assigned or move.call).span,
            fixes=tuple(_fixes(move, receiver)),
            subject=move.call.node,
        )


def _message(move: facts.DiscardedMove, call: str, receiver: str) -> str:
    if move.assigned is None and move.assignable is False and move.alone:
        kept = f"assign to `{move.item}`" if move.item else "build a new container from the moved tensors"
        return f"`{call}` returns a new tensor, so what `{receiver}` was taken from stays where it is; {kept}."
    if move.assigned is None:
        return f"`{call}` returns a new {move.gives} and does not change `{receiver}`; write `{receiver} = {call}`."
    advice = f"assign to `{move.item}`" if move.item else "build a new container from the moved tensors"
    return (
        f"`{receiver} = {call}` changes the loop variable only, so what it was taken from stays where it is; {advice}."
    )


def _fixes(move: facts.DiscardedMove, receiver: str) -> Iterable[Fix]:
    if move.assigned is not None:
        if move.item is not None:
            start = move.assigned.span.start
            yield Fix(f"Assign it to `{move.item}`", True, (Edit(start, move.call.whole.start, f"{move.item} = "),))
    elif move.item is not None:
        start = move.call.whole.start
        yield Fix(f"Assign it to `{move.item}`", True, (Edit(start, start, f"{move.item} = "),))
    elif move.assignable is not False:
        start = move.call.whole.start
        edits = (Edit(start, start, f"{receiver} = "),)
        yield Fix(f"Assign the result to `{receiver}`", move.assignable is True and move.plain, edits)
