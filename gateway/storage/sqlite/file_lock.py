"""A file lock that is released when its process ends, in whatever way.

Owns: the lock file, and SQLite's lock on it. Must not know: the purpose of the lock.

SQLite's locks are used for three reasons: they work on every file system on which the store works;
a forked child does not inherit them, as it would inherit those of flock; and two holders in one
process exclude each other. The file stays empty.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


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
