"""Parameters that a module does not register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchstray.rules.repairs import (
    PARAMETERS,
    annotation_edits,
    argument_span,
    is_made_by,
    lacks_method,
    registered_containers,
    shown_attribute,
    wrapped,
)
from torchstray.rules.rule import Bad, Finding, Fix, Good, Rule, Severity
from torchstray.semantics.facts import How
from torchstray.semantics.model import FileModel
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import Container, Input, Place, Shape, Tensor, options_of
from torchstray.text.edits import Edit


class UnregisteredParameter(Rule):
    """## What it finds

    - `nn.Parameter`s in a Python list, tuple or dict of a module, written down at once, made by a comprehension or a
      function, or added later by `append`, `extend`, `+=` or an item assignment;
    - a plain tensor with a gradient in an attribute: `self.scale = torch.ones(3, requires_grad=True)`, also where it
      is computed from one, as in `0.8 * torch.rand(2, requires_grad=True) + 0.2`, or asks for the gradient by
      `requires_grad_()`.

    ## Why it matters

    A module registers an `nn.Parameter` when it is assigned to an attribute directly. Neither a parameter inside a
    list nor a tensor that merely requires a gradient is registered. So

    - `parameters()` does not give it to the optimizer. `backward()` computes its gradient, and nobody uses it: the
      loss goes down by means of everything else, and this part stays as it was drawn. If nothing else can be trained,
      the optimizer says `ValueError: optimizer got an empty parameter list`.
    - `model.to(device)` leaves it on the CPU, and a GPU answers with `Expected all tensors to be on the same device`.
    - `state_dict()` does not hold it: after saving and loading it is another one.

    None of this can be seen in a short run on a CPU.

    ## Example

    ```python
    class Prompts(nn.Module):
        def __init__(self, count, width):
            super().__init__()
            self.prompts = [nn.Parameter(torch.randn(width)) for _ in range(count)]
            self.scale = torch.ones(width, requires_grad=True)

        def forward(self, x):
            return self.scale * x + sum(self.prompts)
    ```

    ## Repair

    ```python
    class Prompts(nn.Module):
        def __init__(self, count, width):
            super().__init__()
            self.prompts = nn.ParameterList([nn.Parameter(torch.randn(width)) for _ in range(count)])
            self.scale = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.scale * x + sum(self.prompts)
    ```

    A list or tuple becomes an `nn.ParameterList`, a dict an `nn.ParameterDict`; both are used as before. A plain
    tensor becomes the data of an `nn.Parameter`, and its own `requires_grad=True` goes, since a parameter has a
    gradient anyway.

    No repair of this rule is safe. What `forward` computes at first is the same, but the parameters now train, so
    training goes another way; and `state_dict()` has new keys (`scale`, `prompts.0`, …), so `load_state_dict()`
    refuses old checkpoints unless it is called with `strict=False`. An optimizer's saved state does not fit either.
    Old checkpoints never held these values: a model that is loaded from one starts them anew.

    Nested containers and dicts whose keys are no strings, or have dots in them, are reported without a repair.

    ## When to ignore it

    Where the parameters are given to the optimizer and moved by hand, on purpose.

    Nothing is said of lists of parameters that are registered as well (`self.both = [self.query, self.key]`,
    `list(self.parameters())`, `register_parameter`), because parameters move in place and a second name stays right;
    nor of tensors with a gradient outside of modules, as in optimizing an image.
    """

    name = "unregistered-parameter"
    summary = "parameters that a module holds without registering them"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        «self.sigmas» = (1 - 0.2) * torch.rand(2, requires_grad=True) + 0.2

    def get_multi_task_loss(self, loss1, loss2):
        factor1 = torch.div(1.0, torch.mul(2.0, self.sigmas[0]))
        factor2 = torch.div(1.0, torch.mul(2.0, self.sigmas[1]))
        loss = torch.add(torch.mul(factor1, loss1), torch.log(self.sigmas[0]))
        loss = torch.add(loss, torch.add(torch.mul(factor2, loss2), torch.log(self.sigmas[1])))
        return loss
""",
            messages=(
                "`self.sigmas` is a plain tensor with a gradient, so an optimizer given `parameters()` "
                "never updates it and `.to()` leaves it behind; make it an `nn.Parameter`.",
            ),
            repaired="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        self.sigmas = nn.Parameter((1 - 0.2) * torch.rand(2) + 0.2)

    def get_multi_task_loss(self, loss1, loss2):
        factor1 = torch.div(1.0, torch.mul(2.0, self.sigmas[0]))
        factor2 = torch.div(1.0, torch.mul(2.0, self.sigmas[1]))
        loss = torch.add(torch.mul(factor1, loss1), torch.log(self.sigmas[0]))
        loss = torch.add(loss, torch.add(torch.mul(factor2, loss2), torch.log(self.sigmas[1])))
        return loss
