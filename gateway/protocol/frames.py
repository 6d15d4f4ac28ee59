"""Frames as they stand on the wire: RFC 6455, section 5.2, as far as a server writes it.

Owns: the head of an unmasked, unfragmented data frame, put before a payload and taken off again.
Must not know: messages, sockets.

A frame is put together once and written to many sockets as it is.
"""

from __future__ import annotations

TEXT, BINARY = 0x81, 0x82
"""The first byte of a whole message: FIN, and the opcode."""


def text(payload: bytes) -> bytes:
    """A text frame around UTF-8."""
    size = len(payload)
    return (SHORT[size] if size < 126 else _head(TEXT, size)) + payload


def binary(payload: bytes) -> bytes:
    """A binary frame."""
    size = len(payload)
    return (_BINARY[size] if size < 126 else _head(BINARY, size)) + payload


def frame(message: str | bytes) -> bytes:
    """`str` as a text frame, `bytes` as a binary one."""
    return text(message.encode()) if isinstance(message, str) else binary(message)


def message(wire: bytes) -> str | bytes:
    """What `frame` was made of."""
    payload = wire[offset(wire) :]
    return payload.decode() if wire[0] == TEXT else payload


def offset(wire: bytes) -> int:
    """Where the payload of a frame begins: the bytes of its head."""
    size = len(wire)
    return 2 if size < 128 else 4 if size < 65_540 else 10


def _head(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 65_536:
        return bytes((first, 126)) + size.to_bytes(2)
    return bytes((first, 127)) + size.to_bytes(8)


SHORT = tuple(_head(TEXT, size) for size in range(126))
"""The heads of short text frames, by the length of the payload."""
_BINARY = tuple(_head(BINARY, size) for size in range(126))
