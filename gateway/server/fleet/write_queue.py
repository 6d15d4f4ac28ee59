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
from itertools import chain
from typing import Any, Final, NamedTuple

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import LinkPart, RedisConnection
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


class AppendCommand(NamedTuple):
    """The writing of a durable event, and of older events of the room that it has changed."""

    room: OwnedRoom
    seq: int
    payload: bytes
    changed: Sequence[Entry] = ()


class PublishCommand(NamedTuple):
    """A message that no log keeps."""

    room: OwnedRoom
    payload: bytes


class ReleaseCommand(NamedTuple):
    """The return of a room, and the deletion of its log if it is to ``end``."""

    room: OwnedRoom
    end: bool


class SendCommand(NamedTuple):
    """A request to another gateway, with the number by which a repetition is known."""

    gateway: str
    number: int
    payload: bytes


Command = AppendCommand | PublishCommand | ReleaseCommand | SendCommand


class Writer:
    """The queue of one gateway."""

    def __init__(self, id: str, connection: RedisConnection, *, keep: int) -> None:
        self.dropped = 0
        """Volatile messages that were dropped."""
        self.leases: Leases
        self._id = id
        self._connection = connection
        self.part = LinkPart("the writer of the link", connection)
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
        """Return the number of commands that wait for Redis or for its answer."""
        return len(self._queue) + len(self._under_way) + len(self._again)

    def append(self, name: str, seq: int, payload: bytes, changed: Sequence[Entry] = ()) -> None:
        """Write a durable event of an owned room, and publish it.

        Without effect if the room was lost: nobody was shown the event.

        :param changed: older events of the room as the log is to have them from this event on
        """
        room = self.leases.rooms.get(name)
        if room is not None:
            room.unwritten += 1
            room.appended = seq
            self._put(AppendCommand(room, seq, payload, changed))

    def publish(self, room: OwnedRoom, payload: bytes) -> None:
        """Publish a volatile message after the appended events, or drop it."""
        if len(self) >= WAITING:
            self.dropped += 1
        else:
            self._put(PublishCommand(room, payload))

    def release(self, name: str, *, end: bool = False) -> None:
        """Give a room back once everything about it is written, or ``end`` it and delete its log as
        well.
        """
        room = self.leases.rooms.get(name)
        if room is not None:
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
                self._repeat(self._again)
                if self._recovering:
                    await self._recover()
            batch = self._next()
            if batch:
                if not self._under_way:
                    connection.expect()
                self._under_way += batch
                await connection.send(map(self._packed, batch))
            elif not len(self):
                self._empty.set()  # the last commands may have been answered before a recovery
                self.part.works()

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
            try:
                answer = await connection.read()
            except Away as exc:
                if not exc.damaged:
                    raise  # from this command on, all is sent again
                self._give_up(self._under_way[0], exc)
                answer = b""
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
        self._again += [command for command in self._under_way if not self._done(command, None)]
        self._under_way.clear()
        self._repeat(self._again)

    def _repeat(self, commands: list[Command]) -> None:
        """Put commands in front of the queue, and out of the list."""
        self._queue.extendleft(reversed(commands))
        commands.clear()

    async def _recover(self) -> None:
        """Take lapsed rooms again, and write first the events of a room that Redis has lost.

        Raises `Away`. Nothing may be under way: a room that is held cannot be taken.
        """
        self._recovering = False
        for room in list(self.leases.rooms.values()):
            if room.lapsed:
                await self.leases.recover(room)
            if room.missing:
                lost = "Redis has lost %d events; they are written again"
                log.warning(lost, len(room.missing), extra={"room": room.name})
                room.unwritten += len(room.missing)
                self._repeat([AppendCommand(room, seq, event) for seq, event in room.missing])
                room.missing = ()

    def _give_up(self, command: Command, away: Away) -> None:
        """Give up the room of a command whose data in Redis is damaged; the others go on."""
        if not isinstance(command, SendCommand):
            self.leases.lose(command.room)
        self._connection.skipping.note(away)

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
                entry = (seq, payload, self._keep, message, self.leases.kept_ms)
                older: Iterable[int | bytes] = chain.from_iterable(changed)
                keys = (lease, stream, room.feed)
                return ("EVAL", lua_scripts.APPEND, 3, *keys, room.value, *entry, *older)

    def _done(self, command: Command, result: Any) -> bool:
        """Tell whether a command need not be sent again after its answer, or after None if there is
        none.
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
