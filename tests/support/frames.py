"""Frames as the tests make them, and payloads of messages."""

from __future__ import annotations

from gateway.protocol import frames
from gateway.protocol.codec import Codec
from gateway.protocol.messages import ServerMessage


def frame(message: str | bytes) -> bytes:
    """Return a text frame of a `str`, or a binary frame of `bytes`."""
    return frames.text(message.encode()) if isinstance(message, str) else frames.binary(message)


def encode(codec: Codec, message: ServerMessage) -> str | bytes | None:
    """Return the payload of the frame of a message, or None if the codec does not show it."""
    wire = codec.wire(message)
    return None if wire is None else frames.message(wire)
