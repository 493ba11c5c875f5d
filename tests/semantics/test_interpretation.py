"""How functions are run on paper: branches, loops, when things run, and that every run ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.semantics.programs import assert_marked, findings, module, script

ROOT = Path(__file__).parents[2]
ADDS = "return x + self.t"
CHAINS = """
for layer in self.layers:
    x = layer(x)
return x
"""

BRANCHES = {
    "if": module(
        "if size:\n    self.t = torch.ones(size)  # expect: unregistered-tensor\nelse:\n    self.t = None", ADDS
    ),
    "both branches": module(
        "if size:\n    self.t = torch.ones(size)  # error: unregistered-tensor\n"
        "else:\n    self.t = torch.zeros(2)  # error: unregistered-tensor",
        ADDS,
    ),
    "both branches register": module(
        "if size:\n    self.register_buffer('t', torch.ones(size))\nelse:\n    self.register_buffer('t', None)", ADDS
    ),
    "elif": module(
        "if size > 3:\n    t = 1.0\nelif size > 2:\n    t = torch.ones(size)\nelse:\n    t = 2.0\n"
        "self.t = t  # expect: unregistered-tensor",
        ADDS,
    ),
    "elif of numbers": module(
        "if size > 3:\n    t = 1.0\nelif size > 2:\n    t = 3\nelse:\n    t = 2.0\nself.t = t", ADDS
    ),
    "ternary": module("self.t = torch.ones(size) if size else None  # expect: unregistered-tensor", ADDS),
    "ternary of layers": module("self.act = nn.PReLU() if size else nn.ReLU()", "return self.act(x)"),
    "ternary of lists": module(
        "self.layers = [nn.Linear(4, 4)] if size else []  # expect: unregistered-module", CHAINS
    ),
    "or": module(
        "self.table = given = None or torch.ones(size)  # error: unregistered-tensor", "return x + self.table"
    ),
    "match": module(
        "match size:\n    case 1:\n        layers = []\n    case _:\n        layers = [nn.Linear(4, 4)]\n"
        "self.layers = layers  # expect: unregistered-module",
        CHAINS,
    ),
    "match of stateless layers": module(
        "match size:\n    case 1:\n        layers = [nn.ReLU()]\n    case _:\n        layers = [nn.Tanh()]\n"
        "self.layers = layers",
        CHAINS,
    ),
    "try": module(
        "try:\n    t = read()\nexcept OSError:\n    t = torch.ones(size)\nself.t = t  # expect: unregistered-tensor",
        ADDS,
    ),
    "try else finally": module(
        "try:\n    n = read()\nexcept OSError:\n    n = 0\nelse:\n"
        "    self.a = torch.ones(size)  # expect: unregistered-tensor\n"
        "finally:\n    self.b = torch.ones(size)  # error: unregistered-tensor",
        "return x * self.a + self.b",
    ),
    "with": module("with torch.no_grad():\n    self.t = torch.ones(size)  # error: unregistered-tensor", ADDS),
    "with registers": module("with torch.no_grad():\n    self.register_buffer('t', torch.ones(size))", ADDS),
    "walrus": module("if (t := torch.ones(size)) is not None:\n    self.t = t  # expect: unregistered-tensor", ADDS),
    "walrus of a number": module("if (t := size * 2) > 3:\n    self.t = t", ADDS),
    "while": module(
        "self.layers = []  # error: unregistered-module\nwhile len(self.layers) < count:\n"
        "    self.layers.append(nn.Linear(4, 4))",
        CHAINS,
    ),
    "while of numbers": module("self.sizes = []\nwhile len(self.sizes) < count:\n    self.sizes.append(size)"),
    "while else": module(
        "n = count\nwhile n:\n    n -= 1\nelse:\n    self.t = torch.ones(size)  # error: unregistered-tensor", ADDS
    ),
    "for else": module(
        "for _ in range(count):\n    pass\nelse:\n    self.t = torch.ones(size)  # error: unregistered-tensor", ADDS
    ),
    "break": module(
        "self.layers = []  # error: unregistered-module\nfor i in range(count):\n    if i > 3:\n        break\n"
        "    self.layers.append(nn.Linear(4, 4))",
        CHAINS,
    ),
    "continue": module(
        "self.layers = []  # error: unregistered-module\nfor i in range(count):\n    if i > 3:\n        continue\n"
        "    self.layers.append(nn.Linear(4, 4))",
        CHAINS,
    ),
    "loop variable used behind the loop": module(
        "for layer in [nn.Linear(4, 4), nn.Linear(4, 4)]:\n    pass\nself.last = layer", "return self.last(x)"
    ),
    "carried through a loop": module(
        "t = 1.0\nfor _ in range(count):\n    t = torch.ones(size) * t\nself.t = t  # expect: unregistered-tensor", ADDS
    ),
    "early return of the constructor": module(
        "if not size:\n    self.t = 1.0\n    return\nself.t = torch.ones(size)  # expect: unregistered-tensor", ADDS
    ),
    "what follows a return": module("self.t = 1.0\nreturn\nself.t = torch.ones(size)", ADDS),
    "what follows a raise": module("self.t = 1.0\nif size < 0:\n    raise ValueError(torch.ones(size))", ADDS),
    "overwritten by a number": module("self.t = torch.ones(size)\nself.t = self.t.sum().item()", ADDS),
    "overwritten by a registered list": module(
        "self.layers = []\nself.layers.append(nn.Linear(4, 4))\nself.layers = nn.ModuleList(self.layers)", CHAINS
    ),
    "overwritten by a list": module(
        "self.layers = nn.ModuleList()\nself.layers = [nn.Linear(4, 4)]  # error: unregistered-module", CHAINS
    ),
    "deleted": module("self.t = torch.ones(size)\nself.n = self.t.sum().item()\ndel self.t", "return x * self.n"),
    "deleted and registered": module(
        "self.t = torch.ones(size)\ndel self.t\nself.register_buffer('t', torch.ones(size))", ADDS
    ),
    "assert": module("assert size > 0\nself.t = torch.ones(size)  # error: unregistered-tensor", ADDS),
    "global constant": module(
        "self.t = torch.tensor(MEAN)  # error: unregistered-tensor", ADDS, before="MEAN = [0.1, 0.2]\n"
    ),
    "class constant": module(
        "self.t = torch.ones(self.rows)  # error: unregistered-tensor", ADDS, methods="rows = 3\n"
    ),
}

NARROWING = {
    "is not None": script("""
        class Net(nn.Module):
            def __init__(self, rows=None):
                super().__init__()
                t = torch.ones(rows) if rows else None
                if t is not None:
                    self.t = t  # expect: unregistered-tensor
                else:
                    self.t = 0.0
            def forward(self, x):
                return x + self.t
    """),
    "is None": module(
        "t = torch.ones(size) if size else None\nif t is None:\n    self.t = t\nelse:\n    self.t = 1.0", ADDS
    ),
    "isinstance of a float": module(
        "t = torch.ones(size) if size else 1.0\nif isinstance(t, float):\n    self.t = t\nelse:\n"
        "    self.register_buffer('t', t)",
        ADDS,
    ),
    "isinstance of a tensor": module(
        "t = torch.ones(size) if size else 1.0\nif isinstance(t, torch.Tensor):\n"
        "    self.t = t  # expect: unregistered-tensor\nelse:\n    self.t = 1.0",
        ADDS,
    ),
    "not isinstance": module(
        "t = torch.ones(size) if size else 1.0\nif not isinstance(t, torch.Tensor):\n    self.t = t\n"
        "else:\n    self.register_buffer('t', t)",
        ADDS,
    ),
    "is_tensor": module(
        "t = torch.ones(size) if size else 1.0\nif torch.is_tensor(t):\n    self.register_buffer('t', t)\n"
        "else:\n    self.t = t",
        ADDS,
    ),
    "callable": module(
        "act = F.relu if size else torch.ones(3)\nif callable(act):\n    self.act = act\nelse:\n    self.act = None",
        "return self.act(x)",
    ),
    "and": module(
        "t = torch.ones(size) if size else None\nif size and t is not None:\n    self.register_buffer('t', t)\n"
        "else:\n    self.n = 1",
        ADDS,
    ),
    "ternary": module(
        "t = torch.ones(size) if size else None\nself.n = 0 if t is not None else t", "return x + self.n"
    ),
}

PHASES = {
    "setup hook": module(
        "pass", ADDS, methods="def setup(self, stage):\n    self.t = torch.ones(3)  # error: unregistered-tensor\n"
    ),
    "helper called by the constructor": module(
        "self._build(size)",
        ADDS,
        methods="def _build(self, n):\n    self.t = torch.ones(n)  # error: unregistered-tensor\n",
    ),
    "activation kept by forward": module("self.last = None", "self.last = x * 2\nreturn self.last"),
    "cache filled by forward": module(
        "self.cache = None",
        "if self.cache is None:\n    self.cache = x.new_zeros(3)  # warning: stale-cache\nreturn x + self.cache",
    ),
    "list of activations": module("self.seen = []", "self.seen.append(x)\nreturn x"),
    "list of losses in a step": module(
        "self.losses = []", methods="def training_step(self, batch, i):\n    self.losses.append(batch.sum())\n"
    ),
    "layers added by another method": module(
        "self.heads = []",
        "return self.heads[0](x)",
        methods="def add_task(self):\n    self.heads.append(nn.Linear(4, 4))\n",
    ).replace("self.heads = []", "self.heads = []  # expect: unregistered-module"),
    "layers registered by another method": module(
        "self.heads = nn.ModuleList()",
        "return self.heads[0](x)",
        methods="def add_task(self):\n    self.heads.append(nn.Linear(4, 4))\n",
    ),
    "layer built in forward": module("pass", "return nn.Linear(4, 4)(x)  # error: layer-in-forward"),
    "layer built in what forward calls": module(
        "pass",
        "return self.head(x)",
        methods="def head(self, x):\n    return nn.Linear(4, 4)(x)  # error: layer-in-forward\n",
    ),
    "layer built in a step": module(
        "pass",
        methods="def training_step(self, batch, i):\n    return nn.Linear(4, 4)(batch)  # expect: layer-in-forward\n",
    ),
    "layer built in another method": module("pass", methods="def export(self, x):\n    return nn.Linear(4, 4)(x)\n"),
    "stateless layer in forward": module("pass", "return nn.ReLU()(x)"),
    "layer built in a function of the file": module(
        "pass", "return head(x)", before="def head(x):\n    return nn.Linear(4, 4)(x)  # error: layer-in-forward\n"
    ),
    "layer built once": module(
        "self.fc = None",
        "if self.fc is None:\n    self.fc = nn.Linear(4, 4)  # expect: layer-in-forward\nreturn self.fc(x)",
    ),
    "layer appended in forward": module(
        "self.layers = nn.ModuleList()",
        "self.layers.append(nn.Linear(4, 4))  # error: layer-in-forward\nreturn self.layers[-1](x)",
    ),
    "layer made by a checkpointed method": module(
        "pass",
        "return torch.utils.checkpoint.checkpoint(self._run, x)",
        methods="def _run(self, x):\n    return nn.Linear(4, 4)(x)  # expect: layer-in-forward\n",
        before="import torch.utils.checkpoint\n",
    ),
    "layer as default argument of forward": script("""
        class Net(nn.Module):
            def forward(self, x, norm=nn.Tanh()):
                return norm(x)
    """),
    "parameter built in forward": module("pass", "return x * nn.Parameter(torch.ones(3))  # error: layer-in-forward"),
    "Sequential of registered layers in forward": module(
        "self.a, self.b = nn.Linear(4, 4), nn.ReLU()", "return nn.Sequential(self.a, self.b)(x)"
    ),
    "Sequential of starred registered layers in forward": module(
        "self.layers = nn.ModuleList([nn.Linear(4, 4)])", "return nn.Sequential(*self.layers)(x)"
    ),
    "class state": script("""
        class Net(nn.Module):
            fc = nn.Linear(4, 4)  # error: class-level-state
            act = nn.ReLU()
            def forward(self, x):
                return self.act(self.fc(x))
    """),
    "class state in pairs": script("""
        class Net(nn.Module):
            a, b = nn.Linear(4, 4), nn.Linear(4, 4)  # error: class-level-state  # error: class-level-state
            def forward(self, x):
                return self.b(self.a(x))
    """),
    "class state under if": script("""
        DEEP = True
        class Net(nn.Module):
            if DEEP:
                fc = nn.Linear(4, 4)  # expect: class-level-state
            def forward(self, x):
                return self.fc(x)
    """),
    "class state in other statements": script("""
        class Net(nn.Module):
            for i in range(2):
                a = nn.Linear(4, 4)  # expect: class-level-state
            with torch.no_grad():
                b = nn.Linear(4, 4)  # expect: class-level-state
            try:
                c = nn.Linear(4, 4)  # expect: class-level-state
            except ImportError:
                pass
            def forward(self, x):
                return self.c(self.b(self.a(x)))
    """),
    "class constant": script("""
        class Net(nn.Module):
            sizes = [1, 2]
            kind = nn.Linear
            def forward(self, x):
                return x * self.sizes[0]
    """),
    "before super": script("""
        class Net(nn.Module):
            def __init__(self):
                self.size = 4
                self.fc = nn.Linear(4, 4)  # error: before-super-init
                super().__init__()
            def forward(self, x):
                return self.fc(x)
    """),
    "plain attributes before super": script("""
        class Net(nn.Module):
            def __init__(self):
                self.size = 4
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """),
    "before super in a helper": script("""
        class Net(nn.Module):
            def __init__(self):
                self.build()
                super().__init__()
            def build(self):
                self.fc = nn.Linear(4, 4)  # expect: before-super-init
            def forward(self, x):
                return self.fc(x)
    """),
    "super in a helper": script("""
        class Net(nn.Module):
            def __init__(self):
                self.build()
            def build(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """),
    "super in one branch": script("""
        class Net(nn.Module):
            def __init__(self, ready):
                if ready:
                    super().__init__()
                self.fc = nn.Linear(4, 4)  # expect: before-super-init
            def forward(self, x):
                return self.fc(x)
    """),
    "super in both branches": script("""
        class Net(nn.Module):
            def __init__(self, ready):
                if ready:
                    super().__init__()
                else:
                    nn.Module.__init__(self)
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """),
    "super of the class only": script("""
        class Net(nn.Module):
            def __init__(self):
                super(Net).__init__()
                self.fc = nn.Linear(4, 4)  # error: before-super-init
            def forward(self, x):
                return self.fc(x)
    """),
    "super of the base": script("""
        class Net(nn.Module):
            def __init__(self):
                super(nn.Module, self).__init__()
                self.fc = nn.Linear(4, 4)  # error: before-super-init
            def forward(self, x):
                return self.fc(x)
    """),
    "old super": script("""
        class Net(nn.Module):
            def __init__(self):
                super(Net, self).__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """),
    "init runs the whole class again": script("""
        class Net(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.size = size
                self.fc = nn.Linear(size, size)
            def reset(self):
                self.__init__(self.size)
            def forward(self, x):
                return self.fc(x)
    """),
    "emptied by a second init": script("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                nn.Module.__init__(self)  # error: before-super-init
                self.act = nn.ReLU()
            def forward(self, x):
                return self.fc(x)
    """),
}

