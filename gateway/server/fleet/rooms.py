"""The rooms that this gateway shares with others.

Owns: the replicas of this gateway, and when a room is followed. Must not know: sockets, what a room
decides, when this gateway decides for one (`gateway.server.fleet.authorities`).

Every shared room with sockets here has a replica here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec

from gateway.auth.signed_tokens import Signer
from gateway.core.history.event_log import EventLog, LogEntry, StreamPosition
from gateway.core.replication import messages
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.core.session.quota import UsageReport, decode_report
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.io.tasks import BackgroundTasks
from gateway.server.fleet.authorities import POLL_S, Authorities
from gateway.server.fleet.feeds import Entry
from gateway.server.fleet.link import FleetLink
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.room_host import RoomHost

log = logging.getLogger("gateway.fleet")

WAIT_S = 5.0
"""Seconds that a socket waits for an authority of its room: longer than a lease."""
IDLE_S = 30.0
"""Seconds that a replica without members is kept, for sockets that come back."""
READING = 32
"""Logs of rooms without sockets here that wait to be read, for transcripts. More are refused."""


class FleetRooms(Fleet):
    """The rooms of one gateway of a fleet.

    :param url: address of Redis, such as ``redis://localhost:6379/0``; nothing connects
        before `start`. Raises `ValueError` for another one.
    """

    def __init__(self, host: RoomHost, url: str) -> None:
        super().__init__(host)
        self.link = FleetLink(url, messages.VERSION, host.limits, self)
        # One log at a time, and nobody who enters a room waits for a transcript of another one.
        self._open_turn = asyncio.Lock()
        self._read_turn = asyncio.Lock()
        self._own = Authorities(self, self.link, self._open_turn)
        self.authorities = self._own.rooms
        self.on_request, self.on_lost = self._own.receive, self._own.lose
        self.on_gateway_lost = self._own.lose_gateway
        self._reading = 0
        self._tasks = BackgroundTasks(log, "a room could not be given back")
        self._dropped = 0
        self._signer: Signer | None = None

    @property
    def compatible(self) -> bool:
        return self.link.compatible

    @property
    def connected(self) -> bool:
        return self.link.connected

    def values(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        link = self.link
        gauges = {
            "gateway_fleet_connected": link.connected,
            "gateway_fleet_rooms_owned": len(self.authorities),
            "gateway_fleet_replicas": len(self.replicas),
            "gateway_fleet_queued": len(link.writer),
            "gateway_fleet_unwritten": self._own.unwritten,
        }
        counters = {
            "gateway_fleet_dropped": link.writer.dropped,
            "gateway_fleet_malformed": link.connection.skipping.count,
        }
        return gauges, counters

    # --- life -----------------------------------------------------------------------------------

    async def start(self, signer: Signer | None) -> None:
        """Offer a key to the fleet, and connect, or go on trying."""
        if signer is not None:
            self._signer, self.link.key = signer, signer.key
        await self.link.start()

    async def drain(self, seconds: float) -> None:
        """Give up every authority once nothing is in flight in its room, within ``seconds``."""
        await asyncio.gather(super().drain(seconds), self._own.drain(seconds))

    async def aclose(self) -> None:
        await self.locks.release_waiting()
        await self._own.aclose()
        await self._tasks.aclose()
        await self.link.aclose()

    # --- sockets --------------------------------------------------------------------------------

    async def _fetch(self, name: str, since: StreamPosition | None) -> None:
        until = self.host.now() + WAIT_S
        while not self.draining:
            replica = self.replicas.get(name)
            if replica is None:
                await self.locks.wait(self._follow(name))
                continue
            if replica.log.epoch and not replica.ended:
                if since is not None and since.epoch == replica.log.epoch:
                    if since.seq > replica.log.seq:
                        await self._own.fill(replica)
                return
            if self.host.now() > until:
                raise ClientFault(
                    ErrorCode.BUSY, "This room is changing its process; connect again."
                )
            await asyncio.sleep(POLL_S)

    def _enter(self, name: str) -> Replica:
        if name not in self.replicas:
            raise ClientFault(ErrorCode.BUSY, "This room has just ended; connect again.")
        return self.replicas[name]

    async def history(self, name: str) -> EventLog:
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

    async def forget(self, name: str, dismiss: Callable[[Room], None]) -> bool:
        await self._fetch(name, None)
        replica, until = self._enter(name), self.host.now() + WAIT_S
        existed = bool(replica.log.seq or replica.subscribers.members)
        asked = False
        while not replica.ended:
            asked = asked or (self.link.connected and replica.dismiss())
            if self.host.now() > until:
                raise ClientFault(ErrorCode.BUSY, "The room could not be ended; delete it again.")
            await asyncio.sleep(POLL_S)
        return existed

    def idle(self) -> list[AbstractRoom]:
        """Return the rooms in which nobody is: not here, nor elsewhere if this gateway owns it."""

        def empty(room: AbstractRoom) -> bool:
            parts = (room, self.authorities.get(room.name, room))
            alone = all(part.empty_since is not None for part in parts)
            return alone and room.name not in self._own.taking

        return [room for room in self.places.values() if empty(room)]

    def evict(self, room: AbstractRoom) -> None:
        """Give up a room. Its log stays in Redis as long as that of any room."""
        if isinstance(room, Room):  # of one socket alone
            self.end(room)
            return
        authority = self.authorities.get(room.name)
        if authority is not None:
            self._own.release(authority)
        self._drop(room.name)

    def end(self, room: Room) -> None:
        authority = self.authorities.get(room.name)
        if authority is room:
            self._own.end(authority)
        else:
            self.host.end(room)

    def release(self, name: str) -> None:
        """Do nothing: `drain` gives up authorities by itself."""

    def sweep(self) -> None:
        """Report the usage of tenants, and look after rooms that no message concerns."""
        if self.link.writer.dropped != self._dropped:
            self._dropped = self.link.writer.dropped
            self._own.resume_feeds()
        now = self.host.now()
        # A report that waits for Redis is replaced by the next: it is of use only while it is new.
        self.link.broadcast(
            messages.encode(UsageReport(self.link.id, self.host.tenants.report(now)))
        )
        for name, replica in list(self.replicas.items()):
            since = now if replica.empty_since is None else replica.empty_since
            if replica.ended or (now - since > IDLE_S and not self.link.owns(name)):
                self._remove(name)
            elif replica.owner is None:
                self._own.take(replica)
            elif not replica.greeted and self.link.connected:
                replica.introduce()

    # --- the link -------------------------------------------------------------------------------

    def on_broadcast(self, payload: bytes) -> None:
        """Count the usage that another gateway reports of its tenants."""
        try:
            report = decode_report(payload)
        except msgspec.MsgspecError:  # of another release, which may have changed it
            return
        if report.gateway != self.link.id:
            self.host.tenants.add_report(report, self.host.now())

    def on_connection(self, up: bool) -> None:
        for replica in self.replicas.values():
            replica.reach(up, self.host.now())
        if up:
            self._own.resume_feeds()

    def on_key(self, key: bytes) -> None:
        """Sign with the key that all gateways share. Tokens of the key before stay valid."""
        assert self._signer is not None, "a key was offered"
        self._signer.replace(key)

    # --- inside -----------------------------------------------------------------------------------

    async def _follow(self, name: str) -> None:
        async with self.locks.of(name):
            if name in self.replicas:  # another socket was faster
                return
            try:
                await self.link.follow(name)
            except ClientFault:
                await self.link.unfollow(name)
                raise

    async def begin(self, name: str, entries: Sequence[Entry]) -> None:
        async with self._open_turn:
            replica = await asyncio.to_thread(self._copy, name, entries)
        self.space.require()
        replica.empty_since = self.host.now()
        self.replicas[name] = replica
        self.space.watch(replica.log)

    def _copy(self, name: str, entries: Sequence[Entry]) -> Replica:
        """Return a new replica. Runs in a thread, since a log may be long."""
        replica = Replica(
            name,
            gateway=self.link.id,
            log=self._restored(entries),
            targets=self.host.engine.profile.targets,
            send=lambda gateway, message: self.link.send(gateway, messages.encode(message)),
        )
        if entries:
            replica.began = messages.decode_decided(entries[-1][1]).began
        return replica

    def _restored(self, entries: Sequence[Entry]) -> EventLog:
        """Return the log of some events. Runs in a thread, since they may be many."""
        host, decided = self.host, [messages.decode_decided(payload) for _, payload in entries]
        return messages.restored_log(decided, host.limits, host.now(), host.wall())

    def _remove(self, name: str) -> None:
        """Stop following a room, unless this gateway still owns it."""
        if not self.link.owns(name) and name not in self._own.taking:
            self._drop(name)

    def _drop(self, name: str) -> None:
        del self.replicas[name]
        self._tasks.start(self._unfollow(name))

    async def _unfollow(self, name: str) -> None:
        """Stop following a room once it is given back, unless somebody has entered it again."""
        while self.link.owns(name):  # noqa: ASYNC110  # Redis answers, or comes back
            await asyncio.sleep(POLL_S)
        async with self.locks.of(name):
            if name not in self.replicas:
                await self.link.unfollow(name)

    def told(self, name: str, message: object) -> None:
        """Pass a message of an authority here, or the bytes of any, on to the replica."""
        replica = self.replicas.get(name)
        if replica is None or replica.ended:
            return
        try:
            known = messages.decode_feed(message) if isinstance(message, bytes) else message
            replica.apply(cast(messages.FeedMessage, known), self.host.now())
        except Exception as exc:  # the other rooms go on
            log.error("a room cannot be followed", exc_info=redacted(exc), extra={"room": name})
            # Its clients come back to a new replica.
            replica.close_sockets(CloseCode.SERVER_ERROR)
            if name in self.authorities:
                self._own.release(self.authorities[name])

    def owner_changed(self, name: str, gateway: str | None) -> None:
        replica = self.replicas.get(name)
        if replica is None:
            return
        replica.owned(gateway)
        if gateway is None:
            if replica.ended:
                self._remove(name)
            else:
                self._own.take(replica)

    def gap(self, name: str) -> None:
        if (replica := self.replicas.get(name)) is not None:
            replica.introduce()

    async def entries(self, name: str, after: int) -> Sequence[Entry]:
        replica = self.replicas.get(name)
        if replica is None:
            return []
        kept = replica.log.entries(after)  # here, since the log changes meanwhile
        return await asyncio.to_thread(_encoded, replica.log, kept, replica.began)


def _encoded(log: EventLog, kept: Sequence[LogEntry], began: float) -> list[Entry]:
    """Return entries of a log as they are written. Runs in a thread, since they may be many."""
    return [
        (entry.event.seq or 0, messages.encode(entry))
        for entry in messages.as_written(log, kept, began)
    ]
