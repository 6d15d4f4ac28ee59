"""Decoding of the audio of clients to PCM of 16 kHz."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from gateway.core.session.audio_format import AudioFormat
from gateway.job import SAMPLE_RATE
from gateway.server.audio import decoding
from gateway.server.audio.decoding import decoder, silence
from tests.support.hearing import packets, pieces, tone


def decoded(format: AudioFormat, frames: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    made = decoder(format)
    pcm = b"".join(made.decode(frame) or b"" for frame in frames) + made.finish()
    return np.frombuffer(pcm, "<i2")


def pitch(samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> float:
    """Return the strongest frequency in Hertz."""
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax()) * SAMPLE_RATE / len(samples)


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
def test_pcm_of_every_usual_rate_keeps_its_length_and_pitch(rate: int) -> None:
    samples = decoded(AudioFormat("pcm_s16le", rate), list(pieces(tone(1.0, rate), rate=rate)))
    assert len(samples) == pytest.approx(SAMPLE_RATE, abs=40)
    assert pitch(samples) == pytest.approx(220, abs=2)


def test_frames_of_any_size_give_the_same_audio() -> None:
    pcm = tone(0.5, 48_000)
    small = decoded(AudioFormat("pcm_s16le", 48_000), list(pieces(pcm, 0.0026, 48_000)))
    large = decoded(AudioFormat("pcm_s16le", 48_000), [b"", pcm, b""])
    assert np.abs(small.astype(int) - large.astype(int)).max() <= 2


def test_clipped_audio_stays_clipped_audio() -> None:
    square = np.where(np.arange(48_000) // 100 % 2, 32_767, -32_768).astype("<i2").tobytes()
    samples = decoded(AudioFormat("pcm_s16le", 48_000), [square])
    assert len(samples) == pytest.approx(SAMPLE_RATE, abs=40)


def test_packets_of_opus_are_decoded() -> None:
    samples = decoded(AudioFormat("opus", 48_000), packets(tone(1.0, 48_000)))
    assert len(samples) == pytest.approx(SAMPLE_RATE, abs=700)
    assert pitch(samples[2_000:14_000]) == pytest.approx(220, abs=2)


def test_a_broken_packet_is_told_and_the_next_ones_are_decoded() -> None:
    made, good = decoder(AudioFormat("opus", 48_000)), packets(tone(0.5, 48_000))
    assert made.decode(b"\xfe\xfb\xff\x00") is None, "a frame is longer than the packet"
    later = b"".join(made.decode(packet) or b"" for packet in good)
    assert len(later) > 8_000


def test_without_pyav_only_pcm_of_16_khz_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for cached in (decoding.codecs, decoding.rates):
        cached.cache_clear()
    try:
        assert decoding.codecs() == ("pcm_s16le",)
        assert decoding.rates() == (16_000, 16_000)
    finally:
        monkeypatch.undo()
        for cached in (decoding.codecs, decoding.rates):
            cached.cache_clear()
    assert decoding.codecs() == ("pcm_s16le", "opus")


def test_silence_has_whole_samples() -> None:
    assert len(silence(0.02)) == 640
    assert len(silence(0.00003)) % 2 == 0
