"""The leases of a gateway: the rooms that it owns.

Owns: when a room is taken, renewed, taken again and lost. Must not know: what is written about a
room, or in which order (`gateway.server.fleet.write_queue`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.feeds import Entry, Feeds, RoomFeed
from gateway.server.fleet.pipelined_connection import Arguments, Away, Question

log = logging.getLogger("gateway.fleet")

LEASE_MS: Final = 1_500
"""Milliseconds that a room stays with a gateway that does not renew it. Readers of a room whose
gateway was killed wait so long; a gateway that stands still for longer loses its rooms."""


@dataclass(slots=True, eq=False)
class OwnedRoom:
    """A room that this gateway owns, until it is lost."""

    name: str
    fence: int
    value: str
    """Value of the lease."""
    appended: int = 0
    """Number of the last durable event that was handed to the writer."""
    unwritten: int = 0
    """Durable events that Redis has not acknowledged."""
    lapsed: bool = False
    """True if the lease ran out, and the room has to be taken again."""
    missing: Sequence[Entry] = ()
    """Events that Redis has lost. They are written again before all others."""
    feed: str = field(init=False)
    """Channel of the room."""
    keys: tuple[str, str, str] = field(init=False)
    """Keys of its lease, fence and log."""

    def __post_init__(self) -> None:
        self.feed, self.keys = lua_scripts.feed(self.name), lua_scripts.keys(self.name)


class Leases:
    """The rooms that one gateway owns.

    :param kept_ms: milliseconds that the log of a room outlives the last renewal of its lease
    :param lapsed: called if `OwnedRoom.lapsed` or `OwnedRoom.missing` of a room was set
    """

    def __init__(
        self,
        id: str,
        connection: RedisConnection,
        feeds: Feeds,
        *,
        kept_ms: int,
        lapsed: Callable[[], None],
    ) -> None:
        self.rooms: dict[str, OwnedRoom] = {}
        self.kept_ms = kept_ms
        self._id = id
        self._connection = connection
        self._feeds = feeds
        self._lapsed = lapsed

    async def acquire(self, name: str) -> bool:
        """Take a followed room if no gateway owns it; return whether this gateway owns it now.

        After Redis was away, wait until the gateways that had the room would have taken it.
        """
        while name not in self.rooms:
            room = self._feeds.rooms[name]
            try:
                word = "" if room.seq else "unknown"
                fence, last, wait = await self._take(room, room.fence, word)
            except Away as exc:
                if exc.damaged:
                    self._connection.skipping.note(exc)
                return False
            if fence:
                owned = self.rooms[name] = OwnedRoom(name, fence, "")
                await self._own(owned, room, fence, last)
            elif not wait:
                return False
            else:
                await asyncio.sleep(wait / 1000)
        return True

    async def recover(self, owned: OwnedRoom) -> None:
        """Take a room again whose lease ran out, unless another gateway had it meanwhile.

        Raises `Away`.
        """
        room = self._feeds.rooms[owned.name]
        try:
            fence, last, _ = await self._take(room, owned.fence, "again")
        except Away as exc:
            if not exc.damaged:
                raise
            fence = last = 0
            self._connection.skipping.note(exc)
        if fence:
            await self._own(owned, room, fence, last)
        else:
            self.lose(owned)

    def lose(self, room: OwnedRoom) -> None:
        """Give up a room that this gateway owns no longer, or whose data is damaged.

        Its unwritten events were shown to nobody.
        """
        if self.rooms.get(room.name) is room:
            del self.rooms[room.name]
            log.warning("a room was lost", extra={"room": room.name})
            self._feeds.listener.on_lost(room.name)

    def questions(self) -> Iterator[Question]:
        """Yield the questions of a renewal: rooms that are to stay here, owners of the others."""
        yield ("EVAL", lua_scripts.PRESENT, 1, lua_scripts.SINCE, LEASE_MS), None
        if owned := list(self.rooms.values()):
            keys = [key for room in owned for key in room.keys]
            values = [room.value for room in owned]
            rest: Arguments = (*keys, LEASE_MS, self.kept_ms, *values)
            read = partial(self._renewed, owned, values)
            yield ("EVAL", lua_scripts.RENEW, len(keys), *rest), read
        if others := [room for name, room in self._feeds.rooms.items() if name not in self.rooms]:
            leases = (lua_scripts.lease(room.name) for room in others)
            yield ("MGET", *leases), partial(self._seen, others)

    async def _own(self, owned: OwnedRoom, room: RoomFeed, fence: int, last: int) -> None:
        """Note a lease, and that Redis has the events up to ``last``."""
        owned.fence, owned.value, owned.lapsed = fence, f"{self._id} {fence}", False
        if last < room.seq:
            until = room.seq
            entries = await room.listener.entries(room.name, last)
            owned.missing = [entry for entry in entries if entry[0] <= until]
            self._lapsed()
        room.own = fence
        room.set_owner(self._id, fence)

    def _renewed(
        self, owned: Sequence[OwnedRoom], values: Sequence[str], words: Sequence[bytes]
    ) -> None:
        """Note the fate of leases, unless they were taken anew meanwhile."""
        for room, value, word in zip(owned, values, words, strict=True):
            if room.value == value and self.rooms.get(room.name) is room:
                if word == b"other":
                    self.lose(room)
                elif word == b"gone":
                    room.lapsed = True
                    self._lapsed()

    def _seen(self, others: Sequence[RoomFeed], values: Sequence[bytes | None]) -> None:
        """Note the leases of rooms that this gateway does not own."""
        for room, value in zip(others, values, strict=True):
            if room.name not in self.rooms and not room.reading:
                gateway, fence = self._feeds.owner(value)
                if gateway is None or fence >= room.fence:
                    room.set_owner(gateway, fence)

    async def _take(self, room: RoomFeed, known: int, word: str) -> tuple[int, int, int]:
        """Run `lua_scripts.ACQUIRE`; return its result."""
        keys = (*lua_scripts.keys(room.name), lua_scripts.feed(room.name), lua_scripts.SINCE)
        values = (self._id, known, LEASE_MS, word, self.kept_ms, lua_scripts.RETURN_MS)
        command = ("EVAL", lua_scripts.ACQUIRE, len(keys), *keys, *values)
        fence, last, wait = await self._connection.execute(*command)
        # The owner of before may have written more than this gateway was told.
        if fence and last > room.seq:
            await self._feeds.fill(room)
        return int(fence), int(last), int(wait)
