"""Scores findings against what torch says of real packages: which assignments leave something behind.

`python -m benches.accuracy TRUTH.json=FOLDER …` checks the package in each folder and compares the findings with the
facts in the file. `python -m benches.accuracy --build PACKAGE OUT.json` makes such a file for an installed package.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.measure import run

CHECK = [sys.executable, "-m", "torchstray", "check", "--isolated", "--output-format", "json"]
FINE = (0, 1)
KEPT = frozenset(
    {"unregistered-tensor", "unregistered-module", "unregistered-parameter", "computed-parameter", "stale-cache"}
)
"""The rules about what a module keeps. All severities count: a stray that every use moves by itself is one, too."""


@dataclass
class Score:
    """What findings and facts of one or more packages have in common. Findings on lines that never ran are not
    judged. A stray that was handed in cannot be known from its line: finding it is right, and missing it is no miss."""

    right: int = 0
    wrong: int = 0
    unjudged: int = 0
    found: int = 0
    strays: int = 0
    found_arguments: int = 0
    arguments: int = 0
    disagreements: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of the judged findings that are right."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The share of the strays that were found."""
        return self.found / self.strays if self.strays else 1.0

    def __str__(self) -> str:
        judged = f"precision {self.precision:.3f} ({self.right} right, {self.wrong} wrong, {self.unjudged} unjudged)"
        arguments = f"; of those handed in {self.found_arguments}/{self.arguments}" if self.arguments else ""
        return f"{judged}, recall {self.recall:.3f} ({self.found}/{self.strays}){arguments}"

    def add(self, other: Score) -> None:
        """Pool with another."""
        self.right += other.right
        self.wrong += other.wrong
        self.unjudged += other.unjudged
        self.found += other.found
        self.strays += other.strays
        self.found_arguments += other.found_arguments
        self.arguments += other.arguments


def compare(facts: dict[str, Any], findings: Sequence[dict[str, Any]], folder: Path) -> Score:
    """Compare the findings in a package with the facts about it; `folder` is what the facts' file names start from."""
    score = Score()
    found = {
        (_below(folder, finding["filename"]), finding["location"]["row"]): finding["code"]
        for finding in findings
        if finding["code"] in KEPT
    }
    clean = {(file, line): kinds for file, line, _, kinds in facts["clean"]}
    right: set[tuple[str, int]] = set()
    for stray in facts["strays"]:
        places = {(stray["file"], line) for line in (stray["line"], *stray.get("also", ()))}
        hit = bool(places & found.keys())
        right |= places
        if stray.get("argument"):
            score.arguments += 1
            score.found_arguments += hit
            continue
        score.strays += 1
        score.found += hit
        if not hit:
            what = f"{stray['kind']} in {stray['attr']}"
            score.disagreements.append(_shown("missed", folder, stray["file"], stray["line"], what))
    for (file, line), rule in sorted(found.items()):
        if (file, line) in right:
            score.right += 1
        elif (file, line) in clean:
            score.wrong += 1
            what = f"{rule}, but it keeps {' or '.join(clean[file, line])}"
            score.disagreements.append(_shown("false alarm", folder, file, line, what))
        else:
            score.unjudged += 1
    return score


def _below(folder: Path, file: str) -> str:
    return Path(file).resolve().relative_to(folder.resolve()).as_posix()


def _shown(kind: str, folder: Path, file: str, line: int, what: str) -> str:
    lines = (folder / file).read_text("utf-8", errors="replace").splitlines()
    source = lines[line - 1].strip() if line <= len(lines) else ""
    return f"  {kind}: {file}:{line}: {what}\n      {source}"


def score(truth: Path, folder: Path) -> Score:
    """Check one package and compare. Exits where the check itself fails."""
    facts = json.loads(truth.read_text("utf-8"))
    package = folder / facts["package"]
    if not package.is_dir():
        sys.exit(f"{folder} has no folder {facts['package']}, of which {truth} tells")
    cost = run([*CHECK, str(package)])
    if cost.status not in FINE:
        sys.exit(f"the check of {package} ended with status {cost.status}: {cost.errors.strip()}")
    compared = compare(facts, json.loads(cost.output), folder)
    print(f"{facts['package']} {facts['version']}: {compared}")
    for line in compared.disagreements:
        print(line)
    return compared


def main() -> int:
    """Score, or build facts; the status is 1 where the pooled score is too low."""
    parser = argparse.ArgumentParser(prog="python -m benches.accuracy", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="TRUTH.json=FOLDER")
    parser.add_argument("--build", nargs=2, metavar=("PACKAGE", "OUT.json"))
    parser.add_argument("--seconds", type=int, default=900, help="how long --build goes on building")
    parser.add_argument("--min-precision", type=float, default=0.98)
    parser.add_argument("--min-recall", type=float, default=0.85)
    options = parser.parse_args()
    if options.build is not None:
        from benches.ground_truth import write_facts  # needs torch, which scoring does not

        package, target = options.build
        write_facts(package, Path(target), options.seconds)
        return 0
    if not options.pairs:
        parser.error("nothing to score")
    pooled = Score()
    for pair in options.pairs:
        truth, _, folder = pair.partition("=")
        pooled.add(score(Path(truth), Path(folder)))
    print(f"in all: {pooled}")
    return 0 if pooled.precision >= options.min_precision and pooled.recall >= options.min_recall else 1


if __name__ == "__main__":
    sys.exit(main())
