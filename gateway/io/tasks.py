"""Background work: tasks for a block, for an owner or for the life of the process, and threads.

Owns: the tasks until they end, what follows when one dies, and the priority of threads. Must not
know: the work.

Everything that has to go on for as long as its owner lives is run by `keep_running`, so that one
fault cannot stop a part of the gateway for good while the rest goes on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from gateway.errors import redacted

T = TypeVar("T")

log = logging.getLogger("gateway.background")

RESTART_S: Final = 1.0
"""Seconds until a task that failed is started again."""
NICENESS = 5
"""Steps below the rest of the process: under load the threads get a third of the time of the
others."""
LOWEST = 19
failures: Counter[str] = Counter()
"""Number of times that each task of this process has failed and was started again."""


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine in a task, which is cancelled and has ended at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})  # leaves its exception to the caller


async def keep_running(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    expected: type[Exception] | tuple[type[Exception], ...] = (),
    pause: Callable[[], float] = lambda: RESTART_S,
) -> None:
    """Run ``work`` until it returns or this task is cancelled. If it fails, run it again.

    :param name: subject of the log line, and label of the metric
    :param expected: failures that ``work`` reports itself; all others are logged and counted
    :param pause: returns the seconds until the next run
    """
    failures[name] += 0  # shown from the start, so that the first failure is a change
    while True:
        try:
            return await _uncancelled(work())
        except expected:
            pass
        except Exception as exc:
            failures[name] += 1
            log.error("%s failed; it starts again", name, exc_info=redacted(exc))
        await asyncio.sleep(pause())


async def _uncancelled(work: Awaitable[T]) -> T:
    """Await something that must not end as cancelled unless this task is.

    A library may raise `CancelledError` although nobody has cancelled the task: then the task
    would end without a word. It may also turn a cancellation into another error: then the task
    would never end. Raises `RuntimeError` for the first.
    """
    task = asyncio.current_task()
    assert task is not None, "it runs in a task"
    before = task.cancelling()
    try:
        return await work
    except BaseException as exc:
        if task.cancelling() > before:
            raise asyncio.CancelledError from None
        if isinstance(exc, asyncio.CancelledError):
            raise RuntimeError("cancelled by nobody") from exc
        raise


class BackgroundTasks:
    """Tasks of one owner that nobody awaits. Faults are logged with the message ``failure``."""

    def __init__(self, log: logging.Logger, failure: str) -> None:
        self._log = log
        self._failure = failure
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps weak references only

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in a task of its own."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        # If one dies of an exception, asyncio alone would report that late or, if it is gathered at
        # the end, never.
        task.add_done_callback(self._ended)
        return task

    async def aclose(self) -> None:
        """Cancel the tasks that still run, and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)  # leaves their exceptions to `_ended`

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.error(self._failure, exc_info=redacted(fault))


def yield_to_others() -> None:
    """Lower the priority of the present thread. Linux alone has priorities of threads."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # Threads that it starts later inherit the priority, those of CTranslate2 too. A thread of a
        # process that is nice already becomes nicer still: no user may take that back.
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, LOWEST))
