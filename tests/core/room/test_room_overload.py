"""A room whose engine is overloaded."""

from __future__ import annotations

from gateway.errors import CloseCode, ErrorCode
from gateway.job import Priority
from gateway.limits import Limits
from gateway.protocol.messages import Final
from gateway.protocol.notices import Degraded
from tests.support.meeting import Meeting, Peer, assert_error, names, one, only


def overloaded(capacity: int = 1) -> tuple[Meeting, Peer]:
    room = Meeting(capacity=capacity, limits=Limits())
    peer = room.enter("de")
    return room, peer


def burden(room: Meeting) -> None:
    """Overload the engine of a room that is served."""
    load = room.scheduler.load
    assert room.scheduler.admit("meeting", "", 1, room.now) == 0
    assert room.scheduler.admit("other", "", 1, room.now) == 0
    load.begun("x", 10, 0.0, room.now - 9, alone=True)
    load.made("x", room.now)
    room.scheduler.poll(room.now)
    room.wait(1)
    load.begun("y", 10, 30.0, room.now - 9, alone=False)
    load.made("y", room.now)
    for job in room.scheduler.poll(room.now):
        room.room.captioner.failed(job.id, ErrorCode.BUSY, room.now)
    assert load.overloaded


def test_only_complete_utterances_are_translated_during_an_overload() -> None:
    room, peer = overloaded()
    peer.say("we met", id="u", final=False)
    burden(room)
    room.finish(room.job("de"), "wir trafen uns")
    peer.events()
    assert names(peer.say("we met in", id="u", final=False)) == ["ack"]
    assert not room.jobs and not room.scheduler.queued
    peer.say("we met in March", id="u")
    assert room.job("de").priority is Priority.FINAL
    room.finish_all()
    assert one(Final, peer.events()).id == "u"


def test_partials_that_wait_are_taken_back_and_made_again_when_it_is_over() -> None:
    room, peer = overloaded()
    peer.say("first", id="a")
    peer.say("we met", id="u", final=False)
    assert room.scheduler.queued == 1
    burden(room)
    assert room.scheduler.queued == 0
    room.finish_all()
    room.scheduler.load.overloaded = False
    peer.say("we met in", id="u", final=False)
    assert room.job("de").text == "we met in"


def test_readers_of_the_speakers_own_language_see_it_grow_all_the_same() -> None:
    room, peer = overloaded()
    reader = room.enter("en")
    burden(room)
    peer.say("we met", id="u", final=False)
    assert reader.screen["u", "en"].draft == "" and "delta" in names(reader.events())


def test_a_revision_waits_for_a_place_in_the_queue_as_a_new_utterance_does() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de", "fr")
    peer.say("we met", id="u", final=False)
    peer.send("want", langs=["de", "fr", "es", "en"])
    assert_error(peer.say("we met in March", id="u")[-1:], ErrorCode.BUSY)


def test_a_room_without_a_seat_is_told_when_to_try_again() -> None:
    room, peer = overloaded()
    burden(room)
    room.scheduler.load.vacate("meeting")
    room.scheduler.admit("third", "", 1, room.now)
    error = assert_error(peer.say("good morning"), ErrorCode.BUSY)
    assert error.retry_ms == 5000


def test_an_utterance_that_needs_no_engine_is_never_refused() -> None:
    room, peer = overloaded()
    peer.send("want", langs=["en"])
    burden(room)
    room.scheduler.load.vacate("meeting")
    room.scheduler.admit("third", "", 1, room.now)
    room.wait(40)
    peer.events()
    assert only(Final, peer.say("good morning"))


def test_a_speaker_may_finish_what_was_begun() -> None:
    room, peer = overloaded()
    peer.say("we met", id="u", final=False)
    burden(room)
    room.scheduler.load.vacate("meeting")
    room.scheduler.admit("third", "", 1, room.now)
    peer.say("we met in March", id="u")
    room.finish_all()
    assert one(Final, peer.events()).id == "u"


def test_the_state_of_the_engine_shows_whether_a_reader_is_too_slow() -> None:
    room, peer = overloaded()
    peer.session.receive('{"type":"say","text":"hello"}', room.now)
    room.room.degrade(Degraded(partials="off"), room.now + room.limits.outbox_s + 1)
    assert peer.session.outbox.closing is CloseCode.TOO_SLOW


def test_everybody_is_told_and_so_is_who_comes_later_until_it_is_over() -> None:
    room, peer = overloaded()
    room.room.degrade(Degraded(partials="off"), room.now)
    assert one(Degraded, peer.events()) == Degraded(partials="off")
    assert names(room.enter("de", greeted=False).events())[:2] == ["welcome", "degraded"]
    room.room.degrade(Degraded(partials="on"), room.now)
    assert one(Degraded, peer.events()) == Degraded(partials="on")
    assert "degraded" not in names(room.enter("de", greeted=False).events())


def test_jobs_are_the_tenants_whose_room_it_is() -> None:
    room, peer = overloaded()
    room.room.captioner.builder.tenant = "acme"
    peer.say("good morning")
    assert (room.job("de").tenant, room.room.captioner.builder.tenant) == ("acme", "acme")
