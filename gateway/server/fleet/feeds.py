"""The feeds of rooms, as a gateway follows them.

Owns: the order and completeness of what a follower is told. Must not know: what messages say, who
may write, leases beyond the name of the owner.

Redis Pub/Sub loses messages without a word when a connection breaks. Every durable event has a
number, so a hole is seen, and filled from the log of the room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.io.tasks import BackgroundTasks, keep_running
from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import MOST_S, LinkPart, RedisConnection
from gateway.server.fleet.pipelined_connection import (
    TIMEOUT_S,
    Away,
    PipelinedConnection,
    translated,
)

log = logging.getLogger("gateway.fleet")

Entry = tuple[int, bytes]
"""The number of a durable event, and the event."""
Message = tuple[int, int, bytes]
"""A message of a feed: the fence of its sender; the number of a durable event, or `VOLATILE`, or
`OWNER`; the content."""
VOLATILE: Final = 0
"""The number of a message that no log keeps."""
BEHIND: Final = 1_000
"""Volatile messages of this gateway that wait for a durable event. Further ones are dropped."""
PAGE: Final = 500
"""Events of a log that are read at once."""
HELD: Final = 5_000
"""Messages of a room that wait while its log is read. Older ones are dropped; the log has those
that are durable."""
OWNER: Final = -1
"""The number of a message that names the new owner of the room, or nobody."""


class LinkListener(Protocol):
    """The rooms that a gateway shares."""

    async def begin(self, name: str, entries: Sequence[Entry]) -> None:
        """Handle the durable events of a room so far. No other call comes before this returns."""

    def told(self, name: str, message: object) -> None:
        """Handle a message about a room.

        :param message: bytes of another gateway or of a durable event, or a volatile message of
            this gateway, see `FleetLink.publish`
        """

    def owner_changed(self, name: str, gateway: str | None) -> None:
        """Note which gateway owns a room."""

    def gap(self, name: str) -> None:
        """Note that volatile messages may have been lost."""

    async def entries(self, name: str, after: int) -> Sequence[Entry]:
        """Return the durable events of a room after a number."""

    def on_broadcast(self, payload: bytes) -> None:
        """Handle a message to all gateways, this gateway's own included."""

    def on_request(self, payload: bytes) -> None:
        """Handle a request of a gateway. The requests of each gateway come in its order."""

    def on_lost(self, name: str) -> None:
        """Note that this gateway owns a room no longer."""

    def on_gateway_lost(self, gateway: str) -> None:
        """Note that a gateway that sent requests shows no life."""

    def on_connection(self, up: bool) -> None:
        """Note that Redis went away or came back."""

    def on_key(self, key: bytes) -> None:
        """Sign with the key that all gateways share."""


@dataclass(slots=True, eq=False)
class RoomFeed:
    """A room whose feed is read."""

    name: str
    listener: LinkListener
    fence: int = 0
    owner: str | None = None
    seq: int = 0
    """Number of the last durable event that the listener was given."""
    held: deque[Message] | None = field(default_factory=lambda: deque(maxlen=HELD))
    """Messages that came while the log is read; None if they are handled at once."""
    subscribed: asyncio.Future[None] | None = None
    """Done when Redis has confirmed the subscription; None afterwards."""
    own: int = 0
    """Newest fence of this gateway; 0 if it has never owned the room."""
    behind: deque[tuple[int, object]] = field(default_factory=deque)
    """Volatile messages of this gateway, each with the number of the durable event that it
    follows."""

    @property
    def reading(self) -> bool:
        """True while the log is read and messages wait for that."""
        return self.held is not None

    def hold(self, messages: Iterable[Message]) -> None:
        """Keep these messages and all that follow until the log has been read."""
        if self.held is None:
            self.held = deque(maxlen=HELD)
        self.held += messages

    def set_owner(self, gateway: str | None, fence: int) -> None:
        """Note the owner, and tell the listener of a new one."""
        changed = gateway != self.owner or (gateway is not None and fence > self.fence)
        self.owner, self.fence = gateway, max(fence, self.fence)
        if changed:
            self.behind.clear()  # they are of the owner before
            self.listener.owner_changed(self.name, gateway)


