"""The WebSocket protocol on uvicorn, where it leaves something out.

Owns: what becomes of a handshake that cannot be read, and of a frame that is not UTF-8; frames that
are written in the turn of the event loop in which they are made; the end of a client that does not
read, does not answer, or sends what no client has a reason to send. Must not know: what is served.
It is given to uvicorn as ``ws=``, a public option that takes a class.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from gateway.errors import CloseCode, wordless
from gateway.limits import Limits
from gateway.server.uvicorn.http import reset

log = logging.getLogger("gateway.upgrade")

WRITER = "gateway.writer"
"""Name of the `SocketWriter` among the extensions of a scope. A server of another kind has none:
then everything goes through ``send``, as ASGI has it."""

WRITE_BYTES = 16_384
"""Bytes that wait in the transport before it takes no more: what is late shall wait in the outbox,
where deltas merge. asyncio's own bound is 64 KiB."""
SLICE = 2_048
"""Bytes that are parsed before what they hold is looked at: of the smallest frames, three hundred.
A read gives up to 256 KiB, and all of it would be parsed first."""
FRAGMENTS = 256
"""Pieces of one message: of 64 KiB that is 256 bytes each. Empty ones count for no size."""
FLOOD = 10
"""Frames of every kind in a second, as a multiple of `Limits.burst`: beyond it somebody does not
speak but attack. Less is answered by ``rate``, and by the session."""
CLOSE_S = 5.0
"""Seconds for a close handshake, and for what lies before it; then the connection is reset."""


Post = Callable[[bytes], object]


class SocketWriter(Protocol):
    """A socket that can be written to without waiting."""

    changed: Callable[[], None] | None
    """Called when `post` has changed. Whoever sets it takes it back."""

    @property
    def post(self) -> Post | None:
        """Writes bytes as they stand, at once and for nothing more than the writing itself, until
        `changed` is called: None where the socket is not open or has no room. Then ask ``send``.

        Never raises for a socket that is lost.
        """


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Answers a handshake that is too long, which uvicorn leaves without any answer for ever, and
    is the `SocketWriter` of its socket.

    websockets refuses a request line or header over 8 KiB, and too many headers, with 414 or 431.
    """

    most: ClassVar[int] = FLOOD * Limits().burst

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._second = 0
        self._frames = 0
        self._pong = b""
        self._farewell: asyncio.TimerHandle | None = None
        self._shut = False
        self.changed: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_BYTES)

    def data_received(self, data: bytes) -> None:
        if len(data) <= SLICE:
            super().data_received(data)
            return
        for at in range(0, len(data), SLICE):
            if self.transport.is_closing():
                return
            super().data_received(data[at : at + SLICE])

    def eof_received(self) -> None:
        self._close()
        self._leave()  # the transport closes, once what it holds has been read

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._leave()

    def keepalive_timeout(self) -> None:
        """uvicorn would close the transport, which waits for a client that reads nothing."""
        self._close()
        super().keepalive_timeout()
        if not self.disconnected:
            reset(self.transport)

    async def send(self, message: ASGISendEvent) -> None:
        """A close frame does not wait for room: who reads again within `CLOSE_S` shall see why."""
        if message["type"] == "websocket.close":
            self._close()
            self.writable.set()
        await super().send(message)

    def shutdown(self) -> None:
        self._close()
        super().shutdown()

    def handle_close(self, event: Frame) -> None:
        self._close()
        super().handle_close(event)

    def handle_parser_exception(self) -> None:
        self._close()
        super().handle_parser_exception()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._change()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._pong:
            pong, self._pong = self._pong, b""
            self.transport.write(pong)
        self._change()

    def handle_text(self, event: Frame) -> None:
        if self._count():
            super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        if self._count():
            super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= FRAGMENTS:
            self._fail(f"A message of more than {FRAGMENTS} fragments.")
        elif self._count():
            super().handle_cont(event)

    def handle_pong(self, event: Frame) -> None:
        if self._count():
            super().handle_pong(event)

    def handle_ping(self) -> None:
        """A pong is written without asking for room: who reads none gets the newest later, as RFC
        6455, section 5.5.3, allows."""
        pong = b"".join(self.conn.data_to_send())
        if not self._count() or not pong:  # several pings in one slice are answered together
            return
        if self.writable.is_set():
            self.transport.write(pong)
        else:
            self._pong = pong

    def _count(self) -> bool:
        """Count a frame; False where it is to be ignored, because there were too many."""
        if self.transport.is_closing():
            return False
        second = int(self.loop.time())
        if second != self._second:
            self._second, self._frames = second, 0
        self._frames += 1
        if self._frames > self.most:
            self._fail("Far too many frames.")
            return False
        return True

    def _fail(self, why: str) -> None:
        if not self.transport.is_closing():
            log.info("%s", why)
            self.conn.fail(CloseCode.PROTOCOL_ERROR, why)
            self.handle_parser_exception()
            self._leave()

    def _leave(self) -> None:
        """It has ended; what is still to be written has `CLOSE_S` for it."""
        if not self.disconnected and self._farewell is None:
            self._farewell = self.loop.call_later(CLOSE_S, reset, self.transport)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # The application runs from the next turn on. An extension would change frames.
        if self.response.status_code == 101 and not self.conn.extensions:
            self.scope["extensions"][WRITER] = self  # type: ignore[assignment]  # not by ASGI

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()
        super().connection_lost(exc)
        if self._farewell is not None:
            self._farewell.cancel()
            self._farewell = None
        if self.handshake_initiated and self.response.status_code == 101:
            # Else there would be two cycles for the garbage collector to find: with the extension,
            # and of websockets' generator, which has its owner in its frame.
            self.scope["extensions"].pop(WRITER, None)
            self.conn.parser.close()

    def start_keepalive(self) -> None:
        # The handshake is over, and its headers are some 4 KB, which websockets and uvicorn would
        # keep as long as the socket. The application has its own in the scope.
        self.request.headers.clear()
        self.response.headers.clear()
        super().start_keepalive()

    @property
    def post(self) -> Post | None:
        """See `SocketWriter`. Every delta to every reader goes this way, so it is the transport's
        own method: nothing is asked between it and the outbox."""
        if self._shut or not self.writable.is_set() or self.transport.is_closing():
            return None
        return self.transport.write

    def _close(self) -> None:
        """A close frame is about to be written, or the connection ends: nothing may follow."""
        if not self._shut:
            self._shut = True
            self._change()
            self.changed = None

    def _change(self) -> None:
        if self.changed is not None:
            self.changed()


def upgrade(limits: Limits) -> type[WebSocketProtocol]:
    """The protocol class of one server."""
    return type("Upgrade", (WebSocketProtocol,), {"most": FLOOD * limits.burst})


_TRIFLES = (
    "Invalid UTF-8 sequence received from client.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing response.",  # nobody read it
)


def quiet(record: logging.LogRecord) -> bool:
    """Say whether a record of uvicorn's is worth a line: a client's mistake is no fault of ours.

    What an exception says is left out of the record, see `gateway.errors.wordless`.
    """
    if record.exc_info and record.exc_info[1] is not None:
        bare = wordless(record.exc_info[1])
        record.exc_info = (type(bare), bare, bare.__traceback__)
    return record.msg not in _TRIFLES
