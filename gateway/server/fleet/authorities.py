"""The authorities of one gateway: the rooms that it decides for, for all gateways.

Owns: when an authority is taken and given up, and where its decisions go. Must not know: sockets,
what a room decides.

If no gateway has the authority of a room, each gateway with a replica tries to take it, and the
link lets one of them succeed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import weakref

from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.replication import messages
from gateway.core.replication.authority import Authority
from gateway.core.replication.replica import Replica
from gateway.core.room.room import RoomOptions
from gateway.errors import ClientFault, redacted
from gateway.io.tasks import BackgroundTasks
from gateway.protocol.messages import Retracted
from gateway.server.fleet.link import FleetLink
from gateway.server.runtime.fleet import Fleet

log = logging.getLogger("gateway.fleet")

POLL_S = 0.02
"""Seconds between two looks at a room that is being taken or ended."""
FULL = 1_000
"""Unwritten events of a room above which no new text is accepted."""


class Authorities:
    """The authorities of one gateway. Logs are restored one at a time, under the lock ``turn``."""

    def __init__(self, fleet: Fleet, link: FleetLink, turn: asyncio.Lock) -> None:
        self.rooms: dict[str, Authority] = {}
        self.taking: dict[str, list[messages.InboxMessage]] = {}
        """Rooms that this gateway tries to take, by name, with the requests that came early."""
        self._fleet = fleet
        self._host = fleet.host
        self._link = link
        self._turn = turn
        self._tasks = BackgroundTasks(log, "a room could not be taken")

    @property
    def unwritten(self) -> int:
        """Number of durable events of this gateway that are not written."""
        return sum(map(self._link.unwritten, list(self.rooms)))

    def receive(self, payload: bytes) -> None:
        """Carry out a request of a gateway. Never raises, since the other rooms have to go on."""
        try:
            self._receive(messages.decode_inbox(payload))
        except Exception as exc:
            log.error("a request of a gateway failed", exc_info=redacted(exc))

    def _receive(self, message: messages.InboxMessage) -> None:
        authority = self.rooms.get(message.room)
        if authority is None:
            if message.room in self.taking:
                self.taking[message.room].append(message)
        elif isinstance(message, messages.Dismissed):
            self.end(authority)
        else:
            now = self._host.now()
            authority.receive(message, now)
            self._host.scheduler.expect(authority.captioner.builder.tenant, now)
            self._host.act()

    def lose_gateway(self, gateway: str) -> None:
        """Disconnect the members of a gateway that has ended."""
        for authority in list(self.rooms.values()):
            authority.lose_gateway(gateway, self._host.now())
        self._host.act()

    def resume_feeds(self) -> None:
        """Let replicas notice if messages were lost."""
        for authority in self.rooms.values():
            authority.resume_feed()

    def end(self, authority: Authority) -> None:
        """End a room in all gateways, and delete its log."""
        authority.feed.send(messages.Ended)
        self.release(authority, end=True)

    def release(self, authority: Authority, *, end: bool = False) -> None:
        """Give up an authority, so that another gateway can take it."""
        self._link.release(authority.name, end=end)
        self.lose(authority.name)

    def lose(self, name: str) -> None:
        """Give up an authority that another gateway has."""
        authority = self.rooms.pop(name, None)
        if authority is not None:
            authority.end()
            self._host.act()  # aborts its jobs, before the engine forgets the room
            self._host.end(authority)

    async def drain(self, seconds: float) -> None:
        """Give up every authority once nothing is in flight in its room, within ``seconds``."""
        until = self._host.now() + seconds
        while self.rooms:
            late = self._host.now() >= until
            for authority in list(self.rooms.values()):
                if late or authority.settled:
                    self.release(authority)
            if self.rooms:
                await asyncio.sleep(POLL_S)

    async def aclose(self) -> None:
        """Stop taking rooms."""
        await self._tasks.aclose()

    # --- taking -----------------------------------------------------------------------------------

    def take(self, replica: Replica) -> None:
        """Try to become the authority of a room that no gateway owns."""
        if replica.name not in self.taking and not self._fleet.draining:
            self.taking[replica.name] = []
            self._tasks.start(self._acquire(replica))

    async def fill(self, replica: Replica) -> None:
        """Give a replica the events that its feed has not brought yet."""
        for _, payload in await self._link.read(replica.name, replica.log.seq):
            replica.apply(messages.decode_decided(payload), self._host.now())

    async def _acquire(self, replica: Replica) -> None:
        """Take a room if no gateway owns it, and become its authority."""
        name, link = replica.name, self._link
        try:
            if replica.owner is not None or not await link.acquire(name):
                return
            with contextlib.suppress(ClientFault):  # the link is gone again
                await self.fill(replica)
                if link.owns(name) and not self._fleet.draining:
                    await self._open(replica)
                    return
            link.release(name)
        finally:
            early = self.taking.pop(name)
            authority = self.rooms.get(name)
            if authority is not None:
                for message in early:
                    authority.receive(message, self._host.now())
                self._host.act()

    async def _open(self, replica: Replica) -> None:
        """Become the authority of a room, whose log is restored in a thread: it may be long."""
        async with self._turn:
            history = replica.log.copied(self._host.now())
            history.epoch = history.epoch or secrets.token_hex(4)
            # The owner before may have died, and then captions have not ended.
            history.before = StreamPosition(history.epoch, history.seq)
            options = self._host.options(replica.name)
            authority = await asyncio.to_thread(self._authority, replica, history, options)
        if not self._link.owns(replica.name):  # it was lost meanwhile
            return
        self.rooms[replica.name] = authority
        self._host.add(authority)
        self._fleet.space.watch(authority.log)

    def _authority(self, replica: Replica, history: EventLog, options: RoomOptions) -> Authority:
        """Return the authority of a room. It is made in a thread, so nothing else is touched."""
        link, name = self._link, replica.name

        def emit(message: messages.FeedMessage) -> None:
            if isinstance(message, messages.Decided):
                event = message.event
                assert event.seq is not None, "a durable event has a number"
                erased = made.erased(event) if isinstance(event, Retracted) else []
                changed = [(entry.event.seq or 0, messages.encode(entry)) for entry in erased]
                link.append(name, event.seq, messages.encode(message), changed)
            else:
                alone = made.only_in(link.id)
                link.publish(name, message, None if alone else messages.encode(message))

        authority = Authority(
            name,
            log=history,
            term=secrets.token_hex(4),
            began=replica.began or self._host.wall(),
            emit=emit,
            full=lambda: link.unwritten(name) >= FULL,
            options=options,
        )
        # Else the room and all its events would wait for the garbage collector.
        made = weakref.proxy(authority)
        return authority
