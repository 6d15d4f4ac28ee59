"""A connection byte by byte, for what no library would send, read or leave unread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
"""Of a client that does only what its test says."""


class Client:
    """A connection that does what it is told, and reads nothing of itself."""

    def __init__(self, peer: socket.socket, port: int) -> None:
        self.peer = peer
        self.port = port
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.peer, data)

    async def read(self, until: bytes = b"") -> bytes:
        """What comes until these bytes have come, or the other side has ended."""
        got = b""
        while not until or until not in got:
            try:
                data = await self._loop.sock_recv(self.peer, 65_536)
            except ConnectionResetError:
                return got + b"[reset]"
            if not data:
                return got + b"[end]"
            got += data
        return got


@contextlib.asynccontextmanager
async def dial(port: int, receive: int = 0, source: str = "127.0.0.1") -> AsyncIterator[Client]:
    """Connect; ``receive`` is the size of the buffer of what it has not read."""
    with socket.socket() as peer:
        peer.setblocking(False)
        peer.bind((source, 0))
        if receive:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
        yield Client(peer, port)
