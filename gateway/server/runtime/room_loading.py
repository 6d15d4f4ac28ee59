"""Who waits until a room is there: one after the other for each room, and not beyond the end.

Owns: the locks, by name, and the work that somebody waits for. Must not know: rooms, stores.

The end of a gateway may come while sockets wait for a room that another process has not let go of.
They are told to come again at once, instead of being cut off when all else has ended; what was
begun for them goes on by itself, since a room that is still let go of here has to be let go of
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary

log = logging.getLogger("gateway.door")

TELL_S = 0.3
"""Seconds in which those who waited when the end began are told so."""


class RoomLocks:
    """Those of one gateway."""

    def __init__(self) -> None:
        self.working: set[asyncio.Task[None]] = set()
        """What is under way. Not more than there are sockets and requests."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: asyncio.Future[None] | None = None  # done when the end begins

    def of(self, name: str) -> asyncio.Lock:
        """The lock of a room; it is forgotten when nobody has it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Until the work is done, or the end begins. Raises what it raises."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work)
        self.working.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait({task, self._ending}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()

    async def end(self) -> None:
        """Nobody waits any more. It takes `TELL_S` where somebody did."""
        if self._ending is None or self._ending.done():
            return
        self._ending.set_result(None)
        if self.working:
            await asyncio.sleep(TELL_S)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.working.discard(task)
        # Whoever waits is told by `wait`; after the end nobody does.
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.debug("a room did not come: %s", fault)
