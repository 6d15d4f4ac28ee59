"""Real speech, and noise, through voice detection, the speech stream and a real Whisper."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from benchmarks.speech import material
from benchmarks.speech.playback import Playback, play
from benchmarks.speech.score import final_delays, percentile, word_delays, word_errors
from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.spoken_utterance import Heard
from gateway.engines.recognition.voice import VoiceDetector
from gateway.engines.recognition.whisper import WhisperModel
from gateway.job import Recognised, RecognitionJob, Word
from tests.support.speech_audio import excerpt, model

SPOKEN = material.TWO_CITIES.partition(", it was the epoch")[0]


@cache
def whisper() -> WhisperModel:
    return WhisperModel(str(model()), device="cpu", compute_type="int8")


def recognise(job: RecognitionJob) -> Recognised:
    return whisper().recognise(job, lambda: True)


def stream() -> SpeechRecognition:
    return SpeechRecognition("s", ("en",))


def test_growing_speech_is_recognised_about_as_well_as_a_recording() -> None:
    audio = excerpt("two_cities", 0, 8.4)
    played = play(audio, recognise, stream(), VoiceDetector())
    errors, words = word_errors(SPOKEN, played.text)
    assert errors / words < 0.1
    alone = recognise(RecognitionJob(id="offline", audio=audio, langs=("en",), final=True))
    errors, words = word_errors(alone.text, played.text)
    assert errors / words < 0.1
    texts = [heard.text for _, heard in played.heard]
    assert len(texts) > 2 * len(played.finals)  # it grows


def test_silence_and_noise_are_never_heard_as_words() -> None:
    quiet, detector = stream(), VoiceDetector()
    for piece in material.noises(180):
        assert play(piece, recognise, quiet, detector).heard == []
    assert quiet.idle


def test_two_hours_of_speech_without_a_pause_need_no_more_memory_than_a_minute() -> None:
    endless = stream()
    most = 0
    for _ in range(24):
        decisions = endless.add_audio(bytes(1024 * 9375), [1.0] * 9375)  # five minutes
        if decisions.job is not None:
            endless.result(Recognised(words=(Word(" so", 0.0, 1.0),)))
        most = max(most, len(endless._audio._pcm))
    assert most <= endless.timing.backlog * 32_000 + 1024


def test_word_errors_count_replaced_lost_and_invented_words() -> None:
    assert word_errors("We meet again.", "we MEET again") == (0, 3)
    assert word_errors("we meet again", "we met") == (2, 3)
    assert word_errors("we", "we we all") == (2, 1)


def test_delays_are_from_the_end_of_a_word_to_the_text_that_has_it() -> None:
    words = (Word(" yes", 0.1, 0.5),)
    shown = Heard(utterance=1, text="yes", lang="en", t0=0.1, t1=0.5, final=False, words=words)
    final = replace(shown, final=True)
    played = Playback(2.0, heard=[(0.9, shown), (1.5, shown), (2.0, final)])
    assert word_delays(played, 1) == pytest.approx([0.4])
    assert word_delays(played, 2) == pytest.approx([1.0])
    assert final_delays(played) == pytest.approx([1.5])
    assert percentile([0.4], 0.5) == 0.4
    assert percentile([], 0.5) == 0.0
