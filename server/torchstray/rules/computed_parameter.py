"""What is computed from an `nn.Parameter` and kept instead of it."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import argument_span, needs_parentheses, row_of, shown_attribute, text_of
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.rules.unregistered_parameter import without_gradient
from torchstray.semantics import torch_api
from torchstray.semantics.facts import NonLeaf
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted, holds
from torchstray.semantics.strays import Kind, Stray, strays
from torchstray.semantics.values import Parameter, Place, Tensor
from torchstray.text.edits import Edit


class ComputedParameter(Rule):
    """## What it finds

    - `self.scale = nn.Parameter(torch.ones(n)).to(device)` and `.cuda()`, the most frequent spelling;
    - any other computation after the fact: `nn.Parameter(…) * 0.1`, `.unsqueeze(0)`, `.view(…)`, `-nn.Parameter(…)`,
      also by way of a local variable, a function or `setattr`;
    - outside of modules, a tensor that an optimizer gets although it is no leaf:
      `image = torch.rand(3, 8, 8, requires_grad=True).to(device)` and then `Adam([image])`.

    ## Why it matters

    Every operation on a parameter returns a plain tensor that remembers where it came from. The parameter itself is
    thrown away; the attribute holds the result, which is not registered. So it is missing from `parameters()` and from
    `state_dict()`, it never trains, and `model.to(device)` leaves it behind.

    With `.to(device)` and `.cuda()` the mistake hides well. On a CPU `.to("cpu")` has nothing to do and returns the
    parameter itself, so the model is sound in every test. On a GPU the same line copies, and the parameter is gone.
    What is seen there is a loss that does not fall, `ValueError: optimizer got an empty parameter list`, or, after a
    second `backward()`, `Trying to backward through the graph a second time`. An optimizer that is handed such a
    tensor says `can't optimize a non-leaf Tensor`.

    ## Example

    ```python
    class Scale(nn.Module):
        def __init__(self, width, device):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width)).to(device)
            self.bias = nn.Parameter(torch.randn(width)) * 0.02

        def forward(self, x):
            return x * self.gain + self.bias
    ```

    ## Repair

    ```python
    class Scale(nn.Module):
        def __init__(self, width, device):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width).to(device))
            self.bias = nn.Parameter(torch.randn(width) * 0.02)

        def forward(self, x):
            return x * self.gain + self.bias
    ```

    The computation moves inside. For a mere move there is a second choice, to drop it: `model.to(device)` moves the
    parameter like all others. In a script the gradient is asked for last:
    `torch.rand(3, 8, 8).to(device).requires_grad_()`.

    No repair of this rule is safe. `forward` gives the same numbers at first, but now the parameter trains, and
    `state_dict()` has a new key, so `load_state_dict()` refuses old checkpoints unless it is called with
    `strict=False`. (A model that was built on a CPU has the key already.) Where the parameter is made elsewhere, in a
    function or on another line, it is reported without a repair.

    ## When to ignore it

    Where the attribute is meant to be a frozen value; but a buffer says so better, and moves.

    Nothing is said of calls that return the parameter itself: `.requires_grad_(False)`, and `.float()` on a parameter
    of that type; of computations in `forward` or a property, which are made anew from the parameter at each call; of
    `.cuda()` and `.to()` of a *module*, which move it in place; and of numbers such as `.numel()`. A computed tensor
    that goes into an `nn.ParameterList` is no mistake either: the list makes a new parameter of it.
    """

    name = "computed-parameter"
    summary = "a tensor computed from an nn.Parameter takes its place"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width, device="cuda"):
        super().__init__()
        «self.gain» = nn.Parameter(torch.ones(width)).to(device)
        «self.bias» = nn.Parameter(torch.zeros(width), requires_grad=True).cuda(device)  # learned

    def forward(self, x):
        return x * self.gain + self.bias
""",
            messages=(
                "`nn.Parameter(…).to(…)` is an ordinary tensor as soon as it copies, so `self.gain` is "
                "missing from `parameters()` and never trains; convert inside `nn.Parameter(…)`.",
                "`nn.Parameter(…).cuda(…)` is an ordinary tensor as soon as it copies, so `self.bias` is "
                "missing from `parameters()` and never trains; convert inside `nn.Parameter(…)`.",
            ),
            repaired="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width, device="cuda"):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width).to(device))
        self.bias = nn.Parameter(torch.zeros(width).cuda(device), requires_grad=True)  # learned

    def forward(self, x):
        return x * self.gain + self.bias
