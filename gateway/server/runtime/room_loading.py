"""Loading of rooms: one at a time for each room, and nobody waits for it beyond the end.

Owns: the locks, by name, and the tasks that load rooms. Must not know: rooms, stores.

The gateway may end while sockets wait for a room that another process has not released. They are
told at once to connect again, instead of being cut off when everything else has ended. The loading
goes on by itself: if this process still gets the room, it has to release it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary

from gateway.errors import GatewayError, redacted

log = logging.getLogger("gateway.door")

TELL_S = 0.3
"""Seconds for sockets that wait when the end begins to be told so."""


class RoomLocks:
    """Per-room load locks of this process."""

    def __init__(self) -> None:
        self.working: set[asyncio.Task[None]] = set()
        """Tasks that load rooms, at most as many as there are sockets and requests."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: asyncio.Future[None] | None = None  # done when the end begins

    def of(self, name: str) -> asyncio.Lock:
        """Return the lock of a room. It is forgotten when no code holds it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait until the work is done or the end begins. Raises what the work raises."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work)
        self.working.add(task)
        task.add_done_callback(self.working.discard)
        try:
            await asyncio.wait({task, self._ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():  # the end began, or the caller was cancelled
                task.add_done_callback(_log_fault)
        if task.done():
            task.result()

    async def release_waiting(self) -> None:
        """Let everybody who waits go on. Takes `TELL_S` if anybody does."""
        if self._ending is None or self._ending.done():
            return
        self._ending.set_result(None)
        if self.working:
            await asyncio.sleep(TELL_S)


def _log_fault(task: asyncio.Task[None]) -> None:
    """Log the fault of a task that nobody waits for any more."""
    if task.cancelled() or (fault := task.exception()) is None:
        return
    if isinstance(fault, GatewayError):  # another process has the room, or the store has closed
        log.debug("a room was not loaded: %s", fault)
    else:
        log.error("a room could not be loaded", exc_info=redacted(fault))
