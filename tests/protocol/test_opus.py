"""The length of a packet of Opus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.audio import LONGEST_S, packet_seconds


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        ("00", 0.01),  # SILK, 10 ms
        ("18", 0.06),  # SILK, 60 ms
        ("19", 0.12),  # SILK, two frames of 60 ms
        ("60", 0.01),  # hybrid, 10 ms
        ("62", 0.02),  # hybrid, two frames of 10 ms
        ("68", 0.02),
        ("80", 0.0025),  # CELT, 2.5 ms
        ("f8", 0.02),  # CELT, 20 ms
        ("f9", 0.04),  # two frames of equal size
        ("fa", 0.04),  # two frames
        ("e304", 0.01),  # four frames of 2.5 ms
        ("fb06", 0.12),  # six frames
        ("fb86", 0.12),  # six frames of different sizes
        ("fb86" + 6 * 1_277 * "00", 0.12),  # the largest ones
    ],
)
def test_the_head_of_a_packet_says_how_long_it_is(head: str, seconds: float) -> None:
    assert packet_seconds(bytes.fromhex(head)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        ("", "is not empty"),
        ("fb", "ends before its number of frames"),
        ("fb00", "cannot have 0 frames of 20 ms"),
        ("fb07", "cannot have 7 frames of 20 ms"),
        ("1b03", "cannot have 3 frames of 60 ms"),
        ("80" + 65_535 * "00", "with 1 frames of 2.5 ms cannot have 65536 bytes"),
        ("fb06" + (6 * 1_277 + 1) * "00", "with 6 frames of 20 ms cannot have 7665 bytes"),
    ],
)
def test_a_packet_that_rfc_6716_forbids_is_none(packet: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        packet_seconds(bytes.fromhex(packet))


@given(st.binary(max_size=40))
def test_any_packet_has_a_bounded_length_or_is_none(packet: bytes) -> None:
    try:
        seconds = packet_seconds(packet)
    except ValueError:
        return
    assert 0 < seconds < LONGEST_S + 0.001
