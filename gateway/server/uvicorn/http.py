"""The HTTP protocol of uvicorn with bounds that uvicorn leaves out.

Owns: the time and size limits of a request's head, the number of requests that one connection may
send ahead, the time that an answer may stay unread, the number of connections. Must not know: what
is served. The class is passed to uvicorn as ``http=``, a public option.

The time for a head runs from the start of a connection, and from the first byte after an answer.
When there are too many connections, the one that has waited longest for a head is reset. A client
that opens thousands of silent connections thus resets its own first.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.limits import Limits

HEAD_BYTES = 32_768
"""Most bytes of a request line and headers; more is answered by 431. A browser sends one or two
thousand; websockets accepts 8 KiB a line."""
HEADERS = 128
"""Most headers of one request, trailers included; more is answered by 431."""
PIPELINED = 16
"""Most requests of one connection that wait for the one before them; more reset it. Each costs two
kilobytes, and a read of 16 KiB can hold a thousand. No browser sends requests ahead."""
UNREAD_S = 30.0
"""Seconds between two checks whether a client still reads its answer."""
UNREAD_BYTES = 32_768
"""Bytes of an answer that a client must read within `UNREAD_S`, or its connection is reset."""
REFUSE_S = 1.0
"""Seconds for which bytes of a refused client are still read and dropped: closing a connection with
unread bytes resets it, and the client would not see the answer."""
TOO_LARGE = "The head of the request is too large."
SPARE = 512
"""Connections besides the sockets that `Limits.sessions` allows: HTTP requests and handshakes."""


def reset(transport: asyncio.Transport) -> None:
    """End a connection at once, and drop the bytes that the kernel still holds for it."""
    # Without SO_LINGER the kernel would keep sending it until TCP_USER_TIMEOUT, even after the
    # process has ended.
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.fileno() >= 0:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def not_counted(peer: str | None) -> str | None:
    """Return None: no connection is counted under an address."""
    return None


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol on httptools, neither of which bounds anything."""

    limits: ClassVar[Limits]
    max_connections: ClassVar[int]
    """Most connections of the server, WebSockets included."""
    waiting: ClassVar[dict[BoundedProtocol, None]]
    """Connections that have sent no complete head, in the order in which they began to wait."""
    per_address: ClassVar[Counter[str]]
    """Number of connections that are not WebSockets, by address."""
    counted_as: ClassVar[Callable[[str | None], str | None]]
    """Function from a peer's address to the address that it counts under; None: not counted."""

    _address: str | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None
    _unread_bytes = 0  # bytes of the answer in the transport when the timer was started
    _refused = False
    _upgraded = False
    _head_bytes = 0  # of the fields that are parsed
    _raw: int | None = None  # bytes received of an incomplete head; None: it is complete
    _status = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._count_address():
            self._refuse(429, "This address has too many connections.")
            return
        if len(self.connections) > self.max_connections:
            oldest = next(iter(self.waiting), None)
            if oldest is None:  # every connection has a request
                self._refuse(503, "This gateway is full.")
                return
            oldest._stop_waiting()
            reset(oldest.transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._uncount_address()
        self._stop_waiting()
        self._stop_unread_timer()
        self._unset_keepalive_if_required()  # uvicorn does only if the client closed properly
        super().connection_lost(exc)
        # Requests that were never begun refer to this object, and it to them.
        while self.pipeline:
            cycle, _ = self.pipeline.pop()
            cycle.on_response = lambda: None

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        cycle = self.cycle
        super().data_received(data)
        if self._refused or self._upgraded:
            return
        if self.cycle is not cycle:  # a head was complete: a request has begun
            self._stop_waiting()
        elif self.cycle is None or self.cycle.response_complete:
            # The first byte after an answer starts the time for the next head.
            if self._head_timer is None and not self.transport.is_closing():
                self._wait_for_head()
        if self._raw is not None:
            self._raw += len(data)  # httptools reports a header only when it is complete
            if self._raw > HEAD_BYTES:
                self._refuse(431, TOO_LARGE)

    def handle_websocket_upgrade(self) -> None:
        # The authenticator counts sockets: it knows the client's address behind a proxy.
        self._uncount_address()
        self._stop_waiting()
        self._upgraded = True
        super().handle_websocket_upgrade()
        # The parser refers to this protocol: the cycle would keep both, and the transport.
        self.parser = None  # type: ignore[assignment]

    def on_message_begin(self) -> None:
        self._head_bytes = self._raw = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > HEADERS:
            self._count(HEAD_BYTES)  # refuses it, as a head that is too large

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            raise OverflowError  # httptools stops, and `send_400_response` is called
        self._raw = None
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._start_unread_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_unread_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread_timer()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._status, TOO_LARGE if self._status == 431 else msg)

    def _count(self, size: int) -> None:
        """Count bytes of the head. Raises `OverflowError`, after which httptools stops."""
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES:
            self._status = 431
            raise OverflowError

    def _count_address(self) -> bool:
        """Count the connection under its address, and return whether it is within the limit."""
        address = self._address = type(self).counted_as(self.client[0] if self.client else None)
        if address is None:
            return True
        self.per_address[address] += 1
        return self.per_address[address] <= self.limits.address_sockets

    def _uncount_address(self) -> None:
        address, self._address = self._address, None
        if address is not None:
            self.per_address[address] -= 1
            if not self.per_address[address]:
                del self.per_address[address]

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.handshake_s, self._head_timed_out)
        self.waiting[self] = None

    def _head_timed_out(self) -> None:
        self._stop_waiting()
        self.transport.close()

    def _stop_waiting(self) -> None:
        """Stop waiting for a head: it is complete, or none will come."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self.waiting.pop(self, None)

    def _refuse(self, status: int, why: str) -> None:
        """Answer with a status and a reason, and ignore all later bytes of the client."""
        self._stop_waiting()
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            # An answer is being sent, and a second one cannot stand in the middle of it.
            reset(self.transport)
            return
        body = why.encode()
        later = b"retry-after: 1\r\n" if status in (429, 503) else b""
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nconnection: close\r\ncontent-type: text/plain\r\n%b"
            b"x-content-type-options: nosniff\r\ncontent-length: %d\r\n\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), later, len(body), body)
        )
        if self.transport.can_write_eof():  # TLS cannot close one direction alone
            self.transport.write_eof()
        self._head_timer = self.loop.call_later(REFUSE_S, reset, self.transport)

    def _start_unread_timer(self) -> None:
        """Check after `UNREAD_S` whether the client has read enough of the answer."""
        if self._unread_timer is None:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._unread_timer = self.loop.call_later(UNREAD_S, self._check_unread)

    def _check_unread(self) -> None:
        self._unread_timer = None
        size = self.transport.get_write_buffer_size()
        # A rest that was smaller than the bound must be gone by now.
        if size > max(0, self._unread_bytes - UNREAD_BYTES):
            reset(self.transport)
        elif size:
            self._start_unread_timer()

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None


def http_protocol(
    limits: Limits,
    max_connections: int,
    counted_as: Callable[[str | None], str | None] = not_counted,
) -> type[BoundedProtocol]:
    """Return the protocol class of one server; the attributes of the class are its own.

    ``max_connections`` counts WebSockets too. ``counted_as`` returns the address that a connection
    counts under, by that of its peer; None: it is not counted.
    """
    members = {
        "limits": limits,
        "max_connections": max_connections,
        "waiting": {},
        "per_address": Counter(),
        "counted_as": staticmethod(counted_as),
    }
    return type("HttpProtocol", (BoundedProtocol,), members)
