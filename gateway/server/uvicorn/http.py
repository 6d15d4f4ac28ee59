"""HTTP on uvicorn, held to the bounds that uvicorn leaves out.

Owns: how long the head of a request may take and how large it may be, how many requests one
connection may send ahead, how long an answer may lie unread, how many connections there are. Must
not know: what is served. The class is given to uvicorn as ``http=``, a public option.

A connection waits for a head from its start, and from the first byte after an answer. While it
waits it is the first to go when there are too many: whoever opens thousands of connections and
says nothing pushes out his own.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.limits import Limits

HEAD_BYTES = 32_768
"""Bytes of a request line and headers; more is answered by 431. A browser's has one or two
thousand, and websockets takes 8 KiB a line."""
HEADERS = 128
"""Headers of one request, trailers included; more is answered by 431."""
SLICE = 4_096
"""Bytes that h11 is given at once."""
PIPELINED = 16
"""Requests of one connection that may wait for the one before them; more resets it. Each costs two
kilobytes, and a read of 16 KiB can hold a thousand. No browser sends any ahead."""
UNREAD_S = 30.0
UNREAD_BYTES = 32_768
"""Bytes of an answer that must have been read within ``UNREAD_S``, or the connection is reset."""
REFUSE_S = 1.0
"""Seconds in which what a refused client still sends is thrown away: a connection that is closed
with bytes unread takes its answer with it."""
LARGE = "The head of the request is too large."
SPARE = 512
"""Connections beyond the sockets that `Limits.sessions` allows: HTTP, and handshakes."""


def reset(transport: asyncio.Transport) -> None:
    """End a connection now, with what the kernel still holds for it: nobody will read that.

    Without SO_LINGER the kernel goes on offering it until TCP_USER_TIMEOUT, process or not.
    """
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.fileno() >= 0:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


if TYPE_CHECKING:
    _Base = H11Protocol
else:
    _Base = object


def nobody(peer: str | None) -> str | None:
    """Where no address is counted."""
    return None


class BoundedProtocol(_Base):
    """What both of uvicorn's HTTP protocols lack."""

    most: ClassVar[int] = Limits().sessions + SPARE
    head_s: ClassVar[float] = Limits().handshake_s
    waiting: ClassVar[dict[BoundedProtocol, None]] = {}
    """Connections that have sent no complete head, the longest first."""
    each: ClassVar[int] = Limits().address_sockets
    peers: ClassVar[dict[str, int]] = {}
    """Connections that are not WebSockets, by address."""
    address: ClassVar[Callable[[str | None], str | None]] = staticmethod(nobody)

    _peer: str | None = None

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _left = 0
    _refused = False
    _upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._crowded():
            self._refuse(429, "This address has too many connections.")
            return
        if len(self.connections) > self.most:
            eldest = next(iter(self.waiting), None)
            if eldest is None:
                self._refuse(503, "This gateway is full.")
                return
            eldest._done()
            reset(eldest.transport)
        self._await()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._done()
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        cycle = self.cycle
        super().data_received(data)
        self._received(cycle)

    def _received(self, before: object) -> None:
        if self._refused or self._upgraded:
            return
        if self.cycle is not before:
            self._done()
        elif self.cycle is None or self.cycle.response_complete:
            if self._head is None and not self.transport.is_closing():
                self._await()

    def handle_websocket_upgrade(self, *event: Any) -> None:
        self._forget()  # the gate counts sockets, and knows for whom a proxy asks
        self._done()
        self._upgraded = True
        super().handle_websocket_upgrade(*event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read()

    def send_400_response(self, msg: str) -> None:
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)  # h11 has an opinion
        self._refuse(status, msg)

    def _crowded(self) -> bool:
        """Count it; whether there are too many of its address."""
        peer = self._peer = type(self).address(self.client[0] if self.client else None)
        if peer is None:
            return False
        self.peers[peer] = self.peers.get(peer, 0) + 1
        return self.peers[peer] > self.each

    def _forget(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            self.peers[peer] -= 1
            if not self.peers[peer]:
                del self.peers[peer]

    def _await(self) -> None:
        self._head = self.loop.call_later(self.head_s, self._late)
        self.waiting[self] = None

    def _late(self) -> None:
        self._done()
        self.transport.close()

    def _done(self) -> None:
        """A head has come, or none will."""
        if self._head is not None:
            self._head.cancel()
            self._head = None
        self.waiting.pop(self, None)

    def _refuse(self, status: int, why: str) -> None:
        """Say why, and take nothing more."""
        self._done()
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            reset(self.transport)  # an answer is under way, and nothing may come in its midst
            return
        body = why.encode()
        later = b"retry-after: 1\r\n" if status in (429, 503) else b""
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nconnection: close\r\ncontent-type: text/plain\r\n%b"
            b"x-content-type-options: nosniff\r\ncontent-length: %d\r\n\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), later, len(body), body)
        )
        if self.transport.can_write_eof():  # TLS has no such half
            self.transport.write_eof()
        self._head = self.loop.call_later(REFUSE_S, reset, self.transport)

    def _watch(self) -> None:
        """Look after a while whether what was written has been read."""
        if self._unread is None:
            self._left = self.transport.get_write_buffer_size()
            self._unread = self.loop.call_later(UNREAD_S, self._look)

    def _look(self) -> None:
        self._unread = None
        left = self.transport.get_write_buffer_size()
        if left > max(0, self._left - UNREAD_BYTES):
            reset(self.transport)
        elif left:
            self._watch()

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class BoundedH11Protocol(BoundedProtocol, H11Protocol):
    """Where httptools is not there. h11 takes one request at a time, and bounds a head as long as
    it is not whole."""

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), SLICE):
            if not self._upgraded:
                super().data_received(data[at : at + SLICE])


