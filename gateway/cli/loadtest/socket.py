"""A WebSocket client with little overhead: an asyncio protocol without task or queue.

Owns: the handshake, TLS, pings, slow reading, the close code. Must not know: what messages mean,
when anything is sent.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from gateway.cli.loadtest.model import frames
from gateway.cli.loadtest.model.frames import BINARY, CLOSE, PING, PONG, TEXT, Frames

HEAD = 65_536
"""Largest answer to a handshake, in bytes."""
RECEIVE = 8_192
"""SO_RCVBUF of a slow reader, in bytes. Data in a larger kernel buffer would not wait in the
gateway.
"""
UNSENT = 1_048_576
"""Bytes that may wait to be sent. Beyond that the gateway does not read, and nothing more is sent.
"""
TICK_S = 0.25
"""Seconds between two reads of a slow reader."""
LOST = 1006
"""Close code if no close frame came (RFC 6455, section 7.1.5)."""


class SocketAddress:
    """The address of a socket. ``url`` already has the query.

    Raises `ValueError` for an invalid port.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if tls else 80)
        self.place = parts.netloc.rpartition("@")[2]
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.tls = tls


def tls(url: str) -> ssl.SSLContext | None:
    """Return the TLS context for an address, or None. All sockets of a process share it."""
    return ssl.create_default_context() if url.startswith(("wss:", "https:")) else None


class Socket(asyncio.Protocol):
    """A WebSocket that is open once `opened` is done.

    :param heard: called with the payload of each message
    :param gone: called once with close code and reason when the socket has ended, unless `close`
        was called before
    :param slow: bytes to read a second after `read_slowly`; 0: no limit
    """

    def __init__(
        self,
        address: SocketAddress,
        wire: str,
        bearer: str | None,
        heard: Callable[[bytes], None],
        gone: Callable[[int, str], None],
        slow: int = 0,
    ) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.open = False
        self._address = address
        self._opcode = BINARY if wire == "gw.v1.msgpack" else TEXT
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._request = frames.request(address.place, address.target, self._key, wire, bearer)
        self.heard = heard
        self._on_closed = gone
        self._frames = Frames()
        self._head = b""
        self._ended: tuple[int, str] | None = None
        self._closing = False
        self._pace = slow
        self._slow = 0
        self._credit = 0.0
        self._again: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    async def connect(self) -> None:
        """Open the socket. Raises `OSError` (`ConnectionError`, `TimeoutError` among them)."""
        loop = asyncio.get_running_loop()
        address = self._address
        try:
            # A slow reader needs its small buffer before it connects: TCP fixes the window then.
            if self._pace:
                await loop.create_connection(
                    lambda: self,
                    sock=await _narrow(loop, address),
                    ssl=address.tls,
                    server_hostname=address.host if address.tls else None,
                )
            else:
                await loop.create_connection(
                    lambda: self, address.host, address.port, ssl=address.tls
                )
        except BaseException:
            # Also when cancelled: nothing will complete the future any more.
            self.opened.cancel()
            raise
        await self.opened

    @property
    def full(self) -> bool:
        """True if the gateway has left so much unread that nothing more can be sent."""
        return self._transport.get_write_buffer_size() > UNSENT

    def send(self, payload: bytes) -> None:
        """Send one message at once."""
        self._transport.write(frames.frame(self._opcode, payload, os.urandom(4)))

    def read_slowly(self) -> None:
        """Read slowly from now on, if the socket was made with ``slow``."""
        self._slow = self._pace

    def read_fast(self) -> None:
        """Read without a limit from now on."""
        self._slow = 0
        if self._again is not None:
            self._again.cancel()
            self._again = None
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """Send a close frame and close, without waiting for the answer."""
        self._closing = True
        if self._again is not None:
            self._again.cancel()
        if self.open:
            self.open = False
            self._transport.write(frames.frame(CLOSE, (1000).to_bytes(2), os.urandom(4)))
            self._transport.close()

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no instances
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        # Bytes are counted before they are handled, as a slow network would delay them.
        if self._slow:
            self._pause(len(data))
        try:
            if not self.open and self._ended is None:
                data = self._shaken(data)
            for opcode, payload in self._frames.feed(data):
                if opcode < CLOSE:
                    self.heard(payload)
                elif opcode == PING:
                    self._transport.write(frames.frame(PONG, payload, os.urandom(4)))
                elif opcode == CLOSE:
                    self._ended = frames.closed(payload)
                    self.open = False
                    self._transport.write(frames.frame(CLOSE, payload[:2], os.urandom(4)))
                    self._transport.close()
        except ValueError as exc:
            self._fail(ConnectionError(f"This is no gateway: {exc}"))
        except ConnectionError as exc:
            self._fail(exc)

    def eof_received(self) -> None:
        pass  # the transport closes

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._again is not None:
            self._again.cancel()
        if not self.opened.done():
            why = self._ended or (LOST, "")
            self.opened.set_exception(
                ConnectionError(f"The gateway hung up ({why[0]}). {why[1]}".strip())
            )
        elif not self._closing and not self.opened.cancelled():
            self._on_closed(*(self._ended or (LOST, str(exc or ""))))

    # --- parts ----------------------------------------------------------------------------------

    def _shaken(self, data: bytes) -> bytes:
        """Return the bytes behind the answer to the handshake, none while it is incomplete."""
        self._head += data
        head, found, rest = self._head.partition(b"\r\n\r\n")
        if not found:
            if len(self._head) > HEAD:
                raise ConnectionError("This is no gateway: its answer to the handshake has no end.")
            return b""
        frames.answered(head, self._key)
        if self.opened.done():  # the wait for it has timed out
            self._transport.abort()
            return b""
        self.open = True
        self.opened.set_result(None)
        return rest

    def _fail(self, exc: ConnectionError) -> None:
        self.open = False
        if not self.opened.done():
            self.opened.set_exception(exc)
            self._closing = True
        self._transport.abort()

    def _pause(self, count: int) -> None:
        """Stop reading until the bytes read so far have taken their time."""
        self._credit -= count
        if self._credit <= 0 and self._again is None:
            self._transport.pause_reading()
            self._again = asyncio.get_running_loop().call_later(TICK_S, self._resume)

    def _resume(self) -> None:
        self._again = None
        self._credit = min(float(self._slow), self._credit + self._slow * TICK_S)
        if self._transport.is_closing():
            return
        if self._credit > 0:
            self._transport.resume_reading()
        else:
            self._again = asyncio.get_running_loop().call_later(TICK_S, self._resume)


async def _narrow(loop: asyncio.AbstractEventLoop, address: SocketAddress) -> socket.socket:
    """Return a connected socket with a small receive window. Raises `OSError`."""
    family, kind, protocol, _, place = (
        await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    )[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
        await loop.sock_connect(made, place)
    except BaseException:
        made.close()
        raise
    return made
