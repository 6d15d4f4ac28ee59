"""Background tasks that end with a block, or whose faults are logged.

Owns: the tasks, until they end. Must not know: what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from gateway.errors import redacted

T = TypeVar("T")


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine in a task, which is cancelled and has ended at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})  # leaves its exception to the caller


class BackgroundTasks:
    """Tasks of one owner that nobody awaits.

    :param log: logger that faults are written to
    :param failure: message of the log line
    """

    def __init__(self, log: logging.Logger, failure: str) -> None:
        self._log = log
        self._failure = failure
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps weak references only

    def __len__(self) -> int:
        return len(self._tasks)

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
