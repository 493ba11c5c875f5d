"""Classes, functions and constants of other files."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest

from torchstray.rules import run
from torchstray.semantics.model import FileModel
from torchstray.semantics.project import Project
from torchstray.syntax.document import Document

from .programs import RULES

HEAD = "import torch\nfrom torch import nn\n"
BASE = f"""
{HEAD}
class Base(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.size = size
"""
USER = """
import torch
from {where} import {name}

class Net({name}):
    def __init__(self):
        super().__init__()
        self.k = torch.zeros(3)
    def forward(self, x):
        return x + self.k
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


def found(root: Path, name: str, project: Project | None = None) -> list[tuple[str, int]]:
    """The rules and rows of what is found in one file."""
    path = root / name
    document = Document(path.read_text(encoding="utf-8"))
    findings = run(document, project or Project(), RULES, path)
    return sorted((finding.rule, document.lines.position(finding.span.start)[0]) for finding in findings)


def model(root: Path, name: str, project: Project | None = None) -> FileModel:
    path = root / name
    return FileModel(Document(path.read_text(encoding="utf-8")), project or Project(), path)


FOUND = [("unregistered-tensor", 8)]

TREES = {
    "absolute": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": USER.format(where="pkg.base", name="Base")},
    "relative": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": USER.format(where=".base", name="Base")},
    "two levels up": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/a/__init__.py": "",
        "pkg/net.py": "",
        "pkg/a/net.py": USER.format(where="..base", name="Base"),
    },
    "beside a script": {"base.py": BASE, "net.py": USER.format(where="base", name="Base")},
    "re-export": {
        "pkg/__init__.py": "from .sub import Base as Root\n",
        "pkg/sub/__init__.py": "from .base import Base\n",
        "pkg/sub/base.py": BASE,
        "pkg/net.py": USER.format(where="pkg", name="Root"),
    },
    "star": {
        "pkg/__init__.py": "from .sub import *\n",
        "pkg/sub.py": "from .base import *\n",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where=".", name="Base"),
    },
    "star in the file": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where=".base", name="*").replace("class Net(*)", "class Net(Base)"),
    },
    "listed in __all__": {
        "pkg/__init__.py": "from .base import *\n",
        "pkg/base.py": BASE + "\n__all__ = ['Base']\n",
        "pkg/net.py": USER.format(where="pkg", name="Base"),
    },
    "the module": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where="pkg", name="base").replace("(base)", "(base.Base)"),
    },
    "import of a submodule": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where="x", name="y")
        .replace("from x import y", "import pkg.base")
        .replace("(y)", "(pkg.base.Base)"),
    },
    "namespace package": {"pkg/base.py": BASE, "net.py": USER.format(where="pkg.base", name="Base")},
    "src layout": {
        "pyproject.toml": "",
        "src/pkg/__init__.py": "",
        "src/pkg/base.py": BASE,
        "tools/net.py": USER.format(where="pkg.base", name="Base"),
    },
    "from the project's folder": {
        "pyproject.toml": "",
        "models/base.py": BASE,
        "models/net.py": USER.format(where="models.base", name="Base"),
    },
    "try": {
        "pkg/__init__.py": "",
        "pkg/base.py": "try:\n    from missing import Base\nexcept ImportError:\n    from .real import Base\n",
        "pkg/real.py": BASE,
        "pkg/net.py": USER.format(where=".base", name="Base"),
    },
    "for type checkers": {
        "pkg/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .base import Base\n",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where="pkg", name="Base"),
    },
    "another name": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE + "\nRoot = Base\n",
        "pkg/net.py": USER.format(where=".base", name="Root"),
    },
    "a chain": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/middle.py": "from .base import Base\nclass Middle(Base):\n    pass\n",
        "pkg/net.py": USER.format(where=".middle", name="Middle"),
    },
    "a folder that shadows a module": {
        "pkg/__init__.py": "",
        "pkg/base/__init__.py": BASE,
        "pkg/base.py": "class Base:\n    pass\n",
        "pkg/net.py": USER.format(where="pkg.base", name="Base"),
    },
    "a name that is a module and a class": {
        "pkg/__init__.py": "from .Base import Base\n",
        "pkg/Base.py": BASE,
        "pkg/net.py": USER.format(where="pkg", name="Base"),
    },
    "sequential": {
        "pkg/__init__.py": "",
        "pkg/base.py": HEAD + "class Base(nn.Sequential):\n    pass\n",
        "pkg/net.py": USER.format(where="pkg.base", name="Base"),
    },
    "a stub beside the source": {
        "pkg/__init__.py": "import lazy_loader as lazy\n__getattr__, __dir__, __all__ = lazy.attach_stub(__name__)\n",
        "pkg/__init__.pyi": "from .base import Base\n",
        "pkg/base.py": BASE,
        "pkg/net.py": USER.format(where="pkg", name="Base"),
    },
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_base_is_found(tree: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, tree)
    name = next(name for name, text in tree.items() if "class Net" in text)
    assert found(tmp_path, name) == FOUND


