"""`python -m tests.properties --programs 5000 --seed 1`: compare many random programs, and show what disagrees."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.properties.agreement import disagreements, shrunk
from tests.properties.generator import Generator


def main() -> int:
    """Run the programs; the status is 1 if there is a disagreement."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="how many disagreements to shrink and show")
    options = parser.parse_args()
    shown: Counter[str] = Counter()
    ran = wrong = 0
    for program in Generator(options.seed).programs(options.programs):
        try:
            found = disagreements(program.text, program.choices)
        except Exception as error:  # noqa: BLE001 - a random program may raise anything
            shown[type(error).__name__] += 1
            continue
        ran += 1
        wrong += bool(found)
        for one in found if wrong <= options.show else ():
            print(f"# {one}\n{shrunk(program.text, program.choices, one)}")
            break
    print(f"{ran} programs ran, {wrong} disagree; not run: {dict(shown)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
