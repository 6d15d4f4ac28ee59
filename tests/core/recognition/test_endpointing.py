"""The beginning, the pauses and the end of speech."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.endpointing import (
    VOICE_OFF,
    VOICE_ON,
    Endpointer,
    VoiceState,
)
from gateway.core.recognition.speech_timing import SpeechTiming, frames, seconds

TIMING = SpeechTiming()


def changes(probabilities: list[float]) -> list[tuple[int, VoiceState]]:
    """Return the states that follow, with the number of the frame that led to each."""
    endpointer, found = Endpointer(TIMING), []
    for frame, probability in enumerate(probabilities):
        before = endpointer.state
        told = endpointer.add(frame, endpointer.is_voice(probability))
        changed = endpointer.state is not before
        assert told is (changed and VoiceState.SILENT in (before, endpointer.state))
        if changed:
            found.append((frame, endpointer.state))
    return found


def states(probabilities: list[float]) -> list[VoiceState]:
    return [state for _, state in changes(probabilities)]


def test_speech_begins_with_its_third_frame_and_ends_after_a_pause() -> None:
    pause = frames(TIMING.pause)
    found = changes([0.0] * 10 + [0.9] * 20 + [0.1] * pause)
    settle = frames(TIMING.settle)
    assert found == [
        (12, VoiceState.SPEAKING),
        (29 + settle, VoiceState.PAUSING),
        (29 + pause, VoiceState.SILENT),
    ]


def test_speech_after_a_short_silence_resumes() -> None:
    silence = frames(TIMING.settle)
    speaking, pausing = VoiceState.SPEAKING, VoiceState.PAUSING
    assert states([0.9] * 9 + [0.1] * silence + [0.9]) == [speaking, pausing, speaking]


def test_single_frames_of_voice_are_clicks() -> None:
    assert changes([0.9, 0.0, 0.0] * 30) == []


def test_weak_voice_continues_speech_but_does_not_begin_it() -> None:
    assert changes([0.4] * 50) == []
    assert states([0.9] * 5 + [0.4] * 50) == [VoiceState.SPEAKING]


def test_a_time_has_at_least_one_frame() -> None:
    assert frames(0.0) == 1 and frames(0.64) == 20
    assert seconds(20) == 0.64


@given(st.lists(st.floats(0, 1)))
def test_speech_begins_before_it_pauses(probabilities: list[float]) -> None:
    before = VoiceState.SILENT
    for state in states(probabilities):
        assert (before, state) != (VoiceState.SILENT, VoiceState.PAUSING)
        before = state


def test_every_beginning_of_speech_takes_three_frames() -> None:
    end = [0.1] * frames(TIMING.pause)
    begins = [
        frame for frame, _ in changes([0.9] * 3 + end + [0.9] * 3) if frame in (2, 5 + len(end))
    ]
    assert begins == [2, 5 + len(end)]


def test_a_frame_without_voice_takes_back_one_frame_of_a_beginning() -> None:
    assert changes([0.9, 0.9, 0.1, 0.9]) == []
    assert changes([0.9, 0.9, 0.1, 0.9, 0.9]) == [(4, VoiceState.SPEAKING)]


def test_a_probability_at_a_threshold_is_voice() -> None:
    assert states([VOICE_ON] * 3) == [VoiceState.SPEAKING]
    assert states([0.9] * 3 + [VOICE_OFF] * 50) == [VoiceState.SPEAKING]