SILENT = {
    "no such module": {"net.py": USER.format(where="missing.base", name="Base")},
    "no such name": {"base.py": "Other = 1\n", "net.py": USER.format(where="base", name="Base")},
    "no module class": {"base.py": "class Base:\n    pass\n", "net.py": USER.format(where="base", name="Base")},
    "out of the root": {"net.py": USER.format(where="....base", name="Base")},
    "a private name through a star": {
        "base.py": BASE.replace("Base", "_Base"),
        "all.py": "from base import *\n",
        "net.py": USER.format(where="all", name="_Base"),
    },
    "a name that __all__ leaves out": {
        "base.py": BASE + "\n__all__ = ['other']\nother = 1\n",
        "all.py": "from base import *\n",
        "net.py": USER.format(where="all", name="Base"),
    },
    "files that import each other": {
        "one.py": "from two import *\n",
        "two.py": "from one import *\n",
        "net.py": USER.format(where="one", name="Base"),
    },
    "a name that means itself": {
        "one.py": "from two import Base\n",
        "two.py": "from one import Base\n",
        "net.py": USER.format(where="one", name="Base"),
    },
    "a base that is its own subclass": {
        "one.py": "from two import Other\nclass Base(Other):\n    pass\n",
        "two.py": "from one import Base\nclass Other(Base):\n    pass\n",
        "net.py": USER.format(where="one", name="Base"),
    },
    "its own base": {"one.py": "class Base(Base):\n    pass\n", "net.py": USER.format(where="one", name="Base")},
    "half a file": {"one.py": "class Base(\n  def x(:\n", "net.py": USER.format(where="one", name="Base")},
    "no text": {"one.py": "\0\0", "net.py": USER.format(where="one", name="Base")},
    "a folder called like a file": {"one.py/x.txt": "", "net.py": USER.format(where="one", name="Base")},
    "too large": {"one.py": BASE + "#" * 2_100_000, "net.py": USER.format(where="one", name="Base")},
}


@pytest.mark.parametrize("tree", SILENT.values(), ids=SILENT)
def test_what_cannot_be_found_is_not_reported(tree: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, tree)
    assert found(tmp_path, "net.py") == []


def test_unreadable_text(tmp_path: Path) -> None:
    write(tmp_path, {"net.py": USER.format(where="one", name="Base")})
    (tmp_path / "one.py").write_bytes(b"# coding: latin-2\n\xff\xfe class Base: pass")
    assert found(tmp_path, "net.py") == []


def test_the_same_class_under_if(tmp_path: Path) -> None:
    one = f"{HEAD}if torch.backends:\n    class Base(nn.Module):\n        pass\nelse:\n    class Base:\n        pass\n"
    write(tmp_path, {"one.py": one, "net.py": USER.format(where="one", name="Base")})
    assert found(tmp_path, "net.py") == FOUND


# What a base in another file says


def net(body: str, forward: str = "return x", head: str = "from base import Base\n") -> str:
    return (
        f"{HEAD}{head}\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
        + textwrap.indent(textwrap.dedent(body), " " * 8)
        + f"\n    def forward(self, x):\n        {forward}\n"
    )


def test_buffer_of_a_base_takes_an_assigned_tensor(tmp_path: Path) -> None:
    base = BASE + "        self.register_buffer('k', torch.zeros(1))\n"
    write(tmp_path, {"base.py": base, "net.py": net("self.k = torch.ones(1)", "return x + self.k")})
    assert found(tmp_path, "net.py") == []


def test_inherited_stray_is_reported_where_it_is_stored(tmp_path: Path) -> None:
    base = BASE + "        self.k = torch.zeros(3)\n"
    write(tmp_path, {"base.py": base, "net.py": net("self.j = 1", "return x + self.k")})
    assert found(tmp_path, "net.py") == []
    assert found(tmp_path, "base.py") == [("unregistered-tensor", 9)]


