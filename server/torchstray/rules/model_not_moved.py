"""Modules that stay on the CPU while their data moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.placing import data_target, move_edits, moved_expression, target_of
from torchstray.rules.repairs import indentation, line_end, row_of, shortened, stands_alone, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.facts import ClassFacts, Left, Unmoved
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted
from torchstray.semantics.values import Place
from torchstray.text.edits import Edit


class ModelNotMoved(Rule):
    """## What it finds

    A script, a `main()`, a training function or a trainer class that moves its data to a device (`x.to(device)`,
    `.cuda()`, `torch.rand(3, device=device)`) and calls a module with it that has never been moved:

    - a model that is built in the same file, or by torch or torchvision, wherever the name leads: through functions,
      attributes of a trainer, copies;
    - a second one that was forgotten: a discriminator, a target network, a teacher, an average of a model;
    - a loss that holds a tensor, such as `nn.CrossEntropyLoss(weight=weight)`;
    - a model that is moved too late, or in some branches only;
    - a layer that is put on a model after that has been moved, or on `self` after `self.to(device)` in the constructor.

    ## Why it matters

    Moving the data is half of the work. The call fails as soon as there is a GPU:

        RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
        RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same

    On a machine without one, `device` is the CPU and all is well, so the mistake passes every test there.

    ## Example

    ```python
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
    ```

    ## Repair

    ```python
    model = Net()
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
    ```

    The module is moved to the data's own device, where both are known: behind the statement that makes the module, and
    so before an optimizer gets its parameters. Where the data is moved under a test, as in `if use_cuda: x = x.cuda()`,
    the module is moved under the same one. This is safe: on the CPU nothing changes. A layer that comes late is moved
    where it is made.

    ## When to ignore it

    Where something that is not in the file moves the module before the call.

    Silent by design are modules that `accelerator.prepare`, `fabric.setup`, `deepspeed.initialize`, a trainer or any
    other function that cannot be seen has got; those inside `DataParallel` and its like; those built under
    `with torch.device(...)`, with `device=`, or in a file that calls `torch.set_default_device`; modules that move
    themselves, or move their input in `forward`; data that goes to the module's own device; and devices that are always
    the CPU.
    """

    name = "model-not-moved"
    summary = "data is moved to a device, the module that gets it is not"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = [(torch.rand(8, 4), torch.randint(2, (8,)))]

for samples, labels in loader:
    samples, labels = samples.to(device), labels.to(device)
    scores = «model(samples)»
    loss = nn.functional.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
""",
            messages=(
                "`model` (made on line 5) is never moved while its input is on `device`, so this call fails "
                "on a GPU; add `model.to(device)` before this line.",
            ),
            repaired="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model.to(device)
optimizer = torch.optim.Adam(model.parameters())
loader = [(torch.rand(8, 4), torch.randint(2, (8,)))]

for samples, labels in loader:
    samples, labels = samples.to(device), labels.to(device)
    scores = model(samples)
    loss = nn.functional.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn

CUDA = torch.cuda.is_available()


def train(loader):
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    if CUDA:
        generator.cuda()
    for real in loader:
        noise = torch.randn(8, 2)
        if CUDA:
            real, noise = real.cuda(), noise.cuda()
        fake = generator(noise).detach()
        loss = «critic(fake)».mean() - critic(real).mean()
        loss.backward()


if __name__ == "__main__":
    train([torch.rand(8, 3)])
""",
            messages=(
                "`critic` (made on line 8) is never moved while its input is on the GPU, so this call fails "
                "on a GPU; add `critic.cuda()` before this line.",
            ),
            repaired="""\
import torch
from torch import nn

CUDA = torch.cuda.is_available()


def train(loader):
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    if CUDA:
        critic.cuda()
    if CUDA:
        generator.cuda()
    for real in loader:
        noise = torch.randn(8, 2)
        if CUDA:
            real, noise = real.cuda(), noise.cuda()
        fake = generator(noise).detach()
        loss = critic(fake).mean() - critic(real).mean()
        loss.backward()


if __name__ == "__main__":
    train([torch.rand(8, 3)])
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


def train(loader, counts, device):
    model = nn.Linear(4, 3).to(device)
    weight = torch.tensor([1 / count for count in counts])
    criterion = nn.CrossEntropyLoss(weight=weight)
    for samples, labels in loader:
        scores = model(samples.to(device))
        loss = «criterion(scores, labels.to(device))»
        loss.backward()


