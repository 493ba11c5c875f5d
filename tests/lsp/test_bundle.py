"""The server of the packaged extension, started with the user's Python, whatever that Python has installed."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.lsp.documents import AWKWARD, AWKWARD_FINDINGS, repaired
from tests.lsp.editor import Editor, profile

pytestmark = pytest.mark.filterwarnings("error")

ROOT = Path(__file__).parents[2]
POISON = "poisoned"
POISONED = [
    *["attr", "attrs", "cattr", "cattrs", "click", "exceptiongroup", "libcst", "lsprotocol", "pathspec", "pygls"],
    *["rich", "tomli", "torch", "torchstray", "typing_extensions", "typeguard", "yaml"],
]
"""What the server or its packages import, or try to."""


def poison(folder: Path) -> Path:
    """Put packages into a folder of which none can be imported."""
    for name in POISONED:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('{POISON} {name} of {folder.name}')\n")
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is packaged with the extension, for this Python."""
    folder = tmp_path_factory.mktemp("the extension") / "bundled"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [sys.executable, "scripts/bundle.py", str(folder), "--python", python]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of the user, with poisoned packages and start-up files."""
    home = tmp_path_factory.mktemp("user") / "env"
    venv.create(home, symlinks=os.name != "nt")
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    poison(packages)
    (packages / "start.pth").write_text("import sys; sys.stdout.write('hello from a .pth file\\n')\n")
    (packages / "sitecustomize.py").write_text("print('hello from sitecustomize')\n")
    return python


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the user that shadows all it can, the standard library too."""
    folder = poison(tmp_path_factory.mktemp("workspace"))
    for name in ("logging", "json", "asyncio"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{POISON} {name} of the workspace')\n")
    return folder


@pytest.fixture(scope="module")
def environment(workspace: Path) -> dict[str, str]:
    """The variables of a user who has set all that changes how Python starts."""
    startup = workspace / "startup.py"
    startup.write_text("print('hello from PYTHONSTARTUP')\n")
    variables = {"PYTHONPATH": str(workspace), "PYTHONSTARTUP": str(startup), "PYTHONINSPECT": "", "PYTHONUTF8": "0"}
    return {**os.environ, **variables, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}


def test_the_poison_works(python: Path, workspace: Path, environment: dict[str, str]) -> None:
    """Not isolated, this Python runs nothing of ours."""
    for name, folder in (("pygls", workspace), ("json", workspace), ("typing_extensions", python.parent)):
        variables = environment if folder == workspace else {**os.environ}
        command = [str(python), "-c", f"import {name}"]
        done = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
        assert f"{POISON} {name}" in done.stderr
        assert "hello from a .pth file" in done.stdout


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def vscode(bundle: Path, python: Path, workspace: Path, environment: dict[str, str]) -> AsyncIterator[Editor]:
    """VS Code with the bundled server."""
    editor = Editor(profile("vscode"))
    command = [str(python), "-I", "-S", str(bundle), "server"]
    await editor.start(command, cwd=workspace, env=environment)
    await editor.greet(workspace)
    yield editor
    assert await editor.leave() == 0
    assert editor.complaints == []


@pytest.mark.asyncio(loop_scope="session")
async def test_it_finds_and_explains(vscode: Editor, workspace: Path) -> None:
    buffer = vscode.open(workspace / "model.py", AWKWARD)
    await vscode.look(buffer)
    assert vscode.findings(buffer) == AWKWARD_FINDINGS
    assert await vscode.hover(buffer, buffer.after("self.маска")) is not None
    link = buffer.shown[0].code_description
    assert link is not None
    assert "/bundled/torchstray/docs/rules/unregistered-tensor.md" in link.href


@pytest.mark.asyncio(loop_scope="session")
async def test_it_repairs(vscode: Editor, workspace: Path, tmp_path: Path) -> None:
    buffer = vscode.open(workspace / "model.py", AWKWARD)
    (action,) = await vscode.actions(buffer, 0, len(AWKWARD), ["source.fixAll"])
    await vscode.apply(action)
    assert buffer.text == repaired(AWKWARD, tmp_path)


@pytest.mark.asyncio(loop_scope="session")
async def test_settings_are_read(vscode: Editor, workspace: Path) -> None:
    """By what is needed for that alone: glob patterns, TOML."""
    folder = workspace / "project"
    folder.mkdir()
    settings = '[tool.torchstray]\nexclude = ["generated_*.py"]\nignore = ["discarded-move"]\n'
    (folder / "pyproject.toml").write_text(settings)
    buffer = vscode.open(folder / "generated_model.py", AWKWARD)
    assert await vscode.look(buffer) == []
    buffer = vscode.open(folder / "model.py", AWKWARD)
    await vscode.look(buffer)
    assert vscode.findings(buffer) == AWKWARD_FINDINGS[:-1]
    assert vscode.messages == []
