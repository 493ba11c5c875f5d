"""What a value is, and what happens to it on its way into an attribute."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked, module, script, the_finding

ADDS = "return x + self.t"
CHAINS = """
for layer in self.layers:
    x = layer(x)
return x
"""

ACTIVATIONS = [
    *("ReLU", "Tanh", "GELU", "ELU", "SELU", "CELU", "Sigmoid", "SiLU", "Mish"),
    *("Softplus", "Softsign", "Hardtanh", "ReLU6", "PReLU"),
]
"""The last one is the only one with a parameter."""

TENSORS = {
    "local": module("t = torch.ones(size)\nself.t = t  # error: unregistered-tensor", ADDS),
    "local is registered": module("t = torch.ones(size)\nself.register_buffer('t', t)", ADDS),
    "number": module("t = torch.ones(size).sum().item()\nself.t = t", ADDS),
    "shape": module("self.t = torch.ones(size).shape[0]", ADDS),
    "numpy array": module("self.t = torch.ones(size).numpy()", ADDS),
    "annotated": module("self.t: torch.Tensor = torch.ones(size)  # error: unregistered-tensor", ADDS),
    "chained targets": module("t = self.t = torch.ones(size)  # error: unregistered-tensor", ADDS),
    "unpacked": module(
        "self.s, self.t = torch.ones(size).chunk(2)  # error: unregistered-tensor  # error: unregistered-tensor",
        "return x + self.t * self.s",
    ),
    "swapped names": module(
        "a, b = torch.ones(size), 3\na, b = b, a\nself.a = a\nself.b = b  # error: unregistered-tensor",
        "return x * self.a + self.b",
    ),
    "augmented": module("t = torch.ones(size)\nt *= 2\nself.t = t  # error: unregistered-tensor", ADDS),
    "shape unpacked": module("rows, columns = torch.ones(size, 2).shape\nself.t = rows * columns", ADDS),
    "string": module("self.name = 'a' + str(torch.ones(1))"),
    "length": module("self.t = len(torch.ones(size))", ADDS),
}

CALLS = {
    "helper method": module(
        "self.t = self.make(size)  # error: unregistered-tensor",
        ADDS,
        methods="def make(self, n):\n    return torch.ones(n)\n",
    ),
    "helper method gives a number": module(
        "self.t = self.make(size)", ADDS, methods="def make(self, n):\n    return torch.ones(n).sum().item()\n"
    ),
    "static method": module(
        "self.t = self.make(size)  # error: unregistered-tensor",
        ADDS,
        methods="@staticmethod\ndef make(n):\n    return torch.ones(n)\n",
    ),
    "static method through the class": module(
        "self.t = Net.make(size)  # error: unregistered-tensor",
        ADDS,
        methods="@staticmethod\ndef make(n):\n    return torch.ones(n)\n",
    ),
    "class method": module(
        "self.t = self.make(size)  # error: unregistered-tensor",
        ADDS,
        methods="@classmethod\ndef make(cls, n):\n    return torch.ones(n)\n",
    ),
    "function defined below": script("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = make(4)  # error: unregistered-tensor
            def forward(self, x):
                return x + self.t
        def make(n, *, scale=2.0):
            return torch.ones(n) * scale
    """),
    "function that returns what it gets": module(
        "self.n = same(size)\nself.t = same(torch.ones(size))  # error: unregistered-tensor",
        "return x * self.n + self.t",
        before="def same(v):\n    return v\n",
    ),
    "keyword argument": module(
        "self.t = make(fill=torch.ones(size), n=3)  # error: unregistered-tensor",
        ADDS,
        before="def make(n, fill):\n    return fill * n\n",
    ),
    "starred arguments": module(
        "self.t = make(*(3, torch.ones(size)))  # error: unregistered-tensor",
        ADDS,
        before="def make(n, fill):\n    return fill * n\n",
    ),
    "double-starred arguments": module(
        "given = dict(n=3, fill=torch.ones(size))\nself.t = make(**given)  # error: unregistered-tensor",
        ADDS,
        before="def make(n, fill):\n    return fill * n\n",
    ),
    "inner function": module(
        "def make():\n    return torch.ones(size)\nself.t = make()  # error: unregistered-tensor", ADDS
    ),
    "inner function reads an outer name": module(
        "base = torch.ones(size)\ndef make():\n    return base * 2\nself.t = make()  # error: unregistered-tensor", ADDS
    ),
    "lambda": module("make = lambda n: torch.ones(n)\nself.t = make(size)  # error: unregistered-tensor", ADDS),
    "partial": module(
        "make = partial(torch.full, (size,))\nself.t = make(2.0)  # error: unregistered-tensor",
        ADDS,
        before="from functools import partial\n",
    ),
    "several return values": module(
        "self.low, self.high = make(size)  # error: unregistered-tensor  # error: unregistered-tensor",
        "return x.clamp(self.low, self.high)",
        before="def make(n):\n    return torch.zeros(n), torch.ones(n)\n",
    ),
    "one tensor among the return values": module(
        "self.n, self.t = make(size)  # error: unregistered-tensor",
        "return x * self.n + self.t",
        before="def make(n):\n    return n + 1, torch.ones(n)\n",
    ),
    "early return": module(
        "self.t = make(size)  # expect: unregistered-tensor",
        ADDS,
        before="def make(n):\n    if n > 3:\n        return torch.ones(n)\n    return torch.zeros(n)\n",
    ),
    "early return of a number": module(
        "self.t = make(size)",
        ADDS,
        before="def make(n):\n    if n > 3:\n        return 1.0\n    return 2.0\n    return torch.ones(n)\n",
    ),
    "generator": module(
        "self.layers = list(make(count))  # error: unregistered-module",
        CHAINS,
        before="def make(n):\n    for _ in range(n):\n        yield nn.Linear(4, 4)\n",
    ),
    "generator into a ModuleList": module(
        "self.layers = nn.ModuleList(make(count))",
        CHAINS,
        before="def make(n):\n    for _ in range(n):\n        yield nn.Linear(4, 4)\n",
    ),
    "generator that delegates": module(
        "self.layers = [*make(count)]  # error: unregistered-module",
        CHAINS,
        before="def one():\n    yield nn.Linear(4, 4)\ndef make(n):\n    yield from one()\n",
    ),
    "property": module(
        "self.t = self.table  # error: unregistered-tensor",
        ADDS,
        methods="@property\ndef table(self):\n    return torch.ones(4)\n",
    ),
    "property of a buffer": module(
        "self.register_buffer('t', torch.ones(size))",
        "return x + self.table",
        methods="@property\ndef table(self):\n    return self.t * 2\n",
    ),
    "property reads a stray": module(
        "self.t = torch.ones(size)  # error: unregistered-tensor",
        "return x + self.table",
        methods="@property\ndef table(self):\n    return self.t * 2\n",
    ),
    "setter": module(
        "self.table = size",
        "return x + self.t",
        methods="""
            @property
            def table(self):
                return self.t
            @table.setter
            def table(self, n):
                self.t = torch.ones(n)  # error: unregistered-tensor
        """,
    ),
    "setter that registers": module(
        "self.table = torch.ones(size)",
        "return x + self.t",
        methods="""
            @property
            def table(self):
                return self.t
            @table.setter
            def table(self, value):
                self.register_buffer("t", value)
        """,
    ),
    "parent's helper": script("""
        class Base(nn.Module):
            def make(self, n):
                return torch.ones(n)
            def forward(self, x):
                return x + self.t
        class Net(Base):
            def __init__(self):
                super().__init__()
                self.t = super().make(4)  # error: unregistered-tensor
    """),
    "overridden helper": script("""
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = self.make(4)
            def make(self, n):
                return n
            def forward(self, x):
                return x + self.t
        class Other(Base):
            def make(self, n):
                return n + 1
    """),
    "default argument": module(
        "self.t = self.make()  # error: unregistered-tensor",
        ADDS,
        methods="def make(self, n=3):\n    return torch.ones(n)\n",
    ),
    "layer class handed on": module(
        "self.layers = build(nn.Linear, count)  # error: unregistered-module",
        CHAINS,
        before="def build(kind, n):\n    return [kind(4, 4) for _ in range(n)]\n",
    ),
    "stateless class handed on": module(
        "self.layers = build(nn.ReLU, count)",
        CHAINS,
        before="def build(kind, n):\n    return [kind() for _ in range(n)]\n",
    ),
}

