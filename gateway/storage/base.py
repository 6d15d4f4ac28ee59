"""What the gateway asks of whatever keeps rooms beyond a process.

Owns: the `Store` protocol, and what is known of a room that comes from one. Must not know: any
particular store, rooms, sockets. `gateway.storage.sqlite.store` is the one there is; without one
nothing is ever written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.core.event_log import EventLog, StreamPosition
from gateway.errors import ErrorCode, GatewayError
from gateway.protocol.messages import Settings

KEY_BYTES = 32
"""Of the key that a store keeps: as many as its hash has (RFC 2104, section 3)."""
HANDOVER_S = 15.0
"""Seconds to wait for a room that another process has not released yet: it lets it go when nothing
is under way in it, after 10 at the latest with the default ``drain_s``."""
CLOSE_S = 5.0
"""Seconds the last write may take."""


class StoreFault(GatewayError):
    """The store cannot do what was asked. The message says why and what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(ErrorCode.INTERNAL, message, hint)


@dataclass(frozen=True, slots=True)
class History:
    """What is known of a room. ``settings`` is what its ``settings`` events came to, in one: those
    events themselves may have left the log. ``before`` is that of the log."""

    name: str
    log: EventLog
    settings: Settings | None = None
    before: StreamPosition | None = None


class Store(Protocol):
    """Where rooms outlive a process. None of the synchronous methods waits for the disk."""

    @property
    def behind(self) -> int:
        """Events that are not written yet."""

    @property
    def lost(self) -> int:
        """Events that left a log, or the process, before they could be written."""

    async def open(self) -> None:
        """Begin. Raises `StoreFault`."""

    async def close(self) -> None:
        """Write what is left, within `CLOSE_S`, and release all rooms. Idempotent."""

    async def flush(self) -> None:
        """Write what there is now, and delete what has ended. Raises `StoreFault`."""

    async def claim(self, name: str) -> History:
        """The room lives in this process from now, restored or begun anew; its log is followed.

        The same history for every caller until `release` or `end`. Raises `ClientFault` (``busy``)
        where another process has not released the room within `HANDOVER_S`. Where the disk does not
        answer the room begins anew; a private one does so always, and is never written.
        """

    def release(self, name: str) -> None:
        """This process appends nothing more to the room: another may claim it once it is
        written. No-op for a room that is not followed."""

    def end(self, name: str) -> None:
        """The room has ended: delete it, or keep it for ``keep_s``. No-op as for `release`."""

    async def forget(self, name: str) -> bool:
        """Delete all there is of the name, now, and follow it no more; whether there was any.

        Raises `StoreFault` where traces are left; then it has to be asked again.
        """

    async def key(self) -> bytes:
        """The key to sign with that all processes of this store share, made where there is none.

        Raises `StoreFault`.
        """

    async def load(self, name: str) -> History | None:
        """The newest history of a name, to be read: a living room's, else one that is kept.

        Raises `StoreFault`.
        """

    async def names(self) -> list[str]:
        """The rooms there are, living or kept. Raises `StoreFault`."""
