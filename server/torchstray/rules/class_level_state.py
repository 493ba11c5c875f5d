"""Layers, parameters and tensors as class attributes of a module."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchstray.rules.moving import after_super_call
from torchstray.rules.repairs import (
    MODULES,
    PARAMETERS,
    delete_lines,
    indentation,
    registered_containers,
    reindented,
    row_of,
    stands_alone,
    text_of,
    trailing_comment,
)
from torchstray.rules.rule import Bad, Finding, Fix, Good, Related, Rule, Severity
from torchstray.rules.unregistered_tensor import persistence
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.evaluate import names_in
from torchstray.semantics.facts import ClassFacts, ClassState, Handling, Phase, Use
from torchstray.semantics.model import FileModel
from torchstray.semantics.values import Container, ModuleInstance, Parameter, Place, Tensor, contents, options_of
from torchstray.text.edits import Edit, apply_edits


class ClassLevelState(Rule):
    """## What it finds

    Class attributes of a module that hold

    - a layer with parameters, buffers or a training mode, `hidden = nn.Linear(4, 4)`;
    - an `nn.Parameter`;
    - a tensor, `mean = torch.tensor([0.48, 0.46, 0.41])`;
    - a list, tuple or dict of these;

    with or without an annotation, whatever the names under which PyTorch was imported. Layers and parameters are an
    error, a layer that only has a mode (`nn.Dropout`) is a warning.

    ## Why it matters

    A module registers what is assigned to an *instance*, by `self.hidden = …`. The class body runs once, when the file
    is imported, and what it makes

    - is invisible to `.to(device)`, `parameters()`, `state_dict()`, `train()` and `eval()`: it stays on the CPU, never
      trains and is saved nowhere. Where a model has nothing else, `ValueError: optimizer got an empty parameter list`
      is the first sign; on a GPU it is `Expected all tensors to be on the same device`;
    - is shared: two models, or an ensemble of ten, use one and the same layer;
    - is drawn at import, before any `torch.manual_seed()` in the program, so results cannot be repeated.

    ## Example

    ```python
    class Encoder(nn.Module):
        hidden = nn.Linear(4, 4)
        mean = torch.tensor([0.48])

        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.hidden(x - self.mean))
    ```

    ## Repair

    ```python
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(4, 4)
            self.register_buffer("mean", torch.tensor([0.48]), persistent=False)
            self.last = nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.hidden(x - self.mean))
    ```

    The assignment moves behind the call of `super().__init__()`; a class without `__init__` gets one. A tensor becomes
    a buffer with `persistent=False`, so `state_dict()` stays as it was. Other class attributes that it is made of
    (`rate` in `nn.Dropout(rate)`) are then read from `self`.

    No repair of this rule is safe. A layer or parameter starts to train and gets keys in `state_dict()`, so
    `load_state_dict()` refuses old checkpoints unless it is called with `strict=False`; instances no longer share it;
    and code that reads `Encoder.hidden` from the class no longer finds it. There is no repair where other class
    attributes are made of it.

    ## When to ignore it

    Where one layer is meant to be shared by all instances, and is moved and trained by hand. Making it once outside
    and handing it to each instance is clearer: then every owner registers it, and `parameters()` of a common parent
    lists it once.

    Nothing is said of layers without parameters, buffers or mode (`activation = nn.ReLU()`), of layer *classes*
    (`norm = nn.LayerNorm`), of bare annotations (`mask: Tensor`), and of classes that are no modules.
    """

    name = "class-level-state"
    summary = "a layer, parameter or tensor as a class attribute of a module"
    severity = Severity.ERROR
    bad = (
        Bad(
            code="""\
import torch
from torch import nn


class Encoder(nn.Module):
    «hidden» = nn.Linear(4, 4)

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.hidden(x).relu())
""",
            messages=(
                "`hidden` belongs to the class, so all instances share it and `.to()`, `parameters()` and"
                " `state_dict()` miss it; create it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.hidden(x).relu())
""",
            build="Encoder()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch as t
from torch import nn as layers


class Colour(layers.Module):
    «luma» = t.tensor([0.299, 0.587, 0.114])

    def forward(self, image):
        return image @ self.luma
