"""The folders depend on each other in one direction only, and start-up stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import torchstray

PACKAGE = Path(torchstray.__file__).parent
LAYERS = [
    "text",
    "syntax",
    "semantics",
    "rules",
    "config",
    "suppression",
    "check",
    "repair",
    "overview",
    "files",
    "report",
    "run",
    "lsp",
    "cli",
    "__main__",
]
"""Each imports only from itself and from those before it."""

FILES = [pytest.param(file, id=file.relative_to(PACKAGE).as_posix()) for file in sorted(PACKAGE.rglob("*.py"))]
LIBCST_LAYERS = {"syntax", "semantics", "rules"}
LATE = {"rich", "pathspec"}
"""Needed by few runs, and slow to load: imported where they are used."""
PROTOCOL = {"lsprotocol", "pygls"}
"""Needed by the language server alone, and the slowest to load."""


@dataclass(frozen=True)
class Import:
    """A dotted name that a file imports on a line (from 1); `late` where it is imported inside a function."""

    name: str
    line: int
    late: bool


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[Import]:
    """Yield all imports of a file, also those for type checkers: knowing a type is a dependency too."""
    tree = ast.parse(file.read_bytes())
    late = {
        node
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, node in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            yield from (Import(f"{node.module}.{alias.name}", node.lineno, node in late) for alias in node.names)


def for_type_checkers(file: Path) -> set[int]:
    """The lines (from 1) under `if TYPE_CHECKING:`, which cost nothing when the program runs."""
    return {
        line
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def test_every_file_has_its_place() -> None:
    assert {layer_of(param.values[0]) for param in FILES if isinstance(param.values[0], Path)} == {*LAYERS, "__init__"}


@pytest.mark.parametrize("file", FILES)
def test_dependencies_point_one_way(file: Path) -> None:
    layer = layer_of(file)
    above = {"__init__"} if layer == "__init__" else {*LAYERS[: LAYERS.index(layer) + 1]}
    below = {*LAYERS} - above
    ours = [found for found in imports(file) if found.name.startswith("torchstray.")]
    assert [found for found in ours if found.name.split(".")[1] in below] == []


@pytest.mark.parametrize("file", FILES)
def test_torch_is_never_imported(file: Path) -> None:
    assert [found for found in imports(file) if found.name.split(".")[0] == "torch"] == []


@pytest.mark.parametrize("file", FILES)
def test_syntax_trees_stay_where_they_belong(file: Path) -> None:
    if layer_of(file) not in LIBCST_LAYERS:
        assert [found for found in imports(file) if found.name.split(".")[0] == "libcst"] == []


@pytest.mark.parametrize("file", FILES)
def test_the_protocol_stays_where_it_belongs(file: Path) -> None:
    if layer_of(file) != "lsp":
        assert [found for found in imports(file) if found.name.split(".")[0] in PROTOCOL] == []
        assert [found for found in imports(file) if found.name.startswith("torchstray.lsp") and not found.late] == []


@pytest.mark.parametrize("file", FILES)
def test_what_is_slow_to_load_is_loaded_late(file: Path) -> None:
    free = for_type_checkers(file)
    found = [found for found in imports(file) if found.name.split(".")[0] in LATE]
    assert [one for one in found if not one.late and one.line not in free] == []


def test_importing_the_command_line_is_light() -> None:
    code = "import sys, torchstray.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"libcst", "torch", *LATE, *PROTOCOL} & set(result.stdout.split())


def test_the_server_answers_before_syntax_trees_are_loaded() -> None:
    code = "import sys, torchstray.lsp.features, torchstray.lsp.code_actions; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"libcst", "torch"} & set(result.stdout.split())
