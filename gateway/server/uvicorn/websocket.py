"""The WebSocket protocol of uvicorn with bounds and immediate writes that uvicorn leaves out.

Owns: the answer to a handshake that cannot be parsed; frames that are written in the same turn of
the event loop in which they are made; the end of a connection whose client does not read, does not
answer, or floods. Must not know: what is served. The class is passed to uvicorn as ``ws=``, a
public option.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from gateway.core.session.audio import LEAST_S
from gateway.errors import CloseCode, redacted
from gateway.limits import Limits, TokenBucket
from gateway.server.uvicorn.http import reset

log = logging.getLogger("gateway.upgrade")

WRITER = "gateway.writer"
"""Key of the `WebSocketProtocol` among the extensions of a scope. Other servers have none: then
every frame goes through ASGI's ``send``."""
WRITE_BYTES = 16_384
"""Bytes in the transport from which it accepts no more. Later frames wait in the outbox instead,
where deltas are merged. asyncio's default is 64 KiB."""
SLICE = 2_048
"""Bytes that are parsed at once, before their frames are handled: three hundred of the smallest. A
read returns up to 256 KiB, which would otherwise be parsed as a whole first."""
FRAGMENTS = 256
"""Most fragments of one message: 256 bytes each for 64 KiB. The size alone is no bound, since a
fragment may be empty."""
FLOOD = 10
"""Most frames of all kinds in a second, as a multiple of `Limits.burst`. Beside them come frames of
audio that the network has held back. Only an attack sends more; the session answers smaller
excesses with the errors ``rate`` and ``audio_too_fast``."""
CLOSE_S = 5.0
"""Seconds to write what is pending and for the close handshake; then the connection is reset."""
Write = Callable[[bytes], object]
"""Function that writes bytes to a transport at once."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket connection, which writes to its socket without waiting."""

    max_frames: ClassVar[int] = FLOOD * Limits().burst  # most frames of all kinds in a second
    max_audio: ClassVar[float] = Limits().audio_burst / LEAST_S  # messages at once beside them

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._second = 0  # of the loop's clock, for which `_frames` counts
        self._frames = 0
        self._audio = TokenBucket(self.max_frames, self.max_audio, self.loop.time())
        self._unread = b""  # is parsed in the next turn of the loop
        self._pong = b""  # waits for room in the transport
        self._reset_timer: asyncio.TimerHandle | None = None
        self._write_closed = False  # no frame may follow
        self.changed: Callable[[], None] | None = None
        """Function that is called when `write` has changed. Its setter resets it to None."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_BYTES)

    def data_received(self, data: bytes) -> None:
        if not self._unread and len(data) <= SLICE:
            super().data_received(data)
            return
        if not self._unread:
            self.loop.call_soon(self._parse)
        self._unread += data
        self.transport.pause_reading()

    def _parse(self) -> None:
        """Parse the next slice, and leave the others to the next turns: a read has thousands."""
        data, self._unread = self._unread[:SLICE], self._unread[SLICE:]
        if self.transport.is_closing():
            self._unread = b""
            return
        super().data_received(data)
        if self._unread:
            self.loop.call_soon(self._parse)
        elif not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message. Nothing more is read before all that was read is parsed."""
        message = await super().receive()
        if self._unread:
            self.transport.pause_reading()
        return message

    def eof_received(self) -> None:
        self._close_writer()
        self._reset_soon()  # the transport closes once the client has read what it holds

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        # The application has ended: only what is pending may still take time.
        self._reset_soon()

    def keepalive_timeout(self) -> None:
        """Reset the connection, where uvicorn would close it and wait for the client to read."""
        self._close_writer()
        super().keepalive_timeout()
        if not self.disconnected:
            reset(self.transport)

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message. Raises `OSError` if the connection is lost, maybe in the handshake."""
        if self.transport.is_closing() and not self.handshake_complete:
            # A shutdown of the server has answered 500, or the client has gone. uvicorn would let
            # the application accept the socket, and fail at the first message.
            self.handshake_complete = self.disconnected = True
        if message["type"] == "websocket.close":
            # It does not wait for room in the transport, so that a client that reads again within
            # `CLOSE_S` sees the reason.
            self._close_writer()
            self.writable.set()
        await super().send(message)

    def shutdown(self) -> None:
        self._close_writer()
        super().shutdown()

    def handle_close(self, event: Frame) -> None:
        self._close_writer()
        super().handle_close(event)

    def handle_parser_exception(self) -> None:
        self._close_writer()
        super().handle_parser_exception()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._notify()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._pong:
            pong, self._pong = self._pong, b""
            self.transport.write(pong)
        self._notify()

    def handle_text(self, event: Frame) -> None:
        if self._count(event):
            super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        if self._count(event):
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
        """Write a pong, or keep only the newest one while the transport is full."""
        # RFC 6455, section 5.5.3, allows to answer the most recent ping only.
        pong = b"".join(self.conn.data_to_send())
        if not self._count() or not pong:  # several pings in one slice are answered together
            return
        if self.writable.is_set():
            self.transport.write(pong)
        else:
            self._pong = pong

    def _count(self, message: Frame | None = None) -> bool:
        """Count a frame. Return False if the connection has ended or has sent too many frames.

        The ``message`` is the frame, if it may be a whole one.
        """
        if self.transport.is_closing():
            return False
        second = int(self.loop.time())
        if second != self._second:
            self._second, self._frames = second, 0
        self._frames += 1
        if self._frames > self.max_frames:
            whole = message is not None and message.fin
            if whole and not self._audio.take(self.loop.time()):
                return True
            self._fail("Far too many frames.")
            return False
        return True

    def _fail(self, why: str) -> None:
        if not self.transport.is_closing():
            log.info("%s", why)
            self.conn.fail(CloseCode.PROTOCOL_ERROR, why)
            self.handle_parser_exception()
            self._reset_soon()

    def _reset_soon(self) -> None:
        """Reset the connection after `CLOSE_S`, unless the client has read the rest by then."""
        if not self.disconnected and self._reset_timer is None:
            self._reset_timer = self.loop.call_later(CLOSE_S, reset, self.transport)

    def handle_events(self) -> None:
        super().handle_events()
        # websockets has refused the handshake and prepared an answer, 414 or 431 for one that is
        # too large (a line over 8 KiB, too many headers); uvicorn does not send it.
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # The application starts in the next turn of the loop, so it finds the writer. An extension
        # of the protocol would encode frames otherwise, and the writer takes encoded frames.
        if self.response.status_code == 101 and not self.conn.extensions:
            self.scope["extensions"][WRITER] = self  # type: ignore[assignment]  # no ASGI extension

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_writer()
        super().connection_lost(exc)
        if self._reset_timer is not None:
            self._reset_timer.cancel()
            self._reset_timer = None
        # These would be cycles of references for the garbage collector: the scope refers to this
        # object, and so do the frames of websockets' generator and of the exceptions that it keeps.
        if self.handshake_initiated and self.response.status_code == 101:
            self.scope["extensions"].pop(WRITER, None)
        self.conn.parser.close()
        kept: BaseException | None
        for kept in (self.conn.parser_exc, self.conn.handshake_exc):
            while kept is not None:
                kept.__traceback__ = None
                kept = kept.__context__

    def start_keepalive(self) -> None:
        # The handshake is over. websockets and uvicorn would keep its headers, some 4 KB, for as
        # long as the socket is open. The application has a copy in the scope.
        self.request.headers.clear()
        self.response.headers.clear()
        super().start_keepalive()

    @property
    def write(self) -> Write | None:
        """Function that writes encoded frames at once, valid until `changed` is called.

        None if the socket is not open or its transport is full: use ``send`` instead. The function
        does not raise if the connection is lost. It is the transport's own: every delta to every
        reader goes this way, and a wrapper around it would be called for each.
        """
        if self._write_closed or not self.writable.is_set() or self.transport.is_closing():
            return None
        return self.transport.write

    def _close_writer(self) -> None:
        """Offer no more writes: a close frame is about to be written, or the connection ends."""
        if not self._write_closed:
            self._write_closed = True
            self._notify()
            self.changed = None

    def _notify(self) -> None:
        if self.changed is not None:
            self.changed()


def websocket_protocol(limits: Limits) -> type[WebSocketProtocol]:
    """Return the protocol class of one server."""
    bounds = {"max_frames": FLOOD * limits.burst, "max_audio": limits.audio_burst / LEAST_S}
    return type("GatewaySocket", (WebSocketProtocol,), bounds)


_CLIENT_MISTAKES = (
    "Invalid UTF-8 sequence received from client.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing response.",  # the client had gone
    # The handshake was refused with an HTTP answer, which uvicorn does not count as complete.
    "ASGI callable returned without completing handshake.",
)


def without_client_mistakes(record: logging.LogRecord) -> bool:
    """Tell whether a record of uvicorn's log is kept (a log filter): mistakes of clients not.

    Among them are requests whose bodies had not come when the gateway ended.
    """
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    # The message of an exception is removed from the record, see `gateway.errors.redacted`.
    if record.exc_info and record.exc_info[1] is not None:
        bare = redacted(record.exc_info[1])
        record.exc_info = (type(bare), bare, bare.__traceback__)
    return record.msg not in _CLIENT_MISTAKES