MOVES = {
    "_apply": module(
        "self.t = torch.ones(size)",
        ADDS,
        methods="def _apply(self, fn):\n    super()._apply(fn)\n    self.t = fn(self.t)\n    return self\n",
    ),
    "_apply of another attribute": module(
        "self.s = self.t = torch.ones(size)  # error: unregistered-tensor",
        ADDS,
        methods="def _apply(self, fn):\n    super()._apply(fn)\n    self.s = fn(self.s)\n    return self\n",
    ),
    "to": module(
        "self.t = torch.ones(size)",
        ADDS,
        methods="def to(self, device):\n    self.t = self.t.to(device)\n    return super().to(device)\n",
    ),
    "cuda": module(
        "self.t = torch.ones(size)",
        ADDS,
        methods="def cuda(self):\n    self.t = self.t.cuda()\n    return super().cuda()\n",
    ),
    "all by vars": module(
        "self.t = torch.ones(size)",
        ADDS,
        methods="def to(self, device):\n    for k, v in vars(self).items():\n"
        "        if torch.is_tensor(v):\n            setattr(self, k, v.to(device))\n    return super().to(device)\n",
    ),
    "all by __dict__": module(
        "self.t = torch.ones(size)",
        ADDS,
        methods="def _apply(self, fn):\n    for k, v in self.__dict__.items():\n"
        "        if torch.is_tensor(v):\n            self.__dict__[k] = fn(v)\n    return super()._apply(fn)\n",
    ),
    "inherited": script("""
        class Moving(nn.Module):
            def _apply(self, fn):
                super()._apply(fn)
                self.t = fn(self.t)
                return self
        class Net(Moving):
            def __init__(self):
                super().__init__()
                self.t = torch.ones(3)
            def forward(self, x):
                return x + self.t
    """),
    "a method moves it": module(
        "self.t = torch.ones(size)  # hint: unregistered-tensor",
        ADDS,
        methods="def prepare(self, device):\n    self.t = self.t.to(device)\n",
    ),
}


