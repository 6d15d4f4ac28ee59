"""The rooms that sockets enter, whichever gateway decides for them.

Owns: the interface `Fleet` of one gateway to all gateways of its rooms; the fleet of one gateway
alone, with its store; rooms of one socket alone, which no other gateway ever sees. Must not know:
sockets, Redis (`gateway.server.fleet`), what a room decides.
"""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from gateway.auth.signed_tokens import Signer
from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.protocol.messages import PRIVATE
from gateway.server.runtime.room_host import RoomHost
from gateway.server.runtime.room_loading import RoomLocks
from gateway.server.runtime.room_space import RoomSpace
from gateway.storage.base import Store

log = logging.getLogger("gateway.hub")


class Fleet(ABC):
    """One gateway among all gateways that share its rooms.

    ``replicas`` are the rooms of sockets here that any gateway may decide for, by name.
    """

    def __init__(self, host: RoomHost) -> None:
        self.host = host
        self.replicas: dict[str, Replica] = {}
        self.draining = False
        """True once this gateway takes no further room."""
        self.locks = RoomLocks()
        self.space = RoomSpace(host.limits, host.rooms, self.replicas, self.idle, self.evict)

    @property
    def compatible(self) -> bool:
        """False if the other gateways use messages of another version."""
        return True

    @property
    def connected(self) -> bool:
        """True while rooms that other gateways share can be entered."""
        return True

    @property
    def places(self) -> dict[str, AbstractRoom]:
        """The rooms of all sessions, by name."""
        return {**self.host.rooms, **self.replicas}  # a replica instead of its authority

    def enter(self, name: str | None) -> AbstractRoom:
        """Return the room of a socket, with ``name`` None a new one of its own.

        Raises `ClientFault`: ``busy`` if no further room is allowed, ``not_found`` for the own room
        of an earlier socket that is gone.
        """
        if name is None:
            return self._make(PRIVATE + secrets.token_hex(8))
        if not name.startswith(PRIVATE):
            return self._enter(name)
        if name not in self.host.rooms:
            raise ClientFault(
                ErrorCode.NOT_FOUND, "This socket's own room is gone.", "Connect without resume."
            )
        return self.host.rooms[name]

    async def fetch(self, name: str | None, since: StreamPosition | None = None) -> None:
        """Load a room from where it is kept, before `enter` is called.

        Returns early if the gateway begins to end. Raises `ClientFault` (``busy``) if another
        process does not release the room, if the other gateways cannot be reached, or if no further
        room is allowed.

        :param since: how far the client has come; this gateway may be a little behind
        """
        if name is not None and not name.startswith(PRIVATE):
            await self._fetch(name, since)

    async def drain(self, seconds: float) -> None:
        """Let sockets that wait for a room go on; give rooms to others within ``seconds``."""
        await self.locks.release_waiting()

    @abstractmethod
    async def start(self, signer: Signer | None) -> None:
        """Begin to share rooms, and sign with the key that all processes of these rooms share.

        :param signer: signer of resume tokens; None if its key is a setting
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Give everything back, and disconnect."""

    @abstractmethod
    def sweep(self) -> None:
        """Do the regular work of each second."""

    @abstractmethod
    def values(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return gauges and counters for `gateway.server.metrics`, by name."""

    @abstractmethod
    def end(self, room: Room) -> None:
        """End a room for good."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Note that this process appends nothing more to a room, so that another may take it."""

    @abstractmethod
    def _enter(self, name: str) -> AbstractRoom:
        """Return a room with a name that clients can give."""

    @abstractmethod
    async def _fetch(self, name: str, since: StreamPosition | None) -> None:
        """Load a room with a name that clients can give."""

    @abstractmethod
    async def history(self, name: str) -> EventLog | None:
        """Return the log of a room, None if there is none. Raises `ClientFault` (``busy``)."""

    @abstractmethod
    async def forget(self, name: str, dismiss: Callable[[Room], None]) -> bool:
        """End a room and delete all its data; return whether there was any.

        Raises `ClientFault` (``busy``) if the other gateways cannot be reached, `StoreFault` if
        data remains in the store.

        :param dismiss: called to let the members go of a room that is only here
        """

    @abstractmethod
    def evict(self, room: AbstractRoom) -> None:
        """Drop a room from memory in which nobody is. It has not ended, and may be kept."""

    def idle(self) -> list[AbstractRoom]:
        """Return the rooms in which nobody is."""
        return [room for room in self.host.rooms.values() if room.empty_since is not None]

    def _make(self, name: str) -> Room:
        """Return a new room. Raises `ClientFault` (``busy``)."""
        self.space.require()
        host = self.host
        log = EventLog(secrets.token_hex(4), host.limits, began=host.now())
        return self._open(name, log)

    def _open(self, name: str, log: EventLog) -> Room:
        room = self.host.open(name, log)
        self.space.watch(log)
        return room


class FleetOfOne(Fleet):
    """A gateway that shares no rooms.

    :param store: where logs are kept; None: rooms end with this process
    """

    def __init__(self, host: RoomHost, store: Store | None = None) -> None:
        super().__init__(host)
        self._store = store

    def _enter(self, name: str) -> Room:
        return self.host.rooms.get(name) or self._make(name)

    async def _fetch(self, name: str, since: StreamPosition | None) -> None:
        while self._store is not None and name not in self.host.rooms and not self.draining:
            await self.locks.wait(self._load(self._store, name))  # it may go again

    async def _load(self, store: Store, name: str) -> None:
        async with self.locks.of(name):
            if name in self.host.rooms:  # another socket was faster
                return
            history = await store.claim(name)
            if self.draining:  # the claim took too long, and the next process needs the room
                store.release(name)
                return
            try:
                self.space.require()
            except ClientFault:
                store.release(name)
                raise
            history.log.before = history.before
            history.log.settings = history.settings
            self._open(name, history.log).empty_since = self.host.now()

    async def history(self, name: str) -> EventLog | None:
        """Return the log of a room in memory or in the store. Raises `StoreFault`."""
        if (room := self.host.rooms.get(name)) is not None:
            return room.log
        kept = None if self._store is None else await self._store.load(name)
        return None if kept is None else kept.log

    async def forget(self, name: str, dismiss: Callable[[Room], None]) -> bool:
        """End a room and delete its data in the store."""
        async with self.locks.of(name):
            if (room := self.host.rooms.get(name)) is not None:
                dismiss(room)
                self.end(room)
                self.host.act()
            kept = self._store is not None and await self._store.forget(name)
            return kept or room is not None

    def end(self, room: Room) -> None:
        """End a room. Only the store may keep anything of it."""
        if self.host.end(room) and self._store is not None:
            self._store.end(room.name)

    def evict(self, room: AbstractRoom) -> None:
        """Drop a room from memory: it can be loaded again if it is kept."""
        assert isinstance(room, Room), "there are no replicas"
        self.release(room.name)
        self.end(room)

    def release(self, name: str) -> None:
        """Let another process claim a room from the store."""
        if self._store is not None:
            self._store.release(name)

    def values(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return the counts of events that the store has not written and has lost."""
        if self._store is None:
            return {}, {}
        behind = {"gateway_store_behind": self._store.behind}
        return behind, {"gateway_store_lost": self._store.lost}

    async def start(self, signer: Signer | None) -> None:
        """Sign with the key of the store: tokens from before a restart are then valid."""
        if signer is not None and self._store is not None:
            try:
                signer.replace(await self._store.key())
            except GatewayError as fault:
                log.error("Resume tokens will not outlive this process: %s", fault)

    async def aclose(self) -> None:
        """Do nothing: the store is closed by its opener."""

    def sweep(self) -> None:
        """Do nothing: no room is elsewhere."""
