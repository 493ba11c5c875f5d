"""What imported names mean, and how a repair spells the names that it needs."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.semantics.programs import assert_marked, model_of
from torchstray.semantics.names import children, walk
from torchstray.text.edits import apply_edits

BODY = """
class Net({base}):
    def __init__(self):
        super().__init__()
        self.layers = [{layer}(4, 4)]{mark}

    def forward(self, x):
        return self.layers[0](x)
"""

IMPORTED = {
    "torch": ("import torch", "torch.nn.Module", "torch.nn.Linear"),
    "torch as": ("import torch as t", "t.nn.Module", "t.nn.Linear"),
    "submodule": ("import torch.nn", "torch.nn.Module", "torch.nn.Linear"),
    "submodule as": ("import torch.nn as N", "N.Module", "N.Linear"),
    "several in one statement": ("import os, torch.nn as nn, sys", "nn.Module", "nn.Linear"),
    "from torch": ("from torch import nn", "nn.Module", "nn.Linear"),
    "from torch as": ("from torch import nn as layers", "layers.Module", "layers.Linear"),
    "from nn": ("from torch.nn import Linear, Module", "Module", "Linear"),
    "from nn as": ("from torch.nn import Linear as L, Module as M", "M", "L"),
    "parenthesised": ("from torch.nn import (\n    Linear,\n    Module,\n)", "Module", "Linear"),
    "where it is defined": (
        "from torch.nn.modules.linear import Linear\nfrom torch.nn.modules.module import Module",
        "Module",
        "Linear",
    ),
    "between": ("from torch.nn.modules import Linear, Module", "Module", "Linear"),
    "star": ("from torch.nn import *", "Module", "Linear"),
    "star among others": ("from os.path import *\nfrom torch.nn import *", "Module", "Linear"),
    "namespace by assignment": ("import torch\nnn = torch.nn", "nn.Module", "nn.Linear"),
    "namespaces by assignment": ("import torch\nnn, F = torch.nn, torch.nn.functional", "nn.Module", "nn.Linear"),
    "classes by assignment": ("import torch\nM = torch.nn.Module\nL = torch.nn.Linear", "M", "L"),
    "assignment of an assignment": ("import torch\nnn = torch.nn\nM = nn.Module\nL = nn.Linear", "M", "L"),
    "plain name by assignment": ("from torch.nn import Linear, Module\nM = Module\nL = Linear", "M", "L"),
    "torch by assignment": ("import torch\nT = torch", "T.nn.Module", "T.nn.Linear"),
    "annotated assignment": ("import torch\nL: type = torch.nn.Linear", "torch.nn.Module", "L"),
    "in try": ("try:\n    from torch import nn\nexcept ImportError:\n    nn = None", "nn.Module", "nn.Linear"),
    "in except": ("try:\n    import apex\nexcept ImportError:\n    from torch import nn", "nn.Module", "nn.Linear"),
    "in if": ("import sys\nif sys.version_info > (3, 8):\n    from torch import nn", "nn.Module", "nn.Linear"),
    "in else": ("import sys\nif sys.flags.debug:\n    pass\nelse:\n    from torch import nn", "nn.Module", "nn.Linear"),
    "in with": ("with quiet():\n    import torch.nn as nn", "nn.Module", "nn.Linear"),
    "two in one line": ("import os; from torch import nn", "nn.Module", "nn.Linear"),
    "continued line": ("from torch.nn import \\\n    Linear, Module", "Module", "Linear"),
    "after a docstring": ('"""torch"""\nfrom torch import nn', "nn.Module", "nn.Linear"),
}

OTHERS = {
    "jax": ("from flax import linen as nn", "nn.Module", "nn.Linear"),
    "paddle": ("import paddle.nn as nn  # not torch", "nn.Module", "nn.Linear"),
    "own package": ("from .torch import nn", "nn.Module", "nn.Linear"),
    "own module of this name": ("from mine.torch.nn import Linear, Module", "Module", "Linear"),
    "name like torch": ("import torchlike as torch", "torch.nn.Module", "torch.nn.Linear"),
    "not imported": ("import torch", "nn.Module", "nn.Linear"),
    "star of another package": ("import torch\nfrom mlx.nn import *", "Module", "Linear"),
    "own class of this name": ("import torch\nclass Module:\n    pass", "Module", "torch.nn.Linear"),
    "optimizer": ("import torch", "torch.optim.Optimizer", "torch.nn.Linear"),
    "data set": ("import torch\nfrom torch.utils.data import Dataset", "Dataset", "torch.nn.Linear"),
    "no module": ("from torch import nn", "object", "nn.Linear"),
}


@pytest.mark.parametrize(("imports", "base", "layer"), IMPORTED.values(), ids=IMPORTED)
def test_import_is_understood(imports: str, base: str, layer: str) -> None:
    assert_marked(imports + BODY.format(base=base, layer=layer, mark="  # error: unregistered-module"))


@pytest.mark.parametrize(("imports", "base", "layer"), OTHERS.values(), ids=OTHERS)
def test_other_import_is_not_taken_for_torch(imports: str, base: str, layer: str) -> None:
    assert_marked(imports + BODY.format(base=base, layer=layer, mark=""))


def test_import_inside_a_function() -> None:
    assert_marked("""
