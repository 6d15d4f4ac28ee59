"""A SQLite file: opening, checking and migrating it, its transactions, its errors.

Owns: the connection and its lock, log lines about errors, and advice. Must not know: the content of
the file, such as its schema (`gateway.storage.schema`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import aiosqlite

from gateway.storage.base import StoreFault

log = logging.getLogger("gateway.sqlite")

# At DEBUG aiosqlite logs every statement with its values, and texts of meetings are private.
logging.getLogger("aiosqlite").setLevel(logging.INFO)

BUSY_S = 5.0
"""Seconds to wait for another process that is writing. Writing takes milliseconds, but a disk may
pause."""
CLOSE_S = 5.0
"""Seconds to wait for the thread of the connection if it hangs."""
COMPLAIN_S = 60.0
"""Seconds between two log lines about the same kind of fault."""
CHECK_BYTES = 268_435_456
"""Size of the largest file that is checked when it is opened, since the check reads all of it."""
WAL_BYTES = 16_777_216
"""Size that the write-ahead log is truncated to after a burst."""
APPLICATION = 0x67617465
"""``application_id`` that marks the file as one of a gateway."""


class DatabaseFile:
    """A SQLite file. All statements run in one thread, in order. The migrations are statements that
    lead from each version of the schema (``user_version``) to the next.
    """

    def __init__(self, path: Path, migrations: Sequence[Sequence[str]]) -> None:
        self.path = path.resolve()
        self.turn = asyncio.Lock()  # held by the task that uses the connection
        self.commits = 0  # number of transactions, by which a busy file differs from one that hangs
        self._migrations = migrations
        self._db: aiosqlite.Connection | None = None
        self._opened: tuple[int, int] | None = None  # device and number of the file

    async def open(self) -> None:
        """Open the file, or create it. Raises `StoreFault`, `OSError` and `sqlite3.Error`."""
        if sqlite3.sqlite_version_info < (3, 37):
            raise StoreFault(
                f"--store needs SQLite 3.37 or newer; this Python has {sqlite3.sqlite_version}."
            )
        await asyncio.to_thread(self._create)
        self._db = await aiosqlite.connect(self.path, isolation_level=None, timeout=BUSY_S)
        self._opened = await asyncio.to_thread(self._place)
        await self._version()
        ((mode,),) = await self.db.execute_fetchall("PRAGMA journal_mode = WAL")
        # WAL lets readers and a writer work at the same time, and needs shared memory.
        if mode != "wal":
            raise StoreFault(f"{self.path} is on a file system without shared memory.", _LOCAL)
        # `secure_delete` overwrites deleted text. FULL keeps commits over a loss of power.
        for pragma in (
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",
            "temp_store = MEMORY",
            f"journal_size_limit = {WAL_BYTES}",
        ):
            await self.db.execute_fetchall(f"PRAGMA {pragma}")
        if (await asyncio.to_thread(self.path.stat)).st_size <= CHECK_BYTES:
            ((result,),) = await self.db.execute_fetchall("PRAGMA quick_check(1)")
            if result != "ok":
                raise StoreFault(f"{self.path} is damaged.", _DAMAGED)
        async with self.transaction() as db:
            for step in self._migrations[await self._version() :]:
                for statement in step:
                    await db.execute(statement)
            await db.execute(f"PRAGMA application_id = {APPLICATION}")
            await db.execute(f"PRAGMA user_version = {len(self._migrations)}")

    async def close(self) -> None:
        """Close the connection without writing anything. Idempotent."""
        if self._db is not None:
            # The thread may hang in a system call; then the process ends without it.
            closing = asyncio.create_task(self._db.close())
            self._db = None
            await asyncio.wait({closing}, timeout=CLOSE_S)

    @property
    def closed(self) -> bool:
        """True before `open` and after `close`."""
        return self._db is None

    @property
    def db(self) -> aiosqlite.Connection:
        """The connection, for a task that holds `turn`. Raises `StoreFault` if it is closed."""
        if self._db is None:
            raise StoreFault(f"{self.path} is closed.")
        return self._db

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[aiosqlite.Connection]:
        """Hold `turn` and run a transaction, which is rolled back after an exception."""
        async with self.turn, self.begun() as db:
            yield db

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[aiosqlite.Connection]:
        """Run a transaction in a task that holds `turn` already."""
        db = self.db
        try:
            await db.execute("BEGIN IMMEDIATE")
            yield db
            if await asyncio.to_thread(self._place) != self._opened:
                raise _FileGone("its path names another file now, or none")
            await db.commit()
            self.commits += 1
        except BaseException:
            # The thread runs statements in order, even those of a cancelled task. So the rollback
            # comes after them.
            with contextlib.suppress(sqlite3.Error):
                await db.rollback()
            raise

    async def wipe(self) -> bool:
        """Remove deleted text from the write-ahead log; False if a reader prevents that."""
        async with self.turn:
            ((busy, _, _),) = await self.db.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    async def _version(self) -> int:
        """Return the version of the schema. Raises `StoreFault` if the file cannot be used."""
        # In one statement, because another process may be creating the tables at this moment.
        ((application, version, tables),) = await self.db.execute_fetchall(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
            " FROM pragma_application_id, pragma_user_version"
        )
        if tables and application != APPLICATION:
            raise StoreFault(f"{self.path} is another program's database. Choose another --store.")
        if version > len(self._migrations):
            raise StoreFault(
                f"{self.path} was written by a newer gateway: it has schema {version}, and this one"
                f" knows {len(self._migrations)}. Run the newer one, or choose another --store."
            )
        return int(version)

    def _place(self) -> tuple[int, int] | None:
        """Return device and number of the file that the path names, or None."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def _create(self) -> None:
        """Create the file with mode 0600, which SQLite also uses for the files beside it."""
        # An existing file is not opened: closing it would release the locks of SQLite on it in this
        # process (POSIX advisory locks).
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


