"""Audio that is still needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.recognition.audio_buffer import AudioBuffer
from gateway.core.recognition.speech_timing import FRAME_BYTES


@given(
    st.lists(st.booleans(), max_size=30),
    st.lists(st.integers(-2, 40), max_size=3),
    st.integers(-2, 40),
    st.integers(-2, 40),
)
def test_frames_keep_their_numbers_whatever_was_dropped(
    voice: list[bool], drops: list[int], start: int, end: int
) -> None:
    buffer = AudioBuffer()
    for n, voiced in enumerate(voice):
        buffer.append(bytes([n]) * FRAME_BYTES, voiced)
    for before in drops:
        buffer.drop(before)
    first = min(max([0, *drops]), len(voice))
    assert (buffer.begin, buffer.end) == (first, len(voice))
    kept = [n for n in range(start, end) if first <= n < len(voice)]
    assert buffer.pcm(start, end) == b"".join(bytes([n]) * FRAME_BYTES for n in kept)
    assert buffer.voiced(start, end) == sum(voice[n] for n in kept)
    last = max((n + 1 for n in kept if voice[n]), default=start)
    assert buffer.voice_end(start, end) == last


def test_the_last_voice_is_looked_for_between_two_frames_only() -> None:
    buffer = AudioBuffer()
    for voiced in (True, True, False, True, False, True):
        buffer.append(bytes(FRAME_BYTES), voiced)
    buffer.drop(1)
    assert [buffer.voice_end(1, end) for end in (6, 5, 3)] == [6, 4, 2]
    assert buffer.voice_end(2, 3) == 2  # it has none
