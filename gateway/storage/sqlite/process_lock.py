"""Identity of a process among those that share a file.

Owns: the name that marks the rows of a process, and the lock file that shows that the process is
alive. Must not know: rows, rooms, the handling of rows of a dead process.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from gateway.storage.sqlite.file_lock import FileLock, held


class ProcessLock:
    """Owner name and lock of a process. The methods use the disk, so call them in a thread."""

    def __init__(self, path: Path) -> None:
        self.name = secrets.token_hex(8)
        self._path = path
        self._lock: FileLock | None = None

    def register(self) -> None:
        """Acquire the lock of this process, and remove lock files of dead processes.

        Raises `OSError` and `sqlite3.Error`.
        """
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
