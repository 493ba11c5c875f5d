"""Where an environment keeps the packages that are installed in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

_NAMES = (".venv", "venv")


def site_packages(folder: str, variables: Mapping[str, str], python: str | None) -> tuple[str, ...]:
    """The folders of installed packages for code in `folder`: those of the interpreter or environment `python`, else of
    the active environment that `variables` name, else of a `.venv` or `venv` beside the code or above it."""
    for named in (python, variables.get("VIRTUAL_ENV"), variables.get("CONDA_PREFIX")):
        if named and (found := _installed(named)):
            return found
    place = Path(folder)
    for above in (place, *place.parents):
        for name in _NAMES:
            if found := _installed(str(above / name)):
                return found
    return ()


def _installed(named: str) -> tuple[str, ...]:
    """The folders of packages of an environment, or of the environment that an interpreter belongs to."""
    place = Path(named)
    try:
        prefixes = [place.parent.parent, place.resolve().parent.parent] if place.is_file() else [place]
        for prefix in prefixes:
            found = [*_in_prefix(prefix)]
            if found:
                return tuple(str(one) for folder in found for one in (folder, *_linked(folder)))
    except (OSError, ValueError, RuntimeError):
        pass
    return ()


def _in_prefix(prefix: Path) -> Iterator[Path]:
    if not prefix.is_dir():
        return
    versions = sorted(prefix.glob("lib/python3*"), key=_version, reverse=True)
    candidates = [prefix / "Lib", *versions]
    for folder in candidates:
        for name in ("site-packages", "dist-packages"):
            if (folder / name).is_dir():
                yield folder / name
    if (prefix / "lib/python3/dist-packages").is_dir() and prefix / "lib/python3" not in versions:
        yield prefix / "lib/python3/dist-packages"


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.removeprefix("python").split(".") if part.isdigit())


def _linked(folder: Path) -> Iterator[Path]:
    """The folders that the `.pth` files of editable installs name."""
    for file in sorted(folder.glob("*.pth")):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines[:100]:
            text = line.strip()
            if text and not text.startswith(("#", "import ", "import\t")) and (folder / text).is_dir():
                yield folder / text
