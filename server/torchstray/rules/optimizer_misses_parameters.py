"""Layers that come after the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from torchstray.rules.placing import last_offset, lines_of, path_to
from torchstray.rules.repairs import delete_lines, line_end, line_start, row_of, stands_alone, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import Late
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted, walk
from torchstray.semantics.values import Place
from torchstray.text.edits import Edit


class OptimizerMissesParameters(Rule):
    """## What it finds

    A layer or parameter that a module gets after an optimizer has been built with `module.parameters()`: `model.fc =
    nn.Linear(…)`, `model.classifier[6] = …`, `model.add_module(…)` in a script, a function or a trainer class, and
    `self.head = …` behind `self.optimizer = Adam(self.parameters())` in a module's constructor, where the optimizer is
    used afterwards.

    ## Why it matters

    An optimizer keeps the parameters that it was given. What comes later gets gradients, but is never updated: the new
    layer keeps its random weights, the loss falls only as far as the rest of the model can make it, and nothing
    complains. The parameters of a layer that was replaced are updated for nobody.

    ## Example

    ```python
    model = resnet18(weights="DEFAULT")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.fc = nn.Linear(model.fc.in_features, 5)
    ```

    ## Repair

    ```python
    model = resnet18(weights="DEFAULT")
    model.fc = nn.Linear(model.fc.in_features, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ```

    The optimizer is built afterwards; where something in between needs it, such as a scheduler, the layer is put there
    before. This is not safe, as the layer starts to train. There is no repair where the two stand in different blocks
    or functions: build the optimizer again, or hand the new parameters to `optimizer.add_param_group`.

    ## When to ignore it

    Where the new layer is meant to keep its random weights, or another optimizer that cannot be seen trains it.

    Silent by design are layers without parameters, layers that come when the optimizer is no longer used, an optimizer
    that is built anew afterwards or gets the new parameters by `add_param_group`, and what functions do that cannot be
    seen.
    """

    name = "optimizer-misses-parameters"
    summary = "a layer is added to a module after an optimizer was given its parameters"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
«model[2]» = nn.Linear(8, 3)  # three classes

for _ in range(2):
    loss = nn.functional.cross_entropy(model(torch.rand(6, 4)), torch.randint(3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
            messages=(
                "`model[2]` comes after the optimizer took the module's parameters (line 5), so the new layer"
                " never trains; build the optimizer afterwards.",
            ),
            repaired="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
model[2] = nn.Linear(8, 3)  # three classes
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for _ in range(2):
    loss = nn.functional.cross_entropy(model(torch.rand(6, 4)), torch.randint(3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def finetune(loader):
    net = Net()
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    scheduler = StepLR(optimizer, step_size=5)
    «net.head» = nn.Linear(8, 2)
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return net, optimizer


model, optimizer = finetune([(torch.rand(6, 4), torch.randint(2, (6,)))])
""",
            messages=(
                "`net.head` comes after the optimizer took the module's parameters (line 18), so the new "
                "layer never trains; build the optimizer afterwards.",
            ),
            repaired="""\
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def finetune(loader):
    net = Net()
    net.head = nn.Linear(8, 2)
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    scheduler = StepLR(optimizer, step_size=5)
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return net, optimizer


model, optimizer = finetune([(torch.rand(6, 4), torch.randint(2, (6,)))])
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.body = nn.Linear(states, 8)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        «self.head» = nn.Linear(8, actions)

    def forward(self, state):
        return self.head(torch.relu(self.body(state)))


model = Agent(4, 2)
optimizer = model.optimizer
""",
            messages=(
                "`self.head` comes after the optimizer took the module's parameters (line 9), so the new "
                "layer never trains; build the optimizer afterwards.",
            ),
            repaired="""\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.body = nn.Linear(states, 8)
        self.head = nn.Linear(8, actions)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def forward(self, state):
        return self.head(torch.relu(self.body(state)))


model = Agent(4, 2)
optimizer = model.optimizer
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class Learner:
    def __init__(self):
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        «self.net.layer» = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).mean().backward()
        self.optimizer.step()


learner = Learner()
learner.step(torch.rand(2, 4))
model, optimizer = learner.net, learner.optimizer
""",
            messages=(
                "`self.net.layer` comes after the optimizer took the module's parameters (line 17), so the "
                "new layer never trains; build the optimizer afterwards.",
            ),
            repaired="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class Learner:
    def __init__(self):
        self.net = Net()
        self.net.layer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).mean().backward()
        self.optimizer.step()