""",
            build='type("Called", (MyModule,), {"forward": MyModule.get_multi_task_loss})()',
            inputs="(torch.rand(1), torch.rand(1))",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Temperature(nn.Module):
    def __init__(self, classes):
        super().__init__()
        «self.scale» = torch.ones(classes, requires_grad=True)  # one a class
        shift = torch.zeros(classes)
        shift.requires_grad_()
        «self.shift» = shift

    def forward(self, logits):
        return logits * self.scale + self.shift
""",
            messages=(
                "`self.scale` is a plain tensor with a gradient, so an optimizer given `parameters()` "
                "never updates it and `.to()` leaves it behind; make it an `nn.Parameter`.",
                "`self.shift` is a plain tensor with a gradient, so an optimizer given `parameters()` "
                "never updates it and `.to()` leaves it behind; make it an `nn.Parameter`.",
            ),
            repaired="""\
import torch
from torch import nn


class Temperature(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(classes))  # one a class
        shift = torch.zeros(classes)
        shift.requires_grad_()
        self.shift = nn.Parameter(shift)

    def forward(self, logits):
        return logits * self.scale + self.shift
""",
            build="Temperature(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch as t
from torch import nn as layers


class PromptPool(layers.Module):
    def __init__(self, prompts, width):
        super().__init__()
        «self.prompts» = [layers.Parameter(t.randn(width)) for _ in range(prompts)]

    def forward(self, x):
        return x + sum(self.prompts)
""",
            messages=(
                "The parameters in `self.prompts` are in a plain list, so an optimizer given "
                "`parameters()` never updates them and `.to()` leaves them behind; use "
                "`nn.ParameterList`.",
            ),
            repaired="""\
import torch as t
from torch import nn as layers


class PromptPool(layers.Module):
    def __init__(self, prompts, width):
        super().__init__()
        self.prompts = layers.ParameterList([layers.Parameter(t.randn(width)) for _ in range(prompts)])

    def forward(self, x):
        return x + sum(self.prompts)
""",
            build="PromptPool(2, 4)",
            inputs="(t.rand(3, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import Module, Parameter


def table(rows, width):
    return Parameter(0.02 * torch.randn(rows, width))


class Fields(Module):
    def __init__(self, sizes):
        super().__init__()
        «self.tables» = {}
        for name, rows in sizes.items():
            self.tables[name] = table(rows, 8)

    def forward(self, name, index):
        return self.tables[name][index]
""",
            messages=(
                "The parameters in `self.tables` are in a plain dict, so an optimizer given "
                "`parameters()` never updates them and `.to()` leaves them behind; use "
                "`nn.ParameterDict`.",
            ),
            repaired="""\
import torch
from torch.nn import Module, Parameter, ParameterDict


def table(rows, width):
    return Parameter(0.02 * torch.randn(rows, width))


class Fields(Module):
    def __init__(self, sizes):
        super().__init__()
        self.tables = ParameterDict()
        for name, rows in sizes.items():
            self.tables[name] = table(rows, 8)

    def forward(self, name, index):
        return self.tables[name][index]
""",
            build='Fields({"town": 3})',
            inputs='("town", torch.tensor([0, 2]))',
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Gains(nn.Module):
    def __init__(self, depth):
        super().__init__()
        «self.gains» = []
        self.fill(depth)

    def fill(self, depth):
        for _ in range(depth):
            self.gains.append(nn.Parameter(torch.ones(1)))

    def forward(self, x):
        for gain in self.gains:
            x = x * gain
        return x
""",
            messages=(
                "The parameters in `self.gains` are in a plain list, so an optimizer given `parameters()`"
                " never updates them and `.to()` leaves them behind; use `nn.ParameterList`.",
            ),
            repaired="""\
