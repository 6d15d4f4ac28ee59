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
from typing import Final

from gateway.io.tasks import BackgroundTasks
from gateway.limits import Limits
from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import LinkPart, RedisConnection
from gateway.server.fleet.feeds import Entry, Feeds, LinkListener, unreachable
from gateway.server.fleet.inbox import Inbox
from gateway.server.fleet.leases import LEASE_MS, Leases
from gateway.server.fleet.pipelined_connection import (
    TIMEOUT_S,
    Arguments,
    Away,
    PipelinedConnection,
    Question,
)
from gateway.server.fleet.write_queue import Writer

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


class FleetLink:
    """The link of this gateway with its fleet.

    :param version: version of the messages; gateways with another one are not joined
    :param limits: have the events that the log of a room keeps, and the seconds that a room and the
        signing key are kept after the last gateway has ended
    """

    def __init__(self, url: str, version: str, limits: Limits, listener: LinkListener) -> None:
        self.id = secrets.token_hex(6)
        self.key = b""
        """Signing key that this gateway shares with the others; empty if it shares none."""
        self._version = version
        self._key_ms = round(1000 * max(limits.room_s, limits.resume_s))
        self._joined = False  # this gateway was once part of the fleet
        self._vacant = 0  # renewals in a row without any version
        self.connection = RedisConnection(url, listener.on_connection)
        self._feeds = Feeds(self.connection, listener)
        self.writer = Writer(self.id, self.connection, keep=limits.log)
        kept_ms = round(1000 * limits.room_s)
        self._leases = self.writer.leases = Leases(
            self.id, self.connection, self._feeds, kept_ms=kept_ms, lapsed=self.writer.recover
        )
        self._inbox = Inbox(self.id, self.connection, listener)
        # Parts of the link that the rooms call.
        self.follow, self.unfollow = self._feeds.follow, self._feeds.unfollow
        self.acquire = self._leases.acquire
        self.append, self.release = self.writer.append, self.writer.release
        self._part = LinkPart("the leases of the link", self.connection)
        self._listener = listener
        self._broadcast: bytes | None = None
        self._tasks = BackgroundTasks(log, "the link with the other gateways has failed")

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect. If Redis is away, return all the same, and go on trying."""
        renew = self._part.run(self._renew)
        for work in (renew, self.writer.run(), self._feeds.run(), self._inbox.run()):
            self._tasks.start(work)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await self.connection.known.wait()

    async def aclose(self) -> None:
        """Give all rooms back, write the waiting events if Redis is there, and disconnect."""
        for name in list(self._leases.rooms):
            self.release(name)
        if self.writer.part.proved:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await self.writer.drained()
            except TimeoutError:
                log.warning("%d commands were not written", len(self.writer))
        await self._tasks.aclose()
        if self.connected:
            leave = ("EVAL", lua_scripts.LEAVE, 1, lua_scripts.VERSION, self._version, LEASE_MS)
            with contextlib.suppress(Away):  # then the version ends a little later
                await self.connection.execute(*leave)
        await self._feeds.aclose()
        await self.connection.aclose()

    async def _renew(self, connection: PipelinedConnection) -> None:
        """Renew the leases, and watch the others. Raises `Away`."""
        while True:
            await self._tick(connection)
            await asyncio.sleep(TICK_S)

    async def _tick(self, connection: PipelinedConnection) -> None:
        questions: list[Question] = [*self._inbox.questions(), *self._leases.questions()]
        if self._broadcast is not None:
            questions.append((("PUBLISH", lua_scripts.EVERYBODY, self._broadcast), None))
            self._broadcast = None
        commands = [self._join(), *(command for command, _ in questions)]
        (version, key), *answers = await connection.execute(commands)
        if not version:
            self._vacant += 1
            return
        self._vacant = 0
        self.connection.joined(version.decode(errors="replace"), own=self._version)
        if not self.compatible:
            return
        self._joined = True
        if self.key and key != self.key:
            self._share(key)
        for (_, read), answer in zip(questions, answers, strict=True):
            if read is not None:
                read(answer)
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
        with self.connection.skipping:
            if len(key) < KEY_BYTES:  # anybody could guess it
                raise ValueError("a signing key that is too short")
            self.key = key
            self._listener.on_key(key)

    # --- gauges ---------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """True while Redis answers."""
        return self.connection.up

    @property
    def compatible(self) -> bool:
        """False if the other gateways use messages of another version."""
        return self.connection.foreign is None

    # --- rooms ----------------------------------------------------------------------------------

    async def read(self, name: str, after: int = 0) -> list[Entry]:
        """Return the durable events of any room after a number. Raises `ClientFault` (``busy``)."""
        try:
            return await self._feeds.read(name, after)
        except Away as exc:
            raise unreachable() from exc

    def owns(self, name: str) -> bool:
        """Tell whether this gateway owns a room."""
        return name in self._leases.rooms

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
            self.writer.dropped += 1
            return
        if payload is not None:
            self.writer.publish(room, payload)
        if not self._feeds.deliver_here(self._feeds.rooms[name], room.appended, message):
            self.writer.dropped += 1

    def unwritten(self, name: str) -> int:
        """Return how many durable events of a room wait for Redis."""
        room = self._leases.rooms.get(name)
        return 0 if room is None else room.unwritten

    def send(self, gateway: str, payload: bytes) -> None:
        """Send a request to a gateway. It arrives once, after what was sent before."""
        if gateway == self.id:
            asyncio.get_running_loop().call_soon(self._listener.on_request, payload)
        else:
            self.writer.send(gateway, payload)

    def broadcast(self, payload: bytes) -> None:
        """Publish a message to all gateways with the next renewal. It may be lost.

        A message that still waits is replaced.
        """
        self._broadcast = payload