def test_use_in_a_base(tmp_path: Path) -> None:
    base = BASE + "    def forward(self, x):\n        return x * self.scale\n"
    code = f"{HEAD}from base import Base\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
    write(tmp_path, {"base.py": base, "net.py": code + "        self.scale = torch.ones(3)\n"})
    path = tmp_path / "net.py"
    (finding,) = run(Document(path.read_text()), Project(), RULES, path)
    assert finding.severity.label == "warning"
    assert finding.related == ()


def test_helper_of_a_base_that_fails(tmp_path: Path) -> None:
    base = BASE + "    def add(self, x, y):\n        return x + y\n"
    write(tmp_path, {"base.py": base, "net.py": net("self.k = torch.zeros(3)", "return self.add(x, self.k)")})
    path = tmp_path / "net.py"
    document = Document(path.read_text())
    (finding,) = run(document, Project(), RULES, path)
    assert finding.severity.label == "error"
    assert document.text[finding.related[0].span.start : finding.related[0].span.end] == "self.add(x, self.k)"


def test_base_that_moves_its_own(tmp_path: Path) -> None:
    base = BASE + (
        "    def _apply(self, fn):\n        super()._apply(fn)\n        for name, value in vars(self).items():\n"
        "            setattr(self, name, fn(value))\n        return self\n"
    )
    write(tmp_path, {"base.py": base, "net.py": net("self.k = torch.zeros(3)", "return x + self.k")})
    assert found(tmp_path, "net.py") == []


def test_base_that_registers_what_it_is_given(tmp_path: Path) -> None:
    base = BASE + "    def add_state(self, name, default):\n        self.register_buffer(name, default)\n"
    code = net("self.add_state('total', torch.zeros(1))", "return x + self.total")
    write(tmp_path, {"base.py": base, "net.py": code})
    assert found(tmp_path, "net.py") == []


def test_layer_before_the_init_of_a_base(tmp_path: Path) -> None:
    code = f"{HEAD}from base import Base\n\nclass Net(Base):\n    def __init__(self):\n"
    code += "        self.layer = nn.Linear(2, 2)\n        super().__init__()\n"
    write(tmp_path, {"base.py": BASE, "net.py": code})
    assert found(tmp_path, "net.py") == [("before-super-init", 7)]


# What else comes from other files

LAYERS = f"""
{HEAD}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

class Plain(nn.Module):
    def forward(self, x):
        return x

def make(n):
    return [Block() for _ in range(n)]

def table(n):
    return torch.arange(n) * 2

def moved(x, like):
    return x.to(like.device)

MEAN = torch.tensor([0.1, 0.2])
SIZE = 3
KINDS = {{"block": Block, "plain": Plain}}
"""
OWN_BASE = "class Base(nn.Module):\n    pass\n"


@pytest.mark.parametrize(
    ("imported", "body", "forward", "rule"),
    [
        ("Block", "self.layers = [Block()]", "return self.layers[0](x)", "unregistered-module"),
        ("Plain", "self.layers = [Plain()]", "return self.layers[0](x)", None),
        ("make", "self.layers = make(3)", "return x", "unregistered-module"),
        ("make", "self.layers = nn.ModuleList(make(3))", "return x", None),
        ("table", "self.t = table(3)", "return x + self.t", "unregistered-tensor"),
        ("table", "self.register_buffer('t', table(3))", "return x + self.t", None),
        ("MEAN", "self.mean = MEAN", "return x - self.mean", "unregistered-tensor"),
        ("SIZE", "self.size = SIZE", "return x * self.size", None),
        ("Block", "self.layer = Block()", "return Block()(x)", "layer-in-forward"),
        ("Plain", "self.size = 1", "return Plain()(x)", None),
        ("KINDS", "self.layers = [KINDS['block']()]", "return self.layers[0](x)", "unregistered-module"),
        ("KINDS", "self.layers = [KINDS['plain']()]", "return self.layers[0](x)", None),
        ("missing", "self.layers = [missing()]", "return self.layers[0](x)", None),
    ],
)
def test_imported_things(imported: str, body: str, forward: str, rule: str | None, tmp_path: Path) -> None:
    code = net(body, forward, head=f"from pkg.layers import {imported}\n{OWN_BASE}")
    write(tmp_path, {"pkg/__init__.py": "", "pkg/layers.py": LAYERS, "net.py": code})
    assert [name for name, _ in found(tmp_path, "net.py")] == ([rule] if rule is not None else [])


