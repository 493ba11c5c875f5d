"""Which classes are modules, and where their attributes come from."""

from __future__ import annotations

import pytest

from tests.semantics.programs import assert_marked, model_of, script
from torchstray.semantics.classes import ClassModel

KEEPS = """
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4)]{mark}

    def forward(self, x):
        return self.layers[0](x)
"""
FOUND = KEEPS.format(mark="  # error: unregistered-module")
SILENT = KEEPS.format(mark="")

MODULES = {
    "direct": "class Net(nn.Module):" + FOUND,
    "a layer as base": "class Net(nn.Identity):" + FOUND,
    "grandchild": "class Base(nn.Module):\n    pass\nclass Middle(Base):\n    pass\nclass Net(Middle):" + FOUND,
    "defined after its child": "def make():\n    class Net(Base):\n        pass\nclass Base(nn.Module):" + FOUND,
    "mixin before": "class Mixin:\n    pass\nclass Net(Mixin, nn.Module):" + FOUND,
    "mixin behind": "class Mixin:\n    pass\nclass Net(nn.Module, Mixin):" + FOUND,
    "mixin that cannot be seen": "from mine import Mixin\nclass Net(Mixin, nn.Module):" + FOUND,
    "abstract": "import abc\nclass Net(nn.Module, abc.ABC):" + FOUND,
    "metaclass": "import abc\nclass Net(nn.Module, metaclass=abc.ABCMeta):" + FOUND,
    "generic": "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Net(nn.Module, Generic[T]):" + FOUND,
    "generic base of the file": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Base(nn.Module, Generic[T]):\n    pass\n"
        "class Net(Base[int]):" + FOUND
    ),
    "decorated": "import functools\n@functools.total_ordering\nclass Net(nn.Module):" + FOUND,
    "Lightning": "import pytorch_lightning as pl\nclass Net(pl.LightningModule):" + FOUND,
    "Hugging Face": "from transformers import BertPreTrainedModel\nclass Net(BertPreTrainedModel):" + FOUND,
}

OTHERS = {
    "no base": "class Net:" + SILENT,
    "object": "class Net(object):" + SILENT,
    "base that cannot be seen": "from mine import Base\nclass Net(Base):" + SILENT,
    "base that is an expression": "class Net(make_base()):" + SILENT,
    "base among keyword arguments only": "class Net(metaclass=nn.Module):" + SILENT,
    "starred bases": "BASES = (nn.Module,)\nclass Net(*BASES):" + SILENT,
    "data set": "from torch.utils.data import Dataset\nclass Net(Dataset):" + SILENT,
    "optimizer": "class Net(torch.optim.Optimizer):" + SILENT,
    "autograd function": "class Net(torch.autograd.Function):" + SILENT,
    "mixin without a module": "class Net:\n    pass\nclass Other(Net):" + SILENT,
    "namespace of the same name": "class Outer:\n    class Module:\n        pass\nclass Net(Outer.Module):" + SILENT,
}

PLACES = {
    "in a function": "def build():\n    class Net(nn.Module):\n        {body}\n    return Net()\n",
    "in a method": "class Factory:\n    def build(self):\n        class Net(nn.Module):\n            {body}\n"
    "        return Net()\n",
    "in a class": "class Outer:\n    class Net(nn.Module):\n        {body}\n",
    "in a module class": "class Outer(nn.Module):\n    class Net(nn.Module):\n        {body}\n",
    "under if": "if torch.cuda.is_available():\n    class Net(nn.Module):\n        {body}\n",
    "under else": "if torch.cuda.is_available():\n    pass\nelse:\n    class Net(nn.Module):\n        {body}\n",
    "under try": "try:\n    class Net(nn.Module):\n        {body}\nexcept ImportError:\n    pass\n",
    "under except": "try:\n    import apex\nexcept ImportError:\n    class Net(nn.Module):\n        {body}\n",
    "under finally": "try:\n    import apex\nfinally:\n    class Net(nn.Module):\n        {body}\n",
    "under with": "with torch.no_grad():\n    class Net(nn.Module):\n        {body}\n",
    "under for": "for _ in range(2):\n    class Net(nn.Module):\n        {body}\n",
    "under match": "match torch.__version__:\n    case _:\n        class Net(nn.Module):\n            {body}\n",
    "in a deep place": "def f():\n    if f:\n        class A:\n            def g(self):\n"
    "                class Net(nn.Module):\n                    {body}\n",
    "in a function of a function": "def f():\n    def g():\n        class Net(nn.Module):\n            {body}\n",
}