HELD = {
    "lambda captures a layer": module(
        "fc = nn.Linear(size, size)\nself.call = lambda x: fc(x)  # expect: unregistered-module",
        "return self.call(x)",
    ),
    "lambda uses self": module(
        "self.fc = nn.Linear(size, size)\nself.call = lambda x: self.fc(x)", "return self.call(x)"
    ),
    "inner function captures a layer": module(
        "fc = nn.Linear(size, size)\ndef call(x):\n    return fc(x)\nself.call = call  # expect: unregistered-module",
        "return self.call(x)",
    ),
    "inner function captures a number": module(
        "n = size * 2\ndef call(x):\n    return x * n\nself.call = call", "return self.call(x)"
    ),
    "partial over a layer": module(
        "self.call = partial(F.linear, weight=nn.Linear(size, size))  # expect: unregistered-module",
        "return self.call(x)",
        before="from functools import partial\n",
    ),
    "partial over a number": module(
        "self.call = partial(F.dropout, p=0.5)", "return self.call(x)", before="from functools import partial\n"
    ),
    "bound method of a layer": module(
        "self.call = nn.Linear(size, size).forward  # expect: unregistered-module", "return self.call(x)"
    ),
    "dataclass": module(
        "self.pair = Pair(nn.Linear(size, size), 2)  # expect: unregistered-module",
        "return self.pair.layer(x) * self.pair.scale",
        before="""
            from dataclasses import dataclass
            @dataclass
            class Pair:
                layer: nn.Module
                scale: float
        """,
    ),
    "dataclass of numbers": module(
        "self.pair = Pair(size, 2)",
        "return x * self.pair.scale",
        before="""
            from dataclasses import dataclass
            @dataclass
            class Pair:
                width: int
                scale: float
        """,
    ),
    "namedtuple": module(
        "self.pair = Pair(nn.Linear(size, size), nn.ReLU())  # expect: unregistered-module",
        "return self.pair.act(self.pair.layer(x))",
        before="from collections import namedtuple\nPair = namedtuple('Pair', 'layer act')\n",
    ),
    "namedtuple of numbers": module(
        "self.pair = Pair(size, 2)",
        "return x * self.pair.scale",
        before="from collections import namedtuple\nPair = namedtuple('Pair', ['width', 'scale'])\n",
    ),
    "typed named tuple": module(
        "self.pair = Pair(nn.Linear(size, size), 2)  # expect: unregistered-module",
        "return self.pair.layer(x)",
        before="""
            from typing import NamedTuple
            class Pair(NamedTuple):
                layer: nn.Module
                scale: float
        """,
    ),
    "simple namespace": module(
        "self.hidden = SimpleNamespace(layer=nn.Linear(size, size))  # expect: unregistered-module",
        "return self.hidden.layer(x)",
        before="from types import SimpleNamespace\n",
    ),
    "simple namespace of numbers": module(
        "self.hidden = SimpleNamespace(width=size)",
        "return x * self.hidden.width",
        before="from types import SimpleNamespace\n",
    ),
    "helper object": module(
        "self.helper = Helper(size)  # error: unregistered-tensor",
        "return x + self.helper.table",
        before="class Helper:\n    def __init__(self, n):\n        self.table = torch.ones(n)\n",
    ),
    "helper object of numbers": module(
        "self.helper = Helper(size)",
        "return x + self.helper.table",
        before="class Helper:\n    def __init__(self, n):\n        self.table = [1.0] * n\n",
    ),
    "helper object makes its tensor on demand": module(
        "self.helper = Helper(size)",
        "return x + self.helper.table(x)",
        before="class Helper:\n    def __init__(self, n):\n        self.n = n\n"
        "    def table(self, x):\n        return torch.ones(self.n, device=x.device)\n",
    ),
    "helper object that is callable": module(
        "self.helper = Helper(size)  # error: unregistered-tensor",
        "return self.helper(x)",
        before="class Helper:\n    def __init__(self, n):\n        self.table = torch.ones(n)\n"
        "    def __call__(self, x):\n        return x + self.table\n",
    ),
    "attribute put on a helper object": module(
        "helper = Helper()\nhelper.layer = nn.Linear(size, size)\nself.helper = helper  # expect: unregistered-module",
        "return self.helper.layer(x)",
        before="class Helper:\n    pass\n",
    ),
    "distribution of tensors": module(
        "self.prior = torch.distributions.Normal(torch.zeros(size), torch.ones(size))  # error: unregistered-tensor",
        "return self.prior.log_prob(x)",
    ),
    "distribution made in forward": module(
        "self.n = size", "return torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x)).log_prob(x)"
    ),
}