def test_helper_that_moves(tmp_path: Path) -> None:
    code = net("self.k = torch.zeros(3)", "return x + moved(self.k, x)", head=f"from layers import moved\n{OWN_BASE}")
    write(tmp_path, {"layers.py": LAYERS, "net.py": code})
    path = tmp_path / "net.py"
    (finding,) = run(Document(path.read_text()), Project(), RULES, path)
    assert finding.severity.label == "hint"


def test_constants_are_worked_out_for_each_file(tmp_path: Path) -> None:
    layers = LAYERS + "\nSHARED = [Block()]\n"
    head = f"from layers import SHARED\n{OWN_BASE}"
    write(tmp_path, {"layers.py": layers})
    write(tmp_path, {"one.py": net("self.layers = nn.ModuleList(SHARED)", head=head)})
    write(tmp_path, {"two.py": net("self.layers = SHARED", head=head)})
    project = Project()
    assert found(tmp_path, "one.py", project) == []
    assert [name for name, _ in found(tmp_path, "two.py", project)] == ["unregistered-module"]


def test_annotated_argument(tmp_path: Path) -> None:
    code = (
        f"{HEAD}from layers import Block, Plain\n\nclass Net(nn.Module):\n"
        "    def __init__(self, blocks: list[Block], plain: list[Plain]):\n        super().__init__()\n"
        "        self.blocks = blocks\n        self.plain = plain\n"
    )
    write(tmp_path, {"layers.py": LAYERS, "net.py": code})
    assert found(tmp_path, "net.py") == [("unregistered-module", 8)]


# Environments

PACKAGES = {"lib/python3.11/site-packages": ".venv", "Lib/site-packages": "venv"}


def environment(root: Path, packages: str, files: dict[str, str]) -> None:
    (root / "pyvenv.cfg").parent.mkdir(parents=True, exist_ok=True)
    (root / "pyvenv.cfg").touch()
    write(root / packages, files)


@pytest.mark.parametrize(("packages", "name"), PACKAGES.items())
def test_environment_above_the_file(packages: str, name: str, tmp_path: Path) -> None:
    environment(tmp_path / name, packages, {"lib/base.py": BASE})
    write(tmp_path, {"code/net.py": USER.format(where="lib.base", name="Base")})
    assert found(tmp_path, "code/net.py", Project()) == []
    assert found(tmp_path, "code/net.py", Project(environment={})) == FOUND


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_active_environment(variable: str, tmp_path: Path) -> None:
    environment(tmp_path / "env", "lib/python3.12/site-packages", {"lib/__init__.py": "", "lib/base.py": BASE})
    write(tmp_path, {"code/net.py": USER.format(where="lib.base", name="Base")})
    assert found(tmp_path, "code/net.py", Project(environment={variable: str(tmp_path / "env")})) == FOUND


def test_interpreter(tmp_path: Path) -> None:
    environment(tmp_path / "env", "lib/python3.12/site-packages", {"lib/base.py": BASE})
    write(tmp_path / "env", {"bin/python": ""})
    write(tmp_path, {"code/net.py": USER.format(where="lib.base", name="Base")})
    assert found(tmp_path, "code/net.py", Project(python=tmp_path / "env" / "bin" / "python")) == FOUND
    assert found(tmp_path, "code/net.py", Project(python=tmp_path / "nowhere")) == []


def test_editable_install(tmp_path: Path) -> None:
    environment(tmp_path / "env", "lib/python3.12/site-packages", {"x.pth": f"import os\n{tmp_path / 'lib'}\n"})
    write(tmp_path, {"lib/base.py": BASE, "code/net.py": USER.format(where="base", name="Base")})
    assert found(tmp_path, "code/net.py", Project(python=tmp_path / "env")) == FOUND


def test_package_with_stubs_only(tmp_path: Path) -> None:
    stub = "import torch.nn as nn\nclass Base(nn.Module):\n    def __init__(self) -> None: ...\n"
    environment(tmp_path / "env", "lib/python3.12/site-packages", {"lib-stubs/__init__.pyi": stub})
    write(tmp_path, {"code/net.py": USER.format(where="lib", name="Base")})
    assert found(tmp_path, "code/net.py", Project(python=tmp_path / "env")) == FOUND


def test_source_counts_before_a_stub_that_contradicts_it(tmp_path: Path) -> None:
    write(tmp_path, {"base.py": BASE, "base.pyi": "class Base: ...\n"})
    write(tmp_path, {"net.py": USER.format(where="base", name="Base")})
    assert found(tmp_path, "net.py") == FOUND


