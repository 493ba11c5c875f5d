"""Which files to check, and reading and writing them."""

# ruff: noqa: PTH110, PTH112, PTH113
# Path.exists(), is_dir() and is_file() raise where a folder may not be entered, those of os.path answer no.

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstray.config import Configurations, absolute

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = (".py", ".pyi")

JUNK = frozenset(
    {
        *(".bzr", ".git", ".hg", ".svn"),
        *(".direnv", ".eggs", ".nox", ".tox", ".venv", "__pypackages__", "node_modules", "site-packages"),
        *(".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".pytype", ".ruff_cache", "__pycache__"),
        *("build", "dist"),
    }
)
"""Names of folders that hold no source of the user's; they are walked only when named on the command line."""


class UnusablePath(Exception):
    """A path on the command line that cannot be checked; the message says why."""


class UnreadableFile(Exception):
    """A file that cannot be read. The message completes "this file ..."."""


class UnwritableFile(Exception):
    """A file that was not written. The message completes "this file ..."."""


class Ignores:
    """The .gitignore files that hold in a folder, the nearest last, and .git/info/exclude before them all."""

    def __init__(self, specs: tuple[tuple[Path, Path, GitIgnoreSpec], ...] = ()) -> None:
        self._specs = specs

    @classmethod
    def above(cls, folder: Path) -> Ignores:
        """Return what holds in `folder` (absolute) from the folders above it, up to the root of its repository.

        Nothing where it lies in no repository, or where it is itself ignored: then it was asked for all the same.
        """
        above = (folder, *folder.parents)
        root = next((parent for parent in above if os.path.exists(parent / ".git")), None)
        if root is None:
            return cls()
        ignores = cls()._with(root / ".git" / "info" / "exclude", root)
        for parent in reversed(above[1 : above.index(root) + 1]):
            ignores = ignores.within(parent)
            below = above[above.index(parent) - 1]
            if ignores.why(below, folder=True) is not None:
                return cls()
        return ignores

    def within(self, folder: Path) -> Ignores:
        """Return what holds inside `folder`: this, and its own .gitignore."""
        return self._with(folder / ".gitignore", folder)

    def why(self, path: Path, folder: bool) -> str | None:
        """Return the pattern and the file that have `path` (absolute) ignored; None where it is not."""
        for file, root, spec in reversed(self._specs):
            relative = path.relative_to(root).as_posix()
            result = spec.check_file(f"{relative}/" if folder else relative)
            if result.include is not None and result.index is not None:
                return f"{spec.patterns[result.index].pattern!s} in {file}" if result.include else None
        return None

    def _with(self, file: Path, folder: Path) -> Ignores:
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return self
        from pathspec import GitIgnoreSpec

        return Ignores((*self._specs, (file, folder, GitIgnoreSpec.from_lines(text.splitlines()))))


def find(paths: Sequence[Path], configurations: Configurations) -> list[Path]:
    """Return the Python files among and below `paths`, each once, sorted.

    A file that is named is always found. Below a folder, what .gitignore or `exclude` name is passed over, and so are
    the JUNK folders, virtual environments, and links to folders. Raises UnusablePath and BadConfiguration.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if os.path.isdir(path):
            folder = absolute(path)
            below = _walk(path, folder, Ignores.above(folder), configurations)
        else:
            below = iter([_named(path)])
        for file in below:
            found.setdefault(str(absolute(file)), file)
    links = {name for name, file in found.items() if file.is_symlink()}
    if links:
        others = {os.path.realpath(name) for name in found if name not in links}
        found = {
            name: file for name, file in found.items() if name not in links or os.path.realpath(name) not in others
        }
    return [found[name] for name in sorted(found, key=lambda name: Path(name).parts)]


def require(path: Path) -> None:
    """Raise UnusablePath where there is nothing at `path`, or no way to it. A link counts, wherever it points to."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise UnusablePath(f"{path} does not exist") from None
    except OSError as error:
        raise UnusablePath(f"{path} cannot be read: {error.strerror}") from None


def _named(path: Path) -> Path:
    require(path)
    if path.suffix == ".ipynb":
        raise UnusablePath(f"{path} is a notebook, and notebooks cannot be checked yet")
    return path


def _walk(shown: Path, folder: Path, ignores: Ignores, configurations: Configurations) -> Iterator[Path]:
    """Yield the files below `folder` (absolute) under the name `shown` that the user gave it.

    A folder that cannot be listed is yielded itself, as something that cannot be read.
    """
    ignores = ignores.within(folder)
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:
        yield shown
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder or (entry.name.endswith(SUFFIXES) and not os.path.isdir(entry)):
            path = folder / entry.name
            if passed_over(path, is_folder, ignores, configurations) is None:
                if is_folder:
                    yield from _walk(shown / entry.name, path, ignores, configurations)
                else:
                    yield shown / entry.name


def passed_over(path: Path, is_folder: bool, ignores: Ignores, configurations: Configurations) -> str | None:
    """Return why a walk passes over the file or folder at `path` (absolute), by itself; None where it does not."""
    if is_folder and path.name in JUNK:
        return f"folders named {path.name} are not searched"
    if is_folder and os.path.isfile(path / "pyvenv.cfg"):
        return "it is a virtual environment"
    if not is_folder and path.name.startswith(".#"):
        return "it is an editor's lock"
    if (why := ignores.why(path, is_folder)) is not None:
        return f"it is ignored by {why}"
    configuration = configurations.of(path.parent)
    if configuration.exclude and (glob := configuration.matching(path, configuration.exclude, is_folder)) is not None:
        return f'it is excluded by "{glob}" in `exclude`'
    return None


def why_skipped(path: Path, configurations: Configurations) -> str | None:
    """Return why a run over the working folder, or over the folder of `path` if it lies elsewhere, leaves `path` out.

    None where it does not. Raises BadConfiguration.
    """
    path = absolute(path)
    start = Path.cwd() if path.is_relative_to(Path.cwd()) else path.parent
    ignores = Ignores.above(start)
    folder = start
    for name in path.relative_to(start).parts:
        ignores = ignores.within(folder)
        entry = folder / name
        if (why := passed_over(entry, os.path.isdir(entry), ignores, configurations)) is not None:
            return f"{why} ({entry})"
        if os.path.isdir(entry) and entry.is_symlink():
            return f"links to folders are not followed ({entry})"
        folder = entry
    if os.path.isdir(path):
        return None
    if path.suffix not in SUFFIXES:
        return "it is no Python file"
    return None


def innermost(path: Path, roots: Iterable[Path]) -> Path | None:
    """Return the one of the folders `roots` that `path` lies in, the deepest of several; None where it lies in none."""
    return max((root for root in roots if path.is_relative_to(root)), key=lambda root: len(root.parts), default=None)


def why_left_alone(path: Path, roots: Sequence[Path], configurations: Configurations) -> str | None:
    """Return why an editor with the folders `roots` (absolute) should not check the file at `path`; None where it
    should.

    What .gitignore names is checked: somebody is looking at it. Raises BadConfiguration.
    """
    path = absolute(path)
    root = innermost(path, roots)
    if root is None:
        # Above it there is no project whose folders could be told from others.
        return "it belongs to an installed package" if "site-packages" in path.parts else None
    entry = root
    for name in path.relative_to(root).parts:
        entry = entry / name
        if (why := passed_over(entry, entry != path, Ignores(), configurations)) is not None:
            return f"{why} ({entry})"
    return None


def read(path: Path) -> bytes:
    """Return what is in a file. Raises UnreadableFile, also for what is no file: it would wait for ever on a pipe."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableFile("is a folder that cannot be listed")
        if not stat.S_ISREG(mode):
            raise UnreadableFile("is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise UnreadableFile(f"is a symbolic link to {path.readlink()}, which does not exist") from None
        raise UnreadableFile("does not exist any more") from None
    except OSError as error:
        raise UnreadableFile(f"cannot be read: {error.strerror}") from None


def write(path: Path, data: bytes, expected: bytes) -> None:
    """Replace what is in a file, all at once; its mode is kept, and a link goes on pointing to it.

    Raises UnwritableFile, and leaves the file as it is, where it no longer holds `expected` or may not be written.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.read_bytes() != expected:
            raise UnwritableFile("has changed since it was read, so the repair was not written; run again")
        mode = stat.S_IMODE(target.stat().st_mode)
        if not mode & stat.S_IWUSR or not os.access(target, os.W_OK):
            raise UnwritableFile("is read-only, so the repair was not written")
        _replace(target, data, mode)
    except FileNotFoundError:
        raise UnwritableFile("has vanished since it was read, so the repair was not written") from None
    except OSError as error:
        raise UnwritableFile(f"could not be written: {error.strerror}") from None


def _replace(target: Path, data: bytes, mode: int) -> None:
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
