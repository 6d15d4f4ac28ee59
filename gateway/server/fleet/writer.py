"""The writer of a gateway: everything that it tells Redis, in order.

Owns: the queue, what is repeated after a fault, and what is dropped. Must not know: who owns a room
(`gateway.server.fleet.leases`), what events and requests say.

All commands go through one connection, so Redis runs them in the order of the queue. Commands of
one turn of the event loop are sent together, and do not wait for the answers to those before. When
an answer says that a command has to be repeated, nothing more is sent until all are answered.
Durable events and requests are numbered, so that they can be repeated; volatile messages are
dropped.

Bounds: `UNDER_WAY` commands without an answer, above which all others wait; `WAITING` commands in
all, above which volatile messages are dropped. The owner of a room accepts no new text above
`gateway.server.fleet.authorities.FULL` unwritten events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.feeds import VOLATILE, Entry, pack
from gateway.server.fleet.inbox import KEPT_MS
from gateway.server.fleet.leases import Leases, OwnedRoom
from gateway.server.fleet.pipelined_connection import Arguments, Away, PipelinedConnection

log = logging.getLogger("gateway.fleet")

UNDER_WAY: Final = 500
"""Commands without an answer. Sent commands cannot be dropped when Redis becomes slow."""
WAITING: Final = 5_000
"""Commands that wait or are under way while volatile messages are still accepted."""
INBOX: Final = 20_000
"""Requests that an inbox keeps. A gateway that is so far behind has lost its rooms."""


@dataclass(slots=True, eq=False)
class AppendCommand:
    """The writing of a durable event.

    :param changed: older events of the room as they are from this event on
    """

    room: OwnedRoom
    seq: int
    payload: bytes
    changed: Sequence[Entry] = ()


@dataclass(slots=True, eq=False)
class PublishCommand:
    """A message that no log keeps."""

    room: OwnedRoom
    payload: bytes


@dataclass(slots=True, eq=False)
class ReleaseCommand:
    """The return of a room.

    :param end: whether its log is deleted as well
    """

    room: OwnedRoom
    end: bool


@dataclass(slots=True, eq=False)
class SendCommand:
    """A request to another gateway, with the number by which a repetition is known."""

    gateway: str
    number: int
    payload: bytes


Command = AppendCommand | PublishCommand | ReleaseCommand | SendCommand


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
        self.part = connection.part("the writer of the link")
        self._keep = keep
        self._queue: deque[Command] = deque()
        self._under_way: deque[Command] = deque()  # sent, without an answer
        self._again: list[Command] = []  # answered, and to be sent again
        self._recovering = False  # a room has lapsed, or Redis has lost events
        self._requests = 0
        self._awake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._queue) + len(self._under_way) + len(self._again)

    def append(
        self, room: OwnedRoom, seq: int, payload: bytes, changed: Sequence[Entry] = ()
    ) -> None:
        """Write a durable event, publish it, and replace older events in the log."""
        room.unwritten += 1
        room.appended = seq
        self._put(AppendCommand(room, seq, payload, changed))

    def publish(self, room: OwnedRoom, payload: bytes) -> None:
        """Publish a volatile message after the appended events, or drop it."""
        if len(self) >= WAITING:
            self.dropped += 1
        else:
            self._put(PublishCommand(room, payload))

    def release(self, room: OwnedRoom, *, end: bool) -> None:
        """Give a room back after all that was written before.

        :param end: delete its log as well
        """
        self._put(ReleaseCommand(room, end))

    def send(self, gateway: str, payload: bytes) -> None:
        """Send a request to another gateway."""
        self._requests += 1
        self._put(SendCommand(gateway, self._requests, payload))

    def recover(self) -> None:
        """Take rooms again that have lapsed, and write lost events again."""
        self._recovering = True
        self._awake.set()

    async def drained(self) -> None:
        """Wait until the queue is empty."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send the queue until cancelled."""
        await self.part.run(self._write, self._read, self._watch, lost=self._disconnected)

    # --- inside ---------------------------------------------------------------------------------

    def _put(self, command: Command) -> None:
        self._queue.append(command)
        self._awake.set()
        self._empty.clear()

    async def _write(self, connection: PipelinedConnection) -> None:
        """Send the waiting commands, as soon as they may be sent. Raises `Away`."""
        self.recover()
        while True:
            await self._awake.wait()
            self._awake.clear()
            if self._again or self._recovering:
                if self._under_way:
                    continue
                self._queue.extendleft(reversed(self._again))
                self._again.clear()
                if self._recovering:
                    await self._recover()
            batch = self._next()
            if not batch and not len(self):
                self.part.works()
            if batch:
                if not self._under_way:
                    connection.expect()
                self._under_way += batch
                await connection.send(map(self._packed, batch))

    def _next(self) -> list[Command]:
        """Take the commands from the queue that may be sent now.

        A room is given back only when all before is answered: a command may have to be repeated.
        """
        queue, batch = self._queue, list[Command]()
        most = UNDER_WAY - len(self._under_way)
        while queue and len(batch) < most:
            if isinstance(queue[0], ReleaseCommand) and (
                self._under_way or (batch and not isinstance(batch[-1], ReleaseCommand))
            ):
                break
            batch.append(queue.popleft())
        return batch

    async def _read(self, connection: PipelinedConnection) -> None:
        """Read the answers. Raises `Away`."""
        while True:
            answer = await connection.read()
            if isinstance(answer, Away):
                if not answer.damaged:
                    try:
                        raise answer  # from this command on, all is sent again
                    finally:
                        del answer  # it refers to this frame
                self._give_up(self._under_way[0], answer)
            command = self._under_way.popleft()
            if not self._done(command, answer):
                self._again.append(command)
            self.part.works()
            if self._queue or self._again or self._recovering:
                self._awake.set()
            elif not self._under_way:
                self._empty.set()

    async def _watch(self, connection: PipelinedConnection) -> None:
        """Raise `Away` if Redis does not answer."""
        while True:
            await connection.silence()
            if self._under_way:
                raise Away(TimeoutError("no answer on the connection of the writer"))
            connection.expect()

    def _disconnected(self) -> None:
        """Put back the commands without an answer, as far as they can be repeated."""
        lost = [command for command in self._under_way if not self._done(command, None)]
        again = self._again + lost
        self._queue.extendleft(reversed(again))
        self._under_way.clear()
        self._again.clear()

    async def _recover(self) -> None:
        """Take lapsed rooms again, and write first the events of a room that Redis has lost.

        Raises `Away`. Nothing may be under way: a room that is held cannot be taken.
        """
        self._recovering = False
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
                again = [AppendCommand(room, seq, event) for seq, event in room.missing]
                self._queue.extendleft(reversed(again))
                room.missing = ()

    def _give_up(self, command: Command, away: Away) -> None:
        """Give up the room of a command whose data in Redis is damaged; the others go on."""
        if not isinstance(command, SendCommand):
            self.leases.lose(command.room)
        with self._connection.skipping:
            try:
                raise away
            finally:
                del away  # it refers to this frame

    def _packed(self, command: Command) -> Arguments:
        """Return a command for Redis, with the present fence of its room."""
        match command:
            case SendCommand(gateway, number, payload):
                request = (INBOX, KEPT_MS, self._id, number, payload)
                return ("EVAL", lua_scripts.SEND, 1, lua_scripts.inbox(gateway), *request)
            case PublishCommand(room, payload):
                return ("PUBLISH", room.feed, pack((room.fence, VOLATILE, payload)))
            case ReleaseCommand(room, end):
                lease, _, stream = room.keys
                word = (room.value, room.fence, "end" if end else "")
                return ("EVAL", lua_scripts.RELEASE, 3, lease, room.feed, stream, *word)
            case AppendCommand(room, seq, payload, changed):
                lease, _, stream = room.keys
                message = pack((room.fence, seq, payload))
                older: Iterable[int | bytes] = chain.from_iterable(changed)
                entry = (seq, payload, self._keep, message, self.leases.kept_ms, *older)
                keys = (lease, stream, room.feed)
                return ("EVAL", lua_scripts.APPEND, 3, *keys, room.value, *entry)

    def _done(self, command: Command, result: Any) -> bool:
        """Tell whether a command need not be sent again.

        :param result: the answer; None if there is none
        """
        if isinstance(command, SendCommand):
            return result is not None
        room = command.room
        if self.leases.rooms.get(room.name) is not room:
            return True
        if isinstance(command, PublishCommand):
            self.dropped += result is None
            return True
        if result is None:
            return False
        if isinstance(command, ReleaseCommand):
            del self.leases.rooms[room.name]
        elif result == b"ok":
            room.unwritten -= 1
        elif result == b"other":
            self.leases.lose(room)
        else:
            room.lapsed = self._recovering = True
            return False
        return True
