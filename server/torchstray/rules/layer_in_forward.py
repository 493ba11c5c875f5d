"""Layers and parameters that are made anew in every forward pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torchstray.rules.moving import end_of_state, free_attribute
from torchstray.rules.repairs import (
    argument_span,
    delete_lines,
    indentation,
    reindented,
    stands_alone,
    text_of,
    trailing_comment,
)
from torchstray.rules.rule import Bad, Finding, Fix, Good, Rule, Severity
from torchstray.semantics import torch_api
from torchstray.semantics.evaluate import name_nodes, names_in
from torchstray.semantics.facts import Built, ClassFacts, Phase, Store
from torchstray.semantics.model import FileModel
from torchstray.semantics.names import Spelling, dotted, walk
from torchstray.semantics.torch_api import State
from torchstray.semantics.values import ModuleInstance, Parameter, Place, Tensor, options_of
from torchstray.text.edits import Edit, Span


class LayerInForward(Rule):
    """## What it finds

    - a layer with parameters, buffers or a training mode that is made in `forward`, in a step method such as
      `training_step`, or in any method or function of the file that these call; also a module class of yours, wherever
      in the file it is defined;
    - an `nn.Parameter` made there;
    - a layer that the first call of `forward` makes and keeps:
      `if not hasattr(self, "head"): self.head = nn.Linear(…)`. This is a warning: it works until an optimizer or a
      checkpoint comes into play.

    The finding stands on the call that builds the layer, and on the outermost of nested ones: one for a whole
    `nn.Sequential`.

    ## Why it matters

    `model.to(device)` has long been called when `forward` builds the layer, so its weights are on the CPU while its
    input is on the GPU:

        Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same
        Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

    Building it on the right device cures the message and not the mistake: the weights are new at each call, the
    optimizer has never heard of them, and nothing saves them. The model trains around a layer of noise. A BatchNorm
    forgets its statistics, and a Dropout is in training mode even after `eval()`, since every new module is.

    ## Example

    ```python
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, kernel_size=3)

        def forward(self, x):
            b_model = B()
            return b_model(self.conv(x))
    ```

    ## Repair

    ```python
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, kernel_size=3)
            self.b_model = B()

        def forward(self, x):
            return self.b_model(self.conv(x))
    ```

    The call moves behind the last attribute that `__init__` sets, and `forward` uses the attribute. It does not matter
    that `B` is defined further down: the name is looked up when a model is built. A move such as `.to(x.device)`
    behind the call goes, because the layer now moves with the model. Where one size is only known in `forward`, as in
    `nn.Linear(x.shape[-1], 10)`, the repair is the lazy kind, `nn.LazyLinear(10)`, which takes the size from its first
    input; run one batch through the model before initialising weights, counting parameters or wrapping it for
    distributed training.

    No repair of this rule is safe: the layer has the same weights at each call now, it trains, and `state_dict()` gets
    its keys, so `load_state_dict()` refuses old checkpoints unless it is called with `strict=False`. For a layer with
    a mode only, such as `nn.Dropout`, no key is added, and `eval()` reaches it.

    There is no repair where the layer is built in a loop or in a function outside of the class, and where its
    arguments are only known in `forward` and no lazy layer fits.

    ## When to ignore it

    Where fresh weights at every call are the idea, as in a random projection that is drawn anew each time; or where
    the lazily built layer is there before the optimizer is made, because a first batch is always run.

    Nothing is said of layers without state or mode (`nn.ReLU()(x)`), of a loss that only holds what it is handed
    (`nn.CrossEntropyLoss(weight=self.weight)`), of functions such as `F.dropout(x, training=self.training)`, of
    methods that only `__init__` or code outside the module calls, and of `torch.autograd.Function`.
    """

    name = "layer-in-forward"
    summary = "a layer or parameter is built anew in every forward pass"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch.nn as nn
import torch


class A(nn.Module):
    def __init__(self):
        super(A,self).__init__()
        self.conv = nn.Conv2d(in_channels=3
                              ,out_channels=8
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self,x):
        out = self.conv(x)
        out = self.relu(out)
        B_model = «B()»
        out = B_model(out)
        return out

class B(nn.Module):
    def __init__(self):
        super(B,self).__init__()
        self.conv = nn.Conv2d(in_channels=8
                              ,out_channels=16
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.conv(x)
        out = self.relu(out)
        return out
""",
            messages=(
                "This `B` is built anew in every `forward`, with fresh weights on the CPU that are never "
                "trained or saved; build it in `__init__`.",
            ),
            repaired="""\
import torch.nn as nn
import torch


class A(nn.Module):
    def __init__(self):
        super(A,self).__init__()
        self.conv = nn.Conv2d(in_channels=3
                              ,out_channels=8
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)
        self.B_model = B()

    def forward(self,x):
        out = self.conv(x)
        out = self.relu(out)
        out = self.B_model(out)
        return out

class B(nn.Module):
    def __init__(self):
        super(B,self).__init__()
        self.conv = nn.Conv2d(in_channels=8
                              ,out_channels=16
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.conv(x)
        out = self.relu(out)
        return out
""",
            build="A()",
            inputs="(torch.rand(1, 3, 6, 6),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn as layers