from torch.nn import Module
class Net(Module):
    def __init__(self):
        super().__init__()
        from torch import nn
        self.layers = [nn.Linear(4, 4)]  # error: unregistered-module
        self.acts = [nn.ReLU()]
    def forward(self, x):
        return self.acts[0](self.layers[0](x))
""")


def test_local_name_hides_an_import() -> None:
    assert_marked("""
from torch.nn import Linear, Module
class Net(Module):
    def __init__(self, Linear):
        super().__init__()
        self.layers = [Linear(4, 4)]
        self.sizes = [zeros(4)]
    def forward(self, x):
        return self.layers[0](x)
def zeros(n):
    return [0] * n
""")


@pytest.mark.parametrize(
    ("code", "name", "meaning"),
    [
        ("import torch", "torch", "torch"),
        ("import torch.nn.functional", "torch", "torch"),
        ("import torch.nn.functional as F", "F", "torch.nn.functional"),
        ("from torch import nn", "nn", "torch.nn"),
        ("from torch.nn.modules.linear import Linear", "Linear", "torch.nn.Linear"),
        ("from torch.nn.parameter import Parameter as P", "P", "torch.nn.Parameter"),
        ("from . import nn", "nn", ".nn"),
        ("from ..layers import Block", "Block", "..layers.Block"),
        ("from torch.nn import *", "Linear", "torch.nn.Linear"),
        ("from torch.nn import *", "Missing", None),
        ("import torch\nnn = torch.nn", "nn", "torch.nn"),
        ("a = b\nb = a", "a", None),
        ("import torch\ntorch = torch.nn", "torch", "torch"),
        ("try:\n    import torch.nn as nn\nexcept ImportError:\n    import mock as nn", "nn", "torch.nn"),
        ("", "torch", None),
    ],
)
def test_qualified_name(code: str, name: str, meaning: str | None) -> None:
    assert model_of(code).names.qualified(name) == meaning


SPELLED = {
    "namespace as imported": ("from torch import nn\n", "nn.ModuleList", "from torch import nn\n"),
    "namespace under another name": ("import torch.nn as N\n", "N.ModuleList", "import torch.nn as N\n"),
    "the name itself": ("from torch.nn import ModuleList\n", "ModuleList", "from torch.nn import ModuleList\n"),
    "the name itself, renamed": (
        "from torch.nn import ModuleList as ML\n",
        "ML",
        "from torch.nn import ModuleList as ML\n",
    ),
    "the name before the namespace": (
        "from torch import nn\nfrom torch.nn import ModuleList\n",
        "ModuleList",
        "from torch import nn\nfrom torch.nn import ModuleList\n",
    ),
    "star": ("from torch.nn import *\n", "ModuleList", "from torch.nn import *\n"),
    "torch only": ("import torch\n", "torch.nn.ModuleList", "import torch\n"),
    "torch under another name": ("import torch as th\n", "th.nn.ModuleList", "import torch as th\n"),
    "submodule only": ("import torch.nn\n", "torch.nn.ModuleList", "import torch.nn\n"),
    "assigned namespace": ("import torch\nnn = torch.nn\n", "nn.ModuleList", "import torch\nnn = torch.nn\n"),
    "extended": ("from torch.nn import Module\n", "ModuleList", "from torch.nn import Module, ModuleList\n"),
    "extended behind an alias": (
        "from torch.nn import Module as M\n",
        "ModuleList",
        "from torch.nn import Module as M, ModuleList\n",
    ),
    "extended before a comment": (
        "from torch.nn import Module  # base\n",
        "ModuleList",
        "from torch.nn import Module, ModuleList  # base\n",
    ),
    "extended before a semicolon": (
        "from torch.nn import Module; import os\n",
        "ModuleList",
        "from torch.nn import Module, ModuleList; import os\n",
    ),
    "extended on a continued line": (
        "from torch.nn import Linear, \\\n    Module\n",
        "ModuleList",
        "from torch.nn import Linear, \\\n    Module, ModuleList\n",
    ),
    "extended in parentheses": (
        "from torch.nn import (Linear, Module)\n",
        "ModuleList",
        "from torch.nn import (Linear, Module, ModuleList)\n",
    ),
    "extended in parentheses with a comma": (
        "from torch.nn import (Linear, Module,)\n",
        "ModuleList",
        "from torch.nn import (Linear, Module, ModuleList,)\n",
    ),
    "extended one name a line": (
        "from torch.nn import (\n    Linear,\n    Module,\n)\n",
        "ModuleList",
        "from torch.nn import (\n    Linear,\n    Module,\n    ModuleList,\n)\n",
    ),
    "extended one renamed name a line": (
        "from torch.nn import (\n    Linear as L,\n    Module as M,\n)\n",
        "ModuleList",
        "from torch.nn import (\n    Linear as L,\n    Module as M,\n    ModuleList,\n)\n",
    ),
    "extended one name a line with comments": (
        "from torch.nn import (\n    Linear,  # one\n    Module,  # two\n)\n",
        "ModuleList",
        "from torch.nn import (\n    Linear,  # one\n    Module,\n    ModuleList,  # two\n)\n",
    ),
    "extended without the last comma": (
        "from torch.nn import (\n    Linear,\n    Module\n)\n",
        "ModuleList",
        "from torch.nn import (\n    Linear,\n    Module, ModuleList\n)\n",
    ),
    "namespace added to what comes from torch": (
        "from torch import Tensor\n",
        "nn.ModuleList",
        "from torch import Tensor, nn\n",
    ),
    "new import behind the last": (
        "import os\nfrom base import Base\n\nx = 1\n",
        "nn.ModuleList",
        "import os\nfrom base import Base\nfrom torch import nn\n\nx = 1\n",
    ),
    "new import behind a long one": (
        "from base import (\n    Base,\n)  # ours\nx = 1\n",
        "nn.ModuleList",
        "from base import (\n    Base,\n)  # ours\nfrom torch import nn\nx = 1\n",
    ),
    "new import behind two in one line": (
        "import os; import sys\nx = 1\n",
        "nn.ModuleList",
        "import os; import sys\nfrom torch import nn\nx = 1\n",
    ),
    "new import behind one from the future": (
        '"""Text."""\nfrom __future__ import annotations\nx = 1\n',
        "nn.ModuleList",
        '"""Text."""\nfrom __future__ import annotations\nfrom torch import nn\nx = 1\n',
    ),
    "no import at all": ("x = 1\n", "nn.ModuleList", "from torch import nn\n\n\nx = 1\n"),
    "last line without its end": ("import os", "nn.ModuleList", "import os\nfrom torch import nn\n"),
    "no import but a docstring": (
        '"""Text."""\n\nx = 1\n',
        "nn.ModuleList",
        '"""Text."""\n\nfrom torch import nn\n\nx = 1\n',
    ),
    "no import but a shebang": (
        "#!/usr/bin/env python\n# coding: utf-8\nx = 1\n",
        "nn.ModuleList",
        "#!/usr/bin/env python\n# coding: utf-8\nfrom torch import nn\n\n\nx = 1\n",
    ),
    "nothing": ("", "nn.ModuleList", "from torch import nn\n"),
}


@pytest.mark.parametrize(("code", "text", "edited"), SPELLED.values(), ids=SPELLED)
def test_name_is_spelled_as_its_author_would(code: str, text: str, edited: str) -> None:
    spelling = model_of(code).names.spell("torch.nn.ModuleList")
    assert (spelling.text, apply_edits(code, list(spelling.edits))) == (text, edited)
    compile(edited, "<edited>", "exec")


@pytest.mark.parametrize("code", [code for code, _, _ in SPELLED.values()], ids=SPELLED)
def test_spelling_holds_once_its_import_is_there(code: str) -> None:
    spelling = model_of(code).names.spell("torch.nn.ModuleList")
    again = model_of(apply_edits(code, list(spelling.edits))).names.spell("torch.nn.ModuleList")
    assert (again.text, again.edits) == (spelling.text, ())


@pytest.mark.parametrize(
    ("code", "name", "text", "edited"),
    [
        ("import torch\n", "torch.zeros", "torch.zeros", "import torch\n"),
        ("from torch import nn\n", "torch.zeros", "zeros", "from torch import nn, zeros\n"),
        ("import os\n", "torch.zeros", "torch.zeros", "import os\nimport torch\n"),
        ("from torch import *\n", "torch.zeros", "zeros", "from torch import *\n"),
    ],
)
def test_function_of_torch_is_spelled(code: str, name: str, text: str, edited: str) -> None:
    spelling = model_of(code).names.spell(name)
    assert (spelling.text, apply_edits(code, list(spelling.edits))) == (text, edited)


COMMON = Path(__file__).read_text("utf-8")
RARE = """
@final
async def f[T: int, *U, **V](a: int = 1, /, *args: str, b, c=2, **rest) -> None:
    async with a as b, c: await d
    async for x in y: ...
    global g
    x = [*a, (yield), (yield from b)]; x += 1; y: int = (z := 2); del x, y
    return lambda a, *b, c=3, **d: {**a, "k": f"{x!r:>{width}}{y=}" "z", **{k: v async for k, v in w if v if k}}