def test_torch_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"torch/nn/__init__.py": "class Module:\n    pass\n", "torch/__init__.py": ""})
    write(tmp_path, {"net.py": BASE + "        self.k = torch.zeros(3)\n"})
    project = Project()
    with project.watching() as seen:
        assert found(tmp_path, "net.py", project) == [("unregistered-tensor", 9)]
    assert [path for path in seen if "torch" in os.path.relpath(path, tmp_path)] == []


def test_given_roots(tmp_path: Path) -> None:
    write(tmp_path, {"lib/base.py": BASE, "code/net.py": USER.format(where="base", name="Base")})
    assert found(tmp_path, "code/net.py") == []
    assert found(tmp_path, "code/net.py", Project([tmp_path / "lib"])) == FOUND


# Dependencies


def test_answers_depend_on_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "from .base import Base\n", "pkg/base.py": BASE})
    write(tmp_path, {"net.py": USER.format(where="pkg", name="Base")})
    project = Project()
    for _ in range(2):  # what is remembered depends on the same
        with project.watching() as seen:
            found(tmp_path, "net.py", project)
        names = {os.path.relpath(path, tmp_path): stamp for path, stamp in seen.items()}
        assert {"pkg/__init__.py", "pkg/base.py"} <= {Path(name).as_posix() for name in names}
        assert names[str(Path("pkg/base.py"))] is not None


def test_a_missing_file_is_a_dependency(tmp_path: Path) -> None:
    write(tmp_path, {"net.py": USER.format(where="base", name="Base")})
    project = Project()
    with project.watching() as seen:
        assert found(tmp_path, "net.py", project) == []
    assert seen[str(tmp_path / "base.py")] is None
    write(tmp_path, {"base.py": BASE})
    project.refresh()
    assert found(tmp_path, "net.py", project) == FOUND


def test_changes_are_seen(tmp_path: Path) -> None:
    files = {"one.py": "from two import Base\n", "two.py": BASE, "net.py": USER.format(where="one", name="Base")}
    write(tmp_path, files)
    project = Project()
    assert found(tmp_path, "net.py", project) == FOUND
    write(tmp_path, {"two.py": "class Base:\n    pass\n"})
    assert found(tmp_path, "net.py", project) == FOUND
    project.refresh()
    assert found(tmp_path, "net.py", project) == []
    (tmp_path / "two.py").unlink()
    project.refresh()
    assert found(tmp_path, "net.py", project) == []
    write(tmp_path, {"two.py": BASE})
    project.refresh()
    assert found(tmp_path, "net.py", project) == FOUND


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"base.py": BASE, "net.py": USER.format(where="base", name="Base")})
    read: list[str] = []

    def document(text: str) -> Document:
        read.append(text)
        return Document(text)

    monkeypatch.setattr("torchstray.semantics.project.Document", document)
    project = Project()
    found(tmp_path, "net.py", project)
    found(tmp_path, "net.py", project)
    assert len(read) == 1


def test_what_is_not_used_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchstray.semantics.project._MOST_FILES", 3)
    project = Project()
    for number in range(10):
        write(tmp_path, {f"b{number}.py": BASE, f"n{number}.py": USER.format(where=f"b{number}", name="Base")})
        assert found(tmp_path, f"n{number}.py", project) == FOUND
        project.shrink()
        assert len(project._sources) <= 3
    assert found(tmp_path, "n0.py", project) == FOUND


# Bounds


def test_many_classes(tmp_path: Path) -> None:
    classes = "".join(f"class C{n + 1}(C{n}):\n    pass\n" for n in range(300))
    base = BASE.replace("Base", "C0") + classes
    write(tmp_path, {"base.py": base, "net.py": USER.format(where="base", name="C300")})
    start = time.process_time()
    found(tmp_path, "net.py")
    assert time.process_time() - start < 20


def test_many_files_in_a_chain(tmp_path: Path) -> None:
    write(tmp_path, {"m0.py": BASE})
    write(tmp_path, {f"m{n + 1}.py": f"from m{n} import *\n" for n in range(200)})
    write(tmp_path, {"net.py": USER.format(where="m200", name="Base")})
    assert found(tmp_path, "net.py") == []
    write(tmp_path, {"net.py": USER.format(where="m10", name="Base")})
    assert found(tmp_path, "net.py") == FOUND