class _FileGone(sqlite3.OperationalError):
    """The file was deleted or replaced; SQLite would go on writing to the deleted one."""

    sqlite_errorname = "GATEWAY_GONE"


class FaultLog:
    """Log lines about a file that cannot be written. Each kind stands once in `COMPLAIN_S`."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.failing = False
        """True from a failed write to the next one that succeeds."""
        self._path = path
        self._clock = clock
        self._lost = 0
        self._logged_at: dict[str, float] = {}

    def failed(self, fault: sqlite3.Error, waiting: int) -> None:
        """Report a failed write, with the number of events that wait."""
        self.failing = True
        line = "%s cannot be written: %s; %d events wait. Rooms go on without. %s"
        self._error(line, fault, waiting, advice(fault))

    def stalled(self, waiting: int) -> None:
        """Report a disk that does not answer."""
        line = "%s does not answer; %d events wait. Rooms go on without. Look at the disk."
        self._error(line, waiting)

    def dropped(self, events: int) -> None:
        """Report events that left a log before they were written."""
        self._lost += events
        line = "%s: %d events were not written before their rooms' logs dropped them, %d in all"
        self._error(line, events, self._lost)

    def written(self) -> None:
        """Report that a write has succeeded after a failed one."""
        if self.failing:
            self.failing = False
            log.warning("%s is written again", self._path)

    def _error(self, line: str, *values: object) -> None:
        now = self._clock()
        if now >= self._logged_at.get(line, now):
            self._logged_at[line] = now + COMPLAIN_S
            log.error(line, self._path, *values)


def advice(fault: sqlite3.Error) -> str:
    """Return a sentence with advice, or an empty string."""
    return next((text for code, text in _ADVICE.items() if _code(fault).startswith(code)), "")


def locked(fault: sqlite3.Error) -> bool:
    """Tell whether an error is due to a lock, which may be released soon."""
    return _code(fault).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _code(fault: sqlite3.Error) -> str:
    """Return SQLite's name of an error, or an empty string for errors found by Python."""
    return str(getattr(fault, "sqlite_errorname", ""))


_DAMAGED = (
    "Move it away to begin with an empty one; `sqlite3 FILE .recover` may save what was in it."
)

_LOCAL = "Choose a --store on a disk of this machine."

PLACE = (
    "--store has to name a file that this user may read and write, in a directory that exists and"
    " in which it may make others."
)
"""Advice if the file cannot be opened."""

_ADVICE = {
    "GATEWAY_GONE": "Move the very file back, or restart the gateway to begin with the one there.",
    "SQLITE_FULL": "The disk is full: make room on it.",
    "SQLITE_BUSY": "Another program has locked the file: end it.",
    "SQLITE_LOCKED": "Another program has locked the file: end it.",
    "SQLITE_READONLY": "The file cannot be written: look at its owner and mode.",
    "SQLITE_CANTOPEN": PLACE,
    "SQLITE_PERM": "The file cannot be opened: look at its owner and mode.",
    "SQLITE_IOERR": "The disk does not work: look at the log of the system.",
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}
