"""`python -m tests.lsp.fuzz --sessions 1000 --seed 1`: random edit sessions, and one line that says how they went."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.lsp.fuzz.run import run


def main() -> int:
    """Run, print, and return 1 where a session failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.lsp.fuzz", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first session; the next ones count up from it")
    options = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tally = asyncio.run(run(options.seed, options.sessions, Path(folder)))
    for failure in tally.failures:
        print(failure, file=sys.stderr)
    last = options.seed + options.sessions - 1
    print(
        f"{tally.sessions} sessions (seeds {options.seed} to {last}), {tally.steps} steps, {tally.documents} documents "
        f"compared with {tally.findings} findings beside {tally.broken} statements that do not parse, "
        f"{time.perf_counter() - start:.0f} s: {len(tally.failures)} failures"
    )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
