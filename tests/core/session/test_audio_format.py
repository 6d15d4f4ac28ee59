"""The formats of audio, and how long a frame takes."""

from __future__ import annotations

import pytest

from gateway.core.session.audio_format import AudioFormat, chosen
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


def test_a_frame_of_opus_is_one_packet() -> None:
    assert AudioFormat("opus", 48_000).seconds(b"\xf9") == pytest.approx(0.04)
    with pytest.raises(ClientFault, match="not empty") as caught:
        AudioFormat("opus", 48_000).seconds(b"")
    assert caught.value.code is ErrorCode.AUDIO_BROKEN


def test_the_format_is_that_of_the_message() -> None:
    asked = Audio(codec="pcm_s16le", rate=44_100)
    assert chosen(asked, CODECS, RATES) == AudioFormat("pcm_s16le", 44_100)
    assert chosen(Audio(codec="opus", rate=1), CODECS, RATES) == AudioFormat("opus", 48_000)
    for rate in RATES:
        assert chosen(Audio(codec="pcm_s16le", rate=rate), CODECS, RATES).rate == rate


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
