"""The rooms that sockets enter, whichever gateway decides for them.

Owns: the rooms of one gateway alone, with its store; rooms of one socket alone, which no other
gateway ever sees. Must not know: sockets, Redis (`gateway.server.fleet`), what a room decides.

The gateway may end while sockets wait for a room that another process has not released. They are
told at once to connect again, instead of being cut off when everything else has ended. The loading
goes on by itself: if this process still gets the room, it has to release it again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from weakref import WeakValueDictionary

from gateway.auth.signed_tokens import Signer
from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.errors import ClientFault, ErrorCode, GatewayError, redacted
from gateway.protocol.messages import PRIVATE
from gateway.server.runtime.room_host import RoomHost
from gateway.server.runtime.room_space import RoomSpace
from gateway.storage.sqlite.store import SqliteStore

log = logging.getLogger("gateway.hub")

TELL_S = 0.3
"""Seconds for sockets that wait when the end begins to be told so."""


class RoomLocks:
    """Per-room load locks of this process."""

    def __init__(self) -> None:
        self.working: set[asyncio.Task[None]] = set()
        """Tasks that load rooms, at most as many as there are sockets and requests."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: asyncio.Future[None] | None = None  # done when the end begins

    def of(self, name: str) -> asyncio.Lock:
        """Return the lock of a room. It is forgotten when no code holds it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait until the work is done or the end begins. Raises what the work raises."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work)
        self.working.add(task)
        task.add_done_callback(self.working.discard)
        try:
            await asyncio.wait({task, self._ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():  # the end began, or the caller was cancelled
                task.add_done_callback(_log_fault)
        if task.done():
            task.result()

    async def release_waiting(self) -> None:
        """Let everybody who waits go on. Takes `TELL_S` if anybody does."""
        if self._ending is None or self._ending.done():
            return
        self._ending.set_result(None)
        if self.working:
            await asyncio.sleep(TELL_S)


def _log_fault(task: asyncio.Task[None]) -> None:
    """Log the fault of a task that nobody waits for any more."""
    if task.cancelled() or (fault := task.exception()) is None:
        return
    if isinstance(fault, GatewayError):  # another process has the room, or the store has closed
        log.debug("a room was not loaded: %s", fault)
    else:
        log.error("a room could not be loaded", exc_info=redacted(fault))


class Fleet:
    """The rooms of one gateway that shares none; `gateway.server.fleet.rooms.FleetRooms` shares
    them. Without a store, rooms end with this process.

    ``replicas`` are the rooms of sockets here that any gateway may decide for, by name.
    """

    def __init__(self, host: RoomHost, store: SqliteStore | None = None) -> None:
        self.host = host
        self.replicas: dict[str, Replica] = {}
        self.draining = False
        """True once this gateway takes no further room."""
        self.locks = RoomLocks()
        self.space = RoomSpace(host.limits, host.rooms, self.replicas, self.idle, self.evict)
        self._store = store

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

    def values(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return gauges and counters for `gateway.server.metrics`, by name."""
        if self._store is None:
            return {}, {}
        behind = {"gateway_store_behind": self._store.behind}
        return behind, {"gateway_store_lost": self._store.lost}

    # --- life -----------------------------------------------------------------------------------

    async def start(self, signer: Signer | None) -> None:
        """Begin to share rooms, and sign with the key that all processes of these rooms share:
        with that of the store, tokens from before a restart are valid. There is no signer if the
        key is a setting.
        """
        if signer is not None and self._store is not None:
            try:
                signer.replace(await self._store.key())
            except GatewayError as fault:
                log.error("Resume tokens will not outlive this process: %s", fault)

    async def drain(self, seconds: float) -> None:
        """Let sockets that wait for a room go on; give rooms to others within ``seconds``."""
        await self.locks.release_waiting()

    async def aclose(self) -> None:
        """Give everything back, and disconnect. The store is closed by its opener."""

    def sweep(self) -> None:
        """Do the regular work of each second for rooms that are elsewhere too."""

    # --- rooms ----------------------------------------------------------------------------------

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

    async def history(self, name: str) -> EventLog | None:
        """Return the log of a room, None if there is none. Raises `ClientFault` (``busy``)."""
        if (room := self.host.rooms.get(name)) is not None:
            return room.log
        return None if self._store is None else await self._store.load(name)

    async def forget(self, name: str, dismiss: Callable[[Room], None]) -> bool:
        """End a room and delete all its data; return whether there was any. The members of a room
        that is only here are let go by ``dismiss``.

        Raises `ClientFault` (``busy``) if the other gateways cannot be reached, `StoreFault` if
        data remains in the store.
        """
        async with self.locks.of(name):
            if (room := self.host.rooms.get(name)) is not None:
                dismiss(room)
                self.end(room)
                self.host.act()
            kept = self._store is not None and await self._store.forget(name)
            return kept or room is not None

    def end(self, room: Room) -> None:
        """End a room for good. Only a store may keep anything of it."""
        if self.host.end(room) and self._store is not None:
            self._store.end(room.name)

    def release(self, name: str) -> None:
        """Note that this process appends nothing more to a room, so that another may take it."""
        if self._store is not None:
            self._store.release(name)

    def idle(self) -> list[AbstractRoom]:
        """Return the rooms in which nobody is."""
        return [room for room in self.host.rooms.values() if room.empty_since is not None]

    def evict(self, room: AbstractRoom) -> None:
        """Drop a room from memory in which nobody is. It has not ended, and may be kept."""
        assert isinstance(room, Room), "there are no replicas"
        self.release(room.name)
        self.end(room)

    # --- inside ---------------------------------------------------------------------------------

    def _enter(self, name: str) -> AbstractRoom:
        """Return a room with a name that clients can give."""
        return self.host.rooms.get(name) or self._make(name)

    async def _fetch(self, name: str, since: StreamPosition | None) -> None:
        """Load a room with a name that clients can give."""
        while self._store is not None and name not in self.host.rooms and not self.draining:
            await self.locks.wait(self._load(self._store, name))  # it may go again

    async def _load(self, store: SqliteStore, name: str) -> None:
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
            self._open(name, history).empty_since = self.host.now()

    def _make(self, name: str) -> Room:
        """Return a new room. Raises `ClientFault` (``busy``)."""
        self.space.require()
        return self._open(name, EventLog(secrets.token_hex(4), self.host.limits, self.host.now()))

    def _open(self, name: str, log: EventLog) -> Room:
        room = self.host.open(name, log)
        self.space.watch(log)
        return room
