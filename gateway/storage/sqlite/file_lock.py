"""A lock that ends with its process, however that ends.

Owns: the file, and SQLite's lock on it. Must not know: what is locked.

SQLite's own locks because they work wherever the store does; because a child made by fork does not
inherit them, as it would flock's; and because two holders in one process exclude each other. The
file stays empty.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


class FileLock:
    """Hold ``path`` until `release`, or until the process is gone. Raises `sqlite3.Error`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = _connect(path, "rwc")
        try:
            self._db.execute("PRAGMA journal_mode = MEMORY")  # no second file
            self._db.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error:
            self._db.close()
            raise

    def release(self) -> None:
        """Let go, and remove the file. Idempotent."""
        self._db.close()
        self.path.unlink(missing_ok=True)


def held(path: Path) -> bool:
    """Whether some process holds the lock, this one included. In doubt it does."""
    if not path.exists():
        return False
    try:
        with closing(_connect(path, "rw")) as db:
            db.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        return path.exists()  # else it was released meanwhile
    return False


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # Called from whatever thread is free; never from two at once.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=0,
        check_same_thread=False,
    )
