"""The text heard in the audio of a socket: utterances, times, and texts that the room refuses."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import Permissions
from gateway.core.recognition.spoken_utterance import Decisions, Heard
from gateway.errors import ErrorCode
from gateway.job import Recognised
from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.messages import Cancel, Cancelled, Final, Source
from gateway.protocol.notices import Error
from tests.core.session.test_session_audio import HALF, codes
from tests.support.heard import HandService, speaking
from tests.support.meeting import Meeting, one, only


def test_every_utterance_has_an_id_and_rising_revisions() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.speak(0.8)
    worker.answer("one two")
    worker.speak(0.8)
    worker.answer("one two three four")
    worker.hush()
    while worker.job is not None:
        worker.answer("one two three four.")
    worker.utter("five six")
    heard = only(HeardSpeech, peer.events())
    assert [(one.id, one.rev) for one in heard[:3]] == [("a1-1", 1), ("a1-1", 2), ("a1-1", 3)]
    assert [one.text for one in heard if one.final] == ["one two three four.", "five six"]
    assert heard[-1].id == "a1-2"


def test_times_are_those_of_the_speakers_own_clock() -> None:
    room = Meeting()
    peer, worker = speaking(room, t0=100.0)
    worker.hush(2.0)
    worker.utter("hello there")
    source = one(Source, peer.events())
    assert source.t0 is not None and source.t1 is not None
    assert source.t0 == pytest.approx(101.7, abs=0.1), "a little audio before the voice is heard"
    assert source.t1 == pytest.approx(102.5, abs=0.1)


def test_a_client_is_told_at_once_of_speech_that_was_not_recognised_in_time() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.speak(1.0)
    worker.answer("we meet")
    peer.events()
    worker.speak(80.0)  # nobody answers
    lost = [event.lost for event in only(AudioState, peer.events())]
    assert lost == [pytest.approx(60.0, abs=2.0)]
    assert worker.lost == pytest.approx(lost[0], abs=0.001)
    peer.events()
    worker.answer("too late")
    worker.hush()
    while worker.job is not None:
        worker.answer("the rest")
    assert all(event.lost == lost[0] for event in only(AudioState, peer.events()))
    assert worker.lost == pytest.approx(lost[0], abs=0.001), "it is counted once"


def test_time_passes_over_audio_that_was_dropped() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    for _ in range(24):  # of twelve seconds at once two are dropped
        peer.frame(HALF)
    worker.hush(3.0)
    worker.utter("one two")
    first = one(Source, peer.events())
    peer.frame(HALF)
    worker.hush(7.0)
    worker.utter("three four")
    second = one(Source, peer.events())
    assert first.t0 == pytest.approx(2.7, abs=0.1)
    assert second.t0 == pytest.approx(3.0 + 0.8 + 1.0 + 7.0 - 0.3 + 2.0, abs=0.2)
    worker.hush(20.0)
    assert len(worker.stream._offsets) == 1, "older ones are forgotten"


def test_the_client_is_told_every_five_seconds_how_much_is_settled() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    for _ in range(4):
        worker.hush(3.0)
    states = only(AudioState, peer.events())
    assert [state.seconds for state in states] == [5.952, 11.904]
    assert {(state.codec, state.ref) for state in states} == {("pcm_s16le", None)}


def test_the_recogniser_is_told_topic_names_and_terms() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    peer.send("set", context="a stand-up", glossary={"Kubernetes": "K8s"}, speaker="Ada")
    worker.speak(1.0)
    assert worker.job is not None
    assert (worker.job.prompt, worker.job.hotwords) == ("a stand-up", ("Ada", "Kubernetes"))
    assert (worker.job.id, worker.job.room) == ("a1-1", "meeting")


def test_a_recognition_uses_the_share_of_the_speakers_tenant() -> None:
    room = Meeting()
    service = room.speech = HandService(room)
    peer = room.enter()
    peer.session.permissions = Permissions(tenant="acme")
    peer.send("audio", codec="pcm_s16le")
    service.workers[0].speak(1.0)
    job = service.workers[0].job
    assert job is not None and job.tenant == "acme"


def test_an_utterance_that_turns_out_to_be_nothing_is_cancelled() -> None:
    room = Meeting()
    peer, worker = speaking(room, "en")
    worker.speak(1.0)
    worker.answer("thank you")
    id = one(HeardSpeech, peer.events()).id
    worker.hush()
    while worker.job is not None:
        worker.answer("")
    events = peer.events()
    assert one(Cancelled, events).id == id
    assert only(Source, events) == []


def test_a_failed_recognition_is_tried_again_and_loses_only_itself() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.speak(1.0)
    worker.fail()
    worker.speak(1.0)
    worker.answer("back again")
    assert one(HeardSpeech, peer.events()).text == "back again"


def test_a_final_text_that_the_room_is_too_busy_for_is_said_again() -> None:
    room = Meeting(capacity=0)
    peer, worker = speaking(room, "de")
    room.scheduler.depth = 0
    worker.utter("not lost")
    assert codes(peer.events()) == []
    worker.stream.finish(("ref",))
    worker.stream.retry(room.now)
    assert only(AudioState, peer.events()) == [], "it still has a text to say"
    room.scheduler.depth = 100
    worker.stream.retry(room.now)
    events = peer.events()
    assert one(Source, events).text == "not lost"
    assert one(AudioState, events).ref == "ref"


def test_of_the_final_texts_that_wait_for_a_busy_room_the_newest_are_refused() -> None:
    room = Meeting(capacity=0)
    peer, worker = speaking(room, "de")
    room.scheduler.depth = 0
    for n in range(10):
        worker.utter(f"text {n}")
    events = peer.events()
    assert codes(events) == ["busy", "busy"]
    assert [error.id for error in only(Error, events)] == ["a1-9", "a1-10"]
    peer.cut()
    assert only(Source, room.log) == []


def test_an_utterance_that_somebody_has_cancelled_is_heard_no_further() -> None:
    room = Meeting()
    peer, worker = speaking(room, "en")
    worker.speak(1.0)
    worker.answer("not this")
    id = one(HeardSpeech, peer.events()).id
    room.room.cancel(peer.session.member, Cancel(id=id), room.now)
    worker.hush()
    while worker.job is not None:
        worker.answer("not this one")
    events = peer.events()
    assert codes(events) == [] and only(Source, events) == []


def test_speech_in_a_language_that_cannot_be_translated_is_refused_at_its_end() -> None:
    room = Meeting()
    room.speech = HandService(room, languages=())
    peer, worker = speaking(room, **{"from": "auto"})
    worker.speak(1.0)
    worker.answer("hej", lang="sv")
    worker.answer("hej", lang="sv") if worker.job else None
    assert codes(peer.events()) == []
    worker.hush()
    while worker.job is not None:
        worker.answer("hej", lang="sv")
    events = peer.events()
    assert codes(events) == ["lang_unsupported"]
    assert one(Error, events).id == "a1-1"


def test_each_utterance_has_the_language_that_it_was_spoken_in() -> None:
    room = Meeting()
    peer, worker = speaking(room, **{"from": "en,de-AT"})
    worker.utter("hello all")
    worker.utter("guten tag", lang="de")
    assert [source.lang for source in only(Source, peer.events())] == ["en", "de-AT"]


def test_speech_of_an_unknown_language_is_in_the_one_that_its_text_is_detected_in() -> None:
    room = Meeting()
    room.speech = HandService(room)
    peer = room.enter(detect=lambda text, among: "de" if "guten" in text else "en")
    peer.send("audio", codec="pcm_s16le", **{"from": "auto"})
    worker = room.speech.workers[0]
    worker.utter("guten tag", lang="")
    assert one(Source, peer.events()).lang == "de"


def test_the_delay_of_a_final_text_counts_from_the_arrival_of_its_last_word() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    for _ in range(2):
        peer.frame(HALF)
        worker.speak(0.5)
    worker.answer("one two")
    peer.frame(HALF)
    peer.frame(HALF)
    worker.hush()
    while worker.job is not None:
        worker.answer("one two")
    ((words, delay),) = worker.measured
    assert words == 2
    assert 0.9 < delay < 1.6


def test_hours_of_silence_leave_nothing_in_memory() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    for _ in range(1_000):
        peer.frame(HALF)
        worker.hush(0.512)
    assert len(worker.stream._arrivals) < 200
    assert worker.job is None
    assert {type(event) for event in peer.events()} <= {AudioState, Error}


def test_a_result_that_comes_after_the_end_is_ignored() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.speak(1.0)
    peer.cut()
    worker.stream.answered(Recognised(), room.now)
    assert only(Source, room.log) == []


def test_text_without_a_visible_character_is_nothing() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    for final in (False, True):
        nothing = Heard(utterance=1, text="\u200b", lang="en", t0=0.0, t1=1.0, final=final)
        worker.stream._act(Decisions(heard=(nothing,)), room.now)
    assert peer.events() == []


def test_too_long_a_text_is_refused_by_name() -> None:
    room = Meeting(limits=Meeting().limits.__class__(text=5))
    peer, worker = speaking(room)
    worker.utter("much too long")
    error = one(Error, peer.events())
    assert (error.code, error.id) == (ErrorCode.TOO_LONG, "a1-1")
    assert only(Final, room.log) == []


def test_after_a_fault_of_the_gateway_the_client_may_begin_again() -> None:
    room = Meeting()
    peer, worker = speaking(room)
    worker.stream.abandon(room.now)
    assert worker.closed
    assert codes(peer.events()) == ["internal"]
    assert codes(peer.frame(HALF)) == ["audio_off"]
    assert codes(peer.send("audio", codec="pcm_s16le")) == []
    assert peer.frame(HALF) == []


def test_growing_speech_in_a_language_that_cannot_be_translated_is_not_shown() -> None:
    room = Meeting()
    peer, worker = speaking(room, **{"from": "auto"})
    heard = Heard(utterance=1, text="hej", lang="sv", t0=0.0, t1=1.0, final=False)
    worker.stream._act(Decisions(heard=(heard,)), room.now)
    assert peer.events() == []


def test_a_growing_text_that_the_room_refuses_is_not_kept() -> None:
    room = Meeting(capacity=0)
    peer, worker = speaking(room, "de")
    room.scheduler.depth = 0
    heard = Heard(utterance=1, text="good", lang="en", t0=0.0, t1=1.0, final=False)
    worker.stream._act(Decisions(heard=(heard,)), room.now)
    assert codes(peer.events()) == []
    room.scheduler.depth = 100
    worker.stream.retry(room.now)
    assert only(Source, peer.events()) == []
    heard = Heard(utterance=1, text="good day", lang="en", t0=0.0, t1=1.0, final=True)
    worker.stream._act(Decisions(heard=(heard,)), room.now)
    assert one(Source, peer.events()).rev == 2, "as the speaker was shown"


def test_to_cancel_what_was_said_before_does_not_stop_what_is_being_said() -> None:
    room = Meeting()
    peer, worker = speaking(room, "en")
    worker.utter("one two")
    worker.speak(1.0)
    peer.send("cancel", id="a1-1")
    assert worker.aborted == 0
    worker.answer("three four")
    assert only(HeardSpeech, peer.events())[-1].text == "three four"


def test_audio_whose_arrival_is_unknown_has_no_delay() -> None:
    peer, worker = speaking(Meeting())
    worker.utter("one two")
    assert worker.measured == [(2, 0.0)]