learner = Learner()
learner.step(torch.rand(2, 4))
model, optimizer = learner.net, learner.optimizer
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 3))
optimizer = torch.optim.Adam([{"params": [p for p in model.parameters() if p.requires_grad], "lr": 0.01}])
«model.add_module("out", nn.Linear(3, 1))»
model(torch.rand(2, 3)).sum().backward()
optimizer.step()
""",
            messages=(
                '`model.add_module("out", nn.Linear(3, 1))` comes after the optimizer took the module\'s '
                "parameters (line 5), so the new layer never trains; build the optimizer afterwards.",
            ),
            repaired="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 3))
model.add_module("out", nn.Linear(3, 1))
optimizer = torch.optim.Adam([{"params": [p for p in model.parameters() if p.requires_grad], "lr": 0.01}])
model(torch.rand(2, 3)).sum().backward()
optimizer.step()
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Linear(4, 2)
        self.up = nn.Linear(2, 4)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Tuner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def adapt(self):
        self.model.requires_grad_(False)
        «self.model.proj» = Adapted(self.model.proj)

    def step(self, x):
        self.model(x).mean().backward()
        self.optimizer.step()
""",
            messages=(
                "`self.model.proj` comes after the optimizer took the module's parameters (line 19), so the "
                "new layer never trains; build the optimizer afterwards.",
            ),
            repaired=None,
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
model[2] = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.rand(2, 4)).sum().backward()
optimizer.step()
""",
            why="the layer is replaced first",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.add_module("head", nn.Linear(8, 3))
optimizer.add_param_group({"params": model.head.parameters(), "lr": 0.01})
model(torch.rand(2, 4)).sum().backward()
optimizer.step()
""",
            why="the new layer's parameters are handed in later",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 10))
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model(torch.rand(2, 4)).sum().backward()
optimizer.step()
""",
            why="the optimizer is built anew",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Tanh()
model.append(nn.Dropout(0.1))
model(torch.rand(2, 4)).sum().backward()
optimizer.step()
""",
            why="what is added has no parameters",
        ),
        Good(
            code="""\
import torch
from torch import nn


def pretrain(loader):
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
    model[1] = nn.Linear(8, 3)
    return model
""",
            why="training is over when the layer is replaced",
        ),
        Good(
            code="""\
import torch
from torch import nn

body, head = nn.Sequential(nn.Linear(4, 8)), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
body.append(head)
body(torch.rand(2, 4)).sum().backward()
optimizer.step()
""",
            why="the optimizer has the new layer's parameters from the start",
        ),
        Good(
            code="""\
import torch
from torch import nn

probe, model = nn.Linear(10, 2), nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
model[1] = nn.Linear(8, 10)
probe(model(torch.rand(2, 4)).detach()).sum().backward()
optimizer.step()
""",
            why="the optimizer trains something else",
        ),
        Good(
            code="""\
import torch
from lightning import LightningModule
from torch import nn


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 2)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

    def forward(self, x):
        return self.head(self.body(x))
""",
            why="Lightning calls `configure_optimizers` when the module is complete",
        ),
        Good(
            code="""\
import torch
from project.surgery import extend
from torch import nn

model = nn.Sequential(nn.Linear(4, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = extend(model, optimizer)
model[0] = nn.Linear(4, 8)
""",
            why="what is done is up to a function that cannot be seen",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        seen: set[cst.CSTNode] = set()
        for late in [*model.late, *(late for facts in model.modules for late in facts.late)]:
            if late.target.node not in seen:
                seen.add(late.target.node)
                yield self._finding(model, late)

    def _finding(self, model: FileModel, late: Late) -> Finding:
        name = " ".join(text_of(model, late.target.span).split())
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if late.certain else Severity.WARNING,
            message=f"`{name}` comes after the optimizer took the module's parameters (line "
            f"{row_of(model, late.optimizer)}), so the new layer never trains; build the optimizer afterwards.",
            span=late.target.span,
            related=(Related(late.optimizer.span, "the optimizer is built here"),),
            fixes=tuple(_fixes(model, late)),
            subject=late.statement.node,
        )


def _fixes(model: FileModel, late: Late) -> Iterator[Fix]:
    lines = lines_of(model, late.function, late.target)
    layer, optimizer = path_to(lines, late.statement.node), path_to(lines, late.optimizer.node)
    if not layer or not optimizer:
        return
    block, after = layer[-1]
    own, before = optimizer[-1]
    if block[0].node is not own[0].node or before >= after:
        return
    built, changed, between = block[before], block[after], block[before + 1 : after]
    if not all(_is_one_statement(model, line) for line in (built, changed)):
        return
    if not _depends(model, between, built, _bound(built)):
        yield Fix("Build the optimizer afterwards", False, _moved(model, built, last_offset(changed)))
    elif not _depends(model, between, changed, {(dotted(root) or "") for root in _roots(late)}):
        start = line_start(model, built.span.start)
        yield Fix("Put the layer there before the optimizer is built", False, _moved(model, changed, start))


def _is_one_statement(model: FileModel, line: Place) -> bool:
    node = line.node
    return isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 and stands_alone(model, line.span)


def _bound(line: Place) -> set[str]:
    """The names and attributes that a statement assigns to."""
    assert isinstance(line.node, cst.SimpleStatementLine)
    node = line.node.body[0]
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else []
    return {dotted(target) or "" for target in targets}


def _roots(late: Late) -> Iterator[cst.CSTNode]:
    """What the module is called that gets the new layer."""
    node = late.target.node
    if isinstance(node, cst.Call):
        node = node.func
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
        yield node


def _depends(model: FileModel, between: Sequence[Place], line: Place, names: set[str]) -> bool:
    """Whether a statement that has to do with `names` cannot change places with those in `between`."""
    own = set(names_in(line.node))
    heads = {name.partition(".")[0] for name in names} - {"self"}
    paths = {name for name in names if name.startswith("self.")}
    for other in between:
        text = text_of(model, other.span)
        if heads & set(names_in(other.node)) or any(path in text for path in paths):
            return True
        if any(
            isinstance(found, cst.AssignTarget | cst.AnnAssign | cst.AugAssign) and own & set(names_in(found.target))
            for found in walk(other.node)
            if not isinstance(found, cst.AssignTarget) or not (dotted(found.target) or "").startswith("self.")
        ):
            return True
    return not names


def _moved(model: FileModel, line: Place, offset: int) -> tuple[Edit, Edit]:
    """Moves a statement, with the comment behind it, to the line of `offset`, or behind that where it ends a line."""
    start, end = line_start(model, line.span.start), line_end(model, line.span.end)
    text = model.document.text[start:end].rstrip("\r\n")
    if offset < start:
        return (Edit(offset, offset, f"{text}\n"), delete_lines(model, line.span))
    behind = line_end(model, offset)
    newline = "" if model.document.text[:behind].endswith(("\n", "\r")) else "\n"
    return (delete_lines(model, line.span), Edit(behind, behind, f"{newline}{text}\n"))
