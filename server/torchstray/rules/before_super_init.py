"""Layers, parameters and buffers before `nn.Module.__init__`, or lost to a second one."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.repairs import (
    delete_lines,
    indentation,
    line_end,
    line_start,
    row_of,
    shortened,
    shown_name,
    stands_alone,
    text_of,
)
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, Early, Emptied
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import dotted, holds, is_docstring
from torchstray.semantics.values import Place
from torchstray.text.edits import Edit


class BeforeSuperInit(Rule):
    """## What it finds

    - a layer, parameter or buffer that `__init__` assigns, or registers by `register_buffer`, `register_parameter` or
      `add_module`, before `super().__init__()`; also where a helper method does it;
    - the same in an `__init__` that never makes that call;
    - a second call that empties the module: `nn.Module.__init__(self)` after layers have been assigned, or
      `A.__init__(self)` and `B.__init__(self)` one after the other, where each ends in `nn.Module.__init__`.

    `super().__init__()`, `super(Net, self).__init__()`, `nn.Module.__init__(self)` and the `__init__` of a base class
    that makes such a call are all the same to this rule.

    ## Why it matters

    `nn.Module.__init__` makes the tables in which parameters, buffers and submodules are registered. Without them,
    torch refuses:

        AttributeError: cannot assign module before Module.__init__() call
        AttributeError: cannot assign parameters before Module.__init__() call
        AttributeError: cannot assign buffer before Module.__init__() call

    This happens on every device, as soon as a model is built; but in a branch that is seldom taken it may wait for
    long.

    A second run is worse, because it is silent: it replaces the tables by empty ones, and everything registered so far
    is gone. If `forward` still uses it, there is an `AttributeError: 'Net' object has no attribute 'body'`. If not,
    the model trains without that part.

    ## Example

    ```python
    class Gate(nn.Module):
        def __init__(self, width):
            self.gate = nn.Linear(width, width)
            super().__init__()

        def forward(self, x):
            return x * self.gate(x).sigmoid()
    ```

    ## Repair

    ```python
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gate = nn.Linear(width, width)

        def forward(self, x):
            return x * self.gate(x).sigmoid()
    ```

    The call becomes the first statement after the docstring; where there is none, it is added. This is safe where the
    base is PyTorch's own: the class could not be built before, so no behaviour and no checkpoint depends on it. Where
    a base class of yours stands between, it is offered, but not called safe, since the base's `__init__` may read or
    reset attributes that were set before it. The call is not moved across the local variables that its arguments need.

    A second `nn.Module.__init__(self)` is dropped. That is not safe: the layers before it come back, and with them
    their keys in `state_dict()`. For `A.__init__(self)` and `B.__init__(self)` there is no repair, as both are needed.
    Let each class call `super().__init__()`, and call that once.

    ## When to ignore it

    Hardly ever: what it reports does not run, or loses layers.

    Nothing is said of numbers, strings and lists of numbers that are set before the call, of layers in local
    variables, of layers that are handed to the call itself (`super().__init__(nn.Linear(4, 4), nn.ReLU())` of an
    `nn.Sequential`), and of plain classes. Of a base class that cannot be seen nothing is known, so nothing is said.
    """

    name = "before-super-init"
    summary = "state is kept before nn.Module.__init__ has run, or lost to a second run"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        «self.gate» = nn.Linear(width, width)
        super().__init__()

    def forward(self, x):
        return x * self.gate(x).sigmoid()
""",
            messages=(
                "`self.gate` is assigned before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired="""\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        return x * self.gate(x).sigmoid()
""",
            build="Gate(4)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code='''\
import torch as t
from torch import nn as layers


class Shift(layers.Module):
    def __init__(self, width):
        """Adds a learned shift."""
        self.width = width
        «self.shift» = layers.Parameter(t.zeros(width))  # starts at nothing

    def forward(self, x):
        return x + self.shift
''',
            messages=(
                "`self.shift` is assigned but `__init__` never calls `super().__init__()`, so building "
                "the module raises AttributeError; call it first.",
            ),
            repaired='''\
import torch as t
from torch import nn as layers


class Shift(layers.Module):
    def __init__(self, width):
        """Adds a learned shift."""
        super().__init__()
        self.width = width
        self.shift = layers.Parameter(t.zeros(width))  # starts at nothing

    def forward(self, x):
        return x + self.shift
''',
            build="Shift(4)",
            inputs="(t.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


class Window(Module):
    def __init__(self, size):
        taper = torch.hann_window(size)
        «self.register_buffer("taper", taper)»
        Module.__init__(self)

    def forward(self, x):
        return x * self.taper
""",
            messages=(
                "`self.taper` is registered before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired="""\
import torch
from torch.nn import *


class Window(Module):
    def __init__(self, size):
        Module.__init__(self)
        taper = torch.hann_window(size)
        self.register_buffer("taper", taper)

    def forward(self, x):
        return x * self.taper
""",
            build="Window(4)",
            inputs="(torch.rand(4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Encoder(Base):
    pass


class Deep(Encoder):
    def __init__(self, width, depth):
        «self.layers» = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        super(Deep, self).__init__(width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
            messages=(
                "`self.layers` is assigned before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Encoder(Base):
    pass


class Deep(Encoder):
    def __init__(self, width, depth):
        super(Deep, self).__init__(width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
            build="Deep(4, 2)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Body(nn.Module):
    def __init__(self):
        nn.Module.__init__(self)
        self.body = nn.Linear(4, 4)


class Head(nn.Module):
    def __init__(self):
        nn.Module.__init__(self)
        self.head = nn.Linear(4, 1)


class Whole(Body, Head):
    def __init__(self):
        Body.__init__(self)
        «Head.__init__(self)»

    def forward(self, x):
        return self.head(self.body(x))
""",
            messages=(
                "`Head.__init__(self)` runs `nn.Module.__init__` a second time, which empties the module:"
                " `self.body` is lost; let each class call `super().__init__()`, and call that once here.",
            ),
            repaired=None,
            build="Whole()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        «nn.Module.__init__(self)»
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(self.first(x))
""",
            messages=(
                "`nn.Module.__init__(self)` runs `nn.Module.__init__` a second time, which empties the "
                "module: `self.first` is lost; drop this call.",
            ),
            repaired="""\
import torch
from torch import nn


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(self.first(x))
""",
            build="Twice()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Built(nn.Module):
    def __init__(self, width):
        self.width = width
        self.build()
        super().__init__()

    def build(self):
        «self.layer» = nn.Linear(self.width, self.width)

    def forward(self, x):
        return self.layer(x)
""",
            messages=(
                "`self.layer` is assigned before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired=None,
            build="Built(4)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Offset(nn.Module):
    def __init__(self, width, bias):
        if bias:
            «self.bias» = nn.Parameter(torch.zeros(width))
        else:
            self.bias = None
        super().__init__()

    def forward(self, x):
        return x if self.bias is None else x + self.bias
""",
            messages=(
                "`self.bias` is assigned before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired="""\
import torch
from torch import nn


class Offset(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        if bias:
            self.bias = nn.Parameter(torch.zeros(width))
        else:
            self.bias = None

    def forward(self, x):
        return x if self.bias is None else x + self.bias
""",
            build="Offset(4, True)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Named(nn.Module):
    def __init__(self, width):
        «self.add_module("layer", nn.Linear(width, width))»
        super().__init__()

    def forward(self, x):
        return self.layer(x)
""",
            messages=(
                "`self.layer` is registered before `nn.Module.__init__` has run, so building the module "
                "raises AttributeError; call `super().__init__()` first.",
            ),
            repaired="""\
import torch
from torch import nn


class Named(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.add_module("layer", nn.Linear(width, width))

    def forward(self, x):
        return self.layer(x)
""",
            build="Named(4)",
            inputs="(torch.rand(2, 4),)",
        ),
    )
    good = (
        Good(
            code="""\
from torch import nn


class Configured(nn.Module):
    def __init__(self, width, depth=2):
        self.width = width
        self.sizes = [width] * depth
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)
""",
            why="numbers and lists of numbers may be set before the call",
        ),
        Good(
            code="""\
from torch import nn


class Local(nn.Module):
    def __init__(self, width):
        layer = nn.Linear(width, width)
        nn.init.zeros_(layer.bias)
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)
""",
            why="a layer in a local variable needs no module yet",
        ),
        Good(
            code="""\
from torch import nn


class Explicit(nn.Module):
    def __init__(self):
        nn.Module.__init__(self)
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)
""",
            why="`nn.Module.__init__(self)` does what `super().__init__()` does",
        ),
        Good(
            code="""\
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Derived(Base):
    def __init__(self, width):
        Base.__init__(self, width)
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)


class Bare(Base):
    def forward(self, x):
        return x
""",
            why="the base's `__init__` reaches `nn.Module.__init__`, called by hand or inherited",
        ),
        Good(
            code="""\
from torch import nn


class Pipeline(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Linear(width, width), nn.ReLU())
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(super().forward(x))
""",
            why="the layers are handed to the call itself",
        ),
        Good(
            code="""\
from dataclasses import dataclass

from torch import nn


@dataclass(eq=False)
class Declared(nn.Module):
    width: int

    def __post_init__(self):
        super().__init__()
        self.layer = nn.Linear(self.width, self.width)

    def forward(self, x):
        return self.layer(x)
""",
            why="a data class calls it in `__post_init__`",
        ),
        Good(
            code="""\
from torch import nn


class Holder:
    def __init__(self):
        self.layer = nn.Linear(4, 4)


class Early(nn.Module):
    def __new__(cls, *arguments):
        module = super().__new__(cls)
        nn.Module.__init__(module)
        return module

    def forward(self, x):
        return x
""",
            why="a plain class keeps what it likes; `__new__` has made the module ready",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for early in facts.early:
                yield self._early(model, facts, early)
            for emptied in facts.emptied:
                yield self._emptied(model, emptied)

    def _early(self, model: FileModel, facts: ClassFacts, early: Early) -> Finding:
        related: tuple[Related, ...] = ()
        call = _super_call(facts.cls)
        kept = "registered" if isinstance(early.place.node, cst.Call) else "assigned"
        subject = f"`{shown_name(model, early.place, early.attribute)}` is {kept}"
        if early.never:
            message = (
                f"{subject} but `__init__` never calls `super().__init__()`, so building the module raises "
                f"AttributeError; "
                "call it first."
            )
        else:
            message = (
                f"{subject} before `nn.Module.__init__` has run, so building the module raises AttributeError; call "
                "`super().__init__()` first."
            )
            if call is not None:
                related = (Related(call.span, f"`nn.Module.__init__` only runs here, on line {row_of(model, call)}."),)
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=message,
            span=early.place.span,
            related=related,
            fixes=tuple(_call_first(model, facts, early, call)),
            subject=early.place.node,
        )

    def _emptied(self, model: FileModel, emptied: Emptied) -> Finding:
        call = shortened(model, emptied.place)
        names = [f"`self.{name}`" for name in emptied.lost]
        lost = f"{names[0]} is lost"
        if len(names) > 1:
            rest = "others" if len(names) > 3 else names[-1]
            lost = f"{', '.join(names[:3] if len(names) > 3 else names[:-1])} and {rest} are lost"
        direct = _is_module_init(model, emptied.place.node)
        advice = "drop this call" if direct else "let each class call `super().__init__()`, and call that once here"
        fixes: tuple[Fix, ...] = ()
        if direct and stands_alone(model, emptied.place.span):
            fixes = (
                Fix(
                    "Drop the second call: the layers stay registered",
                    False,
                    (delete_lines(model, emptied.place.span),),
                ),
            )
        return Finding(
            rule=self.name,
            severity=self.severity,
            message=(f"`{call}` runs `nn.Module.__init__` a second time, which empties the module: {lost}; {advice}."),
            span=emptied.place.span,
            fixes=fixes,
            subject=emptied.place.node,
        )


def _is_module_init(model: FileModel, node: cst.CSTNode) -> bool:
    """Whether a call is `nn.Module.__init__(self)`, however that is spelled."""
    name = dotted(node.func) if isinstance(node, cst.Call) else None
    head, _, rest = (name or "").partition(".")
    full = f"{model.names.qualified(head)}.{rest}".removesuffix(".__init__")
    return torch_api.canonical(full) == "torch.nn.Module"


def _super_call(cls: ClassModel) -> Place | None:
    """The statement of a class's `__init__` that calls the base's, where it stands in the method's own block."""
    init = cls.methods.get("__init__")
    for line in init.body.body if init is not None else ():
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        small = line.body[0]
        if isinstance(small, cst.Expr) and _initialises(small.value):
            return Place(cls.statement, small)
    return None


def _initialises(node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "__init__":
        return False
    of = node.func.value
    return (isinstance(of, cst.Call) and dotted(of.func) == "super") or dotted(of) is not None


def _call_first(model: FileModel, facts: ClassFacts, early: Early, call: Place | None) -> Iterable[Fix]:
    cls = facts.cls
    init = cls.methods.get("__init__")
    if init is None or not holds(init, early.place.node):
        return
    first = first_statement(init)
    if first is None:
        return
    start = cls.statement.span(first).start
    indent = indentation(model, start)
    if not stands_alone_before(model, start):
        return
    base = next(
        (entry for entry in cls.resolution[1:] if isinstance(entry, ClassModel) and "__init__" in entry.methods), None
    )
    if early.never:
        if base is not None and _wants_arguments(base.methods["__init__"]):
            return
        at = line_start(model, start)
        yield Fix(
            "Call `super().__init__()` first",
            base is None and cls.fully_known,
            (Edit(at, at, f"{indent}super().__init__()\n"),),
        )
        return
    if (
        call is None
        or not stands_alone(model, call.span)
        or model.document.lines.position(call.span.start)[0] == model.document.lines.position(start)[0]
    ):
        return
    assigned = {name for line in init.body.body for name in _assigned(line)}
    if set(names_in(call.node)) & assigned:
        return
    at = line_start(model, start)
    moved = model.document.text[line_start(model, call.span.start) : line_end(model, call.span.end)]
    moved = moved.rstrip("\r\n") + "\n"
    yield Fix(
        f"Call `{text_of(model, call.span).splitlines()[0]}` first",
        base is None and cls.fully_known,
        (Edit(at, at, moved), delete_lines(model, call.span)),
    )


def stands_alone_before(model: FileModel, offset: int) -> bool:
    """Whether only white space stands before `offset` on its line."""
    return not model.document.text[line_start(model, offset) : offset].strip()


def first_statement(function: cst.FunctionDef) -> cst.BaseStatement | None:
    """The first statement of a function's block that is not its docstring; None where the body stands on the `def`
    line."""
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    for line in function.body.body:
        if not is_docstring(line):
            return line
    return None


def _assigned(node: cst.CSTNode) -> Iterable[str]:
    if isinstance(node, cst.Assign):
        for target in node.targets:
            if isinstance(target.target, cst.Name | cst.Tuple):
                yield from names_in(target.target)
    elif isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
        if isinstance(node.target, cst.Name):
            yield node.target.value
    elif isinstance(node, cst.For):
        yield from names_in(node.target)
    for child in node.children:
        yield from _assigned(child)


def _wants_arguments(init: cst.FunctionDef) -> bool:
    given = [*init.params.posonly_params, *init.params.params][1:]
    return any(parameter.default is None for parameter in [*given, *init.params.kwonly_params])
