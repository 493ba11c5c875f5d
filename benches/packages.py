"""Runs `torchstray check` over whole packages: says what it found, what it could not read, and what it cost.

`--sample N --seed S` prints findings drawn at random with their source, to be judged by hand. `--repair` repairs a copy
of each folder, twice, and fails where a file no longer parses or the second run still changes something.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benches.measure import Cost, mebibytes, run

CHECK = [sys.executable, "-m", "torchstray", "check", "--isolated", "--min-severity", "hint"]
REPAIR = [*CHECK, "--fix", "--unsafe-fixes"]
NOT_CHECKED = ("unreadable-file", "internal-error")
FINE = (0, 1)
CONTEXT = 3
"""Lines around a finding."""


@dataclass(frozen=True)
class Checked:
    """One folder, its findings as the JSON has them, and what the run cost. `failed` says why there are none."""

    folder: Path
    findings: list[dict[str, Any]]
    cost: Cost
    failed: str | None = None


def check(folder: Path) -> Checked:
    """Check all files of `folder`."""
    cost = run([*CHECK, "--output-format", "json", str(folder)])
    if cost.status not in FINE or "Traceback" in cost.errors:
        return Checked(folder, [], cost, f"status {cost.status}: {cost.errors.strip()}")
    return Checked(folder, json.loads(cost.output), cost)


def python_files(folder: Path) -> list[Path]:
    """Return the files of `folder` that torchstray looks at, sorted."""
    return sorted(path for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi") and path.is_file())


def show(checked: Checked) -> bool:
    """Print the figures of one folder; False where something went wrong."""
    cost, files = checked.cost, len(python_files(checked.folder))
    print(f"{checked.folder}: {files} files, wall {cost.wall:.1f} s, cpu {cost.cpu:.1f} s, peak {mebibytes(cost.peak)}")
    if checked.failed is not None:
        print(f"  FAILED with {checked.failed}")
        return False
    counts = Counter((finding["code"], finding["severity"]) for finding in checked.findings)
    for (code, severity), number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"  {number:>6} {code} ({severity})")
    silent = [finding for finding in checked.findings if finding["code"] in NOT_CHECKED]
    for finding in silent:
        print(f"  {finding['code']}: {finding['filename']}: {finding['message']}")
    return not any(finding["code"] == "internal-error" for finding in silent)


def show_sample(findings: list[dict[str, Any]], size: int, seed: int) -> None:
    """Print `size` findings drawn at random, each with its source."""
    print(f"\n{min(size, len(findings))} of {len(findings)} findings, drawn with seed {seed}:")
    for number, finding in enumerate(random.Random(seed).sample(findings, min(size, len(findings))), 1):
        row = finding["location"]["row"]
        print(f"\n[{number}] {finding['filename']}:{row} {finding['severity']} {finding['code']}")
        print(f"    {finding['message']}")
        lines = Path(finding["filename"]).read_bytes().decode(errors="replace").splitlines()
        for shown in range(max(1, row - CONTEXT), min(len(lines), row + CONTEXT) + 1):
            print(f"    {'>' if shown == row else ' '} {shown:>5} {lines[shown - 1]}")


def contents(folder: Path) -> dict[Path, bytes]:
    """Return what is in each Python file of `folder`."""
    return {path.relative_to(folder): path.read_bytes() for path in python_files(folder)}


def parses(source: bytes) -> bool:
    """Tell whether Python's own parser takes `source`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def repair(folder: Path) -> bool:
    """Repair a copy of `folder` twice and print what became of it; False where something went wrong."""
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.name
        shutil.copytree(folder, copy)
        before = contents(copy)
        first = run([*REPAIR, "--output-format", "concise", str(copy)])
        once = contents(copy)
        second = run([*REPAIR, "--output-format", "concise", str(copy)])
        twice = contents(copy)
    changed = [path for path in before if once[path] != before[path]]
    broken = [path for path in changed if parses(before[path]) and not parses(once[path])]
    again = [path for path in once if twice[path] != once[path]]
    failed = [cost for cost in (first, second) if cost.status not in FINE or "Traceback" in cost.errors]
    summary = first.output.strip().splitlines()[-1:] or ["no output"]
    print(f"{folder}: {len(changed)} files changed, {len(broken)} broken, {len(again)} changed again; {summary[0]}")
    for cost in failed:
        print(f"  FAILED with status {cost.status}: {cost.errors.strip()}")
    for path in broken:
        print(f"  no longer parses: {path}")
    for path in again:
        print(f"  changed by the second run: {path}")
    refused = [line for line in first.errors.splitlines() if "was not made" in line]
    if refused:
        print(f"  {len(refused)} repairs were not made, such as: {refused[0]}")
    return not (broken or again or failed) and once.keys() == before.keys()


def main() -> int:
    """Go through the folders; return 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="print N findings drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rule", action="append", help="draw the sample from this rule only")
    parser.add_argument("--repair", action="store_true", help="repair a copy of each folder, twice")
    options = parser.parse_args()
    missing = [folder for folder in options.folders if not folder.is_dir()]
    if missing:
        parser.error(f"{missing[0]} is not a folder")
    if options.repair:
        repaired = [repair(folder) for folder in options.folders]
        return 0 if all(repaired) else 1
    checked = [check(folder) for folder in options.folders]
    fine = [show(one) for one in checked]
    if options.sample:
        findings = [finding for one in checked for finding in one.findings if finding["code"] not in NOT_CHECKED]
        wanted = [finding for finding in findings if not options.rule or finding["code"] in options.rule]
        show_sample(wanted, options.sample, options.seed)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
