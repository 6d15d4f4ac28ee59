"""Bounds of the rooms in memory: their number, and the size of their logs.

Owns: which room goes first. Must not know: stores, other gateways, what else ends a room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.core.replication.replica import AnyRoom, Replica
from gateway.core.room.room import Room
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE


class SharedRooms(Protocol):
    """The part of the rooms shared with other gateways that decides which of them may go."""

    def idle(self) -> list[Replica]:
        """Return the rooms in which nobody is."""

    def evict(self, replica: Replica) -> None:
        """Give up one of these."""


class RoomSpace:
    """The memory of one process for rooms.

    :param rooms: live view of the rooms, by name
    :param replicas: live view of the replicas of shared rooms, by name
    :param evict: called to drop a room from memory that is not shared and has not ended

    ``shared`` are the rooms shared with other gateways, if there are any.
    """

    def __init__(
        self,
        rooms: Mapping[str, Room],
        replicas: Mapping[str, AnyRoom],
        limits: Limits,
        evict: Callable[[Room], None],
    ) -> None:
        self._rooms = rooms
        self._replicas = replicas
        self._limits = limits
        self._evict = evict
        self.shared: SharedRooms | None = None

    @property
    def bytes(self) -> int:
        """Bytes of durable events in memory."""
        rooms: list[AnyRoom] = [*self._rooms.values(), *self._replicas.values()]  # threads ask, too
        return sum(room.log.bytes for room in rooms)

    def require(self) -> None:
        """Make space for one more room. Raises `ClientFault` (``busy``) if no room is empty."""
        count = len(self._rooms.keys() | self._replicas.keys())
        if count >= self._limits.rooms and not self._evict_one():
            raise ClientFault(ErrorCode.BUSY, f"This gateway is full: {count} rooms are open.")

    def shed(self) -> None:
        """Keep the sum of all logs within `Limits.memory_bytes`."""
        while (over := self.bytes - self._limits.memory_bytes) > 0:
            if not self._evict_one():  # somebody is in every room
                rooms: list[AnyRoom] = [*self._rooms.values(), *self._replicas.values()]
                longest = max(rooms, key=lambda room: room.log.bytes)
                longest.shed(min(over, longest.log.bytes // 2 + 1))

    def _evict_one(self) -> bool:
        """Drop an empty room from memory, and return whether there was one."""
        # Private rooms go before those with a name, then the one that has been empty longest. The
        # room has not ended: if it is kept somewhere, it can be loaded again.
        shared = {} if self.shared is None else {one.name: one for one in self.shared.idle()}
        own = {name: room for name, room in self._rooms.items() if name not in self._replicas}
        places: dict[str, AnyRoom] = {**own}
        places.update(shared)
        empty = [
            (not name.startswith(PRIVATE), room.empty_since, name)
            for name, room in places.items()
            if room.empty_since is not None
        ]
        if not empty:
            return False
        _, _, name = min(empty)
        if self.shared is not None and name in shared:
            self.shared.evict(shared[name])
        else:
            self._evict(own[name])
        return True
