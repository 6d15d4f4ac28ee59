"""The store in one SQLite file.

Owns: the times of writing, reading and deleting, and the tasks for that. Must not know: rooms,
sockets, how a log grows. `gateway.storage.write_behind` knows what is to be written,
`gateway.storage.schema` the tables and rows, `queries` the SQL.

Every `FLUSH_S` seconds one task writes the new events of all rooms in one transaction. A fault of
the disk never disturbs a room: it continues in memory, `SqliteStore.behind` counts the events that
are not written, and the log says what to do. ``docs/design/store.md`` has the reasons.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import aiosqlite

from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.errors import ClientFault, ErrorCode
from gateway.io.tasks import keep_running
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE
from gateway.settings.catalogue import Settings, SettingsError
from gateway.storage import schema
from gateway.storage.base import CLOSE_S, HANDOVER_S, KEY_BYTES, StoreFault
from gateway.storage.sqlite import queries
from gateway.storage.sqlite.file import COMPLAIN_S, PLACE, DatabaseFile, FaultLog, advice, locked
from gateway.storage.sqlite.process_lock import ProcessLock
from gateway.storage.write_behind import FollowedRoom, RoomWrite, WriteBehind

T = TypeVar("T")
P = ParamSpec("P")

log = logging.getLogger("gateway.sqlite")

SQLITE: Final = "sqlite:"
"""Prefix of the setting ``store``, followed by the path of the file."""
FLUSH_S = 0.1
"""Seconds between two writes. A crash of the process loses at most the events of that time."""
BATCH = 2_000
"""Maximum number of events in one transaction, so that a long one does not block others."""
RETRY_S = 1.0
"""Seconds until a failed write is repeated."""
SWEEP_S = 60.0
"""Maximum seconds between two sweeps, which mark open rooms as seen and delete expired ones."""
CLAIM_S = 5.0
"""Seconds that a room waits for a disk that hangs or is locked before it begins without history."""
POLL_S = 0.1
"""Seconds between two attempts."""
FORGET_S = 5.0
"""Seconds to wait until the last traces of a forgotten room can be removed."""
SIGNING = "signing"
"""Name of the signing key in the table of keys."""


def build(settings: Settings) -> SqliteStore | None:
    """Return the store of the settings, if any, without opening it. Raises `SettingsError`."""
    if settings.store is None:
        return None
    path = settings.store.removeprefix(SQLITE)
    # Without a store, rooms are in memory anyway.
    if path in (settings.store, "", ":memory:"):
        raise SettingsError(f"store cannot be {settings.store!r}: it is sqlite:PATH.")
    return SqliteStore(Path(path).expanduser(), settings.limits, keep_s=settings.keep_s)


def _reported(
    work: Callable[Concatenate[SqliteStore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SqliteStore, P], Coroutine[Any, Any, T]]:
    """Return a method that ends though its caller is cancelled, and raises `StoreFault`."""

    async def wrapped(self: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return await asyncio.shield(self._task(work(self, *args, **options)))
        except sqlite3.Error as exc:
            raise StoreFault(f"{self.path} does not answer: {exc}.", advice(exc)) from exc

    return wrapped


class SqliteStore:
    """A store of rooms in one SQLite file, which several processes of one machine may share.

    A room is kept for ``keep_s`` seconds after it has ended. Synchronous methods never wait for the
    disk; the others raise `StoreFault`.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        *,
        keep_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._file = DatabaseFile(path, schema.MIGRATIONS)
        self.path = self._file.path
        self._faults = FaultLog(self.path, clock)
        self._pending = WriteBehind(limits, keep=keep_s > 0, drop=self._faults.dropped)
        self._limits = limits
        self._keep_s = keep_s
        self._clock = clock
        self._wall = wall
        self._owner = ProcessLock(self.path)
        self._traces = True  # deleted text may be in the write-ahead log, from before the start too
        self._claims: dict[str, asyncio.Task[EventLog]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweep_s = min(SWEEP_S, limits.room_s / 4)
        self._sweep_at = self._wipe_at = 0.0

    @property
    def behind(self) -> int:
        """Number of events that are not written yet."""
        return self._pending.behind

    @property
    def lost(self) -> int:
        """Number of events that left a log, or that a process left, before they were written."""
        return self._pending.lost

    # --- opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store."""
        try:
            # If anything fails, the file is closed and the lock of this process released.
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(self._abandon)
                await self._file.open()
                async with self._file.transaction() as db:
                    await asyncio.to_thread(self._owner.register)
                    await self._sweep(db)
                await self._wipe()
                stack.pop_all()
        except OSError as exc:
            raise StoreFault(f"{self.path} cannot be opened: {exc.strerror}.", PLACE) from exc
        except sqlite3.Error as exc:
            raise StoreFault(f"{self.path} cannot be used: {exc}.", advice(exc)) from exc
        self._sweep_at = self._clock() + self._sweep_s
        self._task(keep_running("the writer of the store", self._write_forever))

    async def close(self) -> None:
        """Write the remaining events, within `CLOSE_S`, and release all rooms. Idempotent."""
        for name in list(self._pending.living):
            self.release(name)
        try:
            async with asyncio.timeout(CLOSE_S):
                for task in list(self._tasks):
                    task.cancel()
                    await asyncio.wait([task])
                if not self._file.closed:
                    await self._finish()
        except TimeoutError:
            log.error("%s: %d events are not written", self.path, self.behind)
        self._pending.abandon()
        await self._abandon()

    async def _finish(self) -> None:
        """Write everything, with as many attempts as the time limit of the caller allows."""
        while True:
            try:
                while await self._flush():
                    pass
                await self._wipe()
                return
            except sqlite3.Error as exc:
                self._faults.failed(exc, self.behind)
                await asyncio.sleep(POLL_S)

    async def _abandon(self) -> None:
        await self._file.close()
        await asyncio.to_thread(self._owner.release)

    # --- rooms ------------------------------------------------------------------------------------

    async def claim(self, name: str) -> EventLog:
        """Claim a room for this process, return its log, and write later events of it.

        The log is the same for every caller until `release` or `end`. It is new if there is
        none, if the disk does not answer, and for private rooms. Raises `ClientFault` (``busy``) if
        another process has not released the room within `HANDOVER_S`.
        """
        # Nobody can come back to a private room after a restart, so it is never written.
        if name.startswith(PRIVATE):
            return self._begin(name).log
        room = self._pending.living.get(name)
        if room is not None:
            return room.log
        task = self._claims.get(name)
        if task is None:
            task = self._claims[name] = self._task(self._claim(name))
            task.add_done_callback(lambda _: self._claims.pop(name))
        # Other callers may wait for the same task, so a cancelled one must not end it.
        return await asyncio.shield(task)

    async def _claim(self, name: str) -> EventLog:
        began = attempt = self._clock()
        while True:
            task = self._task(self._take(name))
            commits = -1
            # As long as transactions are committed, the disk is slow but does not hang.
            while not task.done() and commits != self._file.commits:
                commits = self._file.commits
                await asyncio.wait({task}, timeout=CLAIM_S)
            if not task.done():
                self._faults.stalled(self.behind)
                break
            now = self._clock()
            try:
                if task.result():
                    break
                if now >= began + HANDOVER_S:
                    message = "This room is open in another process of the gateway."
                    raise ClientFault(ErrorCode.BUSY, message)
                attempt = now  # the file could be read, so a lock from here on is another one
            except sqlite3.Error as exc:
                self._faults.failed(exc, self.behind)
                if not locked(exc) or now >= attempt + CLAIM_S:
                    break
            await asyncio.sleep(POLL_S)
        # A room whose history cannot be read begins without one.
        return self._pending.follow(self._begin(name)).log

    async def _take(self, name: str) -> bool:
        """Follow the room. Return False if it belongs to another process that is alive."""
        while await self._flush():
            pass
        async with self._file.transaction() as db:
            room = self._begin(name)
            for row in await queries.living(db, name):
                if row.id in self._pending.doomed:
                    continue  # ended, and deleted by the next write
                crashed = row.owner not in (None, self._owner.name)
                if crashed and await asyncio.to_thread(self._owner.lives, str(row.owner)):
                    return False
                # An older room has outlived its time and is ended by the next sweep.
                if row.seen + self._limits.room_s > self._wall():
                    room = await self._restore(db, row, crashed)
                    break
            else:
                await queries.insert(db, [room], self._owner.name, self._wall())
        room.stored = True
        self._pending.follow(room)
        return True

    async def _restore(
        self, db: aiosqlite.Connection, row: schema.RoomRow, crashed: bool
    ) -> FollowedRoom:
        """Take over the room of a row, and return it."""
        log = await self._read(db, row)
        # After a crash it gets another epoch: readers may have received events that were not
        # written, and other events will have their numbers.
        if crashed:
            log.before = StreamPosition(log.epoch, log.seq)
            log.epoch = secrets.token_hex(4)
        room = FollowedRoom(row.id, row.began, row.name, log, log.seq, settings=log.settings)
        await queries.take_over(db, room, self._owner.name, self._wall())
        return room

    async def _read(self, db: aiosqlite.Connection, row: schema.RoomRow) -> EventLog:
        events = await queries.events(db, row.id, self._limits.log)
        now = self._clock()
        # The file has wall-clock times, since monotonic clocks of two processes differ.
        began = now - (self._wall() - row.began)
        history, left = await asyncio.to_thread(
            schema.restored, row.epoch, events, began, now, self._limits
        )
        if left:
            log.warning("%s: %d events of a room cannot be restored", self.path, left)
        if row.before_epoch is not None and row.before_seq is not None:
            history.before = StreamPosition(row.before_epoch, row.before_seq)
        history.settings = schema.settings(row.settings)
        return history

    def _begin(self, name: str) -> FollowedRoom:
        log = EventLog(secrets.token_hex(4), self._limits, began=self._clock())
        return FollowedRoom(secrets.randbits(62), self._wall(), name, log)

    def release(self, name: str) -> None:
        """Release a room, so that another process may claim it once it is written."""
        self._pending.release(name)

    def end(self, name: str) -> None:
        """Delete a claimed room that has ended, or keep it for ``keep_s`` seconds."""
        self._pending.end(name)

    @_reported
    async def forget(self, name: str) -> bool:
        """Delete all rooms of a name now, and return whether there were any.

        A `StoreFault` says that traces may be left on the disk. Call it again in that case.
        """
        followed = self._pending.forget(name)
        async with self._file.transaction() as db:
            deleted = await queries.forget(db, name)
        # Deleted text is still in the write-ahead log until a checkpoint.
        self._traces = True
        patience = self._clock() + FORGET_S
        while not await self._wipe():
            if self._clock() >= patience:
                raise StoreFault(
                    f"The room is deleted, but another program is reading {self.path}: its text"
                    " will be wiped when that ends."
                )
            await asyncio.sleep(POLL_S)
        return followed or deleted

    @_reported
    async def key(self) -> bytes:
        """Return the signing key that all processes of this store share. Create it if needed."""
        async with self._file.transaction() as db:
            return await queries.key(db, SIGNING, secrets.token_bytes(KEY_BYTES))

    @_reported
    async def load(self, name: str) -> EventLog | None:
        """Return a room's log for reading, or the newest kept one's."""
        # The log in memory is newer than the file.
        room = self._pending.find(name)
        if room is not None:
            return room.log
        async with self._file.turn:
            db = self._file.db
            for row in await queries.readable(db, name, self._keep_s, self._wall()):
                if row.id not in self._pending.doomed:
                    return await self._read(db, row)
        return None

    # --- writing ----------------------------------------------------------------------------------

    @_reported
    async def flush(self) -> None:
        """Write all events now, and delete rooms that have ended."""
        await self._work()

    async def _write_forever(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S if self._faults.failing else FLUSH_S)
            # The timer reports a disk that hangs, which raises nothing.
            watch = asyncio.get_running_loop().call_later(
                COMPLAIN_S, lambda: self._faults.stalled(self.behind)
            )
            try:
                await self._work()
            except sqlite3.Error as exc:
                self._faults.failed(exc, self.behind)
            else:
                self._faults.written()
            finally:
                watch.cancel()

    async def _work(self) -> None:
        while await self._flush():
            pass
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep_at = now + self._sweep_s
            async with self._file.transaction() as db:
                await self._sweep(db)
        if self._traces and now >= self._wipe_at and not await self._wipe():
            self._wipe_at = now + self._sweep_s

    async def _flush(self) -> bool:
        """Write new events in one transaction; return whether more wait. Raises `sqlite3.Error`."""
        async with self._file.turn:
            pending, owner = self._pending, self._owner.name
            writes, doomed = pending.gather(BATCH), tuple(pending.doomed)
            if not writes and not doomed:
                return False
            async with self._file.begun() as db:
                writes = await self._still_owned(db, writes)
                new = [write.room for write in writes if not write.room.stored]
                await queries.insert(db, new, owner, self._wall())
                await queries.write(db, writes, owner, self._wall())
                await queries.delete(db, doomed)
            # Only after the commit: events of a failed transaction are written again.
            pending.wrote(writes, doomed)
            self._traces |= bool(doomed) or any(write.erased for write in writes)
        return sum(len(write.entries) for write in writes) == BATCH

    async def _still_owned(
        self, db: aiosqlite.Connection, writes: list[RoomWrite]
    ) -> list[RoomWrite]:
        """Return the writes whose rooms still belong to this process."""
        # Another process may have been asked to forget a room.
        ids = [write.room.id for write in writes if write.room.stored]
        here = await queries.owned(db, ids, self._owner.name)
        ours = []
        for write in writes:
            if not write.room.stored or write.room.id in here:
                ours.append(write)
            else:
                log.warning("%s: another process has forgotten a room", self.path)
                self._pending.unfollow(write.room)
        return ours

    async def _sweep(self, db: aiosqlite.Connection) -> None:
        """Mark rooms in memory as seen, end rooms unseen for long, and delete expired rooms."""
        now = self._wall()
        owner = self._owner.name
        ours = [*(room.id for room in self._pending.rooms), *self._pending.doomed]
        await queries.mark_seen(db, owner, ours, now)
        # Rooms of dead processes and rooms without an owner expire; others may be open elsewhere.
        for other in [None, *await queries.other_owners(db, owner)]:
            if other is None or not await asyncio.to_thread(self._owner.lives, other):
                await queries.end_unseen(db, other, self._limits.room_s, now)
        self._traces |= await queries.expire(db, self._keep_s, now)

    async def _wipe(self) -> bool:
        """Remove deleted text from the write-ahead log, and return whether none is left."""
        self._traces = self._traces and not await self._file.wipe()
        return not self._traces

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that is finished even if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller gets it; if it was cancelled, nobody needs it
