"""A WebSocket client that only counts, so that the server is measured and not the client.

Owns: the handshake and the frames of RFC 6455, as far as the benchmark needs them. Must not know:
what is measured. It is no example to follow: it masks with zeros and checks nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import cast

HANDSHAKE = (
    "GET /v1/ws?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: gw.v1.json\r\n\r\n"
)
_KIND = len(b'{"type":"')
_WRONG = (b"failed", b"error")
_PING, _CLOSE = 0x89, 0x88


class Socket(asyncio.Protocol):
    """One session. All times are of `time.monotonic_ns`."""

    def __init__(self) -> None:
        self.deltas = 0
        self.lag = 0
        """Time from the engine's first token of the last utterance to the arrival of its frame, if
        the token is a time.
        """
        self.stamp = 0
        """Time of that first token."""
        self.times: list[int] = []
        """Arrival times of the deltas of the last utterance."""
        self._transport: asyncio.Transport
        self._rest = b""
        self._open = False
        self._first = True
        self._waiters: dict[int, asyncio.Future[int]] = {}

    @classmethod
    async def connect(cls, port: int, query: str) -> Socket:
        """Open a session."""
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(cls, "127.0.0.1", port)
        opened = socket.wait("!")
        socket._transport.write(HANDSHAKE.format(query=query).encode())
        await opened
        return socket

    def send(self, text: str) -> None:
        """Send one text frame. The next one is a new utterance."""
        self._write(0x81, text.encode())
        self._first = True

    def cancel(self, id: str) -> None:
        """Cancel an utterance."""
        self._write(0x81, b'{"type":"cancel","id":"%b"}' % id.encode())

    def wait(self, kind: str) -> asyncio.Future[int]:
        """Return when the next frame came whose type begins with this letter (``!``: handshake)."""
        future = asyncio.get_running_loop().create_future()
        self._waiters[ord(kind)] = future
        return future

    def close(self) -> None:
        """Close the socket."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no instances

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionError(f"The server hung up: {exc}"))

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        if not self._open:
            at = data.find(b"\r\n\r\n") + 4
            if at < 4:
                self._rest = data
                return
            if not data.startswith(b"HTTP/1.1 101"):
                raise ConnectionError(data[:200].decode("latin-1"))
            self._open = True
            self._tell(ord("!"), now)
        while end - at >= 2:
            head, length = 2, data[at + 1]
            if length >= 126:
                head = 4 if length == 126 else 10
                length = int.from_bytes(data[at + 2 : at + head])
            body = at + head
            if end - body < length or end < body:
                break
            if data[at] >= _CLOSE:
                if data[at] == _PING:
                    self._write(0x8A, data[body : body + length])
            else:
                self._frame(data, body, now)
            at = body + length
        self._rest = data[at:]

    def _frame(self, data: bytes, at: int, now: int) -> None:
        kind = data[at + _KIND]
        if kind == 0x64 and data.startswith(b"delta", at + _KIND):
            self.deltas += 1
            if self._first:
                self._first = False
                self.times = []
                stamp = data.index(b'"add":"', at) + 7
                token = data[stamp : data.index(b'"', stamp)]
                self.stamp = int(token) if token.isdigit() else now
                self.lag = now - self.stamp
            self.times.append(now)
        elif data.startswith(_WRONG, at + _KIND):
            self._fail(ConnectionError(data[at : at + 400].decode(errors="replace")))
        self._tell(kind, now)

    def _tell(self, kind: int, now: int) -> None:
        future = self._waiters.pop(kind, None)
        if future is not None and not future.done():
            future.set_result(now)

    def _fail(self, error: ConnectionError) -> None:
        for future in self._waiters.values():
            if not future.done():
                future.set_exception(error)
        self._waiters.clear()

    def _write(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = bytes((opcode, 0x80 | size))
        else:
            head = bytes((opcode, 0x80 | 126)) + size.to_bytes(2)
        self._transport.write(head + b"\0\0\0\0" + payload)
