"""Fill a folder with the language server and all it needs: `PYTHON -I -S FOLDER server` starts it.

torchstray comes from server/, the rest from wheels that pip downloads into build/wheels, once. libcst is compiled: its
part for each Python and platform has both in its file name, so that one folder serves several. The versions are those
of the dependency group `bundle` in pyproject.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / "build" / "wheels"
COMPILED = "libcst"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "linux-x64": "manylinux_2_28_x86_64",
    "linux-arm64": "manylinux_2_28_aarch64",
    "alpine-x64": "musllinux_1_2_x86_64",
    "alpine-arm64": "musllinux_1_2_aarch64",
    "darwin-arm64": "macosx_11_0_arm64",
    "win32-x64": "win_amd64",
    "win32-arm64": "win_arm64",
}
"""The names that editors have for platforms, and those that wheels have for them."""

WITHOUT_BUNDLE = """\
Elsewhere the extension runs the torchstray that is installed in an environment of the user's, where
`"torchstray.importStrategy": "fromEnvironment"` is set."""

UNUSED = ("libcst/codegen/", "libcst/codemod/", "libcst/testing/", "libcst/tests/", "libcst/tool.py")
MAIN = '''\
"""Run torchstray from this folder alone: `PYTHON -I -S FOLDER server`."""

import sys

from torchstray.cli import main

if __name__ == "__main__":
    sys.exit(main())
'''


class CannotBundle(Exception):
    """The folder cannot be filled; the message says why and what to do."""


def this_platform() -> str:
    """Return the editors' name for the machine that this runs on."""
    system = {"linux": "linux", "darwin": "darwin", "win32": "win32"}.get(sys.platform, sys.platform)
    if system == "linux" and "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        system = "alpine"
    machine = platform.machine().lower()
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return f"{system}-{processor}"


def pins() -> dict[str, str]:
    """Return the version of each package to bundle."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(pin.split("==") for pin in project["dependency-groups"]["bundle"])


def wheels(platforms: Sequence[str], pythons: Sequence[str]) -> list[Path]:
    """Return the wheels for these platforms and versions of Python, downloaded where they are not there yet.

    Raises CannotBundle.
    """
    found = []
    for name, version in pins().items():
        if name != COMPILED:
            tags = ["--platform", "any", "--implementation", "py", "--abi", "none", "--python-version", pythons[0]]
            found.append(_wheel(name, version, "py*-none-any", tags))
            continue
        for target in platforms:
            if target not in PLATFORMS:
                raise CannotBundle(
                    f"There is no bundle for {target}, but for {', '.join(PLATFORMS)}.\n{WITHOUT_BUNDLE}"
                )
            for python in pythons:
                tag = "cp" + python.replace(".", "")
                tags = ["--platform", PLATFORMS[target], "--python-version", python]
                found.append(_wheel(name, version, f"{tag}-{tag}-{PLATFORMS[target]}", tags))
    return found


def _wheel(name: str, version: str, tag: str, tags: Sequence[str]) -> Path:
    pattern = f"{name}-{version}-{tag}.whl"
    found = next(WHEELS.glob(pattern), None)
    if found is not None:
        return found
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command = [*pip, "--only-binary=:all:", *tags, "--dest", str(WHEELS), f"{name}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = next(WHEELS.glob(pattern), None)
    if found is None:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module named pip" in line]
        raise CannotBundle(
            f"pip could not download {pattern}.\n"
            + "".join(f"  {line}\n" for line in said)
            + f"Check the network and pip's settings, or put the file into {WHEELS} yourself."
        )
    return found


def unpacked(archives: Sequence[Path]) -> dict[str, bytes]:
    """Return the files of these wheels that the server needs, by path, with their licences.

    Raises CannotBundle where two wheels have different files of one name.
    """
    files: dict[str, bytes] = {}
    for archive in archives:
        with zipfile.ZipFile(archive) as wheel:
            for path in filter(_is_needed, wheel.namelist()):
                data = wheel.read(path)
                if not path.endswith((".so", ".pyd")):
                    data = data.replace(b"\r\n", b"\n")  # the line ends of wheels for Windows
                if files.setdefault(path, data) != data:
                    raise CannotBundle(f"{path} differs in {archive.name}: make a folder for each of the platforms.")
    return files


def _is_needed(path: str) -> bool:
    top, _, rest = path.partition("/")
    if path.endswith("/"):
        return False
    if top.endswith(".dist-info"):
        return rest == "METADATA" or rest.startswith("licenses/")
    return not (path.endswith((".md", ".pyi", "/py.typed")) or path.startswith(UNUSED) or "/tests/" in path)


def own_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of torchstray with the path that each has in the folder."""
    server, rules = ROOT / "server", ROOT / "docs" / "rules"
    for file in (server / "torchstray").rglob("*"):
        path = file.relative_to(server)
        if file.is_file() and not any(part.startswith((".", "__pycache__")) for part in path.parts):
            yield path.as_posix(), file
    for file in rules.glob("*.md"):
        yield f"torchstray/docs/rules/{file.name}", file


def fill(folder: Path, archives: Sequence[Path]) -> None:
    """Make `folder` hold torchstray and what is in the wheels; of those only what changed is written.

    Raises CannotBundle.
    """
    stamp = folder / ".made-from"
    names = "".join(f"{archive.name}\n" for archive in archives)
    wanted = names + hashlib.sha256(Path(__file__).read_bytes()).hexdigest() + "\n"
    if folder.is_dir() and any(folder.iterdir()) and not stamp.is_file():
        raise CannotBundle(f"{folder} holds something else; name a folder that is new or empty.")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        files = unpacked(archives)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        (folder / "__main__.py").write_text(MAIN, encoding="utf-8")
        stamp.write_text(wanted, encoding="utf-8")
    shutil.rmtree(folder / "torchstray", ignore_errors=True)
    for path, file in own_files():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def main() -> int:
    """Fill the folder that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--platform", nargs="+", default=[this_platform()], help="default: that of this machine")
    parser.add_argument("--python", nargs="+", choices=PYTHONS, default=PYTHONS, help="default: all")
    options = parser.parse_args()
    try:
        fill(options.folder, wheels(options.platform, options.python))
    except CannotBundle as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
