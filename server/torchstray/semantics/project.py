"""What lies outside the file that is checked: which file an import means, and what each answer depended on."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from torchstray.semantics.environment import site_packages
from torchstray.syntax.document import Document
from torchstray.text.source import UnreadableText, decode

Stamp = tuple[int, int] | None
"""Modification time and size of a file; None where there is none. A folder's is (0, 0)."""

T = TypeVar("T")

_LARGEST_FILE = 2_000_000
_MOST_FILES = 1000
_MOST_PARSED = 600_000
_DEEPEST = 60
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_ENDINGS = (".py", ".pyi")


@dataclass(frozen=True)
class Module:
    """A module that an import means. `file` is None for a namespace package; `folders` are where the modules below it
    are, none for a module that is no package."""

    name: str
    file: str | None
    folders: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The package that a relative import with one dot in it means."""
        return self.name if self.folders else self.name.rpartition(".")[0]


@dataclass(eq=False)
class Source:
    """Another file that has been read. `parsed` is how many characters of it have been, for the bound on memory."""

    path: str
    document: Document
    parsed: int = 0


class Project:
    """The only reader of other files.

    `roots` are folders in which imports are looked for, after the root of the importing file's own package.
    `environment` holds the variables by which an active environment is found, None where environments are not looked
    for; `python` names an interpreter, or the folder of an environment, that counts before all others.

    Whatever is asked is remembered, together with the files that the answer depended on, also those that were looked
    for in vain. `refresh` forgets what depended on a file that has changed since.
    """

    def __init__(
        self,
        roots: Sequence[Path | str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        python: Path | str | None = None,
    ) -> None:
        self._roots = tuple(os.path.abspath(root) for root in roots)  # noqa: PTH100  # links stay as they are
        self._environment = environment
        self._python = os.fspath(python) if python is not None else None
        self._stamps: dict[str, Stamp] = {}
        self._sources: OrderedDict[str, Source | None] = OrderedDict()
        self._answers: dict[str, dict[Hashable, tuple[object, frozenset[str]]]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._watching: list[set[str]] = []
        self._running: set[tuple[str, Hashable]] = set()
        self._cut = False

    # What an answer depends on

    @contextmanager
    def watching(self) -> Iterator[dict[str, Stamp]]:
        """Collects, until the block ends, which files what is asked depends on: their stamps."""
        seen: dict[str, Stamp] = {}
        self._watching.append(set())
        try:
            yield seen
        finally:
            paths = self._watching.pop()
            self._note(paths)
            seen.update((path, self._stamps.get(path)) for path in paths)

    def remember(self, owner: str, key: Hashable, compute: Callable[[], T]) -> T | None:
        """What `compute` gives, computed once; None where it asks for itself. It is forgotten with the file `owner`."""
        known = self._answers.setdefault(owner, {}).get(key)
        if known is not None:
            self._note(known[1])
            return cast("T", known[0])
        if (owner, key) in self._running or len(self._running) >= _DEEPEST:
            self._cut = True
            return None
        self._running.add((owner, key))
        self._watching.append(set())
        try:
            answer = compute()
        finally:
            self._running.discard((owner, key))
            paths = frozenset(self._watching.pop())
            self._note(paths)
        # What was not found because the search went in a circle may be found by another way in.
        if answer is not None or not self._cut or not self._running:
            self._answers[owner][key] = (answer, paths)
        if not self._running:
            self._cut = False
        return answer

    def _note(self, paths: set[str] | frozenset[str]) -> None:
        if self._watching:
            self._watching[-1] |= paths

    def stamp(self, path: str) -> Stamp:
        """The stamp of a file or folder, which is remembered as something that the answer depends on."""
        if self._watching:
            self._watching[-1].add(path)
        if path not in self._stamps:
            self._stamps[path] = _stamp(path)
        return self._stamps[path]

    def refresh(self) -> None:
        """Forget what depended on a file that has changed, and what has not been asked for in a long time."""
        changed = {path for path, stamp in self._stamps.items() if _stamp(path) != stamp}
        for path in changed:
            del self._stamps[path]
            self._sources.pop(path, None)
            self._answers.pop(path, None)
        if changed:
            self._paths.clear()
            for answers in self._answers.values():
                for key in [key for key, (_, paths) in answers.items() if not changed.isdisjoint(paths)]:
                    del answers[key]
        self.shrink()

    def shrink(self) -> None:
        """Forget what has not been asked for in a long time. Not to be called while answers are in use."""
        parsed = sum(source.parsed for source in self._sources.values() if source is not None)
        while self._sources and (parsed > _MOST_PARSED or len(self._sources) > _MOST_FILES):
            path, source = self._sources.popitem(last=False)
            parsed -= source.parsed if source is not None else 0
            self._answers.pop(path, None)

    # Files

    def source(self, path: str) -> Source | None:
        """What the file at `path` holds; None where it cannot be read, or is too large to be worth it."""
        stamp = self.stamp(path)
        if path in self._sources:
            self._sources.move_to_end(path)
            return self._sources[path]
        source = None
        if stamp is not None and stamp[1] <= _LARGEST_FILE:
            try:
                with open(path, "rb") as file:  # noqa: PTH123
                    text = decode(file.read(_LARGEST_FILE + 1)).text
                source = Source(path, Document(text))
            except (OSError, UnreadableText, RecursionError):
                source = None
        self._sources[path] = source
        return source

    # Modules

    def module(self, name: str, search: tuple[str, ...]) -> Module | None:
        """The module of this absolute name, as Python would find it in the folders `search`; what has no source is
        looked for as a stub."""
        return self.remember("", (name, search), lambda: self._module(name, search))

    def _module(self, name: str, search: tuple[str, ...]) -> Module | None:
        parent, _, last = name.rpartition(".")
        folders = search
        if parent:
            above = self.module(parent, search)
            if above is None or not above.folders:
                return None
            folders = above.folders
        spaces: list[str] = []
        for folder in folders:
            base = os.path.join(folder, last)  # noqa: PTH118  # many of them, and fast
            is_folder = self.stamp(base) == (0, 0)
            for ending in _ENDINGS:
                init = os.path.join(base, f"__init__{ending}")  # noqa: PTH118
                if is_folder and self.is_file(init):
                    return Module(name, init, (base,))
                if self.is_file(base + ending):
                    return Module(name, base + ending)
            stubs = os.path.join(f"{base}-stubs", "__init__.pyi")  # noqa: PTH118
            if not parent and self.is_file(stubs):
                return Module(name, stubs, (f"{base}-stubs",))
            if is_folder:
                spaces.append(base)
        return Module(name, None, tuple(spaces)) if spaces else None

    def is_file(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        stamp = self.stamp(path)
        return stamp is not None and stamp != (0, 0)

    def module_at(self, path: str) -> Module:
        """The module that the file at `path` is, by the folders with an `__init__.py` that it is in."""
        folder, file = os.path.split(path)
        last = file.rpartition(".")[0]
        names = [] if last == "__init__" else [last]
        folders = (folder,) if last == "__init__" else ()
        while self.is_file(os.path.join(folder, "__init__.py")):  # noqa: PTH118
            folder, name = os.path.split(folder)
            if not name:
                break
            names.insert(0, name)
        return Module(".".join(names), path, folders)

    def search_path(self, path: str | None) -> tuple[str, ...]:
        """The folders in which the file at `path` finds what it imports: the root of its package, the folders above it
        up to the one that holds the project, the given roots, and the environment."""
        if path is None:
            return self._roots
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder not in self._paths:
            self._paths[folder] = tuple(dict.fromkeys(self._folders(folder)))
        return self._paths[folder]

    def _folders(self, folder: str) -> Iterator[str]:
        root = folder
        while self.is_file(os.path.join(root, "__init__.py")) and os.path.dirname(root) != root:  # noqa: PTH118,PTH120
            root = os.path.dirname(root)  # noqa: PTH120
        yield root
        above = [root]
        while os.path.dirname(above[-1]) != above[-1]:  # noqa: PTH120
            above.append(os.path.dirname(above[-1]))  # noqa: PTH120
        marked = next((place for place, one in enumerate(above) if _has_marker(one)), None)
        for one in above[: marked + 1] if marked is not None else [root]:
            yield one
            source = os.path.join(one, "src")  # noqa: PTH118
            if os.path.isdir(source):  # noqa: PTH112
                yield source
        yield from self._roots
        if self._environment is not None or self._python is not None:
            yield from site_packages(folder, self._environment or {}, self._python)


def _has_marker(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in _MARKERS)  # noqa: PTH110,PTH118


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):
        return (0, 0)
    return (status.st_mtime_ns or 1, status.st_size) if stat.S_ISREG(status.st_mode) else None