""",
            build="Scale(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch as t
from torch import nn as layers


class Tokens(layers.Module):
    def __init__(self, count, width):
        super().__init__()
        «self.tokens» = layers.Parameter(t.randn(count, width)) * 0.02
        «self.start» = layers.Parameter(t.randn(width)).unsqueeze(0)

    def forward(self, x):
        return t.cat([self.start, self.tokens, x])
""",
            messages=(
                "`nn.Parameter(…) * …` is an ordinary tensor, so `self.tokens` is missing from "
                "`parameters()` and never trains; compute inside `nn.Parameter(…)`.",
                "`nn.Parameter(…).unsqueeze(…)` is an ordinary tensor, so `self.start` is missing from "
                "`parameters()` and never trains; compute inside `nn.Parameter(…)`.",
            ),
            repaired="""\
import torch as t
from torch import nn as layers


class Tokens(layers.Module):
    def __init__(self, count, width):
        super().__init__()
        self.tokens = layers.Parameter(t.randn(count, width) * 0.02)
        self.start = layers.Parameter(t.randn(width).unsqueeze(0))

    def forward(self, x):
        return t.cat([self.start, self.tokens, x])
""",
            build="Tokens(2, 3)",
            inputs="(t.rand(4, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


def frame(width):
    return Parameter(torch.randn(width, width))


class Rotation(Module):
    def __init__(self, width):
        super().__init__()
        raw = frame(width)
        «self.frame» = raw - raw.t()

    def forward(self, x):
        return x @ torch.matrix_exp(self.frame)
""",
            messages=(
                "`nn.Parameter(…) - …` is an ordinary tensor, so `self.frame` is missing from "
                "`parameters()` and never trains; compute inside `nn.Parameter(…)`.",
            ),
            repaired=None,
            build="Rotation(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, count, device=None):
        super().__init__()
        for number in range(count):
            «setattr(self, f"mix{number}", nn.Parameter(torch.rand(4, 4)).cuda(device))»

    def forward(self, x):
        return x @ self.mix0 @ self.mix1
""",
            messages=(
                "`nn.Parameter(…).cuda(…)` is an ordinary tensor as soon as it copies, so "
                "`self.mix{number}` is missing from `parameters()` and never trains; convert inside "
                "`nn.Parameter(…)`.",
            ),
            repaired="""\
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, count, device=None):
        super().__init__()
        for number in range(count):
            setattr(self, f"mix{number}", nn.Parameter(torch.rand(4, 4).cuda(device)))

    def forward(self, x):
        return x @ self.mix0 @ self.mix1
""",
            build="Mixer(2)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch

device = "cuda"
«image» = torch.rand(3, 32, 32, requires_grad=True).to(device)
optimizer = torch.optim.Adam([image], lr=0.05)
""",
            messages=(
                "`image` is computed from a tensor with a gradient, so it is no leaf and the optimizer "
                "(line 5) refuses it; make it on its device and ask for the gradient last.",
            ),
            repaired="""\
import torch

device = "cuda"
image = torch.rand(3, 32, 32).to(device).requires_grad_()
optimizer = torch.optim.Adam([image], lr=0.05)
""",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Query(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        if wide:
            «self.query» = nn.Parameter(torch.randn(2 * width)) / width**0.5
        else:
            self.query = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x @ self.query
""",
            messages=(
                "`nn.Parameter(…) / …` is an ordinary tensor, so `self.query` is missing from "
                "`parameters()` and never trains; compute inside `nn.Parameter(…)`.",
            ),
            repaired="""\
import torch
from torch import nn


class Query(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        if wide:
            self.query = nn.Parameter(torch.randn(2 * width) / width**0.5)
        else:
            self.query = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x @ self.query
""",
            build="Query(2, True)",
            inputs="(torch.rand(3, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Sum(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        «self.w» = nn.Parameter(a + b).view(-1, 1)

    def forward(self, x):
        return x @ self.w
""",
            messages=(
                "`nn.Parameter(…).view(…)` is an ordinary tensor, so `self.w` is missing from "
                "`parameters()` and never trains; compute inside `nn.Parameter(…)`.",
            ),
            repaired="""\
