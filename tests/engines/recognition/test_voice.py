"""Detection of voice, with the real model."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.core.recognition.speech_timing import FRAME_BYTES
from gateway.engines.recognition import voice
from gateway.engines.recognition.voice import VoiceDetector
from gateway.errors import EngineFault
from tests.support.speech_audio import excerpt


def frames(start: float, end: float) -> bytes:
    """Return the whole frames between two seconds of a recording."""
    audio = excerpt("two_cities", start, end)
    return audio[: len(audio) // FRAME_BYTES * FRAME_BYTES]


def test_speech_has_voice_and_silence_and_noise_have_none() -> None:
    speech = VoiceDetector().probabilities(frames(0.5, 4))
    assert sum(value > 0.5 for value in speech) > 0.6 * len(speech)
    chance = np.random.default_rng(1)
    noise = (chance.standard_normal(16_000 * 4) * 3_000).astype("<i2").tobytes()
    for quiet in (bytes(32_000 * 4), noise):
        assert max(VoiceDetector().probabilities(quiet)) < 0.5


def test_the_probabilities_do_not_depend_on_the_pieces_in_which_the_audio_comes() -> None:
    audio = frames(0, 3)
    whole = VoiceDetector().probabilities(audio)
    assert len(whole) == len(audio) // FRAME_BYTES
    detector, pieces, start = VoiceDetector(), list[float](), 0
    for length in (FRAME_BYTES, 0, 3 * FRAME_BYTES, 85 * FRAME_BYTES):
        pieces += detector.probabilities(audio[start : start + length])
        start += length
    assert pieces == pytest.approx(whole[: len(pieces)], abs=1e-4)
    assert len(pieces) == start // FRAME_BYTES


def test_two_streams_have_a_state_each() -> None:
    one, two, alone = VoiceDetector(), VoiceDetector(), VoiceDetector()
    first, second = frames(1, 2), frames(2, 3)
    one.probabilities(first)
    alone.probabilities(first)
    two.probabilities(bytes(31 * FRAME_BYTES))
    assert one.probabilities(second) == alone.probabilities(second)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineFault, match=r"pip install 'caption-gateway\[speech\]'"):
        voice.load()


def test_load_makes_the_first_stream_ready() -> None:
    voice.load()
    assert VoiceDetector().probabilities(b"") == []
