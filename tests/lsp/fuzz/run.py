"""Runs random edit sessions, each with one of the three editors."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import environment
from tests.lsp.conftest import COMMAND, PROFILES
from tests.lsp.editor import Editor, profile
from tests.lsp.fuzz.session import Session, Tally

SESSIONS_PER_SERVER = 40
STEPS = 40


async def run(first: int, sessions: int, folder: Path) -> Tally:
    """Run sessions with the seeds from `first` on; a session that fails is noted and the others go on."""
    tally = Tally()
    servers: dict[str, tuple[Editor, int]] = {}
    try:
        for seed in range(first, first + sessions):
            name = PROFILES[seed % len(PROFILES)]
            editor, served = servers.pop(name, (None, 0))
            if editor is None:
                editor = Editor(profile(name))
                await editor.start(COMMAND, cwd=folder, env=environment())
                await editor.greet(folder)
            try:
                await Session(editor, seed, folder, tally).run(STEPS)
            except Exception as error:  # noqa: BLE001  # whatever goes wrong is what is looked for
                said = "\n".join(editor.complaints)
                tally.failures.append(f"seed {seed} ({name}): {type(error).__name__}: {error}\n{said}")
                await editor.drop()
            else:
                servers[name] = (editor, served + 1)
                if served + 1 == SESSIONS_PER_SERVER:
                    await _end(*servers.pop(name), tally)
            tally.sessions += 1
    finally:
        for editor, served in servers.values():
            await _end(editor, served, tally)
    return tally


async def _end(editor: Editor, served: int, tally: Tally) -> None:
    status = await editor.leave()
    if status:
        tally.failures.append(f"a server of {served} sessions ended with status {status}: {editor.complaints}")
