"""The fault of a store, and the times that others allow a store.

Owns: both. Must not know: files, rooms, sockets. Without a store, `gateway.storage.sqlite.store`,
nothing is written to disk.
"""

from __future__ import annotations

from gateway.errors import ErrorCode, GatewayError

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
