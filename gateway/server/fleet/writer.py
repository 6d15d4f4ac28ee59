"""The writer of a gateway: everything that it tells Redis, in order.

Owns: the queue, what is repeated after a fault, and what is dropped. Must not know: who owns a room
(`gateway.server.fleet.leases`), what events and requests say.

One pipeline is under way at a time, so Redis runs the commands in the order of the queue. Durable
events and requests are numbered, so that they can be repeated; volatile messages are dropped.

Bounds: `WAITING` commands, above which volatile messages are dropped. The owner of a room accepts
no new text above `gateway.server.runtime.room_authority.FULL` unwritten events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, Literal

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import AWAY, RETRY_S, RedisConnection
from gateway.server.fleet.feeds import VOLATILE, pack
from gateway.server.fleet.leases import Leases, OwnedRoom
from gateway.server.runtime.fleet_contract import Entry

log = logging.getLogger("gateway.fleet")

BATCH: Final = 500
"""Commands that are sent at once."""
WAITING: Final = 5_000
"""Commands that wait while volatile messages are still accepted."""
INBOX: Final = 20_000
"""Requests that an inbox keeps. A gateway that is so far behind has lost its rooms."""


@dataclass(slots=True, eq=False)
class Command:
    """A command to Redis."""

    kind: Literal["append", "publish", "release", "send"]
    target: OwnedRoom | str
    """The room, or the gateway of a request."""
    seq: int = 0
    """The number of a durable event or a request."""
    payload: bytes = b""
    changed: Sequence[Entry] = ()
    """Older events of the room as they are from this event on."""


class Writer:
    """The queue of one gateway.

    :param id: name of this gateway
    :param keep: durable events that the log of a room keeps
    """

    def __init__(self, id: str, connection: RedisConnection, *, keep: int) -> None:
        self.dropped = 0
        """Volatile messages that were dropped."""
        self.leases: Leases
        self._id = id
        self._connection = connection
        self._keep = keep
        self._queue: deque[Command] = deque()
        self._requests = 0
        self._awake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._queue)

    def append(
        self, room: OwnedRoom, seq: int, payload: bytes, changed: Sequence[Entry] = ()
    ) -> None:
        """Write a durable event, publish it, and replace older events in the log."""
        room.unwritten += 1
        room.appended = seq
        self._put(Command("append", room, seq, payload, changed))

    def publish(self, room: OwnedRoom, payload: bytes) -> bool:
        """Publish a volatile message after what was appended; return False if it is dropped."""
        if not self._connection.up or len(self._queue) >= WAITING:
            self.dropped += 1
            return False
        self._put(Command("publish", room, VOLATILE, payload))
        return True

    def release(self, room: OwnedRoom, *, end: bool) -> None:
        """Give a room back after all that was written before.

        :param end: delete its log as well
        """
        self._put(Command("release", room, payload=b"end" if end else b""))

    def send(self, gateway: str, payload: bytes) -> None:
        """Send a request to another gateway."""
        self._requests += 1
        self._put(Command("send", gateway, self._requests, payload))

    def wake(self) -> None:
        """Take rooms again that have lapsed, even if nothing is to be written."""
        self._awake.set()

    async def drained(self) -> None:
        """Wait until the queue is empty."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send the queue until cancelled."""
        while not self._connection.closing:
            await self._awake.wait()
            self._awake.clear()
            try:
                await self._recover()
                while self._queue:
                    await self._send()
            except AWAY as exc:
                self._connection.failed(exc)
                await asyncio.sleep(RETRY_S)
                self._awake.set()
            else:
                self._empty.set()

    def _put(self, command: Command) -> None:
        self._queue.append(command)
        self._awake.set()
        self._empty.clear()

    async def _recover(self) -> None:
        """Take lapsed rooms again, and write first what Redis has lost of a room."""
        for room in list(self.leases.rooms.values()):
            if room.lapsed:
                await self.leases.recover(room)
            if room.missing:
                lost = len(room.missing)
                log.warning(
                    "Redis has lost %d events; they are written again",
                    lost,
                    extra={"room": room.name},
                )
                room.unwritten += len(room.missing)
                again = [Command("append", room, seq, event) for seq, event in room.missing]
                self._queue.extendleft(reversed(again))
                room.missing = ()

    async def _send(self) -> None:
        """Send one batch. Raises `AWAY`; then all that can be repeated is still in the queue."""
        batch = list(islice(self._queue, BATCH))
        pipeline = self._connection.redis.pipeline(transaction=False)
        for command in batch:
            self._add(pipeline, command)
        try:
            results: list[Any] = await pipeline.execute(raise_on_error=False)
        except AWAY:
            results = [None] * len(batch)
            self._settle(batch, results)
            raise
        self._settle(batch, results)
        fault = next((result for result in results if isinstance(result, Exception)), None)
        if fault is not None:
            raise fault
        self._connection.works()
        await self._recover()

    def _add(self, pipeline: Any, command: Command) -> None:
        room = command.target
        if isinstance(room, str):
            fields = {"f": self._id, "n": command.seq, "p": command.payload}
            pipeline.xadd(lua_scripts.inbox(room), fields, maxlen=INBOX, approximate=True)
            return
        lease, feed, stream = (
            key(room.name) for key in (lua_scripts.lease, lua_scripts.feed, lua_scripts.log)
        )
        message = pack((room.fence, command.seq, command.payload))
        if command.kind == "append":
            older = chain.from_iterable(command.changed)
            entry = (command.seq, command.payload, self._keep, message, *older)
            pipeline.eval(lua_scripts.APPEND, 3, lease, stream, feed, room.value, *entry)
        elif command.kind == "publish":
            pipeline.publish(feed, message)
        else:
            word = (room.value, room.fence, command.payload)
            pipeline.eval(lua_scripts.RELEASE, 3, lease, feed, stream, *word)

    def _settle(self, batch: Sequence[Command], results: Sequence[Any]) -> None:
        """Remove a batch from the queue, and put back what has to be sent again.

        :param results: an answer for each command; None if there is none
        """
        again = []
        for command, result in zip(batch, results, strict=True):
            self._queue.popleft()
            if not self._done(command, result):
                again.append(command)
        self._queue.extendleft(reversed(again))

    def _done(self, command: Command, result: Any) -> bool:
        """Tell whether a command need not be sent again."""
        room = command.target
        if isinstance(room, str):
            return result is not None and not isinstance(result, Exception)
        if self.leases.rooms.get(room.name) is not room:
            return True
        if command.kind == "publish":
            self.dropped += result is None
            return True
        if result is None or isinstance(result, Exception):
            return False
        if command.kind == "release":
            del self.leases.rooms[room.name]
        elif result == b"ok":
            room.unwritten -= 1
        elif result == b"other":
            self.leases.lose(room)
        else:
            room.lapsed = True
            return False
        return True