""",
            messages=(
                "`luma` belongs to the class, so all instances share it, `.to()` misses it and `forward` "
                "(line 9) fails on a GPU; register it as a buffer in `__init__`.",
            ),
            repaired="""\
import torch as t
from torch import nn as layers


class Colour(layers.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("luma", t.tensor([0.299, 0.587, 0.114]), persistent=False)

    def forward(self, image):
        return image @ self.luma
""",
            build="Colour()",
            inputs="(t.rand(2, 2, 3),)",
        ),
        Bad(
            code="""\
import torch
from torch.nn import *


class Base(Module):
    pass


class Temperature(Base):
    «temperature»: Parameter = Parameter(torch.ones(1))

    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, logits):
        return logits / self.temperature.clamp(min=self.floor)
""",
            messages=(
                "`temperature` belongs to the class, so all instances share it and `.to()`, "
                "`parameters()` and `state_dict()` miss it; create it in `__init__`.",
            ),
            repaired="""\
import torch
from torch.nn import *


class Base(Module):
    pass


class Temperature(Base):
    def __init__(self, floor):
        super().__init__()
        self.temperature = Parameter(torch.ones(1))
        self.floor = floor

    def forward(self, logits):
        return logits / self.temperature.clamp(min=self.floor)
""",
            build="Temperature(0.1)",
            inputs="(torch.rand(3),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Regular(nn.Module):
    rate = 0.5
    «drop» = nn.Dropout(rate)  # heavy

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.drop(self.layer(x))
""",
            messages=(
                "`drop` belongs to the class, so all instances share it and `eval()` misses it; create it"
                " in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Regular(nn.Module):
    rate = 0.5

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(self.rate)  # heavy
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.drop(self.layer(x))
""",
            build="Regular()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Ladder(nn.Module):
    «steps» = [nn.Linear(4, 4) for _ in range(2)]

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x
""",
            messages=(
                "`steps` belongs to the class, so all instances share it and `.to()`, `parameters()` and "
                "`state_dict()` miss it; create it in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Ladder(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x
""",
            build="Ladder()",
            inputs="(torch.rand(2, 4),)",
        ),
        Bad(
            code="""\
import torch
from torch import nn


class Unit(nn.Module):
    «offsets» = torch.arange(4).float() / 4

    @classmethod
    def size(cls):
        return 4

    def forward(self, x):
        return x + self.offsets
""",
            messages=(
                "`offsets` belongs to the class, so all instances share it, `.to()` misses it and "
                "`forward` (line 13) fails on a GPU; register it as a buffer in `__init__`.",
            ),
            repaired="""\
import torch
from torch import nn


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("offsets", torch.arange(4).float() / 4, persistent=False)

    @classmethod
    def size(cls):
        return 4

    def forward(self, x):
        return x + self.offsets
""",
            build="Unit()",
            inputs="(torch.rand(4),)",
        ),
    )
    good = (
        Good(
            code="""\
from torch import nn


class Block(nn.Module):
    activation = nn.ReLU()
    loss = nn.MSELoss()
    flatten = nn.Flatten()

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.activation(self.layer(self.flatten(x)))
""",
            why=("layers without parameters, buffers or a training mode have nothing that could stay behind"),
        ),
        Good(
            code="""\
from torch import nn


class Configurable(nn.Module):
    layer_class = nn.Linear
    norm = nn.LayerNorm
    width = 8
    eps = 1e-5

    def __init__(self):
        super().__init__()
        self.layer = self.layer_class(self.width, self.width)
        self.scale = self.norm(self.width, eps=self.eps)

    def forward(self, x):
        return self.scale(self.layer(x))
""",
            why="classes and numbers are made into layers by each instance",
        ),
        Good(
            code="""\
import torch
from torch import nn
from torch import Tensor


class Declared(nn.Module):
    mask: Tensor
    scale: nn.Parameter
    cache = None

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(4))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.mask * self.scale
""",
            why="annotations without a value make nothing",
        ),
        Good(
            code="""\
import torch
from torch.utils.data import Dataset


class Digits(Dataset):
    mean = torch.tensor([0.1307])

    def __getitem__(self, index):
        return torch.zeros(1) - self.mean
""",
            why="a data set is no module and stays on the CPU",
        ),
        Good(
            code="""\
import torch
from torch import nn


class Dtypes(nn.Module):
    default = torch.float32
    sizes = torch.zeros(3).shape
    largest = torch.finfo(torch.float32).max
    low = torch.tensor(0.5).item()

    def forward(self, x):
        return x.to(self.default).clamp(self.low, self.largest)
""",
            why="a dtype, a size and numbers: no tensors",
        ),
        Good(
            code="""\
import numpy as np
from torch import nn


class Anchors(nn.Module):
    ratios = np.array([0.5, 1.0, 2.0])
    names = ("small", "large")

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(4, len(self.ratios)) for name in self.names})

    def forward(self, x):
        return [head(x) for head in self.heads.values()]