RELATIONS = {
    "base keeps, child computes": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.t = torch.ones(4)  # expect: unregistered-tensor
        class Net(Base):
            def forward(self, x):
                return x + self.t
    """,
    "base registers, child assigns": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("t", torch.ones(4))
        class Net(Base):
            def __init__(self):
                super().__init__()
                self.t = torch.zeros(4)
            def forward(self, x):
                return x + self.t
    """,
    "child registers what the base keeps": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = self.build()
            def forward(self, x):
                return self.layers[0](x)
        class Net(Base):
            def build(self):
                return nn.ModuleList([nn.Linear(4, 4)])
        class Plain(Base):
            def build(self):
                return [nn.Linear(4, 4)]
    """.replace("self.layers = self.build()", "self.layers = self.build()  # error: unregistered-module"),
    "mixin builds": """
        class Heads:
            def build(self, n):
                self.heads = [nn.Linear(4, 4) for _ in range(n)]  # error: unregistered-module
        class Net(Heads, nn.Module):
            def __init__(self):
                super().__init__()
                self.build(3)
            def forward(self, x):
                return self.heads[0](x)
    """,
    "mixin of no module": """
        class Heads:
            def build(self, n):
                self.heads = [nn.Linear(4, 4) for _ in range(n)]
        class Agent(Heads):
            def __init__(self):
                self.build(3)
    """,
    "mixin's constructor between": """
        class Counts:
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.count = 0
        class Net(Counts, nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """,
    "mixin's constructor behind": """
        class Counts:
            def __init__(self):
                self.count = 0
        class Net(nn.Module, Counts):
            def __init__(self):
                nn.Module.__init__(self)
                Counts.__init__(self)
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
    """,
    "mixin's constructor stops": """
        class Counts:
            def __init__(self):
                self.count = 0
        class Net(Counts, nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)  # error: before-super-init
            def forward(self, x):
                return self.fc(x)
    """,
    "diamond": """
        class Base(nn.Module):
            def build(self):
                return [nn.Linear(4, 4)]
        class Left(Base):
            pass
        class Right(Base):
            def build(self):
                return nn.ModuleList([nn.Linear(4, 4)])
        class Net(Left, Right):
            def __init__(self):
                super().__init__()
                self.layers = self.build()
            def forward(self, x):
                return self.layers[0](x)
    """,
    "super in a diamond": """
        class Base(nn.Module):
            def build(self):
                return nn.ModuleList()
        class Left(Base):
            def build(self):
                return super().build()
        class Right(Base):
            def build(self):
                return [nn.Linear(4, 4)]
        class Net(Left, Right):
            def __init__(self):
                super().__init__()
                self.layers = self.build()  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
    "own stateful class in a list": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = [Block(), Block()]  # error: unregistered-module
            def forward(self, x):
                return self.blocks[0](x)
    """,
    "own stateless class in a list": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
            def forward(self, x):
                return x * self.scale
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = [Block(), Block()]
            def forward(self, x):
                return self.blocks[0](x)
    """,
    "dataclass module": """
        from dataclasses import dataclass
        @dataclass(eq=False)
        class Net(nn.Module):
            size: int
            def __post_init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
    "class method makes the module": """
        class Net(nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.layers = nn.ModuleList(layers)
            @classmethod
            def small(cls):
                return cls([nn.Linear(4, 4)])
            def forward(self, x):
                return self.layers[0](x)
    """,
    "same name twice, both checked": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
    "same name twice, one is the base": """
        class Net(nn.Module):
            def build(self):
                return [nn.Linear(4, 4)]
        class Net(Net):
            def __init__(self):
                super().__init__()
                self.layers = self.build()  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
    "same method twice": """
        class Net(nn.Module):
            def build(self):
                return [nn.Linear(4, 4)]
            def __init__(self):
                super().__init__()
                self.layers = self.build()
            def build(self):
                return nn.ModuleList([nn.Linear(4, 4)])
            def forward(self, x):
                return self.layers[0](x)
    """,
    "methods under if": """
        class Net(nn.Module):
            if torch.cuda.is_available():
                def __init__(self):
                    super().__init__()
                    self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
    "its own base by mistake": """
        class Net(Net):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]
    """,
    "bases in a circle": """
        class A(B):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]
        class B(A):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]
    """,
    "bases in a circle, one a module": """
        class A(B, nn.Module):
            def make(self):
                return [nn.Linear(4, 4)]
        class B(A):
            def make(self):
                return super().make()
    """,
    "inconsistent order": """
        class A(nn.Module):
            pass
        class Net(nn.Module, A):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
            def forward(self, x):
                return self.layers[0](x)
    """,
}


@pytest.mark.parametrize("code", MODULES.values(), ids=MODULES)
def test_module_class(code: str) -> None:
    assert_marked(script(code))


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_other_class(code: str) -> None:
    assert_marked(script(code))


@pytest.mark.parametrize("code", PLACES.values(), ids=PLACES)
def test_class_is_found_where_it_stands(code: str) -> None:
    line = next(line for line in code.splitlines() if "{body}" in line)
    indent = " " * (len(line) - len(line.lstrip()))
    assert_marked(script(code.format(body=FOUND.strip("\n").replace("\n    ", "\n" + indent).lstrip())))


@pytest.mark.parametrize("code", RELATIONS.values(), ids=RELATIONS)
def test_relations(code: str) -> None:
    assert_marked(script(code))


def resolution(code: str, name: str) -> list[str | None]:
    """The names in the order of resolution of the last class of this name."""
    cls = [cls for cls in model_of(code).classes if cls.name == name][-1]
    return [entry.name if isinstance(entry, ClassModel) else entry for entry in cls.resolution]


ORDERS = {
    "diamond": "class O: pass\nclass A(O): pass\nclass B(O): pass\nclass C(A, B): pass\n",
    "long diamond": "class O: pass\nclass A(O): pass\nclass B(A): pass\nclass D(O): pass\nclass C(B, D): pass\n",
    "textbook": (
        "class O: pass\nclass F(O): pass\nclass E(O): pass\nclass D(O): pass\nclass X(D, F): pass\n"
        "class B(D, E): pass\nclass C(B, X): pass\n"
    ),
    "chain": "class A: pass\nclass B(A): pass\nclass C(B): pass\n",
}


@pytest.mark.parametrize("code", ORDERS.values(), ids=ORDERS)
def test_order_of_resolution_is_that_of_python(code: str) -> None:
    names: dict[str, type] = {}
    exec(code, names)
    assert resolution(code, "C") == [cls.__name__ for cls in names["C"].__mro__ if cls is not object]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("class C(C): pass", ["C", None]),
        ("class C(nn.Module): pass", ["C", None]),
        ("from torch import nn\nclass C(nn.Module): pass", ["C", "torch.nn.Module"]),
        ("from torch import nn\nclass C(nn.ReLU): pass", ["C", "torch.nn.ReLU", "torch.nn.Module"]),
        ("from mine import Base\nclass C(Base): pass", ["C", "mine.Base"]),
        ("from .mine import Base\nclass C(Base): pass", ["C", ".mine.Base"]),
        ("class C(make()): pass", ["C", None]),
        ("class C(object): pass", ["C", "object"]),
    ],
)
def test_order_of_resolution_with_what_is_imported(code: str, expected: list[str | None]) -> None:
    assert resolution(code, "C") == expected


@pytest.mark.parametrize("name", ["A", "B"])
def test_bases_in_a_circle_have_an_order(name: str) -> None:
    assert resolution("class A(B): pass\nclass B(A): pass\n", name)[0] == name
