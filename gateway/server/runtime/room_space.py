"""Bounds of the rooms in memory: their number, and the size of their logs.

Owns: which room goes first. Must not know: stores, other gateways, what else ends a room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gateway.core.replication.replica import AnyRoom
from gateway.core.room.room import Room
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE


class RoomSpace:
    """The memory of one process for rooms.

    :param rooms: live view of the rooms, by name
    :param replicas: live view of the replicas of shared rooms, by name
    :param idle: returns the rooms in which nobody is, a shared one as its replica
    :param evict: called to drop one of these from memory, which has not ended
    """

    def __init__(
        self,
        rooms: Mapping[str, Room],
        replicas: Mapping[str, AnyRoom],
        limits: Limits,
        idle: Callable[[], Iterable[AnyRoom]],
        evict: Callable[[AnyRoom], None],
    ) -> None:
        self._rooms = rooms
        self._replicas = replicas
        self._limits = limits
        self._idle = idle
        self._evict = evict

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
        idle = {room.name: room for room in self._idle()}
        if not idle:
            return False
        _, _, name = min(
            (not name.startswith(PRIVATE), room.empty_since or 0.0, name)
            for name, room in idle.items()
        )
        self._evict(idle[name])
        return True