""",
            why="NumPy arrays and names are no tensors",
        ),
    )

    def check(self, model: FileModel) -> Iterable[Finding]:
        for facts in model.modules:
            for state in facts.class_state:
                severity = _severity(facts, state)
                if severity is not None:
                    yield self._finding(model, facts, state, severity)

    def _finding(self, model: FileModel, facts: ClassFacts, state: ClassState, severity: Severity) -> Finding:
        failing = _failing(facts, state)
        when = f" and `{failing.method}` (line {row_of(model, failing.place)}) fails on a GPU" if failing else ""
        related = (Related(failing.place.span, f"`{state.attribute}` is used here."),) if failing else ()
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if failing else severity,
            message=f"`{state.attribute}` belongs to the class{_consequence(facts, state, when)}",
            span=state.target.span,
            related=related,
            fixes=tuple(_fixes(model, facts, state)),
            subject=state.target.node,
        )


def _is_tensor(state: ClassState) -> bool:
    return not any(isinstance(held, ModuleInstance | Parameter) for held in contents(state.value))


def _failing(facts: ClassFacts, state: ClassState) -> Use | None:
    """The first use in `forward` of a class-level tensor that fails on another device."""
    if not _is_tensor(state):
        return None
    uses = (use for use in facts.uses_of(state.attribute) if use.phase is Phase.FORWARD)
    return next((use for use in uses if use.handling is Handling.FAILS), None)


def _consequence(facts: ClassFacts, state: ClassState, when: str) -> str:
    """The rest of the message, from the consequence on."""
    if _is_hidden(facts, state):
        return " and hides the one that each instance registers, so `forward` uses this one; delete this line."
    if _is_tensor(state):
        missed = ", `.to()` misses it" if when else " and `.to()` misses it"
        return f", so all instances share it{missed}{when}; register it as a buffer in `__init__`."
    missed = "`.to()`, `parameters()` and `state_dict()` miss it" if _has_tensors(state) else "`eval()` misses it"
    return f", so all instances share it and {missed}; create it in `__init__`."


def _is_hidden(facts: ClassFacts, state: ClassState) -> bool:
    """Whether instances register something of the same name: attributes of the class are found before what is
    registered."""
    values = [option for store in facts.live.get(state.attribute, ()) for option in options_of(store.value)]
    return state.attribute in facts.registered or any(isinstance(value, ModuleInstance | Parameter) for value in values)


def _has_tensors(state: ClassState) -> bool:
    for held in contents(state.value):
        whole = held.whole_state() if isinstance(held, ModuleInstance) else None
        if isinstance(held, Parameter | Tensor) or (whole is not None and (whole.parameters or whole.buffers)):
            return True
    return False


def _severity(facts: ClassFacts, state: ClassState) -> Severity | None:
    """How bad the attribute is; None where it is no mistake: each instance sets its own, or nothing of it can stay
    behind."""
    if state.attribute in facts.live and not _is_hidden(facts, state):
        return None
    found: Severity | None = None
    for held in contents(state.value):
        if isinstance(held, Parameter):
            return Severity.ERROR
        if isinstance(held, ModuleInstance):
            whole = held.whole_state()
            if whole is None or not whole.any:
                continue
            if whole.parameters or whole.buffers:
                return Severity.ERROR
            found = Severity.WARNING
        elif isinstance(held, Tensor) and not held.chosen:
            found = Severity.WARNING
    harmless = {use.handling for use in facts.uses_of(state.attribute)} <= {Handling.MOVED, Handling.HARMLESS}
    if found is not None and _is_tensor(state) and facts.uses_of(state.attribute) and harmless:
        return Severity.HINT
    return found


def _fixes(model: FileModel, facts: ClassFacts, state: ClassState) -> Iterable[Fix]:
    cls, statement = facts.cls, state.statement
    lines = [line.body for line in cls.node.body.body if isinstance(line, cst.SimpleStatementLine)]
    if len(cls.node.body.body) == 1 or not any(statement.node in line for line in lines):
        return
    if not stands_alone(model, statement.span):
        return
    if not isinstance(state.target.node, cst.Name) or _targets(statement.node) != [state.target.node]:
        return
    used_by_others = any(
        state.attribute in set(names_in(assignment.value))
        for assignment in cls.assignments
        if assignment is not statement.node and assignment.value is not None
    )
    if used_by_others or model.attribute_read(state.attribute):
        return
    if _is_hidden(facts, state):
        title = "Delete this line: each instance then uses the one that it registers"
        yield Fix(title, False, (delete_lines(model, statement.span),))
        return
    insertion = after_super_call(model, cls)
    moved = _moved(model, cls, state)
    if insertion is None or moved is None:
        return
    made, imports = moved
    made = reindented(made, indentation(model, statement.span.start), insertion.indent)
    if isinstance(state.value, Tensor):
        persistent = "" if persistence(state.value)[0] else ", persistent=False"
        line = f'self.register_buffer("{state.attribute}", {made}{persistent})'
        gain = ", and `state_dict()` gets its key" if not persistent else ""
        consequence = f"each instance has its own, `.to()` moves it{gain}"
    else:
        line = f"self.{state.attribute} = {made}"
        gain = "`state_dict()` gets its keys" if _has_tensors(state) else "`eval()` reaches it"
        consequence = f"each instance has its own, and {gain}"
    comment = trailing_comment(model, statement.span)
    yield Fix(
        f"Create it in `__init__`: {consequence}",
        False,
        (*imports, delete_lines(model, statement.span), insertion.edit([line + comment])),
    )


def _targets(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    if isinstance(statement, cst.AnnAssign):
        return [statement.target]
    return [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else []


def _moved(model: FileModel, cls: ClassModel, state: ClassState) -> tuple[str, tuple[Edit, ...]] | None:
    """The expression as it must read in a method, its containers registered, and the imports that this needs."""
    place = Place(state.statement.statement, state.expression)
    own_names = {
        target.value
        for assignment in cls.assignments
        for target in (
            [assignment.target]
            if isinstance(assignment, cst.AnnAssign)
            else [part.target for part in assignment.targets]
        )
        if isinstance(target, cst.Name)
    }
    edits: list[Edit] = []
    for option in options_of(state.value):
        if isinstance(option, Container):
            kinds = PARAMETERS if any(isinstance(held, Parameter) for held in contents(option)) else MODULES
            wrapping = registered_containers(model, option, kinds)
            if wrapping is None or _is_tensor(state):
                return None
            edits += wrapping
    whole = place.whole
    inside = [edit for edit in edits if whole.start <= edit.start and edit.end <= whole.end]
    inside += [
        Edit(span.start, span.start, "self.")
        for span in (place.statement.span(node) for node in _free_names(place.node, own_names - {state.attribute}))
    ]
    shifted = [Edit(edit.start - whole.start, edit.end - whole.start, edit.content) for edit in inside]
    return apply_edits(text_of(model, whole), shifted), tuple(edit for edit in edits if edit not in inside)


def _free_names(node: cst.CSTNode, names: set[str]) -> Iterable[cst.Name]:
    if isinstance(node, cst.Name):
        if node.value in names:
            yield node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _free_names(node.value, names)
    else:
        for child in node.children:
            yield from _free_names(child, names)
