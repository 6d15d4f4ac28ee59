"""The end of a room: what is under way when it stops, is given up, or loses a speaker."""

from __future__ import annotations

from gateway.protocol.messages import Cancelled
from tests.support.meeting import Meeting, meeting, only
from tests.support.typed import current


def test_a_room_is_settled_while_nothing_is_under_way_in_it() -> None:
    room, peer = meeting("de")
    assert current(room.room.settled)
    peer.say("hello", final=False)
    assert not current(room.room.settled)
    peer.say("hello you", id="u1")
    assert not current(room.room.settled)
    room.finish_all()
    assert current(room.room.settled)
    room.enter("fr")
    assert not room.room.settled, "the language is new to the room: what was said is made in it"
    room.finish_all()
    assert room.room.settled


def test_a_stop_cancels_what_is_under_way_visibly_and_leaves_what_has_ended() -> None:
    room, peer = meeting("de")
    peer.say("one", id="a")
    room.finish_all()
    peer.send("want", langs=["de", "fr"])  # `a` is made in French, too
    peer.say("two", id="b")
    peer.say("three", id="c", final=False)
    peer.events()
    room.room.stop(room.now)
    room.act()
    cancelled = only(Cancelled, peer.events())
    assert sorted((event.id, event.lang) for event in cancelled) == [
        ("a", "fr"),
        ("b", None),
        ("c", None),
    ]
    assert room.room.settled and not room.jobs
    room.room.stop(room.now)
    assert peer.events() == []


def test_a_corrected_original_keeps_its_old_translation_in_a_stop() -> None:
    room, peer = meeting("de")
    peer.say("one", id="a")
    room.finish_all()
    peer.send("edit", id="a", lang="en", text="won")
    peer.events()
    room.room.stop(room.now)
    room.act()
    assert peer.events() == [] and room.room.settled


def test_a_member_that_says_no_more_cancels_its_own_growing_utterances_alone() -> None:
    room = Meeting()
    peer, other = room.enter("de"), room.enter("de")
    peer.say("we met", id="mine", final=False)
    other.say("we met", id="theirs", final=False)
    peer.events()
    room.room.finish_speaking(peer.session.member, room.now)
    assert [event.id for event in only(Cancelled, peer.events())] == ["mine"]


def test_a_room_that_is_given_up_stops_what_is_being_made_in_it() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hello")
    room.room.end()
    room.act()
    assert len(room.aborted) == 2
    assert not room.room.captioner.jobs


def test_a_room_that_is_given_up_stops_what_was_being_made_in_it() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hello")
    room.finish(room.job("de"), "hallo")
    peer.send("edit", id="u1", lang="en", text="goodbye")
    room.room.end()
    room.act()
    assert not room.jobs and not room.room.captioner.jobs
