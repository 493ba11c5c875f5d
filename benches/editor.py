"""How long an editor waits from a key press to the diagnostics of the new text, against another language server in the
same run; and how much memory the server holds with some files open. README.md says how.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from benches.measure import mebibytes
from benches.realistic import realistic_file

OURS = f"{shlex.quote(sys.executable)} -m torchstray server"
TYPED = "alpha = beta(x, [1, 2]) + gamma"
"""Typed and deleted again; nearly all that stands there on the way does not parse."""
PATIENCE = 120
"""The seconds after which a server that does not end by itself is killed."""
PULL = {"textDocument": {"diagnostic": {}}, "general": {"positionEncodings": ["utf-16"]}}


Edit = tuple[int, int, int, str]
"""The line and column (from 0), how many characters go, and what takes their place."""


class Server:
    """A language server, one that hands out diagnostics when asked for them."""

    def __init__(self, command: str, folder: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            shlex.split(command), cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        self._watchdog = threading.Timer(PATIENCE, self.process.kill)
        self._watchdog.start()
        self._requests = self._versions = 0
        root = folder.as_uri()
        hello = self.ask("initialize", {"processId": None, "rootUri": root, "capabilities": PULL})
        if "diagnosticProvider" not in hello["capabilities"]:
            raise SystemExit(f"{command} cannot be asked for diagnostics")
        self.tell("initialized", {})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.ask("shutdown", None)
            self.tell("exit", None)
            self.process.wait()
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait()

    def ask(self, method: str, params: Any) -> Any:
        """Return the answer to a request. Raises SystemExit where the server refuses, or is gone."""
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        while True:
            message = json.loads(self._receive())
            if "method" in message and "id" in message:  # of questions to the editor, only one has an answer
                items = message["params"]["items"] if message["method"] == "workspace/configuration" else None
                self._send({"id": message["id"], "result": items and [None] * len(items)})
            elif message.get("id") == self._requests:
                if "error" in message:
                    raise SystemExit(f"{method} was refused: {message['error']}")
                return message["result"]

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _receive(self) -> bytes:
        stream = self.process.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline().strip()) or not length:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif not line:
                raise SystemExit("the server is gone")
        return stream.read(length)

    def open(self, uri: str, text: str) -> list[Any]:
        """Open a document and return its diagnostics."""
        item = {"uri": uri, "languageId": "python", "version": 0, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.pull(uri)

    def pull(self, uri: str) -> list[Any]:
        """Return the diagnostics of a document."""
        items: list[Any] = self.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})["items"]
        return items

    def processor_time(self) -> float:
        """Return the seconds of processor time that the server has spent; 0 where that cannot be known."""
        if sys.platform != "linux":
            return 0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def edit(self, uri: str, edit: Edit) -> list[Any]:
        """Edit a document, and return its diagnostics."""
        line, column, removed, text = edit
        self._versions += 1
        ends = {"start": {"line": line, "character": column}, "end": {"line": line, "character": column + removed}}
        identifier = {"uri": uri, "version": self._versions}
        change = {"textDocument": identifier, "contentChanges": [{"range": ends, "text": text}]}
        self.tell("textDocument/didChange", change)
        return self.pull(uri)


@dataclass
class Times:
    """What was measured of one server, in seconds."""

    opening: list[float] = field(default_factory=list)
    keys: list[float] = field(default_factory=list)
    processor: float = 0
    results: set[str] = field(default_factory=set)


def key_presses(text: str) -> tuple[Edit, list[Edit], list[Edit]]:
    """Return the edits that open a line in a constructor in the midst of the text, type a line there, and delete it."""
    lines = text.splitlines()
    calls = [number for number, line in enumerate(lines) if "super(" in line]
    before = min(calls, key=lambda number: abs(number - len(lines) // 2))
    indentation = lines[before][: len(lines[before]) - len(lines[before].lstrip())]
    columns = range(len(indentation), len(indentation) + len(TYPED))
    typing = [(before + 1, column, 0, character) for column, character in zip(columns, TYPED, strict=True)]
    deleting = [(before + 1, column, 1, "") for column in reversed(columns)]
    return (before + 1, 0, 0, indentation + "\n"), typing, deleting


def type_a_line(command: str, text: str, times: Times) -> None:
    """Start a server, type a line key by key, waiting for the diagnostics after each, and delete it key by key."""
    opening, typing, deleting = key_presses(text)
    with TemporaryDirectory() as name, Server(command, Path(name)) as server:
        uri = (Path(name) / "experiment.py").as_uri()
        start = time.perf_counter()
        server.open(uri, text)
        times.opening.append(time.perf_counter() - start)
        before = server.edit(uri, opening)
        spent = server.processor_time()
        for edit in (*typing, *deleting):
            start = time.perf_counter()
            after = server.edit(uri, edit)
            times.keys.append(time.perf_counter() - start)
            times.results.add(json.dumps(after, sort_keys=True))
        times.processor += server.processor_time() - spent
        if after != before:
            raise SystemExit(f"{command} finds something else in the same text after it has been typed in")


def report(name: str, times: Times) -> tuple[float, float]:
    """Print what was measured; return the median time of a key press and the processor time of one, in milliseconds."""
    keys = sorted(1000 * taken for taken in times.keys)
    median, late = statistics.median(keys), keys[len(keys) * 95 // 100]
    opening, spent = 1000 * statistics.median(times.opening), 1000 * times.processor / len(keys)
    print(
        f"{name:<12} key press to diagnostics {median:.1f} ms (95% within {late:.1f} ms), processor {spent:.1f} ms, "
        f"opened in {opening:.0f} ms, {len(times.results)} different results"
    )
    return median, spent


def memory(command: str, files: int, lines: int) -> tuple[int, int]:
    """Return the resident and the proportional size of a server, in bytes, with some files open and typed in."""
    with TemporaryDirectory() as name, Server(command, Path(name)) as server:
        for seed in range(files):
            uri, text = (Path(name) / f"experiment{seed}.py").as_uri(), realistic_file(lines, seed)
            server.open(uri, text)
            opening, typing, _ = key_presses(text)
            for edit in (opening, *typing):
                server.edit(uri, edit)
        rollup = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text(encoding="ascii")
    sizes = dict(row.split(":") for row in rollup.splitlines() if row.endswith("kB"))
    resident, proportional = (int(sizes[kind].removesuffix("kB")) * 1024 for kind in ("Rss", "Pss"))
    return resident, proportional


def main() -> int:
    """Measure, print, and return 1 where a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="the language server to compare with, such as `ruff server`")
    parser.add_argument("--command", default=OURS, help="our own (default: torchstray of this Python)")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10, help="how many files are open when memory is measured")
    parser.add_argument("--max-ratio", type=float, help="end with status 1 above it")
    parser.add_argument("--max-memory", type=float, default=150, help="in MiB")
    options = parser.parse_args()
    text = realistic_file(options.lines, options.seed)
    commands = {"torchstray": options.command} | ({"peer": options.peer} if options.peer else {})
    times = {name: Times() for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            type_a_line(command, text, times[name])
    medians = {name: report(name, times[name]) for name in commands}
    fine = True
    if "peer" in medians:
        (ours, our_processor), (peer, peer_processor) = medians["torchstray"], medians["peer"]
        ratio = ours / peer
        print(f"ratio of the medians of {options.rounds} rounds: {ratio:.2f}")
        if peer_processor:  # less moved by what else the machine does
            print(f"ratio of the processor time: {our_processor / peer_processor:.2f}")
        fine = options.max_ratio is None or ratio <= options.max_ratio
    if sys.platform == "linux":
        resident, proportional = memory(options.command, options.files, options.lines)
        print(
            f"memory with {options.files} files of {options.lines} lines open: {mebibytes(resident)} resident, "
            f"{mebibytes(proportional)} proportional (at most {options.max_memory:.0f} MiB)"
        )
        fine = fine and resident <= options.max_memory * 2**20
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
