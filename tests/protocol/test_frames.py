"""Heads of frames, at every length at which their form changes."""

from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode

from gateway.protocol import frames
from tests.support.frames import frame

SIZES = (0, 1, 125, 126, 127, 128, 65_535, 65_536, 65_540, 70_000)


@pytest.mark.parametrize("size", SIZES)
def test_frames_equal_those_of_the_websockets_library(size: int) -> None:
    payload = b"x" * size
    for made, opcode in ((frames.text, Opcode.TEXT), (frames.binary, Opcode.BINARY)):
        assert made(payload) == Frame(opcode, payload).serialize(mask=False)


@pytest.mark.parametrize("size", SIZES)
def test_offset_returns_the_length_of_the_head(size: int) -> None:
    wire = frames.binary(b"x" * size)
    assert frames.offset(wire) == len(wire) - size


@pytest.mark.parametrize(
    "message", ["", "Grüße, \u4e16\u754c", *map(bytes, SIZES), *("x" * size for size in SIZES)]
)
def test_message_is_the_inverse_of_frame(message: str | bytes) -> None:
    assert frames.message(frame(message)) == message
