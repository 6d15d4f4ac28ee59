"""Bounds of the rooms in memory: their number, and the memory of their events and utterances.

Owns: which room goes first. Must not know: stores, other gateways, what else ends a room.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping

from gateway.core.history.event_log import EventLog
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE

STEPS = 64
"""Parts of `Limits.memory_bytes`: the logs may grow by one of them until they are looked at."""


class RoomSpace:
    """The memory of one process for rooms, of which it has live views. Those in which nobody is
    (``idle``) may be dropped from memory by ``evict``; they have not ended.
    """

    def __init__(
        self,
        limits: Limits,
        rooms: Mapping[str, Room],
        replicas: Mapping[str, Replica],
        idle: Callable[[], list[AbstractRoom]],
        evict: Callable[[AbstractRoom], None],
    ) -> None:
        self._limits = limits
        self._rooms = rooms
        self._replicas = replicas
        self._idle = idle
        self._evict = evict
        self._grown = 0  # bytes since the logs were looked at
        self._looking = False  # whether they will be looked at in the next turn

    @property
    def bytes(self) -> int:
        """Bytes of durable events and utterances in memory."""
        return sum(room.bytes for room in self._all())

    def watch(self, log: EventLog) -> None:
        """Keep the bound while a log grows."""
        log.grew = self._grew
        self._grew(log.bytes)

    def require(self) -> None:
        """Make space for one more room. Raises `ClientFault` (``busy``) if no room is empty."""
        count = len(self._rooms.keys() | self._replicas.keys())
        if count >= self._limits.rooms:
            empty = self._empty()
            if not empty:
                raise ClientFault(ErrorCode.BUSY, f"This gateway is full: {count} rooms are open.")
            self._evict(empty[0])

    def shed(self) -> None:
        """Keep the memory of all rooms within `Limits.memory_bytes`."""
        self._grown, self._looking = 0, False
        over = self.bytes - self._limits.memory_bytes
        if over <= 0:
            return
        for empty in self._empty():
            if over <= 0:
                return
            over -= empty.bytes
            self._evict(empty)
        # Somebody is in every room: the longest logs lose their oldest events.
        rooms = self._all()
        sizes = [(-room.bytes, n) for n, room in enumerate(rooms)]
        heapq.heapify(sizes)
        while over > 0 and sizes:
            room, before = rooms[sizes[0][1]], -sizes[0][0]
            room.shed(min(over, room.log.bytes // 2 + 1))
            after = room.bytes
            over -= before - after
            if after < before:
                heapq.heapreplace(sizes, (-after, sizes[0][1]))
            else:
                heapq.heappop(sizes)  # all that it has is in flight

    def _grew(self, size: int) -> None:
        self._grown += size
        if not self._looking and self._grown * STEPS > self._limits.memory_bytes:
            # Not now: the caller, which appends an event, is in the middle of a change.
            self._looking = True
            asyncio.get_running_loop().call_soon(self.shed)

    def _all(self) -> list[AbstractRoom]:
        return [*self._rooms.values(), *self._replicas.values()]  # a list: threads ask, too

    def _empty(self) -> list[AbstractRoom]:
        """Return the empty rooms, of which the first is dropped first."""

        def order(room: AbstractRoom) -> tuple[bool, float, str]:
            # Private rooms go before those with a name, then the one that has been empty longest.
            return not room.name.startswith(PRIVATE), room.empty_since or 0.0, room.name

        return sorted(self._idle(), key=order)
