"""Shows which findings in real packages a change makes appear and vanish.

The packages of `pinned.txt` are fetched once, as wheels, and checked; nothing of them is installed or run. What is
found is compared with `accepted.txt`, the state that was accepted last, and `--accept` takes the new state over.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benches.measure import run

HERE = Path(__file__).parent
PINNED = HERE / "pinned.txt"
ACCEPTED = HERE / "accepted.txt"
FOLDER = HERE.parent / "packages" / "pinned"
CHECK = [sys.executable, "-m", "torchstray", "check", "--isolated", "--output-format", "json"]
FETCH = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
FINE = (0, 1)


@dataclass(frozen=True, order=True)
class Found:
    """One finding, at a row of a file of a package."""

    package: str
    file: str
    row: int
    rule: str
    severity: str
    message: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.row} {self.rule} {self.severity}"


def pinned(text: str) -> list[str]:
    """Return the requirements of the table: one `name==version` a line."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def fetched(requirement: str, folder: Path) -> list[Path]:
    """Return the top folders of a package below `folder`, where its wheel is unpacked if that is not done yet."""
    listing = folder / f"{requirement}.txt"
    place = folder / "lib" / "python3" / "site-packages"
    if not listing.is_file():
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as temporary:
            subprocess.run([*FETCH, "--dest", temporary, requirement], check=True)
            (wheel,) = Path(temporary).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = _top_folders(archive.namelist())
                for name in names:
                    shutil.rmtree(place / name, ignore_errors=True)
                archive.extractall(place, [one for one in archive.namelist() if one.split("/")[0] in names])
        listing.write_text("\n".join(names) + "\n", encoding="utf-8")
    return [place / name for name in listing.read_text("utf-8").split()]


def _top_folders(names: Iterable[str]) -> list[str]:
    """The packages that a wheel brings, without its metadata, tests and examples."""
    tops = {name.split("/")[0] for name in names if name.count("/") == 1 and name.endswith("/__init__.py")}
    return sorted(top for top in tops if top not in {"docs", "examples", "test", "tests"})


def check(package: str, folders: list[Path]) -> Iterator[Found]:
    """Yield what is found in the folders of a package. Exits where the check itself fails."""
    cost = run([*CHECK, *map(str, folders)])
    if cost.status not in FINE:
        sys.exit(f"the check of {package} ended with status {cost.status}: {cost.errors.strip()}")
    for finding in json.loads(cost.output):
        file = Path(finding["filename"]).resolve().relative_to(folders[0].parent.resolve()).as_posix()
        row, severity = finding["location"]["row"], finding["severity"]
        yield Found(package, file, row, finding["code"], severity, finding["message"])


def read(text: str) -> set[Found]:
    """Return the findings of an accepted state."""
    found: set[Found] = set()
    package = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            package = line.strip()
            continue
        place, rule, severity = line.split()
        file, _, row = place.rpartition(":")
        found.add(Found(package, file, int(row), rule, severity))
    return found


def written(found: Iterable[Found]) -> str:
    """Return a state as text."""
    lines = ["# Written by `python -m benches.findings --accept`."]
    package = ""
    for one in sorted(found):
        if one.package != package:
            package = one.package
            lines.append(package)
        lines.append(f" {one}")
    return "\n".join(lines) + "\n"


def show(before: set[Found], now: set[Found], folder: Path) -> bool:
    """Print what appears (+) and vanishes (-), each with its source; False where nothing does."""
    changes = sorted([(one, "+") for one in now - before] + [(one, "-") for one in before - now])
    for one, sign in changes:
        print(f"{sign} {one}")
        if one.message:
            print(f"    {one.message}")
        file = folder / "lib" / "python3" / "site-packages" / one.file
        lines = file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else []
        if one.row <= len(lines):
            print(f"    {one.row} | {lines[one.row - 1].strip()}")
    print(f"{len(now)} findings; {len(now - before)} appear, {len(before - now)} vanish")
    return bool(changes)


def main() -> int:
    """Fetch, check and compare; the status is 1 where something differs and is not accepted."""
    parser = argparse.ArgumentParser(prog="python -m benches.findings", description=__doc__)
    parser.add_argument("packages", nargs="*", help="only these packages of the table")
    parser.add_argument("--accept", action="store_true", help="take what is found over as the accepted state")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the packages are unpacked")
    options = parser.parse_args()
    table = {requirement.partition("==")[0]: requirement for requirement in pinned(PINNED.read_text("utf-8"))}
    if unknown := sorted(set(options.packages) - table.keys()):
        parser.error(f"not in {PINNED.name}: {', '.join(unknown)}")
    chosen = options.packages or list(table)
    folders = {name: fetched(table[name], options.folder) for name in table}
    # The packages see one another as an environment, and nothing else that happens to be installed.
    os.environ["VIRTUAL_ENV"] = str(options.folder)
    accepted = read(ACCEPTED.read_text("utf-8")) if ACCEPTED.is_file() else set()
    now = {one for name in chosen for one in check(name, folders[name])}
    changed = show({one for one in accepted if one.package in chosen}, now, options.folder)
    if options.accept:
        others = {one for one in accepted if one.package in table and one.package not in chosen}
        ACCEPTED.write_text(written(others | now), encoding="utf-8")
    return 1 if changed and not options.accept else 0


if __name__ == "__main__":
    sys.exit(main())
