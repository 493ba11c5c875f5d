"""One server for each editor, shared by the tests; each test has a folder of the workspace to itself."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cli.conftest import environment
from tests.lsp.editor import Editor, profile

COMMAND = (sys.executable, "-m", "torchstray", "server")
PROFILES = ("vscode", "neovim", "emacs")

Launch = Callable[[str], Awaitable[Editor]]


class Desk:
    """The editors of a test session, started when first needed, with one workspace."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work space"
        self.workspace.mkdir()
        self._editors: dict[str, Editor] = {}

    async def editor(self, name: str) -> Editor:
        """Return the editor of a profile, with its server running."""
        editor = self._editors.get(name)
        if editor is None:
            editor = Editor(profile(name))
            await editor.start(COMMAND, cwd=self.workspace.parent, env=environment())
            await editor.greet(self.workspace)
            self._editors[name] = editor
        return editor

    @asynccontextmanager
    async def lent(self, name: str) -> AsyncIterator[Editor]:
        """Lend the editor of a profile to a test, with nothing open and nothing set before and after.

        Fails where the server has anything to complain of, and gives an editor whose test failed to no other.
        """
        editor = await self.editor(name)
        self._editors.pop(name)
        try:
            yield editor
            await editor.clear()
            assert editor.complaints == []
        except BaseException:
            await editor.drop()
            raise
        self._editors[name] = editor

    async def leave(self) -> None:
        """End all servers; each must end well."""
        for editor in self._editors.values():
            assert await editor.leave() == 0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    yield desk
    await desk.leave()


@pytest_asyncio.fixture(loop_scope="session", params=PROFILES)
async def editor(request: pytest.FixtureRequest, desk: Desk) -> AsyncIterator[Editor]:
    """Each of the three editors in turn."""
    async with desk.lent(request.param) as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="session")
async def vscode(desk: Desk) -> AsyncIterator[Editor]:
    async with desk.lent("vscode") as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="session")
async def neovim(desk: Desk) -> AsyncIterator[Editor]:
    async with desk.lent("neovim") as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="session")
async def emacs(desk: Desk) -> AsyncIterator[Editor]:
    async with desk.lent("emacs") as editor:
        yield editor


@pytest.fixture
def folder(desk: Desk, request: pytest.FixtureRequest) -> Path:
    """A new folder of the workspace."""
    folder = desk.workspace / f"{len(list(desk.workspace.iterdir()))} {request.node.name}"
    folder.mkdir()
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def launch(tmp_path: Path) -> AsyncIterator[Launch]:
    """Start a server of the test's own, in its folder; the test says hello itself."""
    editors: list[Editor] = []

    async def start(name: str) -> Editor:
        editor = Editor(profile(name))
        editors.append(editor)
        await editor.start(COMMAND, cwd=tmp_path, env=environment())
        return editor

    yield start
    for editor in editors:
        await editor.drop()
