"""Audio of a socket: which frames are accepted, and what a client is told."""

from __future__ import annotations

import msgspec
import pytest

from gateway.auth.permissions import Role
from gateway.errors import CloseCode
from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Ack, Delta, Final, ServerMessage, Source, Welcome
from gateway.protocol.notices import Error
from tests.support.heard import HandService, HandWorker, speaking
from tests.support.meeting import Meeting, Peer, meeting, one, only

HALF = bytes(16_000)
"""Half a second of PCM."""


def codes(events: list[ServerMessage]) -> list[str]:
    """Return the codes of the errors."""
    return [error.code for error in only(Error, events)]


# --- begin and end --------------------------------------------------------------------------------


def test_a_gateway_without_a_recogniser_says_so_and_reads_no_audio_as_messagepack() -> None:
    peer = Meeting().enter("de")
    assert codes(peer.send("audio", codec="opus")) == ["audio_unavailable"]
    assert codes(peer.send("chunk", data="")) == ["audio_off"]
    events = [event for _ in range(20) for event in peer.frame(b"\x81\xff")]
    assert events == [], "the client was told once, and is not closed for unreadable frames"


def test_the_welcome_says_what_audio_may_be_sent() -> None:
    room = Meeting()
    (welcome,) = room.enter("de", greeted=False).events()
    assert isinstance(welcome, Welcome) and welcome.audio is None
    room.speech = HandService(room)
    (welcome,) = room.enter("de", greeted=False).events()
    assert isinstance(welcome, Welcome) and welcome.audio is not None
    assert welcome.audio.codecs == ("pcm_s16le", "opus")


def test_audio_is_answered_with_its_format_and_languages() -> None:
    room = Meeting()
    room.speech = HandService(room)
    peer = room.enter("de")
    begun = one(AudioState, peer.send("audio", codec="opus", rate=1, ref="a"))
    assert (begun.codec, begun.rate, begun.from_, begun.seconds) == ("opus", 48_000, "en", 0.0)
    assert begun.ref == "a"
    begun = one(AudioState, peer.send("audio", codec="pcm_s16le", **{"from": "DE, en"}))
    assert (begun.codec, begun.rate, begun.from_) == ("pcm_s16le", 16_000, "de,en")


@pytest.mark.parametrize(
    ("audio", "code"),
    [
        ({"codec": "mp3"}, "audio_unsupported"),
        ({"codec": "pcm_s16le", "rate": 192_000}, "audio_unsupported"),
        ({"codec": "opus", "from": "tlh"}, "lang_unsupported"),
        ({"codec": "opus", "from": "fr"}, "lang_unsupported"),  # translated, not recognised
        ({"codec": "none"}, "audio_off"),
        ({"codec": 3}, "bad_frame"),
    ],
)
def test_audio_that_cannot_be_heard_is_refused_by_name(audio: dict[str, object], code: str) -> None:
    room = Meeting()
    room.speech = HandService(room)
    peer = room.enter("de")
    assert codes(peer.send("audio", **audio)) == [code]


def test_a_recogniser_that_is_not_ready_can_be_asked_again() -> None:
    room = Meeting()
    service = room.speech = HandService(room)
    service.ready = False
    peer = room.enter("de")
    assert codes(peer.send("audio", codec="opus")) == ["engine_unavailable"]
    assert codes(peer.frame(HALF)) == ["audio_off"]
    service.ready = True
    assert codes(peer.send("audio", codec="pcm_s16le")) == []
    assert peer.frame(HALF) == []


def test_a_reader_may_not_send_audio() -> None:
    room = Meeting()
    room.speech = HandService(room)
    peer = room.enter("de", role=Role.VIEW)
    assert codes(peer.send("audio", codec="opus")) == ["forbidden"]
    assert codes(peer.send("chunk", data="")) == ["forbidden"]


def test_the_recogniser_detects_among_all_its_languages_without_a_detector_of_text() -> None:
    room = Meeting()
    peer, worker = speaking(room, **{"from": "auto"})
    worker.speak(1.0)
    assert worker.job is not None and worker.job.langs == ("en", "de")


def test_a_recogniser_that_names_no_languages_may_be_asked_for_any() -> None:
    room = Meeting()
    room.speech = HandService(room, languages=())
    _, worker = speaking(room, **{"from": "fr"})
    worker.speak(1.0)
    assert worker.job is not None and worker.job.langs == ("fr",)