import torch
from torch import nn


class Gains(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.gains = nn.ParameterList()
        self.fill(depth)

    def fill(self, depth):
        for _ in range(depth):
            self.gains.append(nn.Parameter(torch.ones(1)))

    def forward(self, x):
        for gain in self.gains:
            x = x * gain
        return x
""",
            build="Gains(2)",
            inputs="(torch.rand(3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        left = nn.Parameter(torch.rand(2, 2))
        right = nn.Parameter(torch.rand(2, 2))
        «self.factors» = (left, right)

    def forward(self, x):
        left, right = self.factors
        return x @ left @ right
""",
            messages=(
                "The parameters in `self.factors` are in a plain tuple, so an optimizer given "
                "`parameters()` never updates them and `.to()` leaves them behind; use "
                "`nn.ParameterList`.",
            ),
            repaired="""\
import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        left = nn.Parameter(torch.rand(2, 2))
        right = nn.Parameter(torch.rand(2, 2))
        self.factors = nn.ParameterList([left, right])

    def forward(self, x):
        left, right = self.factors
        return x @ left @ right
""",
            build="Pair()",
            inputs="(torch.rand(3, 2),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch
import torch.nn as nn


class MyModule(nn.Module):
    def __init__(self):
        super(MyModule, self).__init__()
        self.sigmas = nn.Parameter((1 - 0.2) * torch.rand(2) + 0.2, requires_grad=True)

    def get_multi_task_loss(self, loss1, loss2):
        factor1 = torch.div(1.0, torch.mul(2.0, self.sigmas[0]))
        factor2 = torch.div(1.0, torch.mul(2.0, self.sigmas[1]))
        loss = torch.add(torch.mul(factor1, loss1), torch.log(self.sigmas[0]))
        loss = torch.add(loss, torch.add(torch.mul(factor2, loss2), torch.log(self.sigmas[1])))
        return loss
""",
            why="an `nn.Parameter` that is assigned to an attribute is registered",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Prompts(nn.Module):
    def __init__(self, count):
        super().__init__()
        prompts = [nn.Parameter(torch.randn(8)) for _ in range(count)]
        self.prompts = nn.ParameterList(prompts)

    def forward(self, x):
        return x + sum(self.prompts)
""",
            why="the list goes into an `nn.ParameterList`",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(4))
        self.key = nn.Parameter(torch.randn(4))
        self.both = [self.query, self.key]

    def forward(self, x):
        return sum((x * part).sum() for part in self.both)
""",
            why="second names for registered parameters, which move in place",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Gates(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count
        for number in range(count):
            self.register_parameter(f"gate{number}", nn.Parameter(torch.zeros(1)))

    def forward(self, x):
        for number in range(self.count):
            x = x * getattr(self, f"gate{number}").sigmoid()
        return x
""",
            why="`register_parameter` registers each of them",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))
        self.frozen = [p for p in self.parameters() if p.ndim > 1]
        self.trained = list(self.parameters())

    def forward(self, x):
        return x + self.bias
""",
            why="lists of parameters that are registered already",
        ),
        Good(
            code="""\
import torch

