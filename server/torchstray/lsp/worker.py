"""The one thread that analyses, so that the server's loop is always free to answer."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

STACK = 16 * 2**20
"""Bytes of stack for the thread: syntax trees are walked by recursion, and some systems give threads little."""


class Superseded(Exception):
    """The work is not wanted any more: the text it was for has changed."""


class Worker:
    """Does one piece of work after the other. Syntax trees are made and read by this thread only."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        before = threading.stack_size(STACK)
        # A daemon: a long analysis must not keep a server alive whose editor is gone.
        threading.Thread(target=self._work, name="analysis", daemon=True).start()
        threading.stack_size(before)

    async def run(self, work: Callable[[], T], wanted: Callable[[], bool] = lambda: True) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises Superseded if the work is not `wanted` any more when its turn comes.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
            if not future.done():
                set_outcome(outcome)

        def job() -> None:
            set_outcome: Callable[[Any], None] = future.set_result
            outcome: object
            try:
                if future.cancelled() or not wanted():
                    raise Superseded
                outcome = work()
            except Exception as error:  # noqa: BLE001  # it is raised where the work is waited for
                set_outcome, outcome = future.set_exception, error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, set_outcome, outcome)

        self._queue.put(job)
        return await future

    def _work(self) -> None:
        while True:
            self._queue.get()()