class Feeds:
    """The feeds that one gateway follows."""

    def __init__(self, connection: RedisConnection, listener: LinkListener) -> None:
        self.rooms: dict[str, RoomFeed] = {}
        self._connection = connection
        self._part = LinkPart("the feeds of the link", connection)
        self.listener = listener
        self._subscriptions: PipelinedConnection | None = None
        self._reloads = BackgroundTasks(log, "reading the log of a room has failed")

    async def follow(self, name: str) -> None:
        """Subscribe to a room, and give the listener its durable events.

        The listener is called again from the next turn of the loop on, first with the owner. Raises
        `ClientFault` (``busy``) if Redis is away.
        """
        room = self.rooms[name] = RoomFeed(name, self.listener)
        room.subscribed = asyncio.get_running_loop().create_future()
        try:
            with translated():
                if self._connection.foreign is not None:
                    raise ConnectionError("not connected")
                async with asyncio.timeout(TIMEOUT_S):
                    await self._connected().send([("SUBSCRIBE", lua_scripts.feed(name))])
                    await room.subscribed
            entries = await self.read(name)
            held = await self._connection.execute("GET", lua_scripts.lease(name))
        except Away as exc:
            self.rooms.pop(name, None)
            raise unreachable() from exc
        room.owner, room.fence = self.owner(held)
        if entries:
            room.seq = entries[-1][0]
        await self.listener.begin(name, entries)
        asyncio.get_running_loop().call_soon(self._hand_over, room)

    async def unfollow(self, name: str) -> None:
        """Stop following a room."""
        self.rooms.pop(name, None)
        with contextlib.suppress(Away):  # the next connection does not subscribe to it
            await self._connected().send([("UNSUBSCRIBE", lua_scripts.feed(name))])

    async def read(self, name: str, after: int = 0) -> list[Entry]:
        """Return the durable events of any room after a number. Raises `Away`."""
        return [entry async for page in self._pages(name, after) for entry in page]

    async def fill(self, room: RoomFeed) -> None:
        """Give the listener the events that the feed did not bring. Raises `Away`."""
        async for page in self._pages(room.name, room.seq):
            for seq, payload in page:
                if seq > room.seq:  # the feed goes on meanwhile
                    room.seq = seq
                    room.listener.told(room.name, payload)

    async def _pages(self, name: str, after: int) -> AsyncIterator[list[Entry]]:
        """Read a log in pages, so that a long one does not stop the event loop. Raises `Away`."""
        key, scores = lua_scripts.log(name), ("+inf", "BYSCORE", "LIMIT", 0, PAGE, "WITHSCORES")
        page: list[Entry] = [(after, b"")]
        while page:
            rows = await self._connection.execute("ZRANGE", key, f"({page[-1][0]}", *scores)
            numbered = zip(map(float, rows[1::2]), rows[::2], strict=True)
            page = [(int(number), event) for number, event in numbered if math.isfinite(number)]
            yield page
            if len(rows) < 2 * PAGE:
                return

    def owner(self, value: bytes | None) -> tuple[str | None, int]:
        """Return the gateway and the fence that the lease of a room names."""
        if value is None:
            return None, 0
        with self._connection.skipping:
            gateway, _, fence = value.decode().partition(" ")
            return gateway, int(fence)
        return None, 0

    def deliver_here(self, room: RoomFeed, after: int, message: object) -> bool:
        """Give the listener a volatile message of this gateway, which need not pass through Redis.

        Returns False if too many messages wait.
        """
        if room.own < room.fence:  # another gateway owns the room, and this one will be told
            return True
        if room.behind or room.seq < after or room.reading:
            if len(room.behind) >= BEHIND:
                return False
            room.behind.append((after, message))
        else:
            room.listener.told(room.name, message)
        return True

    async def run(self) -> None:
        """Read the messages about the followed rooms, until cancelled."""
        await self._part.run(self._listen, self._watch, lost=self._disconnected)

    async def _listen(self, connection: PipelinedConnection) -> None:
        """Read messages while the connection lives. Raises `Away`."""
        feeds = map(lua_scripts.feed, self.rooms)
        await connection.send([("SUBSCRIBE", lua_scripts.EVERYBODY, *feeds)])
        for room in self.rooms.values():
            room.hold(())
        self._subscriptions = connection
        while True:
            answer = await connection.read()
            self._part.works()
            with self._connection.skipping:
                self._read(*answer)

    async def _watch(self, connection: PipelinedConnection) -> None:
        """Raise `Away` if the connection is dead.

        Nothing may be said in any room for a long time, so silence is answered with a ``PING``.
        """
        pinged = -1
        while True:
            await connection.silence()
            if connection.received == pinged:
                raise Away(TimeoutError("no answer on the connection of the feeds"))
            pinged = connection.received
            connection.expect()
            await connection.send([("PING",)])

    def _disconnected(self) -> None:
        self._subscriptions = None

    async def aclose(self) -> None:
        """Stop reading logs."""
        await self._reloads.aclose()

    def _connected(self) -> PipelinedConnection:
        """Return the connection of the subscriptions. Raises `Away` if it is lost."""
        if self._subscriptions is None:
            raise Away(ConnectionError("not connected"))
        return self._subscriptions

    def _read(self, kind: bytes, channel: bytes, data: Any = None) -> None:
        """Handle a message of Redis (``message``), or an answer: ``subscribe``, ``unsubscribe`` or
        ``pong``.
        """
        if kind == b"pong":
            return
        name = lua_scripts.room_of(channel)
        if not name and kind == b"message":
            self.listener.on_broadcast(data)
        room = self.rooms.get(name)
        if room is None:
            return
        if kind == b"message":
            if room.reading:
                room.hold([unpack(data)])
            else:
                self._deliver(room, *unpack(data))
        elif kind == b"subscribe":
            if room.subscribed is None:  # the connection is new
                self._begin_reload(room)
            elif not room.subscribed.done():
                room.subscribed.set_result(None)

    def _deliver(self, room: RoomFeed, fence: int, seq: int, payload: bytes) -> None:
        if seq > VOLATILE:  # the fence was checked when it was written
            if seq == room.seq + 1:
                room.seq = seq
                room.listener.told(room.name, payload)
                while room.behind and room.behind[0][0] <= seq:
                    room.listener.told(room.name, room.behind.popleft()[1])
            elif seq > room.seq:
                # The log has this message too, unless it was forged.
                self._begin_reload(room)
        elif fence >= room.fence:  # an owner of before may not know yet that it is one no more
            if seq == OWNER:
                room.set_owner(payload.decode() or None, fence)
            elif fence != room.own:  # its own messages are here already
                room.fence = fence
                room.listener.told(room.name, payload)

    def _begin_reload(self, room: RoomFeed) -> None:
        room.hold(())
        reload = partial(self._reload, room)
        name = "reading the log of a room"
        self._reloads.start(keep_running(name, reload, expected=Away, pause=lambda: MOST_S))

    async def _reload(self, room: RoomFeed) -> None:
        """Read the missed events, then go on with the messages that were held back. Raises
        `Away`.
        """
        if self.rooms.get(room.name) is room:
            before = len(room.held or ())
            await self.fill(room)
            # An event is in the log before it is published, unless it was forged or Redis has lost
            # it since.
            held = enumerate(room.held or ())
            kept = (message for n, message in held if n >= before or message[1] <= room.seq)
            room.held = deque(kept, maxlen=HELD)
            room.behind.clear()
            room.listener.gap(room.name)
            self._hand_over(room)

    def _hand_over(self, room: RoomFeed) -> None:
        """Deliver the messages that were held back, and go on with the feed."""
        if room.subscribed is not None:
            room.subscribed = None
            room.listener.owner_changed(room.name, room.owner)
        held, room.held = room.held or deque(), None
        while held and not room.reading:
            with self._connection.skipping:
                self._deliver(room, *held.popleft())
        if held:  # there was another hole
            room.hold(held)


def unreachable() -> ClientFault:
    """Return the error that clients are told while Redis is away."""
    return ClientFault(ErrorCode.BUSY, "This gateway cannot reach the others; connect again.")


pack: Callable[[Message], bytes] = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(tuple[int, int, Any])


def unpack(data: bytes) -> Message:
    """Return the message of a feed. Raises `ValueError`, as `msgspec.DecodeError` is."""
    fence, seq, payload = _decoder.decode(data)
    if isinstance(payload, str):  # Lua makes no difference between text and bytes
        payload = payload.encode()
    if not isinstance(payload, bytes):
        raise ValueError("no bytes")
    return fence, seq, payload