def test_the_end_is_answered_once_everything_was_heard() -> None:
    room = Meeting()
    peer, worker = speaking(room, "en")
    worker.speak(1.0)
    assert peer.send("audio", codec="none", ref="end") == []
    assert codes(peer.frame(HALF)) == ["audio_off"]
    worker.answer("hello there")
    events = peer.events()
    heard, state = one(HeardSpeech, events), one(AudioState, events)
    assert heard.final and heard.text == "hello there"
    assert (state.codec, state.ref) == ("none", "end") and state.seconds > 0.9
    assert events.index(heard) < events.index(state)
    assert worker.closed


def test_another_format_ends_the_audio_before_it() -> None:
    room = Meeting()
    peer, first = speaking(room)
    first.speak(1.0)
    peer.send("audio", codec="opus")
    assert isinstance(room.speech, HandService)
    second = room.speech.workers[-1]
    first.answer("hello")
    events = peer.events()
    assert one(HeardSpeech, events).final
    assert only(AudioState, events) == [], "nobody has asked for this end"
    second.utter("again")
    assert one(Source, peer.events()).id == "a2-1"


def test_of_many_changes_of_the_format_only_the_last_two_streams_are_heard() -> None:
    room = Meeting()
    peer, first = speaking(room)
    first.speak(1.0)
    peer.send("audio", codec="pcm_s16le")
    assert not first.closed
    peer.send("audio", codec="pcm_s16le")
    assert first.closed