train([(torch.rand(8, 4), torch.randint(3, (8,)))], [5, 2, 1], "cuda" if torch.cuda.is_available() else "cpu")
""",
            messages=(
                "`criterion` (made on line 8) is never moved while its input is on `device`, so this call "
                "fails on a GPU; add `criterion.to(device)` before this line.",
            ),
            repaired="""\
import torch
from torch import nn


def train(loader, counts, device):
    model = nn.Linear(4, 3).to(device)
    weight = torch.tensor([1 / count for count in counts])
    criterion = nn.CrossEntropyLoss(weight=weight)
    criterion.to(device)
    for samples, labels in loader:
        scores = model(samples.to(device))
        loss = criterion(scores, labels.to(device))
        loss.backward()


train([(torch.rand(8, 4), torch.randint(3, (8,)))], [5, 2, 1], "cuda" if torch.cuda.is_available() else "cpu")
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Classifier()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, loader):
        for _ in range(self.epochs):
            for x, y in loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = nn.functional.cross_entropy(«self.model(x)», y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


Trainer(2).fit([(torch.rand(8, 4), torch.randint(2, (8,)))])
""",
            messages=(
                "`self.model` (made on line 18) is never moved while its input is on `self.device`, so this "
                "call fails on a GPU; add `self.model.to(self.device)` before this line.",
            ),
            repaired="""\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Classifier()
        self.model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, loader):
        for _ in range(self.epochs):
            for x, y in loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = nn.functional.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


Trainer(2).fit([(torch.rand(8, 4), torch.randint(2, (8,)))])
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


def train(model, device, loader):
    model.train()
    for x in loader:
        loss = «model(x.to(device, non_blocking=True))».square().mean()
        loss.backward()


def main():
    chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    train(net, chosen, [torch.rand(8, 4)])


if __name__ == "__main__":
    main()
""",
            messages=(
                "`model` (made on line 14) is never moved while its input is on `device`, so this call fails "
                "on a GPU; add `model.to(device)` before this line.",
            ),
            repaired="""\
import torch
from torch import nn


def train(model, device, loader):
    model.train()
    for x in loader:
        loss = model(x.to(device, non_blocking=True)).square().mean()
        loss.backward()


def main():
    chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net.to(chosen)
    train(net, chosen, [torch.rand(8, 4)])


if __name__ == "__main__":
    main()
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 10))
model.to(device)
«model[2]» = nn.Linear(4, 3)
with torch.no_grad():
    print(model(torch.rand(2, 4, device=device)).shape)