image = torch.rand(3, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    image.square().mean().backward()
    optimizer.step()
""",
            why="no module: the optimizer gets the tensor itself",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Fold(nn.Module):
    def __init__(self, width):
        super().__init__()
        weight = torch.empty(width, width, requires_grad=False)
        nn.init.orthogonal_(weight)
        self.weight = nn.Parameter(weight)
        weights = []
        weights.append(self.weight)
        self.extra = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(width))})

    def forward(self, x):
        return x @ self.weight + self.extra["bias"]
""",
            why=(
                "the local tensor is the data of a parameter, the local list is not kept, and "
                "`nn.ParameterDict` registers the rest"
            ),
        ),
        Good(
            code="""\
import torch
from torch.autograd import Function


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.factor = torch.full((1,), 2.0, requires_grad=True)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
""",
            why="a `torch.autograd.Function` has no state that could be registered",
        ),
        Good(
            code="""\
import torch


class Trajectory:
    def __init__(self, steps):
        self.controls = [torch.zeros(2, requires_grad=True) for _ in range(steps)]

    def optimizer(self):
        return torch.optim.SGD(self.controls, lr=0.1)
""",
            why="a plain class that hands its tensors to the optimizer itself",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.PARAMETER:
                    yield Finding(
                        rule=self.name,
                        severity=self.severity,
                        message=_message(model, stray),
                        span=stray.store.target.span,
                        fixes=tuple(_fixes(model, stray)),
                        subject=stray.store.target.node,
                    )


def _message(model: FileModel, stray: Stray) -> str:
    if isinstance(stray.holder, Tensor):
        return (
            f"`{shown_attribute(model, stray.store)}` is a plain tensor with a gradient, so an optimizer given "
            f"`parameters()` never updates "
            "it and `.to()` leaves it behind; make it an `nn.Parameter`."
        )
    shape = (
        f"a plain {stray.holder.shape.value}" if isinstance(stray.holder, Container) else "an object that is no module"
    )
    dictionary = isinstance(stray.holder, Container) and stray.holder.shape is Shape.DICT
    advice = "nn.ParameterDict" if dictionary else "nn.ParameterList"
    return (
        f"The parameters in `{shown_attribute(model, stray.store)}` are in {shape}, so an optimizer given "
        f"`parameters()` never updates them "
        f"and `.to()` leaves them behind; use `{advice}`."
    )


def _fixes(model: FileModel, stray: Stray) -> Iterable[Fix]:
    store = stray.store
    if store.how not in {How.ASSIGN, How.ELEMENT} or store.expression is None or _gets_tensor_later(stray):
        return
    consequence = "it starts to train" if isinstance(stray.holder, Tensor) else "they start to train"
    if isinstance(stray.holder, Container):
        if stray.holder.place is None or not is_made_by(store.expression, stray.holder.place.node):
            return
        nested = any(isinstance(item, Container) for item in stray.holder.items)
        edits = None if nested or lacks_method(model, stray) else registered_containers(model, stray.holder, PARAMETERS)
        if edits is not None:
            name = "nn.ParameterDict" if stray.holder.shape is Shape.DICT else "nn.ParameterList"
            annotated = annotation_edits(model, store, stray.holder, PARAMETERS)
            title = f"Use `{name}`: {consequence}, and `state_dict()` gets new keys"
            yield Fix(title, False, (*edits, *annotated))
        return
    if isinstance(stray.holder, Tensor) and isinstance(store.statement.node, cst.Assign | cst.AnnAssign):
        yield Fix(
            f"Make it an `nn.Parameter`: {consequence}, and `state_dict()` gets a new key",
            False,
            parameter_edits(model, Place(store.target.statement, store.expression)),
        )


def _gets_tensor_later(stray: Stray) -> bool:
    """Whether a plain tensor is assigned to the attribute later, which a registered parameter refuses."""
    later = [other for other in stray.facts.stores if stray.store in other.overwrites]
    return any(isinstance(option, Tensor | Input) for other in later for option in options_of(other.value))


def parameter_edits(model: FileModel, place: Place) -> tuple[Edit, ...]:
    """Makes the tensor expression at `place` the data of an `nn.Parameter`, without its own request for a gradient."""
    spelling = model.names.spell("torch.nn.Parameter")
    return (*spelling.edits, *without_gradient(place, place.node), *wrapped(model, place, f"{spelling.text}("))


def without_gradient(place: Place, node: cst.CSTNode) -> Iterator[Edit]:
    """Removes `requires_grad=True` arguments and `.requires_grad_()` calls below `node`."""
    if isinstance(node, cst.Call):
        for position, argument in enumerate(node.args):
            if argument.keyword is not None and argument.keyword.value == "requires_grad":
                yield _remove_argument(place, node, position)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "requires_grad_":
            receiver = place.statement.whole_span(node.func.value)
            yield Edit(receiver.end, place.statement.span(node).end, "")
    for child in node.children:
        yield from without_gradient(place, child)


def _remove_argument(place: Place, call: cst.Call, position: int) -> Edit:
    """Removes one argument together with the comma that divides it from its neighbour."""
    span = argument_span(place, call, position)
    if position > 0:
        return Edit(argument_span(place, call, position - 1).end, span.end, "")
    if len(call.args) > 1:
        return Edit(span.start, argument_span(place, call, 1).start, "")
    return Edit(span.start, span.end, "")
