"""What is configured for a document: by the editor, and by the nearest pyproject.toml."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchstray import files
from torchstray.config import SETTINGS, BadConfiguration, BadValue, Configuration, Configurations, Overrides, read

CLIENT_SETTINGS = ("interpreter", "importStrategy", "trace")
"""Settings of the VS Code extension itself, which the server is sent too."""


@dataclass
class _Scope:
    """What holds below one root folder with one set of the editor's settings, and what held last in each folder."""

    configurations: Configurations
    last: dict[Path, Configuration] = field(default_factory=dict)


class Settings:
    """The configuration of each document.

    `ask` fetches the editor's settings for a document's URI; `complain` tells the user what cannot be used, once until
    it can: what was good before goes on holding. Globs of the editor count from the innermost of the `roots`.
    """

    def __init__(self, ask: Callable[[str], Awaitable[object]], complain: Callable[[str], None]) -> None:
        self.roots: list[Path] = []
        self._ask = ask
        self._complain = complain
        self._tables: dict[str, asyncio.Task[object]] = {}
        self._scopes: dict[tuple[str, Path], _Scope] = {}
        self._overrides: dict[str, Overrides] = {}
        self._last = Overrides()
        self._told: dict[object, str] = {}

    def forget(self, uri: str | None = None) -> None:
        """Ask the editor again for what it has set, for one document or for all."""
        if uri is not None:
            self._tables.pop(uri, None)
        else:
            self._tables.clear()
            self._overrides.clear()

    @property
    def outdated(self) -> bool:
        """Whether a configuration file that was looked for has been written, changed or removed since."""
        return any(scope.configurations.outdated for scope in self._scopes.values())

    async def of(self, uri: str, path: Path | None) -> Configuration | None:
        """Return what holds for a document; None where it is to be left alone."""
        if uri not in self._tables:
            self._tables[uri] = asyncio.ensure_future(self._ask(uri))
        # Many may wait for the answer, and one that gives up must not take it from the others.
        overrides = self._read(await asyncio.shield(self._tables[uri]))
        return self._holds(overrides, path)

    def _read(self, table: object) -> Overrides:
        key = json.dumps(table, sort_keys=True, default=str)
        if key not in self._overrides:
            settings, spelled = _as_in_files(table)
            try:
                self._overrides[key] = self._last = Overrides(**read(settings))
                self._told.pop("editor", None)
            except BadValue as error:
                keys = [spelled.get(name, name) for name in error.keys]
                self._tell("editor", f"The setting `{'.'.join(('torchstray', *keys))}` is not used: {error}.")
                self._overrides[key] = self._last
        return self._overrides[key]

    def _holds(self, overrides: Overrides, path: Path | None) -> Configuration | None:
        root = self._root(path)
        folder = path.parent if path is not None else root
        key = (repr(overrides), root)
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = _Scope(Configurations(overrides=overrides, root=root))
        elif scope.configurations.outdated:
            scope.configurations = Configurations(overrides=overrides, root=root)
        try:
            if path is not None and files.why_left_alone(path, self.roots, scope.configurations) is not None:
                return None
            configuration = scope.configurations.of(folder)
        except BadConfiguration as error:
            self._tell(folder, _in_a_line(error))
            return scope.last.get(folder) or overrides.over(Configuration(root))
        self._told.pop(folder, None)
        scope.last[folder] = configuration
        return configuration

    def _root(self, path: Path | None) -> Path:
        if path is None:
            return next(iter(self.roots), Path.cwd())
        return files.innermost(path, self.roots) or path.parent

    def _tell(self, subject: object, message: str) -> None:
        if message not in self._told.values():
            self._complain(message)
        self._told[subject] = message


def _as_in_files(table: object) -> tuple[object, dict[str, str]]:
    """Return the settings under the names that files use, without what is not set and what is the extension's own; and
    how each name is spelled in `table`."""
    if table is None:
        return {}, {}
    if not isinstance(table, Mapping):
        return table, {}
    names = {setting.editor_key: setting.key for setting in SETTINGS}
    known = [str(key) for key, value in table.items() if value is not None and key not in CLIENT_SETTINGS]
    spelled = {names.get(key, key): key for key in known}
    return {name: table[key] for name, key in spelled.items()}, spelled


def _in_a_line(error: BadConfiguration) -> str:
    """What is wrong first, and where it is last: editors cut what does not fit."""
    line = f", line {error.line}" if error.line is not None else ""
    reason = error.reason if error.reason.startswith("`") else f"It {error.reason}"
    return f"{error.file.name}{line} is not used. {reason}. ({error.file})"
