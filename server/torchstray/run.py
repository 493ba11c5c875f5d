"""One run over files: each is read, checked, perhaps repaired; side by side where there are many."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchstray import files
from torchstray.config import Configuration
from torchstray.report import FileFindings
from torchstray.rules.rule import Finding, Severity
from torchstray.text.edits import Span

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from torchstray.semantics.project import Project

ENOUGH_FOR_WORKERS = 40
"""With fewer files than this, starting processes takes longer than they save."""


@dataclass(frozen=True)
class Task:
    """What to do with each file. Findings quieter than `minimum` are neither reported nor repaired."""

    minimum: Severity = Severity.WARNING
    repair: bool = False
    unsafe: bool = False
    write: bool = False


@dataclass(frozen=True)
class FileResult(FileFindings):
    """What came out for one file. `before` and `after` are its text where it was repaired, `applied` and `refused` the
    findings whose fix was made, or was not because it does not help; `failure` says why the file could not be
    written, and `trace` is the traceback of what went wrong in the analysis."""

    before: str = ""
    after: str = ""
    applied: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()
    failure: str | None = None
    trace: str | None = None


def may_concern_torch(data: bytes) -> bool:
    """Tell by its bytes alone whether a file can have findings: it says torch, or is UTF-16 or UTF-32 and might."""
    return b"torch" in data or data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))


def check_file(path: Path, configuration: Configuration, task: Task) -> FileResult:
    """Check, and perhaps repair, the file at `path`. Never raises because of what is in it."""
    try:
        data = files.read(path)
    except files.UnreadableFile as error:
        return _unreadable(path, f"This file {error}.", configuration, task)
    result = check_data(path, data, configuration, task)
    return write_result(result, data, configuration, task) if task.write else result


def check_data(path: Path, data: bytes, configuration: Configuration, task: Task) -> FileResult:
    """Check, and perhaps repair, what the file at `path` holds; nothing is written. Never raises because of it."""
    if not may_concern_torch(data):
        return FileResult(path)
    from torchstray.text.source import UnreadableText, decode

    try:
        text = decode(data).text
    except UnreadableText as error:
        return _unreadable(path, f"This file {error}.", configuration, task)
    try:
        return _checked(path, text, configuration, task)
    except (Exception, RecursionError) as error:  # noqa: BLE001  # a mistake of ours must not end the run
        import traceback

        words = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"The analysis of this file failed ({words}); please report it."
        finding = Finding("internal-error", Severity.ERROR, message, Span(0, 0))
        return FileResult(path, findings=(finding,), trace=traceback.format_exc())


def check_stream(path: Path, data: bytes, configuration: Configuration, task: Task) -> tuple[FileResult, bytes]:
    """Check what did not come from the file system, and return the repaired bytes too; without repair, the same."""
    result = check_data(path, data, configuration, task)
    if result.after == result.before:
        return result, data
    from torchstray.text.source import UnreadableText, decode

    try:
        return result, decode(data).encode(result.after)
    except UnreadableText as error:
        return replace(check_data(path, data, configuration, replace(task, repair=False)), failure=str(error)), data


def _checked(path: Path, text: str, configuration: Configuration, task: Task) -> FileResult:
    from torchstray.check import check, loud
    from torchstray.repair import repair
    from torchstray.syntax.document import Document

    project = _project(configuration.interpreter)
    project.shrink()

    def find(document: Document) -> list[Finding]:
        return loud(check(document, project, configuration, path), task.minimum)

    document = Document(text)
    if not task.repair:
        return FileResult(path, text, tuple(find(document)))
    repaired = repair(document, find, task.unsafe)
    after = repaired.document.text
    return FileResult(path, after, tuple(repaired.left), text, after, tuple(repaired.applied), tuple(repaired.refused))


@cache
def _project(python: Path | None) -> Project:
    """What this process knows of other files; they are taken not to change while it runs."""
    from torchstray.semantics.project import Project

    return Project(environment=os.environ, python=python)


def _unreadable(path: Path, message: str, configuration: Configuration, task: Task) -> FileResult:
    severity = configuration.loudness("unreadable-file", Severity.ERROR)
    if "unreadable-file" in configuration.off(path) or severity < task.minimum:
        return FileResult(path)
    return FileResult(path, findings=(Finding("unreadable-file", severity, message, Span(0, 0)),))


def write_result(result: FileResult, data: bytes, configuration: Configuration, task: Task) -> FileResult:
    """Write the text of a repaired file that held `data`; where that fails, return what holds for it as it still is."""
    if result.after == result.before:
        return result
    from torchstray.text.source import UnreadableText, decode

    try:
        files.write(result.path, decode(data).encode(result.after), data)
    except (files.UnwritableFile, UnreadableText) as error:
        unrepaired = check_data(result.path, data, configuration, replace(task, repair=False))
        return replace(unrepaired, failure=str(error))
    return result


Work = tuple[Path, Configuration]


def run(work: Sequence[Work], task: Task, jobs: int | None = None) -> tuple[int, Iterator[FileResult]]:
    """Check the files of `work`; return how many there are results for, and the results, in the order of `work`.

    With `jobs` processes at most; by default with as many as there are processors, where the files are many. Files that
    do not concern torch have no result.
    """
    if len(work) > ENOUGH_FOR_WORKERS or (jobs or 1) > 1:
        work = [(path, configuration) for path, configuration in work if _worth_a_look(path)]
        if jobs is None:
            jobs = _processors() if len(work) > ENOUGH_FOR_WORKERS else 1
        jobs = min(jobs, len(work))
    if (jobs or 1) > 1:
        return len(work), _side_by_side(work, task, jobs or 1)
    return len(work), _one_by_one(work, task)


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))  # in a container, fewer than the machine has
    return os.cpu_count() or 1


def _worth_a_look(path: Path) -> bool:
    try:
        return may_concern_torch(files.read(path))
    except files.UnreadableFile:
        return True


def _one_by_one(work: Sequence[Work], task: Task) -> Iterator[FileResult]:
    _spare_the_collector()
    for path, configuration in work:
        yield check_file(path, configuration, task)


def _side_by_side(work: Sequence[Work], task: Task, jobs: int) -> Iterator[FileResult]:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(jobs) as pool:
        with _interrupts_held():  # the processes are started by the first task
            futures = [pool.submit(check_file, path, configuration, task) for path, configuration in work]
        try:
            for future, (path, configuration) in zip(futures, work, strict=True):
                try:
                    yield future.result()
                except BrokenProcessPool:  # noqa: PERF203  # each file by itself is the point
                    yield _alone(path, configuration, task)
        except BaseException:  # Ctrl-C, or nobody wants the rest: only then is there work to be given up
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Make a pool of processes that know our modules already, where they can be forked, and that Ctrl-C ends."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import torchstray.check
    import torchstray.repair  # noqa: F401  # for the forked processes

    gc.freeze()  # so that the collector does not touch, and so copy, the memory that the processes share
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    return ProcessPoolExecutor(jobs, context, _start_worker)


def _start_worker() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _spare_the_collector()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C wait, so that it finds no process that has just been forked and still handles it as we do."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _alone(path: Path, configuration: Configuration, task: Task) -> FileResult:
    """Check in a process of its own a file that may have taken another process down with it."""
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1) as pool:
        try:
            return pool.submit(check_file, path, configuration, task).result()
        except BrokenProcessPool:
            message = "The process that analysed this file died; please report it."
            return FileResult(path, findings=(Finding("internal-error", Severity.ERROR, message, Span(0, 0)),))


def _spare_the_collector() -> None:
    """Have cycles looked for less often: syntax trees are many objects, and live until their file is done."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
