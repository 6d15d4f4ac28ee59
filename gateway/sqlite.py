"""The store that is one SQLite file.

Owns: how far each log has been written, and which process a room belongs to. Must not
know: rooms, sockets, how a log grows. What stands in a row is the business of `tables`.

There is no queue. The store keeps the number it last wrote of each log it follows; one task looks
every `FLUSH_S`, and writes what is new of all rooms in one transaction. Where the disk is slower
than the meetings, the logs are the buffer, with the bounds they have anyhow.

A fault of the disk is never a fault of a room: it lives on in memory, `Store.behind` tells how much
is not written, and the log says what to do, once a minute. The reasons for all this are in
``docs/design/store.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import aiosqlite

from gateway import tables
from gateway.database import File, advice, locked, many
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.lock import Lock, held
from gateway.log import Entry, Log, Point
from gateway.messages import PRIVATE, Retracted
from gateway.messages import Settings as Changed
from gateway.settings import Settings, SettingsError
from gateway.store import CLOSE_S, HANDOVER_S, KEY_BYTES, History, Store, StoreFault

T = TypeVar("T")

log = logging.getLogger("gateway.sqlite")

SQLITE: Final = "sqlite:"
"""Begins the setting ``store``; the rest is the path of a file."""

FLUSH_S = 0.1
"""Seconds between looks for what is new; a crash of the process loses what came after the last."""
BATCH = 2_000
"""Events of one transaction, so that a long backlog is not written in one breath."""
RETRY_S = 1.0
"""Seconds until a write that failed is tried again."""
COMPLAIN_S = 60.0
"""Seconds between two lines in the log about the same fault."""
SWEEP_S = 60.0
"""Most seconds between looks for rooms that have ended, and notes that those in memory have not."""
CLAIM_S = 5.0
"""Seconds that a room waits for a disk that hangs or is locked; then it begins anew, without it."""
POLL_S = 0.1
"""Seconds between looks whether it has."""
FORGET_S = 5.0
"""Seconds to wait until the last traces of a forgotten room can be wiped."""
SIGNING = "signing"
"""Name of the key that tokens are signed with."""


def build(settings: Settings) -> Store | None:
    """The store that ``settings`` ask for; nothing is opened. Raises `SettingsError`."""
    if settings.store is None:
        return None
    path = settings.store.removeprefix(SQLITE)
    if path == settings.store or not path:
        raise SettingsError(f"store cannot be {settings.store!r}: it is sqlite:PATH.")
    return SqliteStore(Path(path).expanduser(), settings.limits, keep_s=settings.keep_s)


class Phase(enum.Enum):
    """What is to come of a followed room."""

    LIVES = "lives"
    RELEASED = "released"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class _Room:
    """A log that is followed. ``written``: the newest event that is in the file, or never will be;
    ``first``: the oldest that may be; ``stored``: the room itself is."""

    id: int
    began: float
    history: History
    written: int = 0
    first: int = 1
    stored: bool = False
    phase: Phase = Phase.LIVES
    log: Log = field(init=False)
    settings: Changed | None = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.history.log
        self.settings = self.history.settings

    @property
    def behind(self) -> int:
        return self.log.seq - self.written


@dataclass(frozen=True, slots=True)
class _Write:
    """What one transaction does for a room. The log begins after ``oldest``, ``entries`` end with
    ``until``; ``last``: with them the room is left."""

    room: _Room
    entries: Sequence[Entry]
    settings: Changed | None
    oldest: int
    until: int
    last: bool

    @property
    def retracted(self) -> list[int]:
        """Positions of the utterances that were taken back."""
        return [entry.event.ord for entry in self.entries if isinstance(entry.event, Retracted)]


class SqliteStore:
    """A `Store` in one SQLite file, which several processes of one machine may share.

    :param keep_s: seconds that a room is kept after it has ended
    :param clock: the clock that logs are told, in seconds
    :param wall: seconds since 1970
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
        self._file = File(path, tables.MIGRATIONS)
        self.lost = 0
        self._limits = limits
        self._keep_s = keep_s
        self._clock = clock
        self._wall = wall
        self._owner = secrets.token_hex(8)
        self._lock: Lock | None = None
        self._rooms: dict[str, _Room] = {}
        self._leaving: list[_Room] = []
        self._doomed: set[int] = set()
        self._traces = True  # an earlier process may have left some
        self._claims: dict[str, asyncio.Task[History]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweep_s = min(SWEEP_S, limits.room_s / 4)
        self._sweep_at = self._wipe_at = 0.0
        self._failing: sqlite3.Error | None = None
        self._said: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}, {len(self._rooms)} rooms, {self.behind} behind>"

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def behind(self) -> int:
        return sum(room.behind for room in (*self._rooms.values(), *self._leaving))

    # --- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(self._abandon)
                await self._file.open()
                async with self._file.transaction() as db:
                    await asyncio.to_thread(self._register)
                    await self._sweep(db)
                await self._wipe()
                stack.pop_all()
        except OSError as exc:
            raise StoreFault(f"{self.path} cannot be opened: {exc.strerror}.") from exc
        except sqlite3.Error as exc:
            raise StoreFault(f"{self.path} cannot be used: {exc}.", advice(exc)) from exc
        self._sweep_at = self._clock() + self._sweep_s
        self._task(self._keep())

    async def close(self) -> None:
        for name in list(self._rooms):
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
        self.lost += self.behind
        self._leaving.clear()
        await self._abandon()

    async def _finish(self) -> None:
        while True:
            try:
                while await self._flush():
                    pass
                await self._wipe()
            except sqlite3.Error as exc:
                self._complain(exc)
                await asyncio.sleep(POLL_S)
            else:
                return

    async def _abandon(self) -> None:
        """Close the file as it is."""
        await self._file.close()
        if self._lock is not None:
            await asyncio.to_thread(self._lock.release)
            self._lock = None

    def _register(self) -> None:
        """Show other processes that this one lives, and clear away what dead ones left."""
        for path in self.path.parent.iterdir():
            if path.name.startswith(self._sign("").name) and not held(path):
                path.unlink(missing_ok=True)
        self._lock = Lock(self._sign(self._owner))

    def _sign(self, owner: str) -> Path:
        """The lock that a process holds while it lives."""
        return self.path.with_name(f"{self.path.name}-owner-{owner}")

    # --- rooms ------------------------------------------------------------------------------------

    async def claim(self, name: str) -> History:
        if name.startswith(PRIVATE):
            return self._begin(name).history
        room = self._rooms.get(name)
        if room is not None:
            return room.history
        task = self._claims.get(name)
        if task is None:
            task = self._claims[name] = self._task(self._claim(name))
            task.add_done_callback(lambda _: self._claims.pop(name))
        return await asyncio.shield(task)

    async def _claim(self, name: str) -> History:
        patience = self._clock() + HANDOVER_S
        while not await self._taken(name):
            if self._clock() >= patience:
                raise ClientFault(
                    ErrorCode.BUSY, "This room is open in another process of the gateway."
                )
            await asyncio.sleep(POLL_S)
        return self._rooms.setdefault(name, self._begin(name)).history

    async def _taken(self, name: str) -> bool:
        """Whether the room can begin: it is free, or the disk does not say."""
        patience = self._clock() + CLAIM_S
        while True:
            task = self._task(self._take(name))
            commits = -1
            while not task.done() and commits != self._file.commits:
                commits = self._file.commits
                await asyncio.wait({task}, timeout=CLAIM_S)
            if not task.done():
                self._stalled()
                return True
            try:
                return task.result()
            except sqlite3.Error as exc:
                self._complain(exc)
                if not locked(exc) or self._clock() >= patience:
                    return True
            await asyncio.sleep(POLL_S)

    async def _take(self, name: str) -> bool:
        """Follow the room; False where it belongs to another process that lives."""
        while await self._flush():
            pass
        async with self._file.transaction() as db:
            rows = await db.execute_fetchall(
                f"SELECT {tables.COLUMNS} FROM rooms WHERE name = ? AND ended IS NULL"
                " ORDER BY began DESC",
                (name,),
            )
            room = self._begin(name)
            for row in (tables.Row(*row) for row in rows if row[0] not in self._doomed):
                crashed = row.owner not in (None, self._owner)
                if crashed and await asyncio.to_thread(held, self._sign(str(row.owner))):
                    return False
                if row.seen + self._limits.room_s > self._wall():
                    room = await self._restore(db, row, crashed)
                    break
            else:
                await self._insert(db, [room])
        room.stored = True
        self._rooms.setdefault(name, room)
        return True

    async def _restore(self, db: aiosqlite.Connection, row: tables.Row, crashed: bool) -> _Room:
        """The room of a row, which is this process's from now.

        After a crash it has another epoch: readers may have seen events that were not written, and
        their numbers will now be given to others.
        """
        history = await self._read(db, row)
        if crashed:
            before = Point(row.epoch, history.log.seq)
            history.log.epoch = secrets.token_hex(4)
            history = replace(history, before=before)
        await db.execute(
            "UPDATE rooms SET owner = ?, epoch = ?, before_epoch = ?, before_seq = ?, seen = ?"
            " WHERE id = ?",
            (
                self._owner,
                history.log.epoch,
                *(history.before or (None, None)),
                self._wall(),
                row.id,
            ),
        )
        # The file may reach back further than the log: hence `first`.
        return _Room(row.id, row.began, history, history.log.seq, first=0)

    async def _read(self, db: aiosqlite.Connection, row: tables.Row) -> History:
        events = await db.execute_fetchall(
            "SELECT seq, at, body FROM events WHERE room = ? ORDER BY seq DESC LIMIT ?",
            (row.id, self._limits.log),
        )
        now = self._clock()
        began = now - (self._wall() - row.began)
        restored, left = await asyncio.to_thread(
            tables.restored, row.epoch, list(events), began, now, self._limits
        )
        if left:
            log.warning("%s: %d events of a room cannot be restored", self.path, left)
        before = None
        if row.before_epoch is not None and row.before_seq is not None:
            before = Point(row.before_epoch, row.before_seq)
        return History(row.name, restored, tables.settings(row.settings), before)

    def _begin(self, name: str) -> _Room:
        history = History(name, Log(secrets.token_hex(4), self._limits, began=self._clock()))
        return _Room(secrets.randbits(62), self._wall(), history)

    def release(self, name: str) -> None:
        room = self._rooms.pop(name, None)
        if room is not None:
            self._leave(room, Phase.RELEASED)

    def end(self, name: str) -> None:
        room = self._rooms.pop(name, None)
        if room is not None and self._keep_s:
            self._leave(room, Phase.ENDED)
        elif room is not None:
            self._doomed.add(room.id)

    def _leave(self, room: _Room, phase: Phase) -> None:
        room.phase = phase
        self._leaving.append(room)
        if len(self._leaving) > self._limits.rooms:  # the disk has been failing for long
            self._lose(self._leaving.pop(0).behind)

    async def forget(self, name: str) -> bool:
        return await self._asked(self._forget(name))

    async def _forget(self, name: str) -> bool:
        rooms = [room for room in self._leaving if room.history.name == name]
        if name in self._rooms:
            rooms.append(self._rooms.pop(name))
        self._leaving = [room for room in self._leaving if room not in rooms]
        self._doomed |= {room.id for room in rooms}  # until they are gone
        async with self._file.transaction() as db:
            found = await db.execute("DELETE FROM rooms WHERE name = ?", (name,))
        self._traces = True
        patience = self._clock() + FORGET_S
        while not await self._wipe():
            if self._clock() >= patience:
                raise StoreFault(
                    f"The room is deleted, but another program is reading {self.path}: its text"
                    " will be wiped when that ends."
                )
            await asyncio.sleep(POLL_S)
        return bool(rooms) or found.rowcount > 0

    async def key(self) -> bytes:
        return await self._asked(self._key())

    async def _key(self) -> bytes:
        async with self._file.transaction() as db:
            await db.execute(
                "INSERT INTO keys (name, key) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (SIGNING, secrets.token_bytes(KEY_BYTES)),
            )
            rows = await db.execute_fetchall("SELECT key FROM keys WHERE name = ?", (SIGNING,))
        ((key,),) = rows
        return bytes(key)

    async def load(self, name: str) -> History | None:
        for room in (self._rooms.get(name), *reversed(self._leaving)):
            if room is not None and room.history.name == name:
                return replace(room.history, settings=room.settings)
        return await self._asked(self._load(name))

    async def _load(self, name: str) -> History | None:
        async with self._file.turn:
            db = self._file.db
            rows = await db.execute_fetchall(
                f"SELECT {tables.COLUMNS} FROM rooms WHERE name = ? AND"
                " (ended IS NULL OR ended + ? > ?) ORDER BY ended IS NULL DESC, began DESC",
                (name, self._keep_s, self._wall()),
            )
            for row in (tables.Row(*row) for row in rows if row[0] not in self._doomed):
                return await self._read(db, row)
        return None

    async def names(self) -> list[str]:
        return await self._asked(self._names())

    async def _names(self) -> list[str]:
        async with self._file.turn:
            rows = await self._file.db.execute_fetchall("SELECT id, name FROM rooms")
        found = {name for id, name in rows if id not in self._doomed}
        found |= {room.history.name for room in (*self._rooms.values(), *self._leaving)}
        return sorted(found)

    # --- writing ----------------------------------------------------------------------------------

    async def flush(self) -> None:
        await self._asked(self._work())

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S if self._failing is None else RETRY_S)
            watch = asyncio.get_running_loop().call_later(COMPLAIN_S, self._stalled)
            try:
                await self._work()
            except sqlite3.Error as exc:
                self._complain(exc)
            except Exception:
                log.exception("%s: writing failed by a fault of the gateway", self.path)
            else:
                if self._failing is not None:
                    log.warning("%s is written again", self.path)
                    self._failing = None
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
        """Write what is new, in one transaction; whether there is more. Raises `sqlite3.Error`."""
        async with self._file.turn:
            writes, doomed = self._gather(), tuple(self._doomed)
            if not writes and not doomed:
                return False
            async with self._file.begun() as db:
                writes = await self._ours(db, writes)
                await self._insert(db, [one.room for one in writes if not one.room.stored])
                await self._write(db, writes)
                await many(db, "DELETE FROM rooms WHERE id = ?", [(id,) for id in doomed])
            for one in writes:
                one.room.stored = True
                one.room.written = one.until
                one.room.settings = one.settings
                one.room.first = max(one.room.first, one.oldest + 1)
                if one.last:
                    self._unfollow(one.room)
            self._doomed.difference_update(doomed)
            self._traces |= bool(doomed) or any(one.retracted for one in writes)
        return sum(len(one.entries) for one in writes) == BATCH

    def _gather(self) -> list[_Write]:
        writes = []
        left = BATCH
        for room in (*self._leaving, *self._rooms.values()):
            log = room.log
            if log.seq == room.written and room.phase is Phase.LIVES:
                continue
            oldest = log.seq - len(log)
            if oldest > room.written:
                self._lose(oldest - room.written)
                room.written = oldest
            if left:
                entries = log.entries(room.written)[:left]
                left -= len(entries)
                until = room.written + len(entries)
                last = room.phase is not Phase.LIVES and until == log.seq
                settings = room.settings
                for entry in entries:
                    if isinstance(entry.event, Changed):
                        settings = tables.folded(settings, entry.event)
                writes.append(_Write(room, entries, settings, oldest, until, last))
        return writes

    async def _ours(self, db: aiosqlite.Connection, writes: list[_Write]) -> list[_Write]:
        """Those whose rooms are still this process's: another may have been told to forget one."""
        ids = tables.numbers([one.room.id for one in writes if one.room.stored])
        rows = await db.execute_fetchall(
            "SELECT id FROM rooms WHERE owner = ? AND id IN (SELECT value FROM json_each(?))",
            (self._owner, ids),
        )
        here = {id for (id,) in rows}
        ours = []
        for one in writes:
            if not one.room.stored or one.room.id in here:
                ours.append(one)
            else:
                log.warning("%s: another process has forgotten a room", self.path)
                self._unfollow(one.room)
        return ours

    def _unfollow(self, room: _Room) -> None:
        if self._rooms.get(room.history.name) is room:
            del self._rooms[room.history.name]
        self._leaving = [other for other in self._leaving if other is not room]

    async def _insert(self, db: aiosqlite.Connection, rooms: Iterable[_Room]) -> None:
        now = self._wall()
        await many(
            db,
            "INSERT INTO rooms (id, name, epoch, began, seen, owner) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",  # what was committed may not have been heard
            [
                (room.id, room.history.name, room.log.epoch, room.began, now, self._owner)
                for room in rooms
            ],
        )

    async def _write(self, db: aiosqlite.Connection, writes: Sequence[_Write]) -> None:
        """Add events; take back the text of what was retracted; drop what the logs have dropped."""
        now = self._wall()
        await db.executemany(
            "INSERT INTO events (room, seq, at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (  # made in the thread that writes
                (one.room.id, entry.event.seq, entry.at, tables.body(entry.event))
                for one in writes
                for entry in one.entries
            ),
        )
        await many(
            db,
            "UPDATE events SET body = json_set(body, '$.text', '') WHERE room = ? AND"
            " json_extract(body, '$.ord') IN (SELECT value FROM json_each(?)) AND"
            " json_extract(body, '$.text') != ''",
            [(one.room.id, tables.numbers(one.retracted)) for one in writes if one.retracted],
        )
        await many(
            db,
            "DELETE FROM events WHERE room = ? AND seq <= ?",
            [(one.room.id, one.oldest) for one in writes if one.oldest >= one.room.first],
        )
        await many(
            db,
            "UPDATE rooms SET seen = ?, settings = ?, owner = ?, ended = ? WHERE id = ?",
            [
                (
                    now,
                    None if one.settings is None else tables.body(one.settings),
                    None if one.last else self._owner,
                    now if one.last and one.room.phase is Phase.ENDED else None,
                    one.room.id,
                )
                for one in writes
            ],
        )

    async def _sweep(self, db: aiosqlite.Connection) -> None:
        """Rooms in memory live on; of the others, end those unseen for long, and delete in time."""
        now = self._wall()
        rooms = (*self._rooms.values(), *self._leaving)
        ours = tables.numbers([*(room.id for room in rooms), *self._doomed])
        await db.execute(
            "UPDATE rooms SET owner = NULL"
            " WHERE owner = ? AND id NOT IN (SELECT value FROM json_each(?))",
            (self._owner, ours),
        )
        await db.execute("UPDATE rooms SET seen = ? WHERE owner = ?", (now, self._owner))
        owners = await db.execute_fetchall(
            "SELECT DISTINCT owner FROM rooms WHERE owner != ?", (self._owner,)
        )
        for owner in [None, *(owner for (owner,) in owners)]:
            if owner is None or not await asyncio.to_thread(held, self._sign(owner)):
                await db.execute(
                    "UPDATE rooms SET ended = seen + ?, owner = NULL"
                    " WHERE ended IS NULL AND owner IS ? AND seen + ? <= ?",
                    (self._limits.room_s, owner, self._limits.room_s, now),
                )
        gone = await db.execute("DELETE FROM rooms WHERE ended + ? <= ?", (self._keep_s, now))
        self._traces |= gone.rowcount > 0

    async def _wipe(self) -> bool:
        """Take what was deleted out of the write-ahead log too; whether nothing is left there."""
        self._traces = self._traces and not await self._file.wipe()
        return not self._traces

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work of the store's own: a caller who goes away leaves no half of it behind."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it is told; nobody may

    async def _asked(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, for callers that are to be told of a fault."""
        try:
            return await asyncio.shield(self._task(work))
        except sqlite3.Error as exc:
            raise StoreFault(f"{self.path} does not answer: {exc}.", advice(exc)) from exc

    # --- what goes wrong --------------------------------------------------------------------------

    def _complain(self, fault: sqlite3.Error) -> None:
        self._failing = fault
        if self._due("fault"):
            log.error(
                "%s cannot be written: %s; %d events wait. Rooms go on without. %s",
                self.path,
                fault,
                self.behind,
                advice(fault),
            )

    def _stalled(self) -> None:
        if self._due("stalled"):
            log.error(
                "%s does not answer; %d events wait. Rooms go on without. Look at the disk.",
                self.path,
                self.behind,
            )

    def _lose(self, events: int) -> None:
        self.lost += events
        if events and self._due("lost"):
            log.error(
                "%s: %d events were not written before their rooms' logs dropped them, %d in all",
                self.path,
                events,
                self.lost,
            )

    def _due(self, kind: str) -> bool:
        """Whether the log is told; of one kind of fault at most every `COMPLAIN_S`."""
        now = self._clock()
        due = now >= self._said.get(kind, now)
        if due:
            self._said[kind] = now + COMPLAIN_S
        return due
