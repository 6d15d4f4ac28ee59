"""Audio that may be lost with the connection."""

from __future__ import annotations

import pytest

from gateway.client.state.audio import AudioBacklog, PcmPieces, opus_seconds, pcm_seconds
from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.messages import Source

SECOND = bytes(20)
"""A second of audio with ten samples a second."""


def backlog(seconds: int = 5, t0: float = 0.0) -> AudioBacklog:
    made = AudioBacklog(pcm_seconds(10), t0)
    for _ in range(seconds):
        made.add(SECOND)
    return made


def state(seconds: float, codec: str = "pcm_s16le") -> AudioState:
    return AudioState(codec=codec, rate=10, from_="en", seconds=seconds)


def heard(id: str, *, final: bool = False) -> HeardSpeech:
    return HeardSpeech(id=id, rev=1, lang="en", text="x", t0=0, t1=1, final=final)


def source(id: str, t1: float | None) -> Source:
    return Source(seq=1, id=id, rev=1, ord=1, lang="en", text="x", t1=t1)


def test_what_is_settled_is_not_sent_again() -> None:
    audio = backlog(t0=100.0)
    audio.note(state(2.5))
    assert (audio.clock, len(audio.begin())) == (102.0, 3)


def test_reports_on_another_socket_count_from_where_it_has_begun() -> None:
    audio = backlog()
    audio.note(state(2.0))
    assert len(audio.begin()) == 3
    audio.note(state(1.0))
    assert (audio.clock, len(audio.begin())) == (3.0, 2)


def test_the_answer_to_the_end_says_nothing_about_pieces() -> None:
    audio = backlog()
    audio.note(state(5.0, "none"))
    assert len(audio.begin()) == 5


def test_a_source_of_this_speaker_settles_the_audio_until_its_end() -> None:
    audio = backlog(t0=100.0)
    audio.note(heard("a-1"))
    audio.note(source("a-1", 101.0))
    audio.note(heard("a-1", final=True))
    audio.note(source("a-1.2", 102.2))
    assert audio.clock == 102.0


def test_a_source_of_others_or_without_times_settles_nothing() -> None:
    audio = backlog()
    audio.note(source("b-1", 3.0))
    audio.note(heard("a-1", final=True))
    audio.note(heard("a-2"))
    audio.note(source("a-2", None))
    assert audio.clock == 0.0


def test_pcm_is_cut_into_whole_samples_wherever_its_source_cuts_it() -> None:
    pieces = PcmPieces(100)  # of twenty bytes
    audio = bytes(range(50))
    assert [*pieces.cut(audio[:1]), *pieces.cut(audio[1:])] == [
        audio[:20],
        audio[20:40],
        audio[40:],
    ]
    assert list(pieces.cut(b"x")) == []


def test_what_is_no_packet_of_opus_counts_as_no_time_and_is_left_to_the_gateway() -> None:
    assert opus_seconds(b"\xf8") == pytest.approx(0.02)
    assert [opus_seconds(packet) for packet in (b"", b"\xe3")] == [0.0, 0.0]
