"""Random programs with module classes: layers, parameters and tensors are made, wrapped, kept and registered.

All tensors have three elements, so that almost everything fits together; a program that does not run is thrown away by
whoever runs it. `chance(number)` stands where a program takes one of two ways: it comes from outside, each call of it
has a number of its own, and `Program.choices` says how many there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PRELUDE = """\
import collections
import copy
import functools
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

"""
MOST_CHOICES = 3
_REGISTER = """\
def register(module, layers):
    for i, layer in enumerate(layers):
        module.add_module(f"registered{i}", layer)
"""
_STATELESS = ("nn.ReLU()", "nn.Identity()", "nn.Tanh()", "nn.MSELoss()", "nn.Sequential(nn.ReLU(), nn.Tanh())")
_STATEFUL = (
    "nn.Linear(3, 3)",
    "nn.LayerNorm(3)",
    "nn.BatchNorm1d(3)",
    "nn.Dropout(0.5)",
    "nn.Embedding(3, 3)",
    "nn.Sequential(nn.Linear(3, 3), nn.ReLU())",
    "nn.Sequential(nn.ReLU(), nn.Dropout(0.1))",
    "nn.CrossEntropyLoss(weight=torch.ones(3))",
    "nn.ModuleList([nn.Linear(3, 3)])",
    "nn.Linear(3, 3).to('cpu')",
    "nn.Linear(3, 3).eval()",
    "nn.Linear(3, 3).requires_grad_(False)",
)
_TENSORS = (
    "torch.zeros(3)",
    "torch.ones(3)",
    "torch.rand(3)",
    "torch.arange(3)",
    "torch.tensor([1.0, 2.0, 3.0])",
    "torch.tensor(2)",
    "torch.linspace(0, 1, 3)",
    "torch.full((3,), 0.5)",
    "torch.eye(3)[0]",
    "torch.FloatTensor([1.0, 2.0, 3.0])",
    "torch.empty(3).normal_()",
    "torch.meshgrid(torch.arange(3), torch.arange(3), indexing='ij')[0][:, 0]",
    "torch.zeros(3, device='cpu')",
    "torch.zeros(3, requires_grad=True)",
)
_DERIVED = (
    "({} + 1)",
    "-{}",
    "{}.clone()",
    "{}.unsqueeze(0)",
    "{}.float()",
    "{}.to('cpu')",
    "{}.detach()",
    "{}.data",
    "{}[:2]",
    "{}.sum()",
    "{}.max(dim=-1)[0]",
    "torch.cat([{0}.flatten(), {0}.flatten()])",
    "torch.stack([{0}, {0}])",
    "torch.exp({})",
    "torch.zeros_like({})",
    "F.softmax({}.float(), dim=0)",
    "({0} > 0)",
    "({0} * {0})",
    "copy.deepcopy({}.detach())",
)
_NUMBERS = (
    "3",
    "None",
    "'name'",
    "torch.float32",
    "torch.device('cpu')",
    "nn.Linear",
    "torch.relu",
    "range(3)",
    "torch.zeros(3).shape",
    "torch.zeros(3).tolist()",
    "torch.ones(3).sum().item()",
    "torch.zeros(3).numpy()",
    "len([nn.Linear(3, 3)])",
    "sum(p.numel() for p in nn.Linear(3, 3).parameters())",
    "[]",
    "{}",
    "()",
    "lambda x: x",
    "[nn.Linear, nn.ReLU]",
    "[1, 2]",
)
_CONTAINERS = (
    "[{}]",
    "[{0}, {0}]",
    "({},)",
    "({0}, {0})",
    "{{'a': {}}}",
    "{{1: {}}}",
    "[[{}], [{}]]",
    "[None, {}]",
    "[3, {}]",
    "{{'a': 1, 'b': {}}}",
    "[{} for _ in range(2)]",
    "{{str(i): {} for i in range(2)}}",
    "tuple({} for _ in range(2))",
    "list(({},))",
    "dict(a={})",
    "collections.deque([{}])",
    "collections.OrderedDict(a={})",
    "[{}] * 2",
    "[{}] + [{}]",
    "SimpleNamespace(a={})",
    "{{'a': [{}]}}",
    "list(reversed([{}]))",
    "dict(zip('ab', [{}, {}]))",
    "[item for item in [{}]]",
    "list({{'a': {}}}.values())",
    "[*[{}], {}]",
    "{{**{{'a': {}}}}}",
)


@dataclass(frozen=True)
class Program:
    """A program whose module is made by `Net()`."""

    text: str
    choices: int


@dataclass
class _Names:
    """What is known by a name: expressions by kind, such as `tensor`, `parameter`, `layer`, or `list of tensor`."""

    known: dict[str, str] = field(default_factory=dict)

    def of(self, *kinds: str) -> list[str]:
        """The expressions of these kinds, in the order they became known."""
        return [name for name, kind in self.known.items() if kind in kinds]


class Generator:
    """Makes programs, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._choices = 0
        self._numbers = 0
        self._in_branch = False
        self._names = _Names()
        self._modules: list[str] = []
        self._calls: dict[str, Callable[[], str]] = {}
        self._builders: set[str] = set()
        self._holders: list[str] = []
        self._helpers: list[str] = []
        self._globals: dict[str, str] = {}
        self._registers = False

    def programs(self, count: int) -> Iterator[Program]:
        """Make `count` programs."""
        for _ in range(count):
            yield self.program()

    def program(self) -> Program:
        """Make the next program."""
        self._choices = self._numbers = 0
        self._modules, self._holders, self._helpers, self._globals = [], [], [], {}
        self._calls, self._builders, self._registers = {}, set(), self._maybe(0.3)
        parts = [PRELUDE]
        if self._registers:
            parts.append(_REGISTER)
        if self._maybe(0.15):
            parts.append(f"TABLE = {self._random.choice(_TENSORS)}\n")
            self._globals = {"TABLE": "tensor"}
        if self._maybe(0.3):
            parts.append(self._function())
        if self._maybe(0.3):
            parts.append(self._holder())
        parts += [self._module(f"Part{number}") for number in range(self._random.choice((0, 0, 1, 1, 2)))]
        parts.append(self._module("Net"))
        return Program("\n\n".join(parts), self._choices)

    # Parts of a program

    def _module(self, name: str) -> str:
        bases = [cls for cls in self._modules if self._maybe(0.5)]
        base = self._random.choice(bases) if bases else "nn.Module"
        self._names = _Names(dict(self._globals))
        call = "super().__init__()" if self._maybe(0.8) else f"super({name}, self).__init__()"
        given = ""
        if base in self._calls and self._calls[base]() != f"{base}()":
            call = call[:-1] + f"{self._calls[base]().removeprefix(base)[1:-1]})"
        elif base == "nn.Module" and self._maybe(0.1):
            call = "nn.Module.__init__(self)"
        kind = ""
        if name != "Net" and self._maybe(0.2):
            kind = self._random.choice(("tensor", "layer"))
            given = f", given: {'torch.Tensor' if kind == 'tensor' else 'nn.Module'}"
        methods: list[str] = []
        first = ["self.early = torch.zeros(3)"] if self._maybe(0.03) else []
        body = [
            *first,
            call,
            *([f"self.{name.lower()} = given"] if kind else []),
            *self._block(self._random.randint(2, 6), methods),
        ]
        if base in self._builders or self._maybe(0.2):
            body += self._builder(base, methods)
            self._builders.add(name)
        methods.append("def forward(self, x):\n" + _indented([*self._uses(), "return x"]))
        if self._maybe(0.05) and (tensors := [name for name in self._names.of("tensor") if name.startswith("self.")]):
            moved = self._random.choice(tensors)
            lines = ["super()._apply(fn, recurse)", f"{moved} = fn({moved})", "return self"]
            methods.append("def _apply(self, fn, recurse=True):\n" + _indented(lines))
        self._modules.append(name)
        made = {"tensor": self._random.choice(_TENSORS[:3]), "layer": self._random.choice(_STATEFUL[:4]), "": ""}[kind]
        self._calls[name] = lambda: f"{name}({made})"
        init = f"def __init__(self{given}):\n" + _indented(body)
        shared = [self._class_statement()] if self._maybe(0.1) else []
        return f"class {name}({base}):\n" + _indented([*shared, init, *methods])

    def _builder(self, base: str, methods: list[str]) -> list[str]:
        """A method that subclasses replace or extend."""
        before = dict(self._names.known)
        self._names.known = dict(self._globals)
        lines = self._block(2, methods, 1)
        self._names.known = before
        if base in self._builders and self._maybe(0.5):
            lines.insert(0, "super().build()")
        methods.append("def build(self):\n" + _indented(lines))
        return [] if base in self._builders else ["self.build()"]

    def _class_statement(self) -> str:
        value = self._random.choice((self._tensor, self._layer, self._number, self._container))()
        return f"shared = {value}"

    def _holder(self) -> str:
        self._names = _Names(dict(self._globals))
        lines = [f"self.{name} = {self._anything()}" for name in ("one", "two")]
        self._holders.append("Holder()")
        return "class Holder:\n    def __init__(self):\n" + _indented(lines, 2)

    def _function(self) -> str:
        self._names = _Names()
        kind, value = self._random.choice(
            (("layer", self._layer), ("tensor", self._tensor), ("list of layer", self._layers))
        )
        self._helpers.append(kind)
        made = value()
        return f"def made():\n    result = {made}\n    return result"

    def _uses(self) -> list[str]:
        lines = []
        for name, kind in self._names.known.items():
            if name.startswith("self.") and self._maybe(0.5):
                lines += {
                    "tensor": [f"x = x + {name}" if self._maybe(0.7) else f"x = x * {name}.to(x.device)"],
                    "layer": [f"x = {name}(x)"],
                    "list of layer": [f"for layer in {name}:\n    x = layer(x)"],
                    "list of tensor": [f"for one in {name}:\n    x = x + one"],
                }.get(kind, [])
        return lines

    # Statements

    def _block(self, count: int, methods: list[str], depth: int = 0) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines += self._statement(methods, depth)
        return lines or ["pass"]

    def _statement(self, methods: list[str], depth: int) -> list[str]:
        kinds: list[tuple[float, Callable[[], list[str]]]] = [
            (8, self._assignment),
            (3, self._local),
            (2, self._registration),
            (3, self._growth),
            (1, self._unpacking),
            (1, self._setattr),
            (1, self._change),
            (1, self._on_layer),
            (1, self._dictionary),
            (0.5, self._filled),
        ]
        if depth < 2:
            kinds += [
                (1, lambda: self._branch(methods, depth)),
                (1, lambda: self._loop(methods, depth)),
                (1, lambda: self._guarded(methods, depth)),
            ]
        if depth == 0:
            kinds += [(1, lambda: self._helper(methods)), (0.5, lambda: self._maker(methods))]
        weights = [weight for weight, _ in kinds]
        (chosen,) = self._random.choices([make for _, make in kinds], weights)
        return chosen()

    def _assignment(self) -> list[str]:
        name = self._attribute()
        kind, value = self._kinded()
        self._names.known[name] = kind
        if self._maybe(0.05):
            other = self._attribute()
            self._names.known[other] = kind
            return [f"{name} = {other} = {value}"]
        return [f"{name}: object = {value}" if self._maybe(0.05) else f"{name} = {value}"]

    def _local(self) -> list[str]:
        kind, value = self._kinded()
        self._numbers += 1
        name = f"v{self._numbers}"
        self._names.known[name] = kind
        return [f"{name} = {value}"]

    def _registration(self) -> list[str]:
        name = self._attribute(fresh=True)
        attribute = name.removeprefix("self.")
        tensor, layer = self._tensor(), self._layer()
        lists = self._names.of("list of layer")
        if lists and not self._in_branch and self._maybe(0.4):  # registered now and then counts as registered
            held = self._random.choice(lists)
            wrapped = self._random.choice(
                (
                    f"{name} = nn.ModuleList({held})",
                    f"{name} = nn.Sequential(*{held})",
                    f"for i, layer in enumerate({held}):\n    self.add_module(f'{attribute}_{{i}}', layer)",
                    f"for i, layer in enumerate({held}):\n    setattr(self, f'{attribute}_{{i}}', layer)",
                    *([f"register(self, {held})"] if self._registers else []),
                )
            )
            return [wrapped]
        line, kind = self._random.choice(
            (
                (f"self.register_buffer('{attribute}', {tensor})", "tensor"),
                (f"self.register_buffer('{attribute}', {tensor}, persistent=False)", "tensor"),
                (f"{name} = nn.Buffer({tensor})", "tensor"),
                (f"self.register_parameter('{attribute}', {self._parameter()})", "parameter"),
                (f"self.add_module('{attribute}', {layer})", "layer"),
                (f"self.register_module('{attribute}', {layer})", "layer"),
                (f"{name} = nn.ModuleList([{layer}, {layer}])", "other"),
                (f"{name} = nn.ModuleDict({{'a': {layer}}})", "other"),
                (f"{name} = nn.ParameterList([{self._parameter()}])", "other"),
                (f"{name} = nn.ParameterDict({{'a': {self._parameter()}}})", "other"),
                (f"{name} = nn.Sequential({layer}, {layer})", "layer"),
            )
        )
        self._names.known[name] = kind
        return [line]

    def _growth(self) -> list[str]:
        kinds = ("tensor", "layer", "parameter")
        holders = [(name, kind) for kind in kinds for name in self._names.of(f"list of {kind}")]
        if not holders or self._maybe(0.3):
            name = self._attribute(fresh=True) if self._maybe(0.6) else self._new_local()
            kind = self._random.choice(kinds)
            self._names.known[name] = f"list of {kind}"
            return [f"{name} = []", *self._grown(name, kind)]
        name, kind = self._random.choice(holders)
        return self._grown(name, kind)

    def _grown(self, name: str, kind: str) -> list[str]:
        value = {"tensor": self._tensor, "layer": self._layer, "parameter": self._parameter}[kind]()
        how = self._random.choice(
            (
                "{0}.append({1})",
                "{0}.extend([{1}])",
                "{0}.insert(0, {1})",
                "{0} += [{1}]",
                "{0}[:0] = [{1}]",
                "for _ in range(2):\n    {0}.append({1})",
                "{0} = {0} + [{1}]",
                "{0}.extend({1} for _ in range(2))",
                "try:\n    {0}.append({1})\nexcept ValueError:\n    pass",
                "while True:\n    {0}.append({1})\n    break",
            )
        )
        return [how.format(name, value)]

    def _dictionary(self) -> list[str]:
        name = self._attribute(fresh=True)
        value = self._random.choice((self._tensor, self._layer, self._parameter, self._number))()
        how = self._random.choice(
            (
                "{0}['a'] = {1}",
                "{0}.update(a={1})",
                "{0}.update({{'a': {1}}})",
                "{0}.setdefault('a', {1})",
                "for key in 'ab':\n    {0}[key] = {1}",
                "{0} |= {{'a': {1}}}",
                "{0}['a'] = {0}['b'] = {1}",
            )
        )
        made = self._random.choice(("{}", "dict()", "collections.OrderedDict()", "collections.defaultdict(list)"))
        return [f"{name} = {made}", how.format(name, value)]

    def _filled(self) -> list[str]:
        """A registered container, and what goes into it later."""
        name = self._attribute(fresh=True)
        layer, parameter = self._layer(), self._parameter()
        made, filled = self._random.choice(
            (
                ("nn.ModuleList()", f"{name}.append({layer})"),
                ("nn.ModuleList()", f"{name}.extend([{layer}])"),
                ("nn.ModuleList()", f"{name} += [{layer}]"),
                ("nn.ModuleDict()", f"{name}['a'] = {layer}"),
                ("nn.ModuleDict()", f"{name}.update({{'a': {layer}}})"),
                ("nn.Sequential()", f"{name}.append({layer})"),
                ("nn.Sequential()", f"{name}.add_module('a', {layer})"),
                ("nn.ParameterList()", f"{name}.append({parameter})"),
                ("nn.ParameterDict()", f"{name}['a'] = {parameter}"),
            )
        )
        if self._maybe(0.3):
            local = self._new_local()
            return [f"{local} = {made}", filled.replace(name, local), f"{name} = {local}"]
        return [f"{name} = {made}", filled]

    def _unpacking(self) -> list[str]:
        one, other = self._attribute(fresh=True), self._attribute(fresh=True)
        first, left = self._kinded()
        second, right = self._kinded()
        self._names.known[one], self._names.known[other] = first, second
        return [f"{one}, {other} = {left}, {right}" if self._maybe(0.6) else f"{one}, {other} = ({left}, {right})"]

    def _setattr(self) -> list[str]:
        name = self._attribute(fresh=True)
        attribute = name.removeprefix("self.")
        kind, value = self._kinded()
        if self._maybe(0.5):
            return [f"for i in range(2):\n    setattr(self, f'{attribute}_{{i}}', {value})"]
        self._names.known[name] = kind
        return [f"setattr(self, '{attribute}', {value})"]

    def _change(self) -> list[str]:
        tensors = [name for name in self._names.of("tensor") if name.startswith("self.")]
        others = [name for name in self._names.known if name.startswith("self.")]
        if not others:
            return []
        if tensors and self._maybe(0.5):
            name = self._random.choice(tensors)
            how = self._random.choice(
                (
                    "{0} = {0} + 1",
                    "{0} += 1",
                    "{0} = {0}.to('cpu')",
                    "{0} = {0}.sum().item()",
                    "{0} = nn.Parameter({0}.float())",
                    "{0}.requires_grad_(False)",
                )
            )
            return [how.format(name)]
        name = self._random.choice(others)
        if self._maybe(0.5):
            if self._names.known[name] in {"layer", "parameter"}:  # a list may hold it still
                return []
            self._names.known.pop(name)
            return [f"del {name}"]
        kind, value = self._kinded()
        self._names.known[name] = kind
        return [f"{name} = {value}"]

    def _on_layer(self) -> list[str]:
        layers = [name for name in self._names.of("layer") if name.startswith("self.")]
        if not layers:
            return []
        self._numbers += 1
        value = self._random.choice((self._tensor, self._layer, self._parameter, self._number))()
        return [f"{self._random.choice(layers)}.extra{self._numbers} = {value}"]

    def _branch(self, methods: list[str], depth: int) -> list[str]:
        if self._choices >= MOST_CHOICES:
            return []
        test = self._choice()
        before, outside = dict(self._names.known), self._in_branch
        self._in_branch = True
        lines = [f"if {test}:\n" + _indented(self._block(self._random.randint(1, 2), methods, depth + 1))]
        self._names.known = dict(before)
        if self._maybe(0.6):
            lines.append("else:\n" + _indented(self._block(self._random.randint(1, 2), methods, depth + 1)))
        self._names.known, self._in_branch = before, outside
        return ["\n".join(lines)]

    def _loop(self, methods: list[str], depth: int) -> list[str]:
        before = dict(self._names.known)
        lines = self._block(self._random.randint(1, 2), methods, depth + 1)
        self._names.known = before
        return [f"for i in range({self._random.choice((1, 2))}):\n" + _indented(lines)]

    def _guarded(self, methods: list[str], depth: int) -> list[str]:
        lines = self._block(self._random.randint(1, 2), methods, depth + 1)
        return ["with torch.no_grad():\n" + _indented(lines)]

    def _helper(self, methods: list[str]) -> list[str]:
        self._numbers += 1
        name = f"build{self._numbers}"
        outside = {known: kind for known, kind in self._names.known.items() if not known.startswith("self.")}
        for known in outside:
            self._names.known.pop(known)
        methods.append(f"def {name}(self):\n" + _indented(self._block(self._random.randint(1, 3), methods, 1)))
        for known in self._names.of(*set(self._names.known.values())):
            if not known.startswith("self."):
                self._names.known.pop(known)
        self._names.known.update(outside)
        return [f"self.{name}()"]

    def _maker(self, methods: list[str]) -> list[str]:
        self._numbers += 1
        name = f"make{self._numbers}"
        before = self._names.known
        self._names.known = dict(self._globals)
        kind, value = self._kinded()
        other, second = self._kinded()
        self._names.known = before
        target = self._attribute(fresh=True)
        self._names.known[target] = kind
        if self._maybe(0.3):
            methods.append(f"def {name}(self):\n    return {value}, {second}")
            left = self._attribute(fresh=True)
            self._names.known[left] = other
            return [f"{target}, {left} = self.{name}()"]
        static = self._maybe(0.3)
        methods.append(
            f"@staticmethod\ndef {name}():\n    return {value}" if static else f"def {name}(self):\n    return {value}"
        )
        return [f"{target} = self.{name}()"]

    # Expressions

    def _kinded(self) -> tuple[str, str]:
        """An expression and its kind."""
        kinds: list[tuple[float, str, Callable[[], str]]] = [
            (4, "tensor", self._tensor),
            (2, "parameter", self._parameter),
            (2, "other", self._computed),
            (3, "layer", self._layer),
            (2, "list of layer", self._layers),
            (1, "list of tensor", lambda: f"[{self._tensor()}, {self._tensor()}]"),
            (1, "list of parameter", lambda: f"[{self._parameter()}]"),
            (3, "other", self._container),
            (2, "other", self._number),
            (1, "other", self._function_value),
        ]
        if self._holders:
            kinds.append((1, "other", lambda: self._random.choice(self._holders)))
        kinds += [(1, helper, lambda: "made()") for helper in self._helpers]
        if self._choices < MOST_CHOICES:
            kinds.append((0.5, "other", self._conditional))
        ((_, kind, make),) = self._random.choices(kinds, [weight for weight, _, _ in kinds])
        return kind, make()

    def _anything(self) -> str:
        return self._kinded()[1]

    def _tensor(self) -> str:
        known = self._names.of("tensor")
        if known and self._maybe(0.3):
            return self._random.choice(known)
        parameters = self._names.of("parameter")
        if parameters and self._maybe(0.1):
            return self._random.choice(("({} + 1)", "{}.detach()", "{}.data", "{}.detach().clone()")).format(
                self._random.choice(parameters)
            )
        if self._maybe(0.3):
            return self._random.choice(_DERIVED).format(self._tensor())
        return self._random.choice(_TENSORS)

    def _parameter(self) -> str:
        known = self._registrable("parameter")
        if known and self._maybe(0.2):
            return self._random.choice(known)
        data = f"{self._tensor()}.detach().float()" if self._maybe(0.4) else self._random.choice(_TENSORS[:3])
        return f"nn.Parameter({data})" if self._maybe(0.8) else f"nn.Parameter({data}, requires_grad=False)"

    def _computed(self) -> str:
        how = ("{} * 2", "{}.to('cpu')", "{}.cuda()", "{}.unsqueeze(0)", "{}.float()", "{}.data", "{}.detach()", "-{}")
        return self._random.choice(how).format(self._parameter())

    def _layer(self) -> str:
        known = self._registrable("layer")
        if known and self._maybe(0.2):
            return self._random.choice(known)
        if self._modules and self._maybe(0.3):
            return self._calls[self._random.choice(self._modules)]()
        if known and self._maybe(0.1):
            return f"copy.deepcopy({self._random.choice(known)})"
        return self._random.choice(_STATEFUL if self._maybe(0.7) else _STATELESS)

    def _layers(self) -> str:
        layer, other = self._layer(), self._layer()
        known = self._registrable("list of layer")
        if known and self._maybe(0.15):
            held = self._random.choice(known)
            return self._random.choice(("{}", "list({})", "[layer for layer in {}]", "{}[:1]")).format(held)
        return self._random.choice(
            (f"[{layer}, {other}]", f"[{layer} for _ in range(2)]", f"[{layer}]", f"[{layer}] + [{other}]")
        )

    def _container(self) -> str:
        items = [self._random.choice((self._tensor, self._layer, self._parameter, self._number))() for _ in range(2)]
        return self._random.choice(_CONTAINERS).format(*items)

    def _number(self) -> str:
        tensors = self._names.of("tensor")
        if tensors and self._maybe(0.3):
            how = ("{}.shape", "{}.sum().item()", "{}.dtype", "{}.detach().tolist()", "len({}.flatten())", "{}.device")
            return self._random.choice(how).format(self._random.choice(tensors))
        return self._random.choice(_NUMBERS)

    def _function_value(self) -> str:
        return self._random.choice(
            (
                f"functools.partial(torch.add, {self._tensor()})",
                f"functools.partial(F.linear, weight={self._parameter()})",
                "functools.partial(nn.Linear, 3)",
                f"functools.partial({self._layer()})",
                f"torch.distributions.Normal({self._random.choice(_TENSORS[:3])}, torch.ones(3))",
                "torch.distributions.Bernoulli(0.5)",
                *(f"lambda x: {name}(x)" for name in self._names.of("layer")[:2]),
                *(f"lambda x: x + {name}" for name in self._names.of("tensor")[:2]),
            )
        )

    def _conditional(self) -> str:
        test = self._choice()
        outside, self._in_branch = self._in_branch, True
        one, other = self._anything(), self._anything()
        self._in_branch = outside
        return f"{one} if {test} else {other}"

    # Helpers

    def _registrable(self, kind: str) -> list[str]:
        """The names of this kind that may be registered here: what is registered in a branch only counts as
        registered, so there nothing from outside is."""
        return [] if self._in_branch else self._names.of(kind)

    def _choice(self) -> str:
        self._choices += 1
        return f"chance({self._choices - 1})"

    def _attribute(self, fresh: bool = False) -> str:
        replaceable = [name for name, kind in self._names.known.items() if kind not in {"layer", "parameter"}]
        known = [name for name in replaceable if name.startswith("self.")]  # a list may hold the others still
        if known and not fresh and self._maybe(0.12):
            return self._random.choice(known)
        self._numbers += 1
        return f"self.a{self._numbers}"

    def _new_local(self) -> str:
        self._numbers += 1
        return f"v{self._numbers}"

    def _maybe(self, probability: float) -> bool:
        return self._random.random() < probability


def _indented(lines: list[str], depth: int = 1) -> str:
    indent = "    " * depth
    return "\n".join(indent + line for part in lines for line in part.split("\n")) + "\n"
