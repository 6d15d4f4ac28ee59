"""The beginning, the pauses and the end of speech."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.endpointing import (
    VOICE_OFF,
    VOICE_ON,
    VOICE_TRANSITIONS,
    Endpointer,
    VoiceEvent,
    VoiceState,
)
from gateway.core.recognition.timing import SpeechTiming, frames, seconds

TIMING = SpeechTiming()


def events(probabilities: list[float]) -> list[tuple[int, VoiceEvent]]:
    """Return the changes, with the number of the frame that made each."""
    endpointer, found = Endpointer(TIMING), []
    for frame, probability in enumerate(probabilities):
        event = endpointer.add(frame, endpointer.is_voice(probability))
        if event is not None:
            found.append((frame, event))
    return found


def test_speech_begins_with_its_third_frame_and_ends_after_a_pause() -> None:
    pause = frames(TIMING.pause)
    found = events([0.0] * 10 + [0.9] * 20 + [0.1] * pause)
    settle = frames(TIMING.settle)
    assert found == [
        (12, VoiceEvent.BEGIN),
        (29 + settle, VoiceEvent.PAUSE),
        (29 + pause, VoiceEvent.END),
    ]


def test_speech_after_a_short_silence_resumes() -> None:
    silence = frames(TIMING.settle)
    found = events([0.9] * 9 + [0.1] * silence + [0.9])
    assert [event for _, event in found] == [VoiceEvent.BEGIN, VoiceEvent.PAUSE, VoiceEvent.RESUME]


def test_single_frames_of_voice_are_clicks() -> None:
    assert events([0.9, 0.0, 0.0] * 30) == []


def test_weak_voice_continues_speech_but_does_not_begin_it() -> None:
    assert events([0.4] * 50) == []
    assert [event for _, event in events([0.9] * 5 + [0.4] * 50)] == [VoiceEvent.BEGIN]


def test_a_time_has_at_least_one_frame() -> None:
    assert frames(0.0) == 1 and frames(0.64) == 20
    assert seconds(20) == 0.64


def test_every_state_has_a_row() -> None:
    assert set(VOICE_TRANSITIONS) == set(VoiceState)


@given(st.lists(st.floats(0, 1)))
def test_any_probabilities_make_legal_changes_only(probabilities: list[float]) -> None:
    found = [event for _, event in events(probabilities)]
    state = VoiceState.SILENT
    for event in found:
        state = VOICE_TRANSITIONS[state][event]


def test_every_beginning_of_speech_takes_three_frames() -> None:
    end = [0.1] * frames(TIMING.pause)
    begins = [
        frame for frame, event in events([0.9] * 3 + end + [0.9] * 3) if frame in (2, 5 + len(end))
    ]
    assert begins == [2, 5 + len(end)]


def test_a_frame_without_voice_takes_back_one_frame_of_a_beginning() -> None:
    assert events([0.9, 0.9, 0.1, 0.9]) == []
    assert events([0.9, 0.9, 0.1, 0.9, 0.9]) == [(4, VoiceEvent.BEGIN)]


def test_a_probability_at_a_threshold_is_voice() -> None:
    assert [event for _, event in events([VOICE_ON] * 3)] == [VoiceEvent.BEGIN]
    assert [event for _, event in events([0.9] * 3 + [VOICE_OFF] * 50)] == [VoiceEvent.BEGIN]