@pytest.mark.parametrize("code", BRANCHES.values(), ids=BRANCHES)
def test_branches_and_loops(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", NARROWING.values(), ids=NARROWING)
def test_narrowing(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", PHASES.values(), ids=PHASES)
def test_when_things_run(code: str) -> None:
    assert_marked(code)


@pytest.mark.parametrize("code", MOVES.values(), ids=MOVES)
def test_module_that_moves_its_own_state(code: str) -> None:
    assert_marked(code)


LAYERS = "self.layers = [nn.Linear(4, 4)]  # error: unregistered-module"

BOUNDED = {
    "recursion": module(
        LAYERS,
        CHAINS + "\n",
        before="def tree(n):\n    return [tree(n - 1), tree(n - 2), nn.Linear(n, n)]\nROOT = tree(9)\n",
    ),
    "recursive class": script("""
        class Tree(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.left = [Tree(depth - 1), Tree(depth - 1)]  # error: unregistered-module
            def forward(self, x):
                return self.left[0](self.fc(x))
    """),
    "recursive registered class": script("""
        class Tree(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.left = nn.ModuleList([Tree(depth - 1), Tree(depth - 1)])
            def forward(self, x):
                return self.left[0](self.fc(x))
    """),
    "recursive method": module(
        LAYERS,
        "return self.walk(x, 3)",
        methods="def walk(self, x, n):\n    return self.walk(self.layers[n](x), n - 1) + self.walk(x, n - 2)\n",
    ),
    "mutual recursion": module(
        "self.t = even(size)",
        ADDS,
        before="def even(n):\n    return odd(n - 1) or odd(n - 2)\ndef odd(n):\n"
        "    return even(n - 1) or even(n - 2)\n",
    ),
    "mutually recursive classes": script("""
        class A(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.b = B(n - 1) if n else None
            def forward(self, x):
                return self.b(x)
        class B(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.a = [A(n - 1)]  # expect: unregistered-module
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.a[0](self.fc(x))
    """),
    "property that reads itself": module(
        LAYERS, CHAINS, methods="@property\ndef deep(self):\n    return self.deep[0]\n"
    ),
    "setter that sets itself": module(
        LAYERS + "\nself.deep = 1",
        CHAINS,
        methods="@property\ndef deep(self):\n    return 1\n@deep.setter\ndef deep(self, v):\n    self.deep = v\n",
    ),
    "list that holds itself": module(
        "self.layers = [nn.Linear(4, 4)]  # error: unregistered-module\nself.layers.append(self.layers)", CHAINS
    ),
    "lists that hold each other": module(
        "a, b = [], [nn.Linear(4, 4)]\na.append(b)\nb.append(a)\nself.layers = b  # error: unregistered-module", CHAINS
    ),
    "dict that holds itself": module(
        "self.heads = {'a': nn.Linear(4, 4)}  # error: unregistered-module\nself.heads['self'] = self.heads",
        "return self.heads['a'](x)",
    ),
    "object that holds itself": module(
        "node = Node()\nnode.next = node\nnode.layer = nn.Linear(4, 4)\n"
        "self.node = node  # expect: unregistered-module",
        "return self.node.layer(x)",
        before="class Node:\n    pass\n",
    ),
    "module that holds itself": module("self.me = [self]\nself.fc = nn.Linear(4, 4)", "return self.fc(x)"),
    "Sequential that holds itself": module(
        "self.body = nn.Sequential(nn.Linear(4, 4))\nself.body.append(self.body)\n" + LAYERS, CHAINS
    ),
    "doubling list": module(
        "layers = [nn.Linear(4, 4)]\n"
        + "layers = layers + layers\n" * 22
        + "self.layers = layers  # error: unregistered-module",
        CHAINS,
    ),
    "doubling tuple": module(
        LAYERS + "\npair = (1, nn.ReLU())\n" + "pair = (pair, pair)\n" * 40 + "self.pair = pair", CHAINS
    ),
    "nesting branches": module(
        LAYERS + "\nself.n = {'a': 1}\n" + "".join(f"if size > {n}:\n    self.n = [self.n, {n}]\n" for n in range(30)),
        CHAINS,
    ),
    "extending itself": module(
        "layers = [nn.Linear(4, 4)]\n"
        + "layers += layers\n" * 22
        + "self.layers = layers  # error: unregistered-module",
        CHAINS,
    ),
    "calls that branch": module(
        LAYERS,
        CHAINS,
        before="".join(f"def f{n}(v):\n    return f{n + 1}(f{n + 1}(v))\n" for n in range(30))
        + "def f30(v):\n    return v\nEND = f0(1)\n",
    ),
    "branches in a row": module(
        "t = 0\n" + "".join(f"if size > {n}:\n    t = {n}\nelse:\n    t = -{n + 1}\n" for n in range(300)) + LAYERS,
        CHAINS,
    ),
    "nested branches": module(
        "".join("    " * n + f"if size > {n}:\n" for n in range(60)) + "    " * 60 + "self.n = 1\n" + LAYERS, CHAINS
    ),
    "nested loops": module(
        "".join("    " * n + f"for i{n} in range(size):\n" for n in range(18)) + "    " * 18 + "self.n = 1\n" + LAYERS,
        CHAINS,
    ),
    "names in a circle": script("""
        a = b
        b = a
        class Net(a):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]
        class Real(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """),
    "imports in a circle": script("""
        import a.b as c
        c = c.d
        c = c.c
        from . import c as c
        nn2 = nn2.nn2
        class Real(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """),
    "long function": module("".join(f"self.size_{n} = size * {n}\n" for n in range(3000)) + LAYERS, CHAINS),
    "long list": module("self.sizes = [" + "1, " * 20_000 + "]\n" + LAYERS, CHAINS),
    "many methods": module(
        LAYERS,
        CHAINS,
        methods="".join(f"def step_{n}(self, x):\n    return self.step_{(n + 1) % 2000}(x)\n" for n in range(2000)),
    ),
    "many classes": module(LAYERS, CHAINS)
    + "".join(
        f"class Net{n}(Net{n - 1 if n else ''}):\n    def __init__(self):\n        super().__init__(1, 2)\n"
        f"        self.n = {n}\n"
        for n in range(150)
    ),
}


DEEP = {
    "nested calls": module("self.n = " + "abs(" * 500 + "size" + ")" * 500 + "\n" + LAYERS, CHAINS),
    "nested lists": module("self.n = " + "[" * 80 + "]" * 80 + "\n" + LAYERS, CHAINS),
    "chained methods": module("self.n = size" + ".item()" * 300 + "\n" + LAYERS, CHAINS),
    "long sum": module("self.n = size" + " + 1" * 500 + "\n" + LAYERS, CHAINS),
}
"""What is nested too deeply is left out, and only that."""


def assert_ends(code: str, how: str) -> None:
    """Assert in a process of its own, which can be stopped if it does not end."""
    program = f"import sys; from tests.semantics.programs import {how}; {how}(sys.stdin.read())"
    subprocess.run([sys.executable, "-c", program], input=code, check=True, text=True, timeout=60, cwd=ROOT)


@pytest.mark.parametrize("code", BOUNDED.values(), ids=BOUNDED)
def test_every_run_ends(code: str) -> None:
    assert_ends(code, "assert_marked")


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_deep_expression_ends(code: str) -> None:
    assert_ends(code, "assert_found")


def test_file_of_the_same_function_many_times() -> None:
    code = "import torch\n" + "def f(x):\n    return f(torch.ones(x))\n" * 1000
    assert findings(code) == []