""",
            messages=(
                "`model[2]` comes after `model.to(device)` (line 6), so the new layer stays on the CPU and "
                "line 9 fails on a GPU; move it as well.",
            ),
            repaired="""\
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 10))
model.to(device)
model[2] = nn.Linear(4, 3).to(device)
with torch.no_grad():
    print(model(torch.rand(2, 4, device=device)).shape)
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class QNetwork(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.body = nn.Linear(states, 8)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.to(self.device)
        «self.head» = nn.Linear(8, actions)

    def forward(self, state):
        return self.head(torch.relu(self.body(state)))


network = QNetwork(4, 2)
values = network(torch.rand(1, 4).to(network.device))
""",
            messages=(
                "`self.head` is added after `self.to(self.device)` (line 10), so it stays on the CPU and "
                "`forward` fails on a GPU; move it as well.",
            ),
            repaired="""\
import torch
from torch import nn


class QNetwork(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.body = nn.Linear(states, 8)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.to(self.device)
        self.head = nn.Linear(8, actions).to(self.device)

    def forward(self, state):
        return self.head(torch.relu(self.body(state)))


network = QNetwork(4, 2)
values = network(torch.rand(1, 4).to(network.device))
""",
        ),
        Bad(
            code="""\
import copy

import torch
from torch import nn


def train(loader, parallel=False):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student = nn.Linear(3, 2)
    average = copy.deepcopy(student)
    student.to(device)
    if parallel:
        average = average.to(device)
    for x in loader:
        x = x.to(device)
        with torch.no_grad():
            target = «average(x)»
        (student(x) - target).square().mean().backward()


train([torch.rand(8, 3)])
""",
            messages=(
                "`average` (made on line 10) is moved in one branch only (line 13) while its input is on "
                "`device`, so this call may fail on a GPU; add `average.to(device)` before this line.",
            ),
            repaired="""\
import copy

import torch
from torch import nn


def train(loader, parallel=False):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student = nn.Linear(3, 2)
    average = copy.deepcopy(student)
    average.to(device)
    student.to(device)
    if parallel:
        average = average.to(device)
    for x in loader:
        x = x.to(device)
        with torch.no_grad():
            target = average(x)
        (student(x) - target).square().mean().backward()


train([torch.rand(8, 3)])
""",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
for module in (encoder, decoder):
    module.to(device)
batch = torch.rand(8, 4).to(device)
print(decoder(encoder(batch)).shape)
""",
            why="a module moves in place, also in a loop over several",
        ),
        Good(
            code="""\
import torch
from torch import nn


def train(loader, args):
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    model = nn.Linear(4, 2)
    if use_cuda:
        model.cuda()
    for x, y in loader:
        if use_cuda:
            x, y = x.cuda(), y.cuda()
        nn.functional.cross_entropy(model(x), y).backward()
""",
            why="model and data move under the same condition",
        ),
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
if torch.cuda.is_available():
    model = nn.DataParallel(model).cuda()
model(torch.rand(8, 4, device=device))
""",
            why="the device is the GPU just where the model has moved",
        ),
        Good(
            code="""\
import torch
from accelerate import Accelerator
from torch import nn


def main(loader):
    accelerator = Accelerator()
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        noise = torch.randn(4).to(accelerator.device)
        accelerator.backward(nn.functional.cross_entropy(model(x + noise), y))
""",
            why="`prepare` moves the model",
        ),
        Good(
            code="""\
import torch
from project.distributed import wrap
from torch import nn


def evaluate(loader, device):
    model = wrap(nn.Linear(4, 2), device)
    with torch.no_grad():
        return [model(x.to(device)) for x in loader]
""",
            why="nobody knows what `wrap` does with the model",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.layer = nn.Linear(states, actions)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.to(self.device)

    def forward(self, state):
        return self.layer(state)


agent = Agent(4, 2)
agent(torch.rand(1, 4).to(agent.device))
""",
            why="the module moves itself when it is built",
        ),
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with device:
    model = nn.Linear(4, 2)