import torch
from torch import nn


class Sum(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.w = nn.Parameter((a + b).view(-1, 1))

    def forward(self, x):
        return x @ self.w
""",
            build="Sum(torch.ones(3), torch.ones(3))",
            inputs="(torch.rand(2, 3),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.gain = nn.Parameter(0.1 * torch.ones(width).to(device))
        self.bias = nn.Parameter(torch.zeros(width, device=device))

    def forward(self, x):
        return x * self.gain + self.bias
""",
            why="what is computed is computed inside the parentheses",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Frozen(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(width)).requires_grad_(False)
        self.table = nn.Parameter(torch.ones(width)).float()

    def forward(self, x):
        return x * self.codes + self.table
""",
            why=(
                "both give back the parameter itself: the first changes it in place, the second has nothing to convert"
            ),
        ),
        Good(
            code="""\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(width))

    @property
    def weight(self):
        return self.raw.exp() / self.raw.exp().sum()

    def forward(self, x):
        scaled = self.raw * 0.1
        return x * self.weight + scaled
""",
            why="the parameter is kept, and each call computes from it anew",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Start(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.layer = nn.Linear(width, width).cuda(device)
        self.state = nn.Parameter(torch.zeros(width))
        self.size = nn.Parameter(torch.zeros(width)).numel()

    def forward(self, x):
        return self.layer(x) + self.state
""",
            why="`.cuda()` of a module moves it in place, and `numel` gives a number",
        ),
        Good(
            code="""\
import torch

image = torch.rand(3, 32, 32).to("cuda").requires_grad_()
mask = torch.ones(3, 32, 32, device="cuda", requires_grad=True)
optimizer = torch.optim.Adam([image, mask], lr=0.05)
""",
            why="the gradient is asked for last, or the tensor is made on its device: both are leaves",
        ),
        Good(
            code="""\
import torch
from torch import nn

model = nn.Linear(2, 2)
penalty = sum(parameter.square().sum() for parameter in model.parameters())
norms = [nn.Parameter(torch.ones(2)).norm() for _ in range(2)]
""",
            why="nothing computed here takes a parameter's place in a module",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self, device=None):
        super().__init__()
        weight = torch.randn(4)
        if device is not None:
            weight = weight.to(device)
        weight = weight / weight.norm()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return x * self.weight
""",
            why="the tensor is computed first and made a parameter last",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Scales(nn.Module):
    def __init__(self, count, device):
        super().__init__()
        self.scales = nn.ParameterList()
        for _ in range(count):
            self.scales.append(nn.Parameter(torch.ones(1)).cuda(device))

    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return x
""",
            why="an `nn.ParameterList` makes a new parameter of every tensor that it is given",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for stray in strays(facts):
                if stray.kind is Kind.COMPUTED:
                    yield self._stored(model, stray)
        for non_leaf in model.non_leaves:
            yield self._optimized(model, non_leaf)

    def _stored(self, model: FileModel, stray: Stray) -> Finding:
        tensor = next(value for value in stray.values if isinstance(value, Tensor))
        store = stray.store
        fixes: tuple[Fix, ...] = ()
        if store.expression is not None and tensor.made is not None and tensor.made.node is store.expression:
            fixes = tuple(_fixes(model, Place(store.target.statement, store.expression), tensor))
        node = tensor.made.node if tensor.made is not None else None
        converts = isinstance(node, cst.Call) and _may_return_itself(node)
        when, advice = (" as soon as it copies", "convert") if converts else ("", "compute")
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(
                f"`{_operation(node)}` is an ordinary tensor{when}, so `{shown_attribute(model, store)}` is "
                f"missing from "
                f"`parameters()` and never trains; {advice} inside `nn.Parameter(…)`."
            ),
            span=store.target.span,
            fixes=fixes,
            subject=store.target.node,
        )

    def _optimized(self, model: FileModel, found: NonLeaf) -> Finding:
        name = text_of(model, found.target.span)
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(
                f"`{name}` is computed from a tensor with a gradient, so it is no leaf and the optimizer (line "
                f"{row_of(model, found.optimizer)}) refuses it; make it on its device and ask for the gradient last."
            ),
            span=found.target.span,
            related=(Related(found.optimizer.span, f"`{name}` goes to the optimizer here."),),
            fixes=tuple(_gradient_last(model, found)),
            subject=found.target.node,
        )