def test_document_without_a_path() -> None:
    assert run(Document(USER.format(where="os.path", name="Base")), Project(), RULES) == []
    assert run(Document(USER.format(where=".base", name="Base")), Project(), RULES) == []


# A base that cannot be found


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("self.register_buffer('j', torch.zeros(3))", ["unregistered-tensor"]),
        ("torch.nn.Module.__init__(self)", ["unregistered-tensor"]),
        ("self.j = nn.Linear(2, 2)", []),
        ("other.register_buffer('j', torch.zeros(3))", []),
    ],
)
def test_class_that_says_itself_that_it_is_a_module(line: str, rules: list[str], tmp_path: Path) -> None:
    code = net(f"{line}\nself.k = torch.zeros(3)", "return x + self.k", head="from missing import Base, other\n")
    write(tmp_path, {"net.py": code})
    assert [rule for rule, _ in found(tmp_path, "net.py")] == rules


def test_alternatives_in_the_file(tmp_path: Path) -> None:
    head = "try:\n    from missing import Base\nexcept ImportError:\n    from base import Base\n"
    write(tmp_path, {"base.py": BASE, "net.py": net("self.k = torch.zeros(3)", "return x + self.k", head=head)})
    assert [rule for rule, _ in found(tmp_path, "net.py")] == ["unregistered-tensor"]


# Devices in two files


PLACING_BASE = f"""
{HEAD}
class Base(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.to(device)
"""


@pytest.mark.parametrize(
    ("head", "argument", "rules"),
    [
        ("self", "", []),
        ("self", "'cpu'", []),
        ("self, device", "device", ["model-not-moved"]),
        ("self, device", "device=device", ["model-not-moved"]),
    ],
)
def test_base_that_moves_itself(head: str, argument: str, rules: list[str], tmp_path: Path) -> None:
    code = f"""
    {HEAD.replace(chr(10), chr(10) + "    ")}
    from base import Base

    class Net(Base):
        def __init__({head}):
            super().__init__({argument})
            self.layer = nn.Linear(3, 3)
        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, {"base.py": PLACING_BASE, "net.py": code})
    assert [rule for rule, _ in found(tmp_path, "net.py")] == rules


KEEPING_BASE = f"""
import functools
{HEAD}
SCALE = torch.ones(3)

def made(size):
    return torch.ones(size)

@functools.cache
def kept(size):
    return torch.ones(size)

def added(x, y=torch.ones(3)):
    return x + y

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = None
        self.items = {{}}
        self.layer = nn.Linear(3, 3)
    @functools.cached_property
    def ones(self):
        return torch.ones(3)
    def fixed(self, x):
        return x.to("cuda:0")
    def remembered(self, x):
        if self.cache is None:
            self.cache = torch.ones(3)
        return x + self.cache
    def item(self, x, key):
        if key not in self.items:
            self.items[key] = torch.ones(3)
        return x + self.items[key]
    def sum(self, x):
        return x + torch.ones(3)
    def step(self, x):
        return self.layer(x) + self.hook(x)
"""


@pytest.mark.parametrize(
    "line",
    [
        "return x + made(3)",
        "return x + kept(3)",
        "return x + SCALE",
        "return added(x)",
        "return x + self.ones",
        "return self.fixed(x)",
        "return self.remembered(x)",
        "return self.item(x, 3)",
        "return self.sum(x)",
        "return self.step(x)",
    ],
)
def test_what_another_file_makes_is_reported_there_or_nowhere(line: str, tmp_path: Path) -> None:
    code = f"""
    {HEAD.replace(chr(10), chr(10) + "    ")}
    from base import SCALE, Base, added, kept, made

    class Net(Base):
        def hook(self, x):
            return 1
        def forward(self, x):
            {line}
    """
    write(tmp_path, {"base.py": KEEPING_BASE, "net.py": code})
    assert found(tmp_path, "net.py") == []


@pytest.mark.parametrize("method", ["step", "forward"])
def test_tensor_made_here_for_a_base_in_another_file(method: str, tmp_path: Path) -> None:
    code = f"""
    {HEAD.replace(chr(10), chr(10) + "    ")}
    from base import Base

    class Net(Base):
        def hook(self, x):
            return torch.ones(3)
        def forward(self, x):
            return x + torch.zeros(3)
        def training_step(self, batch):
            return self.{method}(batch)
    """
    write(tmp_path, {"base.py": KEEPING_BASE, "net.py": code})
    assert ("missing-device", 11) in found(tmp_path, "net.py")
