"""A client on a blocking socket, byte by byte, that leaves no garbage of its own.

Libraries and asyncio leave cycles of references behind a broken connection. A test that counts the
gateway's cycles in the same process cannot use them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

DEADLINE_S = 10.0
TEXT, BINARY, CLOSE = 0x81, 0x82, 0x88
UPGRADE = {
    "upgrade": "websocket",
    "connection": "upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def frame_bytes(data: str | bytes, head: int = 0) -> bytes:
    """Return a masked frame, of text unless the data are bytes."""
    head = head or (BINARY if isinstance(data, bytes) else TEXT)
    data = data.encode() if isinstance(data, str) else data
    if len(data) < 126:
        length = bytes([0x80 | len(data)])
    elif len(data) < 65_536:
        length = b"\xfe" + len(data).to_bytes(2)
    else:
        length = b"\xff" + len(data).to_bytes(8)
    return bytes([head]) + length + bytes(4) + data


class BlockingClient:
    """A connection to a port of this machine.

    :param receive: bytes of the receive buffer; 0: the default of the kernel
    """

    def __init__(self, port: int, receive: int = 0) -> None:
        self._port = port
        self._got = b""
        self.peer = socket.socket()
        if receive:
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.peer.settimeout(DEADLINE_S)
        self.peer.connect(("127.0.0.1", port))

    def send(self, data: bytes) -> None:
        self.peer.sendall(data)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | dict[str, Any] = b"",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a request."""
        fields = {"host": "x"}
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            fields["content-type"] = "application/json"
        fields |= {"content-length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    def upgrade(self, path: str, headers: Mapping[str, str] | None = None) -> None:
        """Ask for a WebSocket and read the head of the answer."""
        self.request("GET", path, headers=UPGRADE | dict(headers or {}))
        self.until(b"\r\n\r\n")

    def frame(self, data: str | bytes | dict[str, Any], head: int = 0) -> None:
        """Send a masked frame, of text unless the data are bytes."""
        if isinstance(data, dict):
            data = json.dumps(data)
        self.send(frame_bytes(data, head))

    def until(self, what: bytes) -> bytes:
        """Read on until these bytes, and return everything up to them."""
        while what not in self._got:
            data = self.peer.recv(65_536)
            assert data, f"{what!r} did not come, but {self._got[-500:]!r}"
            self._got += data
        end = self._got.index(what) + len(what)
        got, self._got = self._got[:end], self._got[end:]
        return got

    def end(self) -> bytes:
        """Return all bytes until the gateway ends the connection."""
        with contextlib.suppress(ConnectionResetError):
            while data := self.peer.recv(65_536):
                self._got += data
        self.peer.close()
        return self._got

    def close(self, code: int = 1000) -> None:
        """Close the WebSocket as a browser does."""
        self.frame(code.to_bytes(2, "big"), CLOSE)
        self.end()

    def hang_up(self) -> None:
        """Close the connection without a word."""
        self.peer.close()

    def abort(self) -> None:
        """Reset the connection."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()
