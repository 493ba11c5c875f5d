"""How much processor time `torchstray check` takes on one realistic file, against TorchFix on the same file.

Both are measured as whole processes, taking turns, so that a busy machine is busy for both; README.md says how.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benches.measure import Cost, mebibytes, run
from benches.realistic import realistic_file

OURS = f"{shlex.quote(sys.executable)} -m torchstray check --isolated --output-format json"
FINE = (0, 1)


def measured(command: str, file: Path) -> Cost:
    """Run `command` on `file`. Raises SystemExit where the command itself fails."""
    cost = run([*shlex.split(command), str(file)])
    if cost.status not in FINE or (cost.status == 1 and not cost.output):
        raise SystemExit(f"{command} ended with status {cost.status}: {cost.errors.strip()}")
    return cost


def report(name: str, costs: list[Cost]) -> float:
    """Print what the rounds of one command took, and return the median of the processor time in seconds."""
    cpu = statistics.median(cost.cpu for cost in costs)
    wall = statistics.median(cost.wall for cost in costs)
    peak = max(cost.peak for cost in costs)
    lowest, highest = min(cost.cpu for cost in costs), max(cost.cpu for cost in costs)
    print(f"{name:<12} cpu {cpu:.3f} s ({lowest:.3f} to {highest:.3f}), wall {wall:.3f} s, peak {mebibytes(peak)}")
    return cpu


def main() -> int:
    """Measure, print, and return 1 where the ratio is above `--max-ratio`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="the command to compare with; the file's path is appended")
    parser.add_argument("--command", default=OURS, help="our own command (default: torchstray of this Python)")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--max-ratio", type=float, default=0.3)
    options = parser.parse_args()
    commands = {"torchstray": options.command} | ({"peer": options.peer} if options.peer else {})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "experiment.py"
        file.write_text(realistic_file(options.lines, options.seed), encoding="utf-8")
        for command in commands.values():
            measured(command, file)  # so that nobody pays for a cold cache
        rounds = [{name: measured(command, file) for name, command in commands.items()} for _ in range(options.rounds)]
    medians = {name: report(name, [costs[name] for costs in rounds]) for name in commands}
    if "peer" not in medians:
        return 0
    ratio = medians["torchstray"] / medians["peer"]
    print(f"ratio of the medians of {options.rounds} rounds: {ratio:.3f} (at most {options.max_ratio})")
    return 0 if ratio <= options.max_ratio else 1


if __name__ == "__main__":
    sys.exit(main())
