"""The link of one gateway with the others, through Redis or Valkey.

Owns: the parts of the link, and the tasks that run them. Must not know: what events and requests
say; they are bytes here.

A durable event is written and published in one step (`lua_scripts.APPEND`), and only then does any
reader see it. So the log of a room has every event that was seen, whichever gateway dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Sequence
from typing import Final, Protocol

from gateway.io.tasks import BackgroundTasks
from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.feeds import Entry, FeedListener, Feeds, unreachable
from gateway.server.fleet.inbox import Inbox
from gateway.server.fleet.leases import LEASE_MS, Leases
from gateway.server.fleet.pipelined_connection import (
    TIMEOUT_S,
    Arguments,
    Away,
    PipelinedConnection,
)
from gateway.server.fleet.writer import Writer

log = logging.getLogger("gateway.fleet")

TICK_S: Final = 0.2
"""Seconds between two renewals, and between two looks at the leases of others."""
VERSION_MS: Final = 60_000
"""Milliseconds that the version of a fleet outlives the last sign of life of its gateways: the
longest time without Redis in which an incompatible gateway cannot take their place."""
VACANT_TICKS: Final = 25
"""Renewals in a row without any version after which an incompatible gateway begins a new fleet:
5 s. Gateways that live write their version again within one."""
KEY_BYTES: Final = 32
"""Least length of a signing key."""


class LinkListener(FeedListener, Protocol):
    """The listener of a link: the rooms that a gateway shares."""

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


class FleetLink:
    """The link of this gateway with its fleet.

    :param url: such as ``redis://localhost:6379/0``
    :param version: version of the messages; gateways with another one are not joined
    :param keep: durable events that the log of a room keeps
    :param kept_s: seconds that everything about a room is kept after its last gateway has ended
    :param key_s: seconds that the signing key is kept after the last gateway has ended
    :param listener: told what comes from the other gateways
    """

    def __init__(
        self,
        url: str,
        *,
        version: str,
        keep: int,
        kept_s: float,
        key_s: float,
        listener: LinkListener,
    ) -> None:
        self.id = secrets.token_hex(6)
        self.key = b""
        """Signing key that this gateway shares with the others; empty if it shares none."""
        self._version = version
        self._key_ms = round(1000 * key_s)
        self._joined = False  # this gateway was once part of the fleet
        self._vacant = 0  # renewals in a row without any version
        self._connection = RedisConnection(url, listener.on_connection)
        self._feeds = Feeds(self._connection, listener)
        self._writer = Writer(self.id, self._connection, keep=keep)
        self._leases = self._writer.leases = Leases(
            self.id,
            self._connection,
            self._feeds,
            kept_ms=round(1000 * kept_s),
            lost=listener.on_lost,
            lapsed=self._writer.recover,
        )
        self._inbox = Inbox(
            self.id,
            self._connection,
            received=listener.on_request,
            gateway_lost=listener.on_gateway_lost,
        )
        self._part = self._connection.part("the leases of the link")
        self._on_request = listener.on_request
        self._on_key = listener.on_key
        self._broadcast: bytes | None = None
        self._tasks = BackgroundTasks(log, "the link with the other gateways has failed")

    def __repr__(self) -> str:
        return f"<FleetLink {self.id}, {len(self._leases.rooms)} rooms owned>"

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect. If Redis is away, return all the same, and go on trying."""
        renew = self._part.run(self._renew)
        for work in (renew, self._writer.run(), self._feeds.run(), self._inbox.run()):
            self._tasks.start(work)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connection.known.wait(), TIMEOUT_S)

    async def aclose(self) -> None:
        """Give all rooms back, write the waiting events if Redis is there, and disconnect."""
        for name in list(self._leases.rooms):
            self.release(name)
        if self._writer.part.proved:
            try:
                await asyncio.wait_for(self._writer.drained(), TIMEOUT_S)
            except TimeoutError:
                log.warning("%d commands were not written", self.queued)
        await self._tasks.aclose()
        if self.connected:
            values = (self._version, LEASE_MS)
            with contextlib.suppress(Away):  # then the version ends a little later
                await self._connection.evaluate(lua_scripts.LEAVE, [lua_scripts.VERSION], *values)
        await self._feeds.aclose()
        await self._connection.aclose()

    async def _renew(self, connection: PipelinedConnection) -> None:
        """Renew the leases, and watch the others. Raises `Away`."""
        while True:
            await self._tick(connection)
            await asyncio.sleep(TICK_S)

    async def _tick(self, connection: PipelinedConnection) -> None:
        commands = [self._join()]
        reads = [part.add_to(commands) for part in (self._inbox, self._leases)]
        news, self._broadcast = self._broadcast, None
        if news is not None:
            commands.append(("PUBLISH", lua_scripts.EVERYBODY, news))
        answers = await connection.execute(commands)
        version, key = answers.pop(0)
        if not version:
            self._vacant += 1
            return
        self._vacant = 0
        self._connection.joined(version.decode(errors="replace"), own=self._version)
        if not self.compatible:
            return
        self._joined = True
        if self.key and key != self.key:
            self._share(key)
        for read in reads:
            read(answers)
        self._part.works()

    def _join(self) -> Arguments:
        """Return the command with which this gateway shows a sign of life."""
        keys = (lua_scripts.VERSION, lua_scripts.alive(self.id), lua_scripts.SIGNING_KEY)
        # Redis may have lost its data, and then the version is that of the gateways before.
        begins = self._joined or self.compatible or self._vacant >= VACANT_TICKS
        word = "begin" if begins else ""
        values = (self._version, LEASE_MS, VERSION_MS, word, self.key, self._key_ms)
        return ("EVAL", lua_scripts.JOIN, len(keys), *keys, *values)

    def _share(self, key: bytes) -> None:
        """Sign with the key of the fleet from now on."""
        with self._connection.skipping:
            if len(key) < KEY_BYTES:  # anybody could guess it
                raise ValueError("a signing key that is too short")
            self.key = key
            self._on_key(key)

    # --- gauges ---------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """True while Redis answers."""
        return self._connection.up

    @property
    def compatible(self) -> bool:
        """False if the other gateways use messages of another version."""
        return self._connection.foreign is None

    @property
    def queued(self) -> int:
        """Number of commands that wait for Redis or for its answer."""
        return len(self._writer)

    @property
    def dropped(self) -> int:
        """Number of volatile messages that were dropped."""
        return self._writer.dropped

    @property
    def malformed(self) -> int:
        """Number of messages and values of Redis that could not be read."""
        return self._connection.skipping.count

    # --- rooms ----------------------------------------------------------------------------------

    async def follow(self, name: str) -> None:
        """Subscribe to a room, and give the listener its durable events, see `Feeds.follow`."""
        await self._feeds.follow(name)

    async def unfollow(self, name: str) -> None:
        """Stop following a room that this gateway does not own."""
        await self._feeds.unfollow(name)

    async def read(self, name: str, after: int = 0) -> list[Entry]:
        """Return the durable events of any room after a number. Raises `ClientFault` (``busy``)."""
        try:
            return await self._feeds.read(name, after)
        except Away as exc:
            raise unreachable() from exc

    def owns(self, name: str) -> bool:
        """Tell whether this gateway owns a room."""
        return name in self._leases.rooms

    async def acquire(self, name: str) -> bool:
        """Take a followed room if no gateway owns it; return whether this gateway owns it now."""
        return await self._leases.acquire(name)

    def release(self, name: str, *, end: bool = False) -> None:
        """Give a room back once everything about it is written.

        :param end: delete its log as well
        """
        room = self._leases.rooms.get(name)
        if room is not None:
            self._writer.release(room, end=end)

    def append(self, name: str, seq: int, payload: bytes, changed: Sequence[Entry] = ()) -> None:
        """Write a durable event of an owned room, and publish it.

        Without effect if the room was lost: nobody was shown the event.

        :param changed: older events of the room as the log is to have them from this event on
        """
        room = self._leases.rooms.get(name)
        if room is not None:
            self._writer.append(room, seq, payload, changed)

    def publish(self, name: str, message: object, payload: bytes | None) -> None:
        """Publish a volatile message of an owned room, after the events that were appended before.

        It is dropped while Redis is away.

        :param message: given to the listener of this gateway
        :param payload: the message for the other gateways; None if none of them needs it
        """
        room = self._leases.rooms.get(name)
        if room is None:
            return
        if not self.connected:
            self._writer.dropped += 1
            return
        if payload is not None:
            self._writer.publish(room, payload)
        if not self._feeds.deliver_here(self._feeds.rooms[name], room.appended, message):
            self._writer.dropped += 1

    def unwritten(self, name: str) -> int:
        """Return how many durable events of a room wait for Redis."""
        room = self._leases.rooms.get(name)
        return 0 if room is None else room.unwritten

    def send(self, gateway: str, payload: bytes) -> None:
        """Send a request to a gateway. It arrives once, after what was sent before."""
        if gateway == self.id:
            asyncio.get_running_loop().call_soon(self._on_request, payload)
        else:
            self._writer.send(gateway, payload)

    def broadcast(self, payload: bytes) -> None:
        """Publish a message to all gateways with the next renewal. It may be lost.

        A message that still waits is replaced.
        """
        self._broadcast = payload
