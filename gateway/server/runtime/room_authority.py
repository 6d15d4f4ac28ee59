"""The rooms that this gateway shares with others.

Owns: the replicas and authorities of this gateway, when it takes and gives up authorities. Must not
know: Redis (`gateway.server.fleet`), sockets, what a room decides.

Every shared room with sockets here has a replica here. If no gateway has the authority of a room,
each gateway with a replica tries to take it, and the link lets one of them succeed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from gateway.background.tasks import BackgroundTasks
from gateway.core.history.event_log import EventLog, LogEntry, StreamPosition
from gateway.core.replication.authority import Authority
from gateway.core.replication.messages import (
    Decided,
    Dismissed,
    FeedMessage,
    InboxMessage,
    decode_decided,
    decode_feed,
    decode_inbox,
    encode,
)
from gateway.core.replication.replica import Replica
from gateway.core.replication.restored_log import as_written, restored_log
from gateway.core.session.quota import UsageReport, decode_report
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.protocol.messages import Retracted
from gateway.server.runtime.fleet_contract import Entry, Link
from gateway.server.runtime.room_loading import RoomLocks

if TYPE_CHECKING:
    from gateway.server.runtime.hub import Hub

log = logging.getLogger("gateway.fleet")

WAIT_S = 5.0
"""Seconds that a socket waits for an authority of its room: longer than a lease."""
POLL_S = 0.02
"""Seconds between two looks at a room that is being taken or ended."""
IDLE_S = 30.0
"""Seconds that a replica without members is kept, for sockets that come back."""
READING = 32
"""Logs of rooms without sockets here that wait to be read, for transcripts. More are refused."""
FULL = 1_000
"""Unwritten events of a room above which no new text is accepted."""


class FleetRooms:
    """The shared rooms of one gateway. ``link`` is set before `start`."""

    link: Link

    def __init__(self, hub: Hub) -> None:
        self.replicas = hub.replicas
        hub.space.shared = self
        self.authorities: dict[str, Authority] = {}
        self._hub = hub
        self._early: dict[str, list[InboxMessage]] = {}
        self._taking: set[str] = set()
        self._locks = RoomLocks()
        # One log at a time, and nobody who enters a room waits for a transcript of another one.
        self._open_turn = asyncio.Lock()
        self._read_turn = asyncio.Lock()
        self._reading = 0
        self._tasks = BackgroundTasks(log, "a room could not be taken")
        self._draining = False
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<FleetRooms: {len(self.authorities)} owned, {len(self.replicas)} followed>"

    @property
    def unwritten(self) -> int:
        """Number of durable events of this gateway that are not written."""
        return sum(map(self.link.unwritten, list(self.authorities)))

    # --- sockets --------------------------------------------------------------------------------

    async def fetch(self, name: str, since: StreamPosition | None) -> None:
        """Follow a room that a socket is about to enter. Return early if the gateway begins to end.

        Raises `ClientFault` (``busy``) if the other gateways cannot be reached.

        :param since: how far the client has come; this gateway may be a little behind
        """
        until = self._hub.now() + WAIT_S
        while not self._hub.stopping():
            replica = self.replicas.get(name)
            if replica is None:
                await self._locks.wait(self._follow(name))
                continue
            if replica.log.epoch and not replica.ended:
                if since is not None and since.epoch == replica.log.epoch:
                    if since.seq > replica.log.seq:
                        await self._fill(replica)
                return
            if self._hub.now() > until:
                raise ClientFault(
                    ErrorCode.BUSY, "This room is changing its process; connect again."
                )
            await asyncio.sleep(POLL_S)

    def replica(self, name: str) -> Replica:
        """Return a room that was fetched. Raises `ClientFault` (``busy``) if it has ended since."""
        if name not in self.replicas:
            raise ClientFault(ErrorCode.BUSY, "This room has just ended; connect again.")
        return self.replicas[name]

    async def history(self, name: str) -> EventLog:
        """Return the log of a room. Raises `ClientFault` (``busy``)."""
        replica = self.replicas.get(name)
        if replica is not None and not (
            replica.ended or await self.link.read(name, replica.log.seq)
        ):
            return replica.log  # it has all that was written
        if self._reading >= READING:
            raise ClientFault(ErrorCode.BUSY, f"{self._reading} logs are being read already.")
        self._reading += 1
        try:
            async with self._read_turn:
                return await asyncio.to_thread(self._restored, await self.link.read(name))
        finally:
            self._reading -= 1

    async def forget(self, name: str) -> bool:
        """End a room in all gateways and delete its log; return whether there was anything.

        Raises `ClientFault` (``busy``) if the other gateways cannot be reached.
        """
        await self.fetch(name, None)
        replica, until = self.replica(name), self._hub.now() + WAIT_S
        existed = bool(replica.log.seq or replica.subscribers.members)
        asked = False
        while not replica.ended:
            asked = asked or (self.link.connected and replica.dismiss())
            if self._hub.now() > until:
                raise ClientFault(ErrorCode.BUSY, "The room could not be ended; delete it again.")
            await asyncio.sleep(POLL_S)
        return existed

    # --- the link -------------------------------------------------------------------------------

    def on_request(self, payload: bytes) -> None:
        """Handle a request of a gateway. Never raises, since the other rooms have to go on."""
        try:
            self._receive(decode_inbox(payload))
        except Exception as exc:
            log.error("a request of a gateway failed", exc_info=redacted(exc))

    def _receive(self, message: InboxMessage) -> None:
        authority = self.authorities.get(message.room)
        if authority is None:
            if message.room in self._taking:
                self._early.setdefault(message.room, []).append(message)
            return
        if isinstance(message, Dismissed):
            self.end(authority)
            return
        now = self._hub.now()
        authority.receive(message, now)
        self._hub.scheduler.expect(authority.captioner.tenant, now)
        self._hub.act()

    def on_lost(self, name: str) -> None:
        """Give up an authority that another gateway has."""
        authority = self.authorities.pop(name, None)
        if authority is not None:
            authority.end()
            self._hub.act()  # aborts its jobs, before the engine forgets the room
            self._hub.discard(authority)

    def on_gateway_lost(self, gateway: str) -> None:
        """Disconnect the members of a gateway that has ended."""
        for authority in list(self.authorities.values()):
            authority.lose_gateway(gateway, self._hub.now())
        self._hub.act()

    def on_broadcast(self, payload: bytes) -> None:
        """Count the usage that another gateway reports of its tenants."""
        try:
            report = decode_report(payload)
        except msgspec.MsgspecError:  # of another release, which may have changed it
            return
        if report.gateway != self.link.id:
            self._hub.tenants.add_report(report, self._hub.now())

    def on_connection(self, up: bool) -> None:
        """Note that the other gateways can be reached, or not."""
        for replica in self.replicas.values():
            replica.reach(up, self._hub.now())
        if up:
            self._resume_feeds()

    def on_key(self, key: bytes) -> None:
        """Sign with the key that all gateways share. Tokens of the key before stay valid."""
        self._hub.signer.replace(key)

    # --- authorities ----------------------------------------------------------------------------

    def end(self, authority: Authority) -> None:
        """End a room in all gateways, and delete its log."""
        authority.feed.ended()
        self.release(authority, end=True)

    def release(self, authority: Authority, *, end: bool = False) -> None:
        """Give up an authority, so that another gateway can take it."""
        self.link.release(authority.name, end=end)
        self.on_lost(authority.name)

    def idle(self) -> list[Replica]:
        """Return the rooms in which nobody is: not here, nor elsewhere if this gateway owns it."""
        return [
            replica
            for name, replica in self.replicas.items()
            if replica.empty_since is not None
            and name not in self._taking
            and (self.authorities.get(name) or replica).empty_since is not None
        ]

    def evict(self, replica: Replica) -> None:
        """Give up a room in which nobody is. Its log stays in Redis as long as that of any room."""
        authority = self.authorities.get(replica.name)
        if authority is not None:
            self.release(authority)
        del self.replicas[replica.name]
        self._tasks.start(self._unfollow(replica.name))

    def sweep(self) -> None:
        """Do the regular work of each second."""
        if self.link.dropped != self._dropped:
            self._dropped = self.link.dropped
            self._resume_feeds()
        now = self._hub.now()
        # A report that waits for Redis is replaced by the next: it is of use only while it is new.
        self.link.broadcast(encode(UsageReport(self.link.id, self._hub.tenants.report(now))))
        for name, replica in list(self.replicas.items()):
            since = now if replica.empty_since is None else replica.empty_since
            if replica.ended or (now - since > IDLE_S and not self.link.owns(name)):
                self._remove(name)
            elif replica.owner is None:
                self._take(name)
            elif not replica.greeted and self.link.connected:
                replica.introduce()

    async def drain(self, seconds: float) -> None:
        """Give up every authority once nothing is in flight in its room, within ``seconds``."""
        self._draining = True
        until = self._hub.now() + seconds
        while self.authorities:
            late = self._hub.now() >= until
            for authority in list(self.authorities.values()):
                if late or authority.settled:
                    self.release(authority)
            if self.authorities:
                await asyncio.sleep(POLL_S)

    async def aclose(self) -> None:
        """Give everything back, and disconnect."""
        await self._locks.end()
        await self._tasks.aclose()
        await self.link.aclose()

    # --- inside -----------------------------------------------------------------------------------

    def _resume_feeds(self) -> None:
        for authority in self.authorities.values():
            authority.resume_feed()

    async def _follow(self, name: str) -> None:
        async with self._locks.of(name):
            if name in self.replicas:  # another socket was faster
                return
            try:
                await self.link.follow(name, _Listener(self, name))
            except ClientFault:
                await self.link.unfollow(name)
                raise

    async def begin(self, name: str, entries: Sequence[Entry]) -> None:
        """Make the replica of a room that is followed now, with its durable events."""
        async with self._open_turn:
            replica = await asyncio.to_thread(self._copy, name, entries)
        self._hub.space.require()
        replica.empty_since = self._hub.now()
        self.replicas[name] = replica
        self._hub.space.watch(replica.log)

    def _copy(self, name: str, entries: Sequence[Entry]) -> Replica:
        """Return a new replica. Runs in a thread, since a log may be long."""
        replica = Replica(
            name,
            gateway=self.link.id,
            log=self._restored(entries),
            targets=self._hub.engine.profile.targets,
            send=self._send,
        )
        if entries:
            replica.began = decode_decided(entries[-1][1]).began
        return replica

    def _restored(self, entries: Sequence[Entry]) -> EventLog:
        """Return the log of some events. Runs in a thread, since they may be many."""
        hub, decided = self._hub, [decode_decided(payload) for _, payload in entries]
        return restored_log(decided, hub.limits, hub.now(), hub.wall())

    def _send(self, gateway: str, message: InboxMessage) -> None:
        self.link.send(gateway, encode(message))

    async def _fill(self, replica: Replica) -> None:
        """Give a replica the events that its feed has not brought yet."""
        for _, payload in await self.link.read(replica.name, replica.log.seq):
            replica.feed(decode_decided(payload), self._hub.now())

    def _remove(self, name: str) -> None:
        """Stop following a room, unless this gateway still owns it."""
        if not self.link.owns(name) and name not in self._taking:
            del self.replicas[name]
            self._tasks.start(self._unfollow(name))

    async def _unfollow(self, name: str) -> None:
        """Stop following a room once it is given back, unless somebody has entered it again."""
        while self.link.owns(name):  # noqa: ASYNC110  # Redis answers, or comes back
            await asyncio.sleep(POLL_S)
        async with self._locks.of(name):
            if name not in self.replicas:
                await self.link.unfollow(name)

    def told(self, name: str, message: FeedMessage | bytes) -> None:
        """Pass a message of an authority here, or the bytes of any, on to the replica."""
        replica = self.replicas.get(name)
        if replica is None or replica.ended:
            return
        try:
            if isinstance(message, bytes):
                message = decode_feed(message)
            replica.feed(message, self._hub.now())
        except Exception as exc:  # the other rooms go on
            log.error("a room cannot be followed", exc_info=redacted(exc), extra={"room": name})
            # Its clients come back to a new replica.
            replica.end(CloseCode.SERVER_ERROR)
            if name in self.authorities:
                self.release(self.authorities[name])

    def owner_changed(self, name: str, gateway: str | None) -> None:
        """Note which gateway owns a room, and take it if none does."""
        replica = self.replicas.get(name)
        if replica is None:
            return
        replica.owned(gateway)
        if gateway is None:
            if replica.ended:
                self._remove(name)
            else:
                self._take(name)

    def _take(self, name: str) -> None:
        if name not in self._taking and not self._draining:
            self._taking.add(name)
            self._tasks.start(self._acquire(name))

    async def _acquire(self, name: str) -> None:
        """Take a room if no gateway owns it, and become its authority."""
        try:
            replica = self.replicas[name]
            if replica.owner is not None or not await self.link.acquire(name):
                return
            try:
                await self._fill(replica)
            except ClientFault:  # the link is gone again
                self.link.release(name)
                return
            if self._draining:  # another gateway is to have it
                self.link.release(name)
            elif self.link.owns(name):
                await self._open(replica)
        finally:
            self._taking.discard(name)
            early = self._early.pop(name, [])
            authority = self.authorities.get(name)
            if authority is not None:
                for message in early:
                    authority.receive(message, self._hub.now())
                self._hub.act()

    async def _open(self, replica: Replica) -> None:
        """Become the authority of a room, whose log is restored in a thread: it may be long."""
        async with self._open_turn:
            authority = await asyncio.to_thread(self._authority(replica))
        if not self.link.owns(replica.name):  # it was lost meanwhile
            return
        self.authorities[replica.name] = self._hub.rooms[replica.name] = authority
        self._hub.inform(authority)

    def _authority(self, replica: Replica) -> Callable[[], Authority]:
        """Return a function that makes the authority of a room and touches nothing else."""
        hub, link, name = self._hub, self.link, replica.name
        history = replica.log.copied(hub.now())
        history.epoch = history.epoch or secrets.token_hex(4)
        # The owner before may have died, and then captions have not ended.
        history.before = StreamPosition(history.epoch, history.seq)
        options = hub.room_options(name)

        def make() -> Authority:
            def emit(message: FeedMessage) -> None:
                if isinstance(message, Decided):
                    event = message.event
                    assert event.seq is not None, "a durable event has a number"
                    erased = made.erased(event) if isinstance(event, Retracted) else []
                    changed = [(entry.event.seq or 0, encode(entry)) for entry in erased]
                    link.append(name, event.seq, encode(message), changed)
                else:
                    alone = made.only_in(link.id)
                    link.publish(name, message, None if alone else encode(message))

            authority = Authority(
                name,
                log=history,
                term=secrets.token_hex(4),
                began=replica.began or hub.wall(),
                emit=emit,
                full=lambda: link.unwritten(name) >= FULL,
                **options,
            )
            # Else the room and all its events would wait for the garbage collector.
            made = weakref.proxy(authority)
            return authority

        return make


class _Listener:
    """The follower of one room: the replica, as soon as there is one."""

    def __init__(self, rooms: FleetRooms, name: str) -> None:
        self._rooms = rooms
        self._name = name

    async def begin(self, entries: Sequence[Entry]) -> None:
        """Handle the durable events so far."""
        await self._rooms.begin(self._name, entries)

    def feed(self, payload: bytes) -> None:
        """Handle the next message of another gateway, or the next durable event."""
        self._rooms.told(self._name, payload)

    def own(self, message: object) -> None:
        """Handle the next volatile message of this gateway's authority."""
        self._rooms.told(self._name, cast(FeedMessage, message))

    def owner(self, gateway: str | None) -> None:
        """Note which gateway owns the room."""
        self._rooms.owner_changed(self._name, gateway)

    def gap(self) -> None:
        """Note that volatile messages may have been lost."""
        replica = self._rooms.replicas.get(self._name)
        if replica is not None:
            replica.introduce()

    async def entries(self, after: int) -> Sequence[Entry]:
        """Return the durable events after a number."""
        replica = self._rooms.replicas.get(self._name)
        if replica is None:
            return []
        kept = replica.log.entries(after)  # here, since the log changes meanwhile
        return await asyncio.to_thread(_encoded, replica.log, kept, replica.began)


def _encoded(log: EventLog, kept: Sequence[LogEntry], began: float) -> list[Entry]:
    """Return entries of a log as they are written. Runs in a thread, since they may be many."""
    return [(entry.event.seq or 0, encode(entry)) for entry in as_written(log, kept, began)]