head = nn.Linear(2, 1, device=device)
print(head(model(torch.rand(8, 4).to(device))))
""",
            why="built on the device, by a `with` statement or by the argument `device`",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Linear(4, 2)
device = next(model.parameters()).device
for x in [torch.rand(8, 4)]:
    model(x.to(device))
""",
            why="the data goes to the device of the model, wherever that is",
        ),
        Good(
            code="""\
import torch
from torch import nn

device = torch.device("cpu")
model = nn.Linear(4, 2)
print(model(torch.rand(8, 4).to(device)))
""",
            why="everything stays on the CPU",
        ),
        Good(
            code="""\
import torch
from torch import nn


def losses(model, x, y, weights, device):
    scores, labels = model(x.to(device)), y.to(device)
    plain = nn.CrossEntropyLoss()
    weighted = nn.CrossEntropyLoss(weight=torch.tensor(weights).to(device))
    return plain(scores, labels) + weighted(scores, labels)
""",
            why="these losses hold nothing, or what has been moved already",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = nn.Linear(4, 2)

    def start(self):
        self.model.to(self.device)

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        return nn.functional.cross_entropy(self.model(x), y)
""",
            why="another method moves the model, and nobody knows when it is called",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x.to(self.layer.weight.device))


net = Net()
net(torch.rand(8, 4).to("cuda" if torch.cuda.is_available() else "cpu"))
""",
            why="`forward` brings its input to where the parameters are",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        text = model.document.text
        if "set_default_device" in text or "set_default_tensor_type" in text:
            return
        for unmoved in model.unmoved:
            yield self._late_layer(model, unmoved) if unmoved.attached is not None else self._finding(model, unmoved)
        moved = model.moved_classes
        seen: set[cst.CSTNode] = set()
        for facts in model.modules:
            if not any(facts.cls in cls.own_classes for cls in moved):
                for left in facts.left:
                    if left.target.node not in seen:
                        seen.add(left.target.node)
                        yield self._left(model, facts, left)

    def _finding(self, model: FileModel, unmoved: Unmoved) -> Finding:
        call, made = unmoved.call, unmoved.culprit.place
        assert isinstance(call.node, cst.Call)
        name = _name(model, unmoved)
        target = data_target(model, unmoved.put)
        device = target.shown if target is not None else "the GPU"
        elsewhere = unmoved.elsewhere if unmoved.elsewhere is not None else None
        later = unmoved.later[0] if unmoved.later else None
        if elsewhere is not None:
            state = f"is moved in one branch only (line {row_of(model, elsewhere)})"
        elif later is not None:
            state = f"is moved only later (line {row_of(model, later)})"
        else:
            state = "is never moved"
        line = f" (made on line {row_of(model, made)})" if made is not None else ""
        if target is None:
            advice = "move it before this line"
        elif unmoved.name is None:
            advice = f"add `{target.move('')}` where it is made"
        else:
            advice = f"add `{target.move(unmoved.name)}` before this line"
        fails = "this call fails" if unmoved.certain and elsewhere is None else "this call may fail"
        message = f"`{name}`{line} {state} while its input is on {device}, so {fails} on a GPU; {advice}."
        related = [Related(unmoved.put.place.span, "the input is moved here")]
        if made is not None:
            related.insert(0, Related(made.span, f"`{name}` is made here, on the CPU"))
        if elsewhere is not None or later is not None:
            related.append(Related((elsewhere or later or call).span, f"`{name}` is moved here"))
        edits = move_edits(model, unmoved)
        title = f"Move `{name}` to {device}"
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if unmoved.certain and elsewhere is None else Severity.WARNING,
            message=message,
            span=call.span,
            related=tuple(related),
            fixes=(Fix(title, True, edits),) if edits is not None else (),
            subject=call.node,
        )

    def _late_layer(self, model: FileModel, unmoved: Unmoved) -> Finding:
        attached = unmoved.attached
        assert attached is not None and attached.moved is not None
        move, call = shortened(model, attached.moved), row_of(model, unmoved.call)
        name = _attached_name(model, attached.target)
        target = target_of(model, attached.moved, attached.function)
        edits: tuple[Edit, ...] | None = None
        if attached.value is not None and target is not None:
            edits = moved_expression(model, Place(attached.statement.statement, attached.value), target)
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if unmoved.certain else Severity.WARNING,
            message=f"{name} comes after `{move}` (line {row_of(model, attached.moved)}), so the new layer stays on "
            f"the CPU and line {call} fails on a GPU; move it as well.",
            span=attached.target.span,
            related=(
                Related(attached.moved.span, "the module is moved here"),
                Related(unmoved.call.span, "this call fails on a GPU"),
            ),
            fixes=(Fix("Move the new layer as well", True, edits),) if edits is not None else (),
            subject=attached.statement.node,
        )

    def _left(self, model: FileModel, facts: ClassFacts, left: Left) -> Finding:
        move = shortened(model, left.moved)
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            message=f"`self.{left.attribute}` is added after `{move}` (line {row_of(model, left.moved)}), so it stays "
            "on the CPU and `forward` fails on a GPU; move it as well.",
            span=left.target.span,
            related=(Related(left.moved.span, "the module moves itself here"),),
            fixes=tuple(_left_fixes(model, left)),
            subject=left.statement.node,
        )


def _name(model: FileModel, unmoved: Unmoved) -> str:
    """What a user calls the module that is called."""
    assert isinstance(unmoved.call.node, cst.Call)
    function = unmoved.call.node.func
    if unmoved.name is not None:
        return unmoved.name
    if isinstance(function, cst.Call):
        return dotted(function.func) or unmoved.module.name
    return " ".join(text_of(model, unmoved.call.statement.span(function)).split())


def _attached_name(model: FileModel, target: Place) -> str:
    return f"`{' '.join(text_of(model, target.span).split())}`"


def _left_fixes(model: FileModel, left: Left) -> Iterator[Fix]:
    target = target_of(model, left.moved, None)
    if target is None:
        return
    if left.module is not None and left.value is not None:
        value = Place(left.statement.statement, left.value)
        yield Fix(f"Move `self.{left.attribute}` as well", True, moved_expression(model, value, target))
    elif stands_alone(model, left.statement.span):
        end = line_end(model, left.statement.span.end)
        indent = indentation(model, left.statement.span.start)
        newline = "" if model.document.text[:end].endswith(("\n", "\r")) else "\n"
        edit = Edit(end, end, f"{newline}{indent}{shortened(model, left.moved)}\n")
        yield Fix(f"Move the module after `self.{left.attribute}` is there", True, (edit,))