CONTAINERS = {
    "list literal": module("self.layers = [nn.Linear(4, 4), nn.ReLU()]  # error: unregistered-module", CHAINS),
    "list of stateless layers": module("self.layers = [nn.ReLU(), nn.Tanh()]", CHAINS),
    "list of a dropout": module("self.layers = [nn.Dropout(0.1)]  # expect: unregistered-module", CHAINS),
    "tuple literal": module("self.layers = nn.Linear(4, 4), nn.ReLU()  # error: unregistered-module", CHAINS),
    "set": module("self.layers = {nn.Linear(4, 4)}  # expect: unregistered-module", CHAINS),
    "dict literal": module(
        "self.heads = {'a': nn.Linear(4, 4)}  # error: unregistered-module", "return self.heads['a'](x)"
    ),
    "dict of functions": module("self.heads = {'a': F.relu, 'b': torch.tanh}", "return self.heads['a'](x)"),
    "dict call": module(
        "self.heads = dict(a=nn.Linear(4, 4))  # error: unregistered-module", "return self.heads['a'](x)"
    ),
    "dict comprehension": module(
        "self.heads = {n: nn.Linear(4, 4) for n in 'ab'}  # error: unregistered-module", "return self.heads['a'](x)"
    ),
    "OrderedDict of pairs": module(
        "self.heads = OrderedDict([('a', nn.Linear(4, 4))])  # expect: unregistered-module",
        "return self.heads['a'](x)",
        before="from collections import OrderedDict\n",
    ),
    "OrderedDict into Sequential": module(
        "self.body = nn.Sequential(OrderedDict([('a', nn.Linear(4, 4))]))",
        "return self.body(x)",
        before="from collections import OrderedDict\n",
    ),
    "comprehension": module(
        "self.layers = [nn.Linear(4, 4) for _ in range(count)]  # error: unregistered-module", CHAINS
    ),
    "comprehension in a ModuleList": module(
        "self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(count)])", CHAINS
    ),
    "nested comprehension": module(
        "self.layers = [[nn.Linear(4, 4) for _ in range(2)] for _ in range(count)]  # error: unregistered-module",
        "for group in self.layers:\n    x = group[0](x)\nreturn x",
    ),
    "append": module("self.layers = []  # error: unregistered-module\nself.layers.append(nn.Linear(4, 4))", CHAINS),
    "append of numbers": module("self.sizes = []\nself.sizes.append(size)"),
    "append in a loop": module(
        "self.layers = []  # error: unregistered-module\nfor _ in range(count):\n"
        "    self.layers.append(nn.Linear(4, 4))",
        CHAINS,
    ),
    "append to a local": module(
        "layers = []\nlayers.append(nn.Linear(4, 4))\nself.layers = layers  # error: unregistered-module", CHAINS
    ),
    "append to a local for Sequential": module(
        "layers = []\nlayers.append(nn.Linear(4, 4))\nself.body = nn.Sequential(*layers)", "return self.body(x)"
    ),
    "append to a local after it was kept": module(
        "layers = []\nself.layers = layers  # error: unregistered-module\nlayers.append(nn.Linear(4, 4))", CHAINS
    ),
    "append by a bound method": module(
        "self.layers = []  # error: unregistered-module\nadd = self.layers.append\nadd(nn.Linear(4, 4))", CHAINS
    ),
    "extend": module(
        "self.layers = []  # error: unregistered-module\nself.layers.extend([nn.Linear(4, 4), nn.ReLU()])", CHAINS
    ),
    "insert": module(
        "self.layers = [nn.ReLU()]  # error: unregistered-module\nself.layers.insert(0, nn.Linear(4, 4))", CHAINS
    ),
    "plus-equals": module("self.layers = []  # error: unregistered-module\nself.layers += [nn.Linear(4, 4)]", CHAINS),
    "plus-equals of a ModuleList": module("self.layers = nn.ModuleList()\nself.layers += [nn.Linear(4, 4)]", CHAINS),
    "sum of lists": module("self.layers = [nn.Linear(4, 4)] + [nn.ReLU()]  # error: unregistered-module", CHAINS),
    "sum of many lists": module(
        "groups = [[nn.Linear(4, 4)] for _ in range(count)]\n"
        "self.layers = sum(groups, [])  # error: unregistered-module",
        CHAINS,
    ),
    "multiplied": module("self.layers = [nn.Linear(4, 4)] * count  # error: unregistered-module", CHAINS),
    "multiplied from the left": module("self.layers = count * [nn.Linear(4, 4)]  # error: unregistered-module", CHAINS),
    "multiplied placeholder filled": module(
        "self.layers = [None] * count  # error: unregistered-module\n"
        "for i in range(count):\n    self.layers[i] = nn.Linear(4, 4)",
        CHAINS,
    ),
    "multiplied numbers": module("self.sizes = [0] * count\nfor i in range(count):\n    self.sizes[i] = size"),
    "item assignment": module(
        "self.heads = {}  # error: unregistered-module\nfor n in 'ab':\n    self.heads[n] = nn.Linear(4, 4)",
        "return self.heads['a'](x)",
    ),
    "item assignment of a ModuleDict": module(
        "self.heads = nn.ModuleDict()\nfor n in 'ab':\n    self.heads[n] = nn.Linear(4, 4)", "return self.heads['a'](x)"
    ),
    "item assignment of a ParameterDict": module(
        "self.heads = nn.ParameterDict()\nself.heads['a'] = nn.Parameter(torch.ones(4))\nself.view = [self.heads['a']]",
        "return x * self.view[0]",
    ),
    "update": module(
        "self.heads = {}  # error: unregistered-module\nself.heads.update({'a': nn.Linear(4, 4)})",
        "return self.heads['a'](x)",
    ),
    "update with keywords": module(
        "self.heads = {}  # error: unregistered-module\nself.heads.update(a=nn.Linear(4, 4))",
        "return self.heads['a'](x)",
    ),
    "union": module(
        "heads = {'a': nn.Linear(4, 4)}\nself.heads = heads | {'b': nn.Tanh()}  # error: unregistered-module",
        "return self.heads['a'](x)",
    ),
    "union in place": module(
        "self.heads = {}  # error: unregistered-module\nself.heads |= {'a': nn.Linear(4, 4)}",
        "return self.heads['a'](x)",
    ),
    "merged literals": module(
        "first = {'a': nn.Linear(4, 4)}\nself.heads = {**first, 'b': nn.Tanh()}  # error: unregistered-module",
        "return self.heads['a'](x)",
    ),
    "setdefault": module(
        "self.heads = {}  # error: unregistered-module\nself.heads.setdefault('a', nn.Linear(4, 4))",
        "return self.heads['a'](x)",
    ),
    "defaultdict": module(
        "self.heads = defaultdict(list)  # expect: unregistered-module\nself.heads['a'].append(nn.Linear(4, 4))",
        "return self.heads['a'][0](x)",
        before="from collections import defaultdict\n",
    ),
    "deque": module(
        "self.layers = deque([nn.Linear(4, 4)], maxlen=3)  # expect: unregistered-module",
        CHAINS,
        before="from collections import deque\n",
    ),
    "deque of numbers": module("self.losses = deque(maxlen=3)", before="from collections import deque\n"),
    "zip": module(
        "first = [nn.Linear(4, 4)]\nsecond = [nn.ReLU()]\n"
        "self.layers = list(zip(first, second))  # error: unregistered-module",
        "for a, b in self.layers:\n    x = b(a(x))\nreturn x",
    ),
    "zip into a dict": module(
        "self.heads = dict(zip('ab', [nn.Linear(4, 4), nn.Linear(4, 4)]))  # expect: unregistered-module",
        "return self.heads['a'](x)",
    ),
    "enumerate": module(
        "self.heads = {}  # error: unregistered-module\n"
        "for i, layer in enumerate([nn.Linear(4, 4), nn.ReLU()]):\n    self.heads[i] = layer",
        "return self.heads[0](x)",
    ),
    "map": module(
        "self.layers = list(map(make, range(count)))  # error: unregistered-module",
        CHAINS,
        before="def make(n):\n    return nn.Linear(n, n)\n",
    ),
    "map into a ModuleList": module(
        "self.layers = nn.ModuleList(map(make, range(count)))",
        CHAINS,
        before="def make(n):\n    return nn.Linear(n, n)\n",
    ),
    "filter": module(
        "layers = [nn.Linear(4, 4), None]\nself.layers = list(filter(None, layers))  # error: unregistered-module",
        CHAINS,
    ),
    "reversed": module("self.layers = list(reversed([nn.Linear(4, 4)]))  # error: unregistered-module", CHAINS),
    "sorted": module("self.layers = sorted([nn.Linear(4, 4)], key=id)  # error: unregistered-module", CHAINS),
    "chain": module(
        "self.layers = list(itertools.chain([nn.Linear(4, 4)], [nn.ReLU()]))  # error: unregistered-module",
        CHAINS,
        before="import itertools\n",
    ),
    "chain from iterable": module(
        "groups = [[nn.Linear(4, 4)], [nn.ReLU()]]\n"
        "self.layers = list(itertools.chain.from_iterable(groups))  # error: unregistered-module",
        CHAINS,
        before="import itertools\n",
    ),
    "starred display": module(
        "first = [nn.Linear(4, 4)]\nself.layers = [*first, nn.ReLU()]  # error: unregistered-module", CHAINS
    ),
    "starred target": module(
        "first, *rest = [nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)]\nself.first = first\n"
        "self.layers = rest  # error: unregistered-module",
        CHAINS,
    ),
    "slice": module(
        "layers = [nn.Linear(4, 4) for _ in range(count)]\nself.first = layers[0]\n"
        "self.layers = layers[1:]  # error: unregistered-module",
        CHAINS,
    ),
    "slice of a registered list": module(
        "self.body = nn.ModuleList([nn.Linear(4, 4) for _ in range(count)])\nself.layers = list(self.body[1:])", CHAINS
    ),
    "slices of a free Sequential": module(
        "body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))\n"
        "self.layers = [body[:2], body[2:]]  # error: unregistered-module",
        CHAINS,
    ),
    "copy of a list": module(
        "layers = [nn.Linear(4, 4)]\nself.layers = layers.copy()  # error: unregistered-module", CHAINS
    ),
    "deep copies": module(
        "layer = nn.Linear(4, 4)\n"
        "self.layers = [copy.deepcopy(layer) for _ in range(count)]  # error: unregistered-module",
        CHAINS,
        before="import copy\n",
    ),
    "deep copies of an argument": script("""
        import copy
        class Net(nn.Module):
            def __init__(self, layer: nn.Module, count: int):
                super().__init__()
                self.layers = [copy.deepcopy(layer) for _ in range(count)]  # expect: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """),
    "popped": module(
        "layers = [nn.Linear(4, 4), nn.Linear(4, 4)]\nself.last = layers.pop()\nself.body = nn.Sequential(*layers)",
        "return self.last(self.body(x))",
    ),
    "list of tensors": module(
        "self.kernels = [torch.ones(size) for _ in range(count)]  # error: unregistered-tensor",
        "for kernel in self.kernels:\n    x = x * kernel\nreturn x",
    ),
    "list of numbers from a tensor": module(
        "self.rates = torch.linspace(0, 1, size).tolist()", "for rate in self.rates:\n    x = x * rate\nreturn x"
    ),
    "drop path rates": module(
        "self.rates = [r.item() for r in torch.linspace(0, 1, size)]",
        "for rate in self.rates:\n    x = x * rate\nreturn x",
    ),
    "dict of tensors": module(
        "self.tables = {}  # error: unregistered-tensor\nself.tables['a'] = torch.ones(size)",
        "return x + self.tables['a']",
    ),
    "values of a dict": module(
        "self.tables = {'a': torch.ones(size)}  # error: unregistered-tensor",
        "for table in self.tables.values():\n    x = x + table\nreturn x",
    ),
    "items of a dict": module(
        "self.tables = {'a': torch.ones(size)}  # error: unregistered-tensor",
        "for name, table in self.tables.items():\n    x = x + table\nreturn x",
    ),
    "items of a dict are moved": module(
        "self.tables = {'a': torch.ones(size)}  # hint: unregistered-tensor",
        "for name, table in self.tables.items():\n    x = x + table.to(x.device)\nreturn x",
    ),
    "list of parameters": module(
        "self.weights = [nn.Parameter(torch.ones(size)) for _ in range(count)]  # error: unregistered-parameter",
        "for weight in self.weights:\n    x = x * weight\nreturn x",
    ),
    "list of registered parameters": module(
        "self.a = nn.Parameter(torch.ones(size))\nself.weights = [self.a]", "return x * self.weights[0]"
    ),
    "dict of parameters": module(
        "self.weights = {'a': nn.Parameter(torch.ones(size))}  # error: unregistered-parameter",
        "return x * self.weights['a']",
    ),
    "parameters in a ParameterList": module(
        "self.weights = nn.ParameterList([nn.Parameter(torch.ones(size)) for _ in range(count)])",
        "for weight in self.weights:\n    x = x * weight\nreturn x",
    ),
    "list of layer and number": module(
        "self.layers = [(nn.Linear(4, 4), 0.5)]  # error: unregistered-module",
        "for layer, scale in self.layers:\n    x = layer(x) * scale\nreturn x",
    ),
    "list of classes": module("self.kinds = [nn.Linear, nn.ReLU]"),
    "list of strings": module("self.kinds = ['Linear', 'ReLU']"),
    "one-element list of an argument": script("""
        class Net(nn.Module):
            def __init__(self, parent: nn.Module):
                super().__init__()
                self.parent = [parent]
            def forward(self, x):
                return self.parent[0](x)
    """),
    "starred arguments": script("""
        class Net(nn.Module):
            def __init__(self, *layers: nn.Module):
                super().__init__()
                self.layers = layers  # expect: unregistered-module
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
    """),
}

