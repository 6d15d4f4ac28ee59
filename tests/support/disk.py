"""Stores on a real file, with clocks of their own and crashes."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway.core.history.event_log import EventLog
from gateway.limits import Limits
from gateway.protocol.messages import Source
from gateway.storage.sqlite.store import SqliteStore

SECRET = "xyzzy"
"""A text that must not be found after its room is deleted."""


class Time:
    """A monotonic and a wall clock of equal speed. A restart sets the first one back."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.booted = self.wall - 1000

    def clock(self) -> float:
        return self.wall - self.booted

    def restart(self) -> None:
        self.booted = self.wall - 10


class Disk:
    """One file, and the stores that are opened on it, in turn or at the same time."""

    def __init__(self, folder: Path, limits: Limits | None = None, keep_s: float = 0) -> None:
        self.path = folder / "rooms.db"
        self.time = Time()
        self.limits = limits if limits is not None else Limits()
        self.keep_s = keep_s

    def store(self) -> SqliteStore:
        return SqliteStore(
            self.path,
            self.limits,
            keep_s=self.keep_s,
            clock=self.time.clock,
            wall=lambda: self.time.wall,
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[SqliteStore]:
        store = self.store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def say(self, log: EventLog, text: str = "good morning", times: int = 1) -> None:
        for _ in range(times):
            seq = log.seq + 1
            event = Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text=text)
            log.append(event, self.time.clock())

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement as another program would."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            return db.execute(statement, values).fetchall()

    def has(self, text: str) -> bool:
        """Tell whether the bytes are in any of the files.

        Another process reads them: SQLite's locks would be lost with any file that this one closes.
        """
        files = [str(path) for path in self.path.parent.glob("rooms.db*")]
        found = subprocess.run(["cat", *files], capture_output=True, check=True).stdout
        return text.encode() in found


async def crash(store: SqliteStore) -> None:
    """Simulate the death of a process: it writes nothing more, and its locks are free."""
    for task in list(store._tasks):
        task.cancel()
        await asyncio.wait([task])
    await store._abandon()


def texts(log: EventLog) -> list[str]:
    return [entry.event.text for entry in log.entries() if isinstance(entry.event, Source)]


async def names(store: SqliteStore) -> list[str]:
    """Return the names of all rooms of a store, in the file or about to be written."""
    async with store._file.turn:
        rows = await store._file.db.execute_fetchall("SELECT id, name FROM rooms")
    pending = store._pending
    kept = {name for id, name in rows if id not in pending.doomed}
    return sorted(kept | {room.name for room in pending.rooms})
