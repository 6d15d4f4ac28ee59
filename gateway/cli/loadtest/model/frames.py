"""WebSocket frames (RFC 6455), as far as a load test needs them.

Owns: masking, lengths, joining fragments, checking the handshake. Must not know: sockets, the
meaning of payloads. Masks are passed in.

A library would do more work for each frame than the gateway does to make it, and the client would
be measured instead.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MOST = 16_777_216
"""Largest message in bytes. No message of a gateway is near it."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """Return a complete client message, masked with these 4 bytes (RFC 6455, section 5.3)."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8)
    # One XOR of two large integers is much faster than a loop over bytes.
    long = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload) ^ int.from_bytes(long)
    return head + mask + masked.to_bytes(size)


class Frames:
    """A decoder for the messages of a server."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun: tuple[int, bytes] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (opcode, payload) of each complete message. The caller must exhaust it.

        Raises `ValueError` for a violation of the protocol.
        """
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        # Two bytes hold opcode and short length; longer lengths are read once they are complete.
        while end - at >= 2:
            first, size = data[at], data[at + 1]
            body = at + 2
            # RFC 6455, section 5.1: a server must not mask.
            if size & 0x80:
                raise ValueError("A frame that is masked.")
            if size >= 126:
                body = at + (4 if size == 126 else 10)
                if end < body:
                    break
                size = int.from_bytes(data[at + 2 : body])
                if size > MOST:
                    raise ValueError(f"A frame of {size} bytes.")
            if end - body < size:
                break
            at = body + size
            whole = self._joined(first, data[body:at])
            if whole is not None:
                yield whole
        self._rest = data[at:]

    def _joined(self, first: int, payload: bytes) -> tuple[int, bytes] | None:
        opcode, last = first & 15, first & 0x80
        # Control frames may come between the fragments of a message, and are never fragmented.
        if opcode >= CLOSE:
            return opcode, payload
        if opcode == 0:
            if self._begun is None:
                raise ValueError("A frame that continues nothing.")
            opcode, payload = self._begun[0], self._begun[1] + payload
            if len(payload) > MOST:
                raise ValueError(f"A message of over {MOST} bytes.")
        if last:
            self._begun = None
            return opcode, payload
        self._begun = opcode, payload
        return None


def closed(payload: bytes) -> tuple[int, str]:
    """Return code and reason of a close frame; 1005 if it has no code."""
    if len(payload) < 2:
        return 1005, ""
    return int.from_bytes(payload[:2]), payload[2:].decode(errors="replace")


def accept(key: str) -> str:
    """Return the ``Sec-WebSocket-Accept`` for a ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def request(host: str, target: str, key: str, wire: str, bearer: str | None) -> bytes:
    """Return the request of the handshake.

    :param wire: sub-protocol
    :param bearer: API key of the gateway

    Raises `ValueError` for a key that no header can carry.
    """
    lines = [
        f"GET {target} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        f"Sec-WebSocket-Protocol: {wire}",
    ]
    if bearer is not None:
        # A line end in a key would begin another header.
        if not bearer.isascii() or not bearer.isprintable():
            raise ValueError("The key has letters that no key has.")
        lines.append(f"Authorization: Bearer {bearer}")
    return "\r\n".join([*lines, "", ""]).encode()


def answered(head: bytes, key: str) -> None:
    """Check the answer to the handshake. Raises `ConnectionError` with a sentence."""
    first, *rest = head.decode("latin-1").split("\r\n")
    if first.split(" ", 2)[1:2] != ["101"]:
        raise ConnectionError(f"There is no gateway, or it is full: it answered {first!r}.")
    fields = {name.strip().lower(): value.strip() for name, _, value in
              (line.partition(":") for line in rest)}  # fmt: skip
    if fields.get("sec-websocket-accept") != accept(key):
        raise ConnectionError("This is no gateway: it does not know WebSockets.")
