"""The WebSocket protocol on uvicorn, where it leaves something out.

Owns: what becomes of a handshake that cannot be read, and of a frame that is not UTF-8; frames that
are written in the turn of the event loop in which they are made. Must not know: what is served. It
is given to uvicorn as ``ws=``, a public option that takes a class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

WRITER = "gateway.writer"
"""Name of the `Writer` among the extensions of a scope. A server of another kind has none: then
everything goes through ``send``, as ASGI has it."""


class Writer(Protocol):
    """A socket that can be written to without waiting."""

    @property
    def ready(self) -> bool:
        """Whether it is open and has room. False means: not now, ask ``send``."""

    def write(self, frames: Iterable[str | bytes]) -> int:
        """Write `str` as text and `bytes` as binary messages, in order, in one piece.

        Only while `ready`. Never raises for a socket that is lost. Returns the bytes of what was
        written, without the heads of the frames.
        """


class Upgrade(WebSocketsSansIOProtocol):
    """Answers a handshake that is too long, which uvicorn leaves without any answer for ever, and
    is the `Writer` of its socket.

    websockets refuses a request line or header over 8 KiB, and too many headers, with 414 or 431.
    """

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:  # the application runs from the next turn on
            self.scope["extensions"][WRITER] = self  # type: ignore[assignment]  # not by ASGI

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.handshake_initiated and self.response.status_code == 101:
            # Else there would be two cycles for the garbage collector to find: with the extension,
            # and of websockets' generator, which has its owner in its frame.
            del self.scope["extensions"][WRITER]
            self.conn.parser.close()

    def start_keepalive(self) -> None:
        # The handshake is over, and its headers are some 4 KB, which websockets and uvicorn would
        # keep as long as the socket. The application has its own in the scope.
        self.request.headers.clear()
        self.response.headers.clear()
        super().start_keepalive()

    @property
    def ready(self) -> bool:
        """See `Writer`. An extension that changes frames makes it False."""
        return (
            self.writable.is_set()
            and self.handshake_complete
            and not self.close_sent
            and not self.transport.is_closing()
            and not self.conn.extensions
        )

    def write(self, frames: Iterable[str | bytes]) -> int:
        """See `Writer`. websockets' own framing costs as much as all the rest of the way here."""
        size = 0
        parts = []
        for frame in frames:
            if isinstance(frame, str):
                payload, heads, opcode = frame.encode(), _TEXT, 0x81
            else:
                payload, heads, opcode = frame, _BINARY, 0x82
            length = len(payload)
            size += length
            parts.append(heads[length] if length < 126 else _head(opcode, length))
            parts.append(payload)
        self.transport.write(b"".join(parts))
        return size


def _head(opcode: int, length: int) -> bytes:
    """The head of an unmasked, unfragmented frame (RFC 6455, section 5.2)."""
    if length < 126:
        return bytes((opcode, length))
    if length < 65_536:
        return bytes((opcode, 126)) + length.to_bytes(2)
    return bytes((opcode, 127)) + length.to_bytes(8)


_TEXT = tuple(_head(0x81, length) for length in range(126))
_BINARY = tuple(_head(0x82, length) for length in range(126))


def quiet(record: logging.LogRecord) -> bool:
    """Whether a record of uvicorn's is worth a line: a client's bad UTF-8 is no fault of ours."""
    return record.msg != "Invalid UTF-8 sequence received from client."
