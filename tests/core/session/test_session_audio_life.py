"""The speech of a socket that ends, is lost or is cancelled."""

from __future__ import annotations

from gateway.errors import CloseCode
from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.messages import Cancelled, Final, Settings, Source
from gateway.protocol.notices import Stats
from tests.core.session.test_session_audio import HALF, codes
from tests.support.heard import HandService, HandWorker, speaking
from tests.support.meeting import Meeting, Peer, one, only


def spoken(*langs: str) -> tuple[Meeting, Peer, HandWorker]:
    """Return a meeting, a member who has just spoken for a second, and the worker of its stream."""
    room = Meeting()
    peer, worker = speaking(room, *langs)
    worker.speak(1.0)
    return room, peer, worker


def test_bye_waits_until_everything_was_heard_and_translated() -> None:
    room, peer, worker = spoken("de")
    assert peer.send("bye", ref="b") == []
    assert codes(peer.say("hello")) == ["busy"]
    assert codes(peer.send("audio", codec="opus")) == ["busy"]
    assert peer.send("bye") == []
    worker.answer("see you")
    one(Source, peer.events())
    assert peer.session.outbox.closing is None
    room.finish(room.job("de"), "bis bald")
    events = peer.events()
    assert one(Final, events).text == "bis bald"
    assert one(Stats, events).ref == "b"
    assert peer.session.outbox.closing is CloseCode.DONE


def test_a_lost_socket_makes_final_what_was_heard() -> None:
    room, peer, worker = spoken()
    reader = room.enter("de")
    worker.answer("so far so")
    peer.cut()
    assert worker.closed
    assert one(Source, reader.events()).text == "so far so"
    room.finish(room.job("de"), "bis hier")
    assert one(Final, reader.events()).text == "bis hier"
    worker.stream.decoded(HALF, [], room.now)
    worker.stream.drained(room.now)
    worker.stream.answered(None, room.now)
    assert reader.events() == []


def test_a_client_that_leaves_cancels_what_it_says() -> None:
    room, peer, worker = spoken()
    reader = room.enter("de")
    worker.answer("never mind")
    reader.events()
    peer.close()
    assert worker.closed
    one(Cancelled, reader.events())
    peer.session.receive(HALF, room.now)
    assert worker.frames == []


def test_a_draining_gateway_hears_the_rest_and_takes_no_new_audio() -> None:
    room, peer, worker = spoken()
    peer.session.drain()
    assert codes(peer.frame(HALF)) == ["audio_off"]
    assert codes(peer.send("audio", codec="opus")) == ["busy"]
    assert peer.session.hearing
    worker.answer("the end")
    assert one(Source, peer.events()).text == "the end"
    assert not peer.session.hearing


def test_a_room_that_was_released_is_not_changed_by_speech() -> None:
    room, peer, worker = spoken()
    peer.session.drain()
    peer.session.dismiss()
    seq = room.room.log.seq
    worker.answer("after that")
    assert room.room.log.seq == seq


def test_cancel_drops_what_is_being_said_and_the_next_speech_is_another_utterance() -> None:
    room, peer, worker = spoken("en")
    worker.answer("forget this")
    heard = one(HeardSpeech, peer.events())
    worker.speak(1.0)
    assert worker.job is not None
    one(Cancelled, peer.send("cancel", id=heard.id))
    assert worker.aborted == 1
    worker.hush()
    worker.utter("this counts")
    events = peer.events()
    assert [source.text for source in only(Source, events)] == ["this counts"]
    assert {heard.id for heard in only(HeardSpeech, events)} == {"a1-2"}


def test_to_cancel_one_language_or_another_utterance_goes_on_listening() -> None:
    room, peer, worker = spoken("de")
    worker.answer("go on")
    id = one(HeardSpeech, peer.events()).id
    peer.send("cancel", id=id, langs=["de"])
    peer.send("cancel", id="other")
    worker.hush()
    while worker.job is not None:
        worker.answer("go on then")
    assert one(Source, peer.events()).text == "go on then"


def test_a_set_of_the_language_counts_for_the_next_audio() -> None:
    room = Meeting()
    room.speech = HandService(room)
    peer = room.enter()
    one(Settings, peer.send("set", **{"from": "de"}))
    assert one(AudioState, peer.send("audio", codec="opus")).from_ == "de"