def test_every_request_to_end_is_answered_although_the_stream_was_given_up() -> None:
    room = Meeting()
    peer, first = speaking(room)
    first.speak(1.0)
    peer.send("audio", codec="none", ref="first end")
    peer.send("audio", codec="pcm_s16le")
    assert isinstance(room.speech, HandService)
    (second,) = room.speech.workers[1:]
    second.speak(1.0)
    assert peer.send("audio", codec="none", ref="second end") == [] and first.closed
    second.answer("hello there")
    refs = [event.ref for event in only(AudioState, peer.events())]
    assert refs == ["first end", "second end"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_fault_of_the_gateway_answers_the_request_to_end_and_lets_the_client_go(
    asked: bool,
) -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.speak(1.0)
    peer.send("audio", codec="none", ref="end") if asked else None
    peer.send("bye")
    worker.stream.abandon(room.now)
    events = peer.events()
    error = one(Error, events)
    assert (error.code, error.ref) == ("internal", "end" if asked else None)
    assert peer.session.outbox.closing is CloseCode.DONE


def test_a_client_without_a_pace_is_held_back_for_what_is_accepted() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    audio = peer.session.audio
    assert audio is not None and audio.delay(room.now) == 0.0
    for _ in range(8):
        peer.frame(HALF)
    assert audio.delay(room.now) == pytest.approx((4.0 - 2.5) / 8.0)
    worker.waiting = 2.6
    room.wait(10.0)
    assert audio.delay(room.now) == 0.1, "it is not decoded"
    worker.waiting = 0.0
    assert audio.delay(room.now) == 0.0
    worker.late = True
    peer.send("audio", codec="opus", **{"from": "fr"})
    assert audio.delay(room.now) == 0.1, "the rest is heard before new audio"
    worker.drain()
    assert audio.delay(room.now) == 0.0, "audio is refused, and counts for nothing"
    for _ in range(200):
        peer.frame(HALF)
    assert audio.delay(room.now) == 0.0


def test_a_client_without_a_pace_waits_for_the_recogniser_only_while_it_works() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    audio = peer.session.audio
    assert audio is not None
    for _ in range(102):
        peer.frame(HALF)
        worker.speak(0.5)
    assert worker.job is not None and audio.delay(room.now) == 0.1
    worker.job = None
    assert audio.delay(room.now) == 0.0, "without more audio nothing would ever be heard"


# --- frames ---------------------------------------------------------------------------------------


def test_binary_frames_are_audio_for_json_and_plain_sockets() -> None:
    for codec in (Codec.JSON, Codec.PLAIN):
        room = Meeting()
        service = room.speech = HandService(room)
        peer = room.enter("de", codec=codec)
        peer.session.receive('{"type":"audio","codec":"pcm_s16le"}', room.now)
        peer.session.receive(HALF, room.now)
        assert service.workers[0].frames == [HALF]


def test_messagepack_sockets_send_audio_in_messages() -> None:
    room = Meeting()
    service = room.speech = HandService(room)
    peer = room.enter("de", codec=Codec.MSGPACK)
    peer.send("audio", codec="pcm_s16le")
    assert peer.frame(msgspec.msgpack.encode({"type": "chunk", "data": HALF})) == []
    assert service.workers[0].frames == [HALF]


def test_json_sockets_may_send_audio_in_base64() -> None:
    peer, worker = speaking(Meeting())
    assert peer.send("chunk", data="AAECAw==") == []
    assert worker.frames == [b"\x00\x01\x02\x03"]
    assert codes(peer.send("chunk", data="no base64!")) == ["bad_frame"]


def test_audio_does_not_count_as_frames() -> None:
    room, _ = meeting(rate=1.0, burst=3)
    peer, worker = speaking(room)
    for _ in range(50):
        assert peer.frame(bytes(640)) == []
        assert peer.send("chunk", data="AAAAAA==") == []
    assert len(worker.frames) == 100


def test_a_burst_of_an_hour_is_dropped_with_one_error_and_bounded() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    events = [event for _ in range(7_200) for event in peer.frame(HALF)]
    (error,) = only(Error, events)
    assert (error.code, error.retry, error.fatal) == ("audio_too_fast", True, False)
    assert error.retry_ms is not None and 0 < error.retry_ms <= 1_000
    assert len(worker.frames) == 20, "ten seconds"
    room.wait(1.0)
    assert peer.frame(HALF) == [], "time has passed, so it is accepted again"
    room.wait(-0.0)
    events = [event for _ in range(100) for event in peer.frame(HALF)]
    assert codes(events) == ["audio_too_fast"]


def test_the_smallest_frames_count_as_two_milliseconds() -> None:
    peer, worker = speaking(Meeting())
    events = [event for _ in range(6_000) for event in peer.frame(b"")]
    assert codes(events) == ["audio_too_fast"]
    assert 4_990 < len(worker.frames) < 5_010


def test_frames_are_dropped_while_the_decoder_is_late() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.late = True
    for _ in range(21):
        peer.frame(HALF)
        room.wait(0.5)
    (error,) = only(Error, peer.frame(HALF))
    assert (error.code, error.retry_ms) == ("audio_too_fast", 1_000)
    worker.waiting = 0.0
    assert peer.frame(HALF) == []


def test_frames_are_dropped_while_those_that_wait_take_too_much_memory() -> None:
    peer, worker = speaking(Meeting())
    worker.held = 160_000 * 10
    assert peer.frame(b"") == []
    worker.held += 1
    assert codes(peer.frame(b"")) == ["audio_too_fast"]


def test_broken_frames_are_named_once_and_dropped() -> None:
    peer, worker = speaking(Meeting())
    events = peer.frame(bytes(641)) + peer.frame(bytes(641))
    assert codes(events) == ["audio_broken"]
    assert worker.frames == []
    worker.stream.broken(peer.meeting.now)
    assert codes(peer.events()) == ["audio_broken"]


# --- captions ------------------------------------------------------------------------------------


def heard_by(peer: Peer, worker: HandWorker, text: str) -> list[ServerMessage]:
    worker.utter(text)
    return peer.events()


def test_readers_get_captions_of_speech_as_of_typed_text() -> None:
    room = Meeting()
    peer, worker = speaking(room, "en")
    reader = room.enter("de")
    worker.speak(1.2)
    worker.answer("one two three")
    one(Delta, peer.events())
    room.finish(room.job("de"), "eins zwei drei")
    assert one(Delta, reader.events()).lang == "de"
    worker.hush()
    while worker.job is not None:
        worker.answer("one two three")
    events = peer.events()
    source = one(Source, events)
    assert (source.text, source.lang) == ("one two three", "en")
    assert source.t0 is not None and source.t1 is not None and source.t0 < source.t1
    assert one(Final, events).by == "same"
    assert one(Ack, events).id == source.id
    room.finish(room.job("de"), "eins zwei drei")
    final = one(Final, reader.events())
    assert (final.t0, final.t1) == (source.t0, source.t1)
