"""Identity of a process among several that share a file, and the lock that shows that it is alive.

Owns: the name that marks the rows of a process, the lock file, and SQLite's lock on it. Must not
know: rows, rooms, the handling of rows of a dead process.

The lock is released when its process ends, in whatever way. SQLite's locks are used for three
reasons: they work on every file system on which the store works; a forked child does not inherit
them, as it would inherit those of flock; and two holders in one process exclude each other. The
file stays empty.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path


class ProcessLock:
    """Owner name and lock of a process. The methods use the disk, so call them in a thread."""

    def __init__(self, path: Path) -> None:
        self.name = secrets.token_hex(8)
        self._path = path
        self._lock: FileLock | None = None

    def register(self) -> None:
        """Take the lock, and remove files of dead processes. Raises `OSError`, `sqlite3.Error`."""
        # A process that was killed leaves its lock file behind, which nobody holds any more.
        for path in self._path.parent.iterdir():
            if path.name.startswith(self._sign("").name) and not held(path):
                path.unlink(missing_ok=True)
        self._lock = FileLock(self._sign(self.name))

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def lives(self, name: str) -> bool:
        """Tell whether the process with this owner name is alive. In doubt return True."""
        return held(self._sign(name))

    def _sign(self, name: str) -> Path:
        """Return the path of the lock file of a process."""
        return self._path.with_name(f"{self._path.name}-owner-{name}")


class FileLock:
    """A lock on ``path``, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Acquire the lock. Raises `sqlite3.Error` if it is held."""
        self.path = path
        self._db = _connect(path, "rwc")
        try:
            self._db.execute("PRAGMA journal_mode = MEMORY")  # a journal in a file is not needed
            self._db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error:
            self._db.close()
            raise

    def release(self) -> None:
        """Release the lock and remove the file. Idempotent."""
        self._db.close()
        self.path.unlink(missing_ok=True)


def held(path: Path) -> bool:
    """Tell whether a process, maybe this one, holds the lock. In doubt return True."""
    if not path.exists():
        return False
    try:
        with closing(_connect(path, "rw")) as db:
            db.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        return path.exists()  # False if the lock was released meanwhile
    return False


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the lock file without waiting for other holders."""
    # Calls come from different threads of a pool, but never from two at once.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=0,
        check_same_thread=False,
    )
