"""Runs a command to its end and says what it cost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO


@dataclass(frozen=True)
class Cost:
    """What one run of a command took, its child processes included; `peak` is the largest resident size of one of
    its processes, in bytes."""

    status: int
    output: str
    errors: str
    wall: float
    cpu: float
    peak: int


def run(command: Sequence[str]) -> Cost:
    """Run `command` and wait for it, and for no other process."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        return Cost(
            process.returncode, _text(output), _text(errors), wall, usage.ru_utime + usage.ru_stime, _bytes(usage)
        )


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")


def _bytes(usage: resource.struct_rusage) -> int:
    """macOS counts the resident size in bytes, Linux in KiB."""
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024


def mebibytes(size: int) -> str:
    """Return a size in bytes as people read it."""
    return f"{size / 2**20:.0f} MiB"
