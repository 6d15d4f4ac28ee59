"""This process, as others that share a file see it: which rows are its own, and that it lives.

Owns: the name by which rows tell whose they are, and the lock beside the file that says its process
lives. Must not know: rows, rooms, what is done with what a dead process left.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from gateway.storage.sqlite.file_lock import FileLock, held


class ProcessLock:
    """An owner of rows in the file at ``path``. What it does takes a disk: call it in a thread."""

    def __init__(self, path: Path) -> None:
        self.name = secrets.token_hex(8)
        self._path = path
        self._lock: FileLock | None = None

    def register(self) -> None:
        """Show other processes that this one lives, and clear away what dead ones left.

        Raises `OSError` and `sqlite3.Error`.
        """
        for path in self._path.parent.iterdir():
            if path.name.startswith(self._sign("").name) and not held(path):
                path.unlink(missing_ok=True)
        self._lock = FileLock(self._sign(self.name))

    def release(self) -> None:
        """This process has nothing more to do with the file. Idempotent."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def lives(self, name: str) -> bool:
        """Whether the process of that name does; in doubt it does."""
        return held(self._sign(name))

    def _sign(self, name: str) -> Path:
        """The lock that a process holds while it lives."""
        return self._path.with_name(f"{self._path.name}-owner-{name}")
