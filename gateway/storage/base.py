"""Interface of a store, which keeps rooms beyond the life of a process.

Owns: the `Store` protocol, and the history of a room that a store returns. Must not know: a
particular store, rooms, sockets. `gateway.storage.sqlite.store` is the only implementation. Without
a store nothing is written to disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.errors import ErrorCode, GatewayError
from gateway.protocol.messages import Settings

KEY_BYTES = 32
"""Length of the signing key: as many bytes as the output of its hash (RFC 2104, section 3)."""
HANDOVER_S = 15.0
"""Seconds to wait for a room that another process has not released yet. A process that stops
releases a room when nothing is in flight in it, at the latest after the 10 s of ``drain_s``."""
CLOSE_S = 5.0
"""Seconds that the last write may take."""


class StoreFault(GatewayError):
    """The store failed. The message says why, and the hint what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(ErrorCode.INTERNAL, message, hint)


@dataclass(frozen=True, slots=True)
class History:
    """The history of a room, from a store."""

    name: str
    log: EventLog
    settings: Settings | None = None
    """Sum of all ``settings`` events, some of which may have left the log."""
    before: StreamPosition | None = None
    """Position in the epoch before that of the log, up to which both have the same events."""


class Store(Protocol):
    """A store of rooms. Its synchronous methods never wait for the disk."""

    @property
    def behind(self) -> int:
        """Number of events that are not written yet."""

    @property
    def lost(self) -> int:
        """Number of events that left a log, or that a process left, before they were written."""

    async def open(self) -> None:
        """Open the store. Raises `StoreFault`."""

    async def close(self) -> None:
        """Write the remaining events, within `CLOSE_S`, and release all rooms. Idempotent."""

    async def flush(self) -> None:
        """Write all events now, and delete rooms that have ended. Raises `StoreFault`."""

    async def claim(self, name: str) -> History:
        """Claim a room for this process, return its history, and write later events of its log.

        The history is the same for every caller until `release` or `end`. It is new if there is
        none, if the disk does not answer, and for private rooms, which are never written.

        Raises `ClientFault` (``busy``) if another process has not released the room within
        `HANDOVER_S`.
        """

    def release(self, name: str) -> None:
        """Release a room to which this process appends nothing more.

        Another process may claim it once it is written. Without effect for unclaimed rooms.
        """

    def end(self, name: str) -> None:
        """Delete a claimed room that has ended, or keep it for ``keep_s`` seconds."""

    async def forget(self, name: str) -> bool:
        """Delete all rooms of a name now, and return whether there were any.

        Raises `StoreFault` if traces may be left on the disk. Call it again in that case.
        """

    async def key(self) -> bytes:
        """Return the signing key that all processes of this store share. Create it if needed.

        Raises `StoreFault`.
        """

    async def load(self, name: str) -> History | None:
        """Return a room's history for reading, or the newest kept one's. Raises `StoreFault`."""

    async def names(self) -> list[str]:
        """Return the names of all rooms, open or kept. Raises `StoreFault`."""