def _may_return_itself(node: cst.Call) -> bool:
    """Whether a method returns its own tensor where there is nothing to do: `.to(…)`, `.cuda()`, `.double()`."""
    method = torch_api.method(node.func.attr.value) if isinstance(node.func, cst.Attribute) else None
    return method is not None and method.same_object


def _operation(node: cst.CSTNode | None) -> str:
    """How the outermost operation on the parameter is written, shortened."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return f"nn.Parameter(…).{node.func.attr.value}({'…' if node.args else ''})"
    if isinstance(node, cst.Call):
        return f"{dotted(node.func) or 'f'}(nn.Parameter(…))"
    if isinstance(node, cst.BinaryOperation):
        return "nn.Parameter(…) " + _OPERATORS.get(type(node.operator), "∘") + " …"
    if isinstance(node, cst.Attribute):
        return f"nn.Parameter(…).{node.attr.value}"
    return "nn.Parameter(…)[…]" if isinstance(node, cst.Subscript) else "-nn.Parameter(…)"


_OPERATORS: dict[type[cst.CSTNode], str] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.MatrixMultiply: "@",
    cst.Power: "**",
}


def _fixes(model: FileModel, place: Place, tensor: Tensor) -> Iterable[Fix]:
    parameter = tensor.parameter
    assert parameter is not None
    call = parameter.place.node
    if not isinstance(call, cst.Call) or not call.args or call.args[0].keyword is not None or call.args[0].star:
        return
    if not holds(place.node, call) or place.node is call or _detaches(place.node, call):
        return
    yield Fix(
        "Compute it inside `nn.Parameter(…)`: it starts to train, and `state_dict()` gets a new key",
        False,
        _moved_inside(model, place, parameter, call),
    )
    if _only_moves(place.node, call):
        span, whole = parameter.place.span, place.whole
        yield Fix(
            "Drop the move: `model.to(device)` moves the parameter",
            False,
            (Edit(span.end, whole.end, ""),),
        )


def _moved_inside(model: FileModel, place: Place, parameter: Parameter, call: cst.Call) -> tuple[Edit, ...]:
    """Turns `f(nn.Parameter(data, …))` into `nn.Parameter(f(data), …)`."""
    statement = place.statement
    outer, inner = place.whole, parameter.place.whole
    data = statement.whole_span(call.args[0].value)
    opening = model.document.text[inner.start : data.start]
    closing = model.document.text[data.end : inner.end]
    shielded = needs_parentheses(call.args[0].value)
    before, after = ("(", ")") if shielded else ("", "")
    if len(call.args) > 1:
        closing = model.document.text[argument_span(parameter.place, call, 0).end : inner.end]
    return (
        Edit(outer.start, outer.start, opening),
        Edit(inner.start, data.start, before),
        Edit(data.end, inner.end, after),
        Edit(outer.end, outer.end, closing),
    )


def _detaches(node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether what is done to `call` takes the gradient away on purpose."""
    while node is not call and isinstance(node, cst.Call | cst.Attribute | cst.Subscript):
        if isinstance(node, cst.Attribute) and node.attr.value in {"data", "detach"}:
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def _only_moves(node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether `node` is `call` followed by nothing but moves to a device."""
    while node is not call:
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return False
        method = torch_api.method(node.func.attr.value)
        if method is None or not method.moves or any(_names_dtype(argument) for argument in node.args):
            return False
        node = node.func.value
    return True


def _names_dtype(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "dtype"


def _gradient_last(model: FileModel, found: NonLeaf) -> Iterable[Fix]:
    """`torch.randn(n, requires_grad=True).to(device)` becomes `torch.randn(n).to(device).requires_grad_()`."""
    place = Place(found.statement.statement, found.expression)
    removed = tuple(without_gradient(place, found.expression))
    if not removed:
        return
    end = place.whole.end
    added: tuple[Edit, ...]
    if needs_parentheses(found.expression):
        start = place.whole.start
        added = (Edit(start, start, "("), Edit(end, end, ").requires_grad_()"))
    else:
        added = (Edit(end, end, ".requires_grad_()"),)
    yield Fix("Ask for the gradient last: the optimizer then updates it", False, (*removed, *added))
