"""Connections byte by byte, to send and leave unread as no library would."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
"""Request of a WebSocket handshake, with the path as its parameter."""


class Client:
    """A client's connection that reads only when it is told to."""

    def __init__(self, peer: socket.socket, port: int) -> None:
        self.peer = peer
        self.port = port
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.peer, data)

    async def read(self, until: bytes = b"") -> bytes:
        """Return all bytes until these, or until the end of the connection."""
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
    """Connect to a port of this machine.

    :param receive: bytes of the receive buffer; 0: the default of the kernel
    :param source: address to connect from
    """
    with socket.socket() as peer:
        peer.setblocking(False)
        peer.bind((source, 0))
        if receive:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
        yield Client(peer, port)
