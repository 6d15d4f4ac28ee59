"""Identity of a process among several that share a file, and the lock that shows that it is alive.

Owns: the name that marks the rows of a process, the lock file, and SQLite's lock on it. Must not
know: rows, rooms.

The lock ends with its process. SQLite's locks work on every file system on which the store works, a
forked child does not inherit them, as it would those of flock, and two holders in one process
exclude each other. The file stays empty.
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
        self._lock: sqlite3.Connection | None = None

    def register(self) -> None:
        """Take the lock, and remove files of dead processes. Raises `OSError`, `sqlite3.Error`."""
        # A process that was killed leaves its lock file behind, which nobody holds any more.
        for path in self._path.parent.iterdir():
            if path.name.startswith(self._sign("").name) and not _held(path):
                path.unlink(missing_ok=True)
        self._lock = _connect(self._sign(self.name), "rwc")
        self._lock.execute("PRAGMA journal_mode = MEMORY")  # a journal in a file is not needed
        self._lock.execute("BEGIN EXCLUSIVE")

    def release(self) -> None:
        """Release the lock and remove its file. Idempotent."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            self._sign(self.name).unlink(missing_ok=True)

    def lives(self, name: str) -> bool:
        """Tell whether the process with this owner name is alive. In doubt return True."""
        return _held(self._sign(name))

    def _sign(self, name: str) -> Path:
        """Return the path of the lock file of a process."""
        return self._path.with_name(f"{self._path.name}-owner-{name}")


def _held(path: Path) -> bool:
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
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0, check_same_thread=False)