class Classifier(layers.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = layers.Embedding(10, width)

    def forward(self, words):
        pooled = self.embed(words).mean(1)
        return «layers.Linear(pooled.shape[-1], 2)»(pooled)
""",
            messages=(
                "This `layers.Linear` is built anew in every `forward`, with fresh weights on the CPU "
                "that are never trained or saved; build it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn as layers


class Classifier(layers.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = layers.Embedding(10, width)
        self.linear = layers.LazyLinear(2)

    def forward(self, words):
        pooled = self.embed(words).mean(1)
        return self.linear(pooled)
""",
            build="Classifier(4)",
            inputs="(torch.tensor([[1, 2]]),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


class Regular(Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.layer = Linear(4, 4)

    def forward(self, x):
        return «Dropout(self.rate)»(self.layer(x))
""",
            messages=(
                "This `Dropout` is built anew in every `forward` and always in training mode, so `eval()`"
                " never reaches it; build it in `__init__`.",
            ),
            repaired="""\
import torch
from torch.nn import *


class Regular(Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.layer = Linear(4, 4)
        self.dropout = Dropout(self.rate)

    def forward(self, x):
        return self.dropout(self.layer(x))
""",
            build="Regular(0.5)",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 8)

    def forward(self, x):
        return self.normalise(self.layer(x)).relu()

    def normalise(self, x):
        norm = «nn.BatchNorm1d(8)»  # over the points
        return norm(x)
""",
            messages=(
                "This `nn.BatchNorm1d` is built anew in every `forward`, with fresh weights on the CPU "
                "that are never trained or saved; build it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 8)
        self.norm = nn.BatchNorm1d(8)  # over the points

    def forward(self, x):
        return self.normalise(self.layer(x)).relu()

    def normalise(self, x):
        return self.norm(x)
""",
            build="Points()",
            inputs="(torch.rand(4, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Shift(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        offset = «nn.Parameter(torch.zeros(self.width))»
        return x + offset
""",
            messages=(
                "This `nn.Parameter` is made anew in every `forward`, so no optimizer has it and nothing "
                "saves it; make it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Shift(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.offset = nn.Parameter(torch.zeros(self.width))

    def forward(self, x):
        return x + self.offset
""",
            build="Shift(3)",
            inputs="(torch.rand(2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


def mlp(width):
    return «nn.Sequential(nn.Linear(width, width), nn.ReLU())»


class Grow(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        for _ in range(2):
            x = mlp(4)(x)
        return self.last(x)
""",
            messages=(
                "This `nn.Sequential` is built anew in every `forward`, with fresh weights on the CPU "
                "that are never trained or saved; build it in `__init__`.",
            ),
            repaired=None,
            build="Grow()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Adaptive(nn.Module):
    def forward(self, x):
        if not hasattr(self, "head"):
            self.head = «nn.Linear(x.shape[-1], 3)»
        return self.head(x)
""",
            messages=(
                "`self.head` is built on the first call of `forward`, so an optimizer made before misses "
                "it and a checkpoint cannot be loaded into it; build it in `__init__`, as "
                "`nn.LazyLinear`.",
            ),
            repaired="""\
import torch
from torch import nn


class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.LazyLinear(3)

    def forward(self, x):
        return self.head(x)
""",
            build="Adaptive()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Middle(Base):
    def normalised(self, x):
        return x / x.norm()


class Top(Middle):
    def __init__(self, width):
        super().__init__(width)
        self.first = nn.Linear(width, width)

    def forward(self, x):
        hidden = self.normalised(self.first(x))
        return «nn.Linear(self.width, 2)».to(x.device)(hidden)
""",
            messages=(
                "This `nn.Linear` is built anew in every `forward`, with fresh weights that are never "
                "trained or saved; build it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width


class Middle(Base):
    def normalised(self, x):
        return x / x.norm()


class Top(Middle):
    def __init__(self, width):
        super().__init__(width)
        self.first = nn.Linear(width, width)
        self.linear = nn.Linear(self.width, 2)

    def forward(self, x):
        hidden = self.normalised(self.first(x))
        return self.linear(hidden)
""",
            build="Top(4)",
            inputs="(torch.rand(2, 4),)",
        ),
    )
    good = (
        Good(
            code="""\
import torch.nn as nn
import torch


class A(nn.Module):
    def __init__(self):
        super(A,self).__init__()
        self.conv = nn.Conv2d(in_channels=3
                              ,out_channels=8
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)
        self.b_module = B()

    def forward(self,x):
        out = self.conv(x)
        out = self.relu(out)
        out = self.b_module(out)
        return out

class B(nn.Module):
    def __init__(self):
        super(B,self).__init__()
        self.conv = nn.Conv2d(in_channels=8
                              ,out_channels=16
                              ,kernel_size=3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.conv(x)
        out = self.relu(out)
        return out
""",
            why="`A` builds its `B` once, in `__init__`",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.ones(classes))

    def forward(self, scores, target):
        scores = nn.Softplus()(scores)
        return nn.CrossEntropyLoss(weight=self.weight)(scores, target)
""",
            why=(
                "nothing is made that could be trained, saved or left behind: an activation, and a loss "
                "around a registered buffer"
            ),
        ),
        Good(
            code="""\
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = self.make_layer(width)

    def make_layer(self, width):
        return nn.Sequential(nn.Linear(width, width), nn.Dropout(0.1))

    def forward(self, x):
        return self.layer(x)
""",
            why="the helper that builds the layer is called by `__init__` only",
        ),
        Good(
            code="""\
from torch import nn
from torch.nn import functional as F


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = F.dropout(self.layer(x), 0.5, training=self.training)
        return F.linear(x, self.layer.weight)
""",
            why="functions have no state of their own",
        ),
        Good(
            code="""\
from torch import nn


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.LazyLinear(3)

    def forward(self, x):
        return self.head(x.flatten(1))
""",
            why="a lazy layer is made in `__init__` and takes its size from the first input",
        ),
        Good(
            code="""\
from torch import nn


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def grow(self):
        self.layers.append(nn.Linear(4, 4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build(depth):
    model = Growing()
    for _ in range(depth):
        model.grow()
    return model
""",
            why="`grow` is called by whoever builds the model, not by `forward`",
        ),
        Good(
            code="""\
from torch import nn


class Chooser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x, late):
        layer = self.second if late else self.first
        squeeze = nn.Flatten()
        return squeeze(layer(x))
""",
            why="`layer` is a second name for a registered layer",
        ),
        Good(
            code="""\
import torch
from torch.autograd import Function
from torch import nn


class Apply(Function):
    @staticmethod
    def forward(ctx, x):
        layer = nn.Linear(4, 4)
        return layer(x).detach()
""",
            why="a `torch.autograd.Function` is no module: its `forward` has no `__init__` to build in",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for built in facts.built:
                state = _state(built)
                if state is not None and state.any:
                    yield self._finding(model, facts, built, state)

    def _finding(self, model: FileModel, facts: ClassFacts, built: Built, state: State) -> Finding:
        place = built.value.place
        assert place is not None
        name = _shown(model, place)
        grave = state.parameters or state.buffers
        store = _store_of(facts, built)
        lazily = built.lazily and (store is not None or built.value.registered)
        if lazily:
            attribute = f"`self.{store.attribute}`" if store is not None else f"This `{name}`"
            message = (
                f"{attribute} is built on the first call of `{built.entry}`, so an optimizer made before misses it "
                f"and a checkpoint "
                f"cannot be loaded into it; build it in `__init__`{_lazily_possible(built)}."
            )
        elif isinstance(built.value, Parameter):
            message = (
                f"This `{name}` is made anew in every `{built.entry}`, so no optimizer has it and nothing saves it; "
                f"make it in "
                "`__init__`."
            )
        elif grave:
            what = "fresh weights" if state.parameters else "fresh state"
            what += "" if _is_placed(built) else " on the CPU"
            what += " that are never trained or saved" if state.parameters else " that is never kept or saved"
            message = f"This `{name}` is built anew in every `{built.entry}`, with {what}; build it in `__init__`."
        else:
            message = (
                f"This `{name}` is built anew in every `{built.entry}` and always in training mode, so `eval()` never "
                f"reaches it; "
                "build it in `__init__`."
            )
        return Finding(
            rule=self.name,
            severity=_severity(built, state, lazily),
            message=message,
            span=place.span,
            fixes=tuple(_fixes(model, facts, built, state)),
            subject=place.node,
        )


def _severity(built: Built, state: State, lazily: bool) -> Severity:
    """How bad it is: what has no parameters and is put on a device works, and only costs the making."""
    if lazily:
        return Severity.WARNING
    if state.parameters:
        return Severity.ERROR
    if state.buffers:
        return Severity.HINT if _is_placed(built) else Severity.ERROR
    return Severity.WARNING


def _state(built: Built) -> State | None:
    """What of the thing made stays out of reach; None where it is part of another that is made here too."""
    if isinstance(built.value, Parameter):
        return None if built.value.buffer else State(parameters=True, buffers=False, mode=False)
    if built.value.inner:
        return None
    return built.value.whole_state(fresh=True)


def _lazily_possible(built: Built) -> str:
    """A hint at the lazy kind of a layer, where torch has one."""
    module, _, last = built.value.name.rpartition(".") if isinstance(built.value, ModuleInstance) else ("", "", "")
    known = torch_api.module_class(f"torch.{module}.Lazy{last}")
    return f", as `{module}.Lazy{last}`" if known is not None else ""


def _is_placed(built: Built) -> bool:
    """Whether the layer is put on a device where it is built."""
    call = built.value.place.node if built.value.place is not None else None
    given = isinstance(call, cst.Call) and any(
        argument.keyword is not None and argument.keyword.value == "device" for argument in call.args
    )
    if given or built.function is None or call is None or built.value.place is None:
        return given
    return _whole(built.value.place, built.function.node).node is not call


def _shown(model: FileModel, place: Place) -> str:
    node = place.node
    return text_of(model, place.statement.span(node.func)) if isinstance(node, cst.Call) else "layer"


def _store_of(facts: ClassFacts, built: Built) -> Store | None:
    return next(
        (store for store in facts.stores if store.phase is Phase.FORWARD and built.value in options_of(store.value)),
        None,
    )


def _fixes(model: FileModel, facts: ClassFacts, built: Built, state: State) -> Iterable[Fix]:
    cls, function, place = facts.cls, built.function, built.value.place
    if place is None or function is None or function.owner is not cls or built.in_loop:
        return
    method = function.node
    if not isinstance(method, cst.FunctionDef) or method not in cls.methods.values():
        return
    moved = _moved(model, facts, built, place, method)
    replaced = _replaced(model, facts, built, place, method)
    insertion = end_of_state(model, cls)
    if moved is None or replaced is None or insertion is None:
        return
    grave = state.parameters or state.buffers
    gain = "it is trained, moved and saved, and `state_dict()` gets new keys" if grave else "`eval()` reaches it"
    how = ", as a lazy layer that takes its size from the first input" if moved.lazy else ""
    made = reindented(moved.text, indentation(model, place.span.start), insertion.indent)
    line = f"self.{replaced.attribute} = {made}{replaced.comment}"
    yield Fix(
        f"Build it once, in `__init__`{how}: {gain}", False, (*moved.imports, *replaced.edits, insertion.edit([line]))
    )


@dataclass(frozen=True)
class _Replaced:
    """How the method does without building the layer: it uses `self.attribute`."""

    attribute: str
    edits: tuple[Edit, ...]
    comment: str = ""


def _replaced(
    model: FileModel, facts: ClassFacts, built: Built, place: Place, method: cst.FunctionDef
) -> _Replaced | None:
    """What changes in the method; None where the layer cannot be taken out of it."""
    whole = _whole(place, method)
    assignment = _assignment(method, whole.node)
    if built.value.registered and assignment is None:
        return None  # it goes into a registered container, which would go on growing
    taken = {store.attribute for store in facts.stores} | set(facts.registered) | set(_self_attributes(facts.cls.node))
    if assignment is None:
        if built.lazily:
            return None
        attribute = free_attribute(facts.cls, taken, _attribute_name(built))
        return _Replaced(attribute, (Edit(whole.whole.start, whole.whole.end, f"self.{attribute}"),))
    target = assignment.targets[0].target
    span = place.statement.span(assignment)
    comment = trailing_comment(model, span)
    if not stands_alone(model, span):
        return None
    if isinstance(target, cst.Name):
        if built.lazily or _is_alone(method, assignment) or not _bound_once(method, target.value):
            return None
        attribute = free_attribute(facts.cls, taken, target.value)
        uses = [
            place.statement.span(node)
            for node in name_nodes(method.body)
            if node.value == target.value and node is not target
        ]
        edits = [Edit(use.start, use.end, f"self.{attribute}") for use in uses]
        return _Replaced(attribute, (*edits, delete_lines(model, span)), comment)
    if not (isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)):
        return None
    attribute = target.attr.value
    if built.lazily:
        guard = _guard(method, assignment)
        if guard is None:
            return None
        return _Replaced(attribute, (delete_lines(model, Span(place.statement.span(guard).start, span.end)),), comment)
    if attribute in facts.live or attribute in facts.registered or _is_alone(method, assignment):
        return None
    return _Replaced(attribute, (delete_lines(model, span),), comment)


def _bound_once(method: cst.FunctionDef, name: str) -> bool:
    """Whether one assignment is all that binds a local name."""
    if any(parameter.name.value == name for parameter in method.params.params):
        return False
    return sum(found == name for node in walk(method.body) for found in _bound(node)) == 1


def _guard(method: cst.FunctionDef, assignment: cst.Assign) -> cst.If | None:
    """The `if`, one of several statements of its block, that does nothing but this assignment."""
    for block in walk(method.body):
        if not isinstance(block, cst.IndentedBlock) or len(block.body) < 2:
            continue
        for node in block.body:
            if isinstance(node, cst.If) and node.orelse is None and len(node.body.body) == 1:
                line = node.body.body[0]
                if isinstance(line, cst.SimpleStatementLine) and list(line.body) == [assignment]:
                    return node
    return None


@dataclass(frozen=True)
class _Moved:
    """The expression that builds the layer, as it can stand in `__init__`, and the imports that it needs."""

    text: str
    imports: tuple[Edit, ...] = ()
    lazy: bool = False


def _moved(model: FileModel, facts: ClassFacts, built: Built, place: Place, method: cst.FunctionDef) -> _Moved | None:
    """The call for `__init__`; None where its arguments are only known in `forward`. A device is left out: the
    module moves."""
    call = place.node
    if not isinstance(call, cst.Call):
        return None
    own = {name for node in walk(call) if isinstance(node, cst.CompFor) for name in _bound(node)}
    local = _local_names(method) - own
    if not _known_in_init(call.func, facts, local):
        return None
    unknown = [argument for argument in call.args if not _known_in_init(argument.value, facts, local)]
    devices = [argument for argument in unknown if argument.keyword is not None and argument.keyword.value == "device"]
    unknown = [argument for argument in unknown if argument not in devices]
    if not unknown and not devices:
        return _Moved(text_of(model, place.span))
    kept = [argument for argument in call.args if argument not in devices and argument not in unknown]
    arguments = ", ".join(
        text_of(model, argument_span(place, call, position))
        for position, argument in enumerate(call.args)
        if argument in kept
    )
    if not unknown:
        return _Moved(f"{text_of(model, place.statement.span(call.func))}({arguments})")
    spelling = _lazy_class(model, built, call, unknown)
    return None if spelling is None else _Moved(f"{spelling.text}({arguments})", spelling.edits, lazy=True)


def _lazy_class(model: FileModel, built: Built, call: cst.Call, unknown: list[cst.Arg]) -> Spelling | None:
    """The `Lazy…` layer that takes the one size which only `forward` knows from its first input."""
    if not isinstance(built.value, ModuleInstance) or built.value.cls is not None:
        return None
    name = f"torch.{built.value.name}"
    module, _, last = name.rpartition(".")
    eager, lazy = torch_api.module_class(name), torch_api.module_class(f"{module}.Lazy{last}")
    if eager is None or lazy is None or len(unknown) != 1:
        return None
    missing = [argument for argument in eager.arguments if argument not in lazy.arguments]
    argument = unknown[0]
    position = call.args.index(argument)
    keyword = argument.keyword.value if argument.keyword is not None else eager.arguments[position]
    return model.names.spell(f"{module}.Lazy{last}") if missing == [keyword] else None


def _known_in_init(node: cst.CSTNode, facts: ClassFacts, local: set[str]) -> bool:
    """Whether an expression means in `__init__` what it means in the method: constants, file-level names, attributes
    set there."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        changed = any(store.attribute == node.attr.value and store.phase is not Phase.INIT for store in facts.stores)
        kept = [option for store in facts.live.get(node.attr.value, ()) for option in options_of(store.value)]
        if not kept and node.attr.value in facts.class_values:
            shared = options_of(facts.class_values[node.attr.value])
            return not changed and not any(isinstance(value, Parameter | Tensor | ModuleInstance) for value in shared)
        return bool(kept) and not changed and not any(isinstance(value, Parameter | Tensor) for value in kept)
    if isinstance(node, cst.Name):
        return node.value not in local
    if isinstance(node, cst.Attribute):
        return _known_in_init(node.value, facts, local)
    if isinstance(node, cst.Arg):
        return _known_in_init(node.value, facts, local)
    if isinstance(node, cst.NamedExpr | cst.Await | cst.Yield):
        return False
    return all(_known_in_init(child, facts, local) for child in node.children)


def _local_names(method: cst.FunctionDef) -> set[str]:
    """The names that only the method knows: its parameters and what it binds."""
    parameters = method.params
    every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
    names = {parameter.name.value for parameter in every}
    if isinstance(parameters.star_arg, cst.Param):
        names.add(parameters.star_arg.name.value)
    if parameters.star_kwarg is not None:
        names.add(parameters.star_kwarg.name.value)
    for node in walk(method.body):
        names |= set(_bound(node))
    return names


def _bound(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.AssignTarget | cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For | cst.CompFor):
        target = node.target
        if not isinstance(target, cst.Attribute | cst.Subscript):
            yield from names_in(target)
    elif isinstance(node, cst.AsName):
        yield from names_in(node.name)
    elif isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name.value
    elif isinstance(node, cst.ImportAlias):
        yield (dotted(node.asname.name if node.asname is not None else node.name) or "").partition(".")[0]


def _self_attributes(node: cst.CSTNode) -> Iterator[str]:
    for found in walk(node):
        if isinstance(found, cst.Attribute) and isinstance(found.value, cst.Name) and found.value.value == "self":
            yield found.attr.value


def _whole(place: Place, method: cst.FunctionDef | cst.Lambda) -> Place:
    """The call at `place` with the moves behind it: `nn.Linear(3, 3).cuda()`."""
    node = place.node
    parents = {child: parent for parent in walk(method.body) for child in parent.children}
    while True:
        attribute = parents.get(node)
        call = parents.get(attribute) if attribute is not None else None
        if not (isinstance(attribute, cst.Attribute) and attribute.value is node and isinstance(call, cst.Call)):
            return Place(place.statement, node)
        known = torch_api.module_method(attribute.attr.value)
        if call.func is not attribute or known is None or not known.moves:
            return Place(place.statement, node)
        node = call


def _assignment(method: cst.FunctionDef, node: cst.CSTNode) -> cst.Assign | None:
    """The assignment with one target whose right-hand side is `node`."""
    for found in walk(method.body):
        if isinstance(found, cst.Assign) and found.value is node and len(found.targets) == 1:
            return found
    return None


def _is_alone(method: cst.FunctionDef, assignment: cst.Assign) -> bool:
    """Whether the assignment is the only statement of its block, so that its line cannot go."""
    for node in walk(method.body):
        if isinstance(node, cst.IndentedBlock) and len(node.body) == 1:
            line = node.body[0]
            if isinstance(line, cst.SimpleStatementLine) and assignment in line.body:
                return True
    return False


def _attribute_name(built: Built) -> str:
    """A name for an attribute that holds the layer: `nn.BatchNorm1d` gives `batch_norm`."""
    if isinstance(built.value, Parameter):
        return "weight"
    last = built.value.name.rpartition(".")[2]
    last = re.sub(r"[PR]?ReLU", lambda found: found.group().capitalize(), last)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last).lower()
    return re.sub(r"_?\d+d$", "", snake) or "layer"
