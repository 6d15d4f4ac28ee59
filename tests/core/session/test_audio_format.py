"""The formats of audio, and how long a frame takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.session.audio_format import (
    LONGEST_PACKET_S,
    AudioFormat,
    chosen,
    packet_seconds,
)
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import Audio

CODECS, RATES = ("pcm_s16le", "opus"), (8_000, 48_000)


def test_a_frame_of_pcm_takes_as_long_as_its_samples() -> None:
    assert AudioFormat("pcm_s16le", 16_000).seconds(bytes(640)) == 0.02
    assert AudioFormat("pcm_s16le", 48_000).seconds(bytes(1_920)) == 0.02
    assert AudioFormat("pcm_s16le", 8_000).seconds(b"") == 0


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(ClientFault) as caught:
        AudioFormat("pcm_s16le", 16_000).seconds(bytes(641))
    assert caught.value.code is ErrorCode.AUDIO_BROKEN


@pytest.mark.parametrize(
    ("head", "seconds"),
    [
        ("00", 0.01),  # SILK, 10 ms
        ("18", 0.06),  # SILK, 60 ms
        ("60", 0.01),  # hybrid, 10 ms
        ("68", 0.02),
        ("80", 0.0025),  # CELT, 2.5 ms
        ("f8", 0.02),  # CELT, 20 ms
        ("f9", 0.04),  # two frames of equal size
        ("fa", 0.04),  # two frames
        ("fb06", 0.12),  # six frames
        ("fb86", 0.12),  # six frames of different sizes
    ],
)
def test_the_head_of_a_packet_of_opus_says_how_long_it_is(head: str, seconds: float) -> None:
    assert packet_seconds(bytes.fromhex(head)) == pytest.approx(seconds)
    assert AudioFormat("opus", 48_000).seconds(bytes.fromhex(head)) == pytest.approx(seconds)


@pytest.mark.parametrize("packet", ["", "fb", "fb00", "fb07", "1b03"])
def test_a_packet_that_rfc_6716_forbids_is_refused(packet: str) -> None:
    with pytest.raises(ClientFault) as caught:
        packet_seconds(bytes.fromhex(packet))
    assert caught.value.code is ErrorCode.AUDIO_BROKEN


@given(st.binary(max_size=40))
def test_any_packet_has_a_bounded_length_or_is_refused(packet: bytes) -> None:
    try:
        seconds = packet_seconds(packet)
    except ClientFault as fault:
        assert fault.code is ErrorCode.AUDIO_BROKEN
    else:
        assert 0 < seconds < LONGEST_PACKET_S + 0.001


def test_the_format_is_that_of_the_message() -> None:
    asked = Audio(codec="pcm_s16le", rate=44_100)
    assert chosen(asked, CODECS, RATES) == AudioFormat("pcm_s16le", 44_100)
    assert chosen(Audio(codec="opus", rate=1), CODECS, RATES) == AudioFormat("opus", 48_000)


@pytest.mark.parametrize(
    ("asked", "rates", "hint"),
    [
        (Audio(codec="mp3"), RATES, "It reads: pcm_s16le, opus."),
        (Audio(codec="pcm_s16le", rate=96_000), RATES, "Send 8000 to 48000"),
        (Audio(codec="pcm_s16le", rate=7_999), RATES, "Send 8000 to 48000"),
        (Audio(codec="pcm_s16le", rate=48_000), (16_000, 16_000), "Send 16000."),
    ],
)
def test_an_unknown_codec_or_rate_is_refused_with_what_there_is(
    asked: Audio, rates: tuple[int, int], hint: str
) -> None:
    with pytest.raises(ClientFault) as caught:
        chosen(asked, CODECS, rates)
    assert caught.value.code is ErrorCode.AUDIO_UNSUPPORTED
    assert (caught.value.hint or "").startswith(hint)