WRAPPED = {
    "weight_norm": module(
        "self.layers = [nn.utils.weight_norm(nn.Linear(4, 4)) for _ in range(count)]  # error: unregistered-module",
        CHAINS,
    ),
    "spectral_norm of parametrizations": module(
        "self.layers = [spectral_norm(nn.Linear(4, 4))]  # error: unregistered-module",
        CHAINS,
        before="from torch.nn.utils.parametrizations import spectral_norm\n",
    ),
    "weight_norm of a registered layer": module(
        "self.fc = nn.utils.weight_norm(nn.Linear(4, 4))\nself.layers = [self.fc]", CHAINS
    ),
    "compiled": module("self.layers = [torch.compile(nn.Linear(4, 4))]  # error: unregistered-module", CHAINS),
    "scripted": module("self.layers = [torch.jit.script(nn.Linear(4, 4))]  # error: unregistered-module", CHAINS),
    "set to eval": module("self.layers = [nn.Linear(4, 4).eval()]  # error: unregistered-module", CHAINS),
    "frozen": module("self.layers = [nn.Linear(4, 4).requires_grad_(False)]  # error: unregistered-module", CHAINS),
    "moved": module("self.layers = [nn.Linear(4, 4).cuda()]  # expect: unregistered-module", CHAINS),
    "applied": module(
        "self.layers = [nn.Linear(4, 4).apply(reset)]  # error: unregistered-module",
        CHAINS,
        before="def reset(m):\n    pass\n",
    ),
    "class by default": script("""
        class Net(nn.Module):
            def __init__(self, kind=nn.Linear):
                super().__init__()
                self.layers = [kind(4, 4)]  # expect: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """),
    "stateless class by default": script("""
        class Net(nn.Module):
            def __init__(self, kind=nn.ReLU):
                super().__init__()
                self.layers = [kind()]
            def forward(self, x):
                return self.layers[0](x)
    """),
    "class in the keyword arguments": script("""
        class Net(nn.Module):
            def __init__(self, **options):
                super().__init__()
                self.layers = [options.get("kind", nn.Linear)(4, 4)]  # expect: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """),
    "class by its name": module(
        "self.layers = [getattr(nn, 'GRU')(4, 4)]  # error: unregistered-module", "return self.layers[0](x)"
    ),
    "class from a table": module(
        "self.layers = [KINDS['a'](4, 4)]  # expect: unregistered-module",
        CHAINS,
        before="KINDS = {'a': nn.Linear, 'b': nn.Bilinear}\n",
    ),
    "stateless class from a table": module(
        "self.layers = [KINDS['a']()]", CHAINS, before="KINDS = {'a': nn.ReLU, 'b': nn.Tanh}\n"
    ),
    "partial of a class": module(
        "make = partial(nn.Linear, 4)\nself.layers = [make(4) for _ in range(count)]  # error: unregistered-module",
        CHAINS,
        before="from functools import partial\n",
    ),
    "one of many": module(
        "self.layers = [make(size)]  # expect: unregistered-module",
        CHAINS,
        before="def make(kind):\n"
        + "".join(f"    if kind == {n}:\n        return nn.{name}()\n" for n, name in enumerate(ACTIVATIONS)),
    ),
    "starred attribute": module(
        "self.first, *self.layers = [nn.Linear(4, 4) for _ in range(count)]  # expect: unregistered-module", CHAINS
    ),
    "device of the keyword arguments": script("""
        class Net(nn.Module):
            def __init__(self, device=None, **options):
                super().__init__()
                self.device = device or options.get("device", "cpu")
                self.t = torch.ones(4, device=self.device)  # hint: unregistered-tensor
            def forward(self, x):
                return x + self.t
    """),
    "conversion of another class": module(
        "self.t = Frame(size).to('cuda')", "return x", before="from mine import Frame\n"
    ),
}