match a:
    case B(1, c=[2, *rest], d={"e": None, **more}) | "f" as g if h: pass
try: import a.b as c, d
except* (E, F) as e: raise G from e
else: assert a, "m"
finally: from ..a import (b as c, d,)
while not a if -b else c[1:2, ..., ::3] < d <= e is not f not in g: continue
class C[T](A, *b, metaclass=M, **c): x = 1j; y = {1, *a}; z = {i for i in j}; w = (i for i in j)
type X[T] = list[T]
"""


@pytest.mark.parametrize("text", [RARE, COMMON], ids=["rare", "common"])
def test_children_are_those_of_libcst_without_trivia(text: str) -> None:
    def is_trivial(node: cst.CSTNode) -> bool:
        return type(node).__module__.endswith((".whitespace", ".op")) or isinstance(
            node,
            cst.LeftParen
            | cst.RightParen
            | cst.LeftSquareBracket
            | cst.RightSquareBracket
            | cst.LeftCurlyBrace
            | cst.RightCurlyBrace
            | cst.Asynchronous
            | cst.ParamSlash,
        )

    for node in walk(cst.parse_module(text)):
        expected = [child for child in node.children if not is_trivial(child)]
        assert set(children(node)) == set(expected)
        assert len(children(node)) == len(expected)
