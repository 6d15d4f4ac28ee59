"""WebSocket data frames as a server writes them: RFC 6455, section 5.2.

Owns: the head of an unmasked, unfragmented data frame, added to a payload and removed again.
Must not know: messages, sockets.
"""

from __future__ import annotations

TEXT, BINARY = 0x81, 0x82
"""First byte of an unfragmented message: the FIN bit and the opcode."""


def text(payload: bytes) -> bytes:
    """Return a text frame with ``payload``, which is UTF-8."""
    size = len(payload)
    return (SHORT[size] if size < 126 else _head(TEXT, size)) + payload


def binary(payload: bytes) -> bytes:
    """Return a binary frame with ``payload``."""
    size = len(payload)
    return (_BINARY[size] if size < 126 else _head(BINARY, size)) + payload


def message(wire: bytes) -> str | bytes:
    """Return the payload of a frame."""
    payload = wire[offset(wire) :]
    return payload.decode() if wire[0] == TEXT else payload


def offset(wire: bytes) -> int:
    """Return the length of the head of a frame, which is where its payload begins."""
    size = len(wire)
    # The heads have 2, 4 or 10 bytes. A payload of 126 to 65,535 bytes has a head of 4.
    return 2 if size < 128 else 4 if size < 65_540 else 10


def _head(first: int, size: int) -> bytes:
    """Return the head of a frame: ``first`` is its first byte, ``size`` that of the payload."""
    if size < 126:
        return bytes((first, size))
    if size < 65_536:
        return bytes((first, 126)) + size.to_bytes(2)
    return bytes((first, 127)) + size.to_bytes(8)


SHORT = tuple(_head(TEXT, size) for size in range(126))
_BINARY = tuple(_head(BINARY, size) for size in range(126))
"""Heads of short text and binary frames, by the length of the payload."""