try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # where there is no CPython
    BEST: type[BoundedProtocol] = BoundedH11Protocol
else:

    class BoundedHttptoolsProtocol(BoundedProtocol, HttpToolsProtocol):  # type: ignore[misc]  # its cycle is another class
        """With httptools, which bounds nothing."""

        _bytes = 0
        _raw: int | None = None  # what came of a head that is not whole
        _status = 400

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._raw is not None and not self._refused:
                self._raw += len(data)  # httptools gives a header only when it is whole
                if self._raw > HEAD_BYTES:
                    self._refuse(431, LARGE)

        def handle_websocket_upgrade(self, *event: Any) -> None:
            super().handle_websocket_upgrade(*event)
            # Or a cycle would keep both, and the transport.
            self.parser = None  # type: ignore[assignment]

        def on_message_begin(self) -> None:
            self._bytes = self._raw = 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)
            if len(self.headers) > HEADERS:
                self._count(HEAD_BYTES)

        def on_headers_complete(self) -> None:
            if len(self.pipeline) >= PIPELINED:
                raise OverflowError  # httptools stops, and `send_400_response` is called
            self._raw = None
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(self._status, LARGE if self._status == 431 else msg)

        def _count(self, size: int) -> None:
            self._bytes += size
            if self._bytes > HEAD_BYTES:
                self._status = 431
                raise OverflowError

    BEST = BoundedHttptoolsProtocol


def inbound(
    limits: Limits,
    most: int,
    base: type[BoundedProtocol] = BEST,
    address: Callable[[str | None], str | None] = nobody,
) -> type[asyncio.Protocol]:
    """The protocol class of one server.

    :param most: connections there may be, WebSockets included
    :param address: what to count one under, by its peer; None: not at all
    """
    members = {
        "most": most,
        "head_s": limits.handshake_s,
        "waiting": {},
        "each": limits.address_sockets,
        "peers": {},
        "address": staticmethod(address),
    }
    return type("Inbound", (base,), members)