@pytest.mark.parametrize(
    "mark",
    ["", "  # hint: unregistered-tensor", "  # error: unregistered-module", "  # error: unregistered-tensor" * 2],
)
def test_wrong_marks_are_noticed(mark: str) -> None:
    with pytest.raises(AssertionError):
        assert_marked(module(f"self.t = torch.ones(size){mark}", ADDS))


@pytest.mark.parametrize("code", TENSORS.values(), ids=TENSORS)
def test_tensors(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", CALLS.values(), ids=CALLS)
def test_calls(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", HELD.values(), ids=HELD)
def test_what_objects_and_functions_hold(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", CONTAINERS.values(), ids=CONTAINERS)
def test_containers(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", WRAPPED.values(), ids=WRAPPED)
def test_layers_by_other_roads(code: str) -> None:
    assert_marked(code)


KEPT = {
    "zeros": ("torch.zeros(size)", True),
    "literal": ("torch.tensor([0.485, 0.456, 0.406])", True),
    "booleans": ("torch.ones(size, size, dtype=torch.bool).tril()", True),
    "integers": ("torch.arange(size)", True),
    "large integers": ("torch.tensor([100000, 200000])", True),
    "small range of floats": ("torch.linspace(0, 1, 10)", True),
    "scaled by a small number": ("torch.ones(size) * 2", True),
    "sine of anything": ("torch.arange(size).float().sin()", True),
    "compared": ("torch.arange(size) > 3", True),
    "floats of unknown size": ("torch.arange(size).float()", False),
    "large floats": ("torch.tensor([4096.5])", False),
    "integers read as floats": ("torch.arange(0, 5000, dtype=torch.float32)", False),
    "integers divided": ("torch.arange(size) / 3", False),
    "integers times a float": ("torch.arange(size) * 0.5", False),
    "large range of floats": ("torch.linspace(0, 1e4, 10)", False),
    "power": ("10000.0 ** torch.ones(size)", False),
    "exponential": ("torch.linspace(0, 200, 10).exp()", False),
    "square": ("torch.linspace(0, 100, 10).square()", False),
    "running sum": ("torch.ones(size).cumsum(0)", False),
    "complex": ("torch.ones(size, dtype=torch.complex64)", False),
    "complex by a function": ("torch.polar(torch.ones(size), torch.ones(size))", False),
    "complex by a view": ("torch.view_as_complex(torch.ones(size, 2))", False),
    "complex by a transform": ("torch.fft.fft(torch.ones(size))", False),
    "complex by a number": ("torch.ones(size) * 1j", False),
}
"""Constants, and whether a buffer of them may be made without asking: `.half()` converts it."""

NEW_KEYS = {
    "random": "torch.randn(size)",
    "random in place": "torch.empty(size).normal_()",
    "random by nn.init": "nn.init.xavier_uniform_(torch.empty(size, size))",
    "random in part": "torch.ones(size) + torch.rand(size)",
    "random permutation": "torch.randperm(size)",
    "bernoulli": "torch.bernoulli(torch.ones(size) * 0.5)",
    "from numpy": "torch.from_numpy(table)",
    "from data": "torch.tensor(table)",
    "from a file": "torch.as_tensor(open('table.txt').read().split())",
    "stacked random": "torch.stack([torch.zeros(size), torch.randn(size)])",
}


@pytest.mark.parametrize(("made", "safe"), KEPT.values(), ids=KEPT)
def test_constant_becomes_a_buffer_that_is_not_saved(made: str, safe: bool) -> None:
    finding = the_finding(module(f"self.t = {made}", "return x * self.t"))
    assert finding.rule == "unregistered-tensor"
    preferred = finding.fixes[0]
    assert "persistent=False" in preferred.edits[-1].content
    assert preferred.safe is safe


@pytest.mark.parametrize("made", NEW_KEYS.values(), ids=NEW_KEYS)
def test_what_cannot_be_computed_again_is_saved(made: str) -> None:
    finding = the_finding(module(f"self.t = {made}", "return x * self.t", before="table = read()\n"))
    assert finding.rule == "unregistered-tensor"
    preferred = finding.fixes[0]
    assert "persistent=False" not in "".join(edit.content for edit in preferred.edits)
    assert not preferred.safe


def test_handed_in_tensor_is_saved() -> None:
    finding = the_finding(
        script("""
            class Net(nn.Module):
                def __init__(self, table: torch.Tensor):
                    super().__init__()
                    self.table = table
                def forward(self, x):
                    return x * self.table
        """)
    )
    assert finding.rule == "unregistered-tensor"
    assert not finding.fixes[0].safe
    assert "persistent=False" not in "".join(edit.content for edit in finding.fixes[0].edits)


@pytest.mark.parametrize("text", [r"\N{NO SUCH}", r"\x", r"\u12"])
def test_an_escape_that_python_refuses_is_some_text(text: str) -> None:
    finding = the_finding(
        script(f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.name = "{text}"
                    self.table = torch.zeros(3)
                def forward(self, x):
                    return x * self.table
        """)
    )
    assert finding.rule == "unregistered-tensor"
