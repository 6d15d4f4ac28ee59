"""A speaker whose socket is lost, and whose utterances go on for a time."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.streaming.options import StreamingOptions
from gateway.limits import Limits
from gateway.protocol.messages import Ack, Cancelled, Final, Source
from tests.support.meeting import Meeting, Peer, meeting, names, one, only
from tests.support.typed import current


def cancels(room: Meeting) -> list[str]:
    return [event.id for event in only(Cancelled, room.log)]


def test_utterances_go_on_when_their_speakers_socket_is_lost() -> None:
    room, peer = meeting("de")
    peer.say("one")
    peer.cut()
    assert room.aborted == [] and list(room.room.attendance.away) == [peer.session.id]
    room.finish_all()
    assert one(Final, room.log).text == "[de] one"


def test_utterances_are_cancelled_if_their_speaker_does_not_come_back_in_time() -> None:
    room, peer = meeting("de", grace_s=10.0)
    reader = room.enter("de")
    peer.say("one", id="x")
    peer.say("two", id="y", final=False)
    peer.cut()
    room.wait(9.9)
    assert cancels(room) == [] and room.aborted == []
    room.wait(0.2)
    assert cancels(room) == ["x", "y"] and len(room.aborted) == 2
    assert not room.room.attendance.away and not room.room.captioner.jobs
    assert [event.id for event in only(Cancelled, reader.events())] == ["x", "y"]


def test_a_speaker_who_leaves_by_itself_is_not_waited_for() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x")
    peer.close()
    assert cancels(room) == ["x"] and not room.room.attendance.away
    other = room.enter("de")
    other.say("two", id="y", final=False)
    other.say("three", id="z")
    other.send("bye")
    other.cut()
    assert cancels(room) == ["x", "y", "z"] and not room.room.attendance.away


def test_a_member_without_utterances_in_flight_is_not_away() -> None:
    room, peer = meeting("de")
    peer.say("one")
    room.finish_all()
    peer.cut()
    assert not room.room.attendance.away and room.room.empty_since == room.now


def test_a_member_that_came_back_may_repeat_an_utterance_that_was_not_acknowledged() -> None:
    room, peer = meeting("de")
    peer.say("we met", id="x", rev=1, final=False)
    peer.cut()
    again = room.back(peer)
    room.wait(60.0)
    assert cancels(room) == []
    assert one(Ack, again.say("we met", id="x", rev=1, final=False)).rev == 1
    assert names(again.say("we met again", id="x", rev=2))[:2] == ["ack", "source"]
    assert again.session.member.in_flight.utterances == {"x"}
    room.finish_all()
    assert one(Final, again.events()).text == "[de] we met again"
    assert again.session.member.in_flight.utterances == set()
    assert one(Ack, again.say("we met again", id="x", rev=2)).rev == 2
    assert names(again.send("retract", id="x")) == ["retracted"]


def test_an_utterance_that_ended_meanwhile_is_not_in_flight_when_its_speaker_returns() -> None:
    room, peer = meeting("de", inflight=1)
    peer.say("one", id="x")
    peer.cut()
    room.finish_all()
    again = room.back(peer)
    assert again.session.member.in_flight.utterances == set()
    assert names(again.say("two"))[-2:] == ["ack", "source"]


def test_a_room_is_empty_when_what_it_waited_for_has_ended() -> None:
    room, peer = meeting("de", grace_s=10.0)
    peer.say("one")
    peer.cut()
    room.finish_all()
    assert not room.room.attendance.away and room.room.settled
    room.wait(10.0)
    assert room.room.empty_since == room.now


def test_another_speaker_cannot_take_over_what_it_said() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x", final=False)
    peer.cut()
    other = room.enter("de")
    assert names(other.say("one", id="x", rev=1, final=False)) == ["error"]
    assert names(room.enter(role=Role.MODERATE).send("cancel", id="x"))[-1] == "cancelled"
    assert room.back(peer).session.member.in_flight.utterances == set()


def test_the_socket_of_before_may_still_be_there() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x")
    peer.session.close(room.now, lost=True)
    again = room.back(peer, 0)
    assert [event.id for event in only(Source, again.events())] == ["x"]
    peer.session.close(room.now)
    assert again.session.member.in_flight.utterances == {"x"} and room.aborted == []
    assert list(room.room.subscribers.members) == [peer.session.id]


def test_a_room_is_not_empty_while_somebody_is_away_and_aborts_nothing() -> None:
    room, peer = meeting("de", grace_s=10.0, linger_s=30.0)
    peer.say("one")
    peer.cut()
    assert current(room.room.empty_since) is None and room.aborted == []
    room.wait(10.0)
    assert room.room.empty_since is not None and len(room.aborted) == 1
    room.wait(19.9)
    assert room.room.subscribers.wanted == {"de"}
    room.wait(0.1)
    assert room.room.subscribers.wanted == set()


def test_a_backfill_goes_on_while_the_socket_of_its_only_reader_is_lost() -> None:
    room, speaker = meeting("de", linger_s=30.0)
    speaker.say("one", id="x")
    room.finish_all()
    reader = room.enter("de", role=Role.VIEW)
    speaker.close()
    reader.send("want", langs=["de", "fr"])
    reader.cut()
    room.finish_all()
    again = room.back(reader)
    assert [(e.lang, e.text) for e in only(Final, again.events())] == [("fr", "[fr] one")]


def test_a_backfill_ends_with_the_period_of_grace_and_when_its_reader_leaves() -> None:
    for leave in (Peer.cut, Peer.close):
        room, speaker = meeting("de", linger_s=30.0)
        speaker.say("one", id="x")
        room.finish_all()
        reader = room.enter("de", role=Role.VIEW)
        speaker.close()
        reader.send("want", langs=["fr"])
        leave(reader)
        room.wait(30.0)
        assert [(e.id, e.lang) for e in only(Cancelled, room.log)] == [("x", "fr")]
        assert not room.room.captioner.jobs
        assert (len(room.aborted), room.room.subscribers.wanted) == (1, set())


def test_languages_that_only_it_read_linger_as_they_do() -> None:
    room, peer = meeting("de", grace_s=10.0, linger_s=5.0)
    peer.say("one")
    peer.cut()
    room.wait(5.0)
    assert [event.lang for event in only(Cancelled, room.log)] == ["de"]
    assert not room.room.captioner.jobs


def test_a_room_is_empty_once_the_last_work_of_an_absent_member_is_cancelled() -> None:
    room, peer = meeting("de", grace_s=10.0, linger_s=5.0)
    peer.say("one")
    peer.cut()
    room.wait(5.0)
    assert not room.room.attendance.away and room.timer is None
    assert room.room.empty_since == room.now


def test_each_has_a_time_of_grace_of_its_own() -> None:
    room, peer = meeting("de", grace_s=10.0)
    other = room.enter("de")
    peer.say("one", id="x")
    other.say("two", id="y")
    peer.cut()
    room.wait(5.0)
    other.cut()
    room.wait(5.0)
    assert cancels(room) == ["x"]
    room.wait(5.0)
    assert cancels(room) == ["x", "y"]


def test_growing_text_is_translated_while_its_speaker_is_away() -> None:
    room = Meeting(options=StreamingOptions(), limits=Limits(grace_s=60.0))
    peer, reader = room.enter("de"), room.enter("de")
    peer.say("we met again on Thursday", id="x", final=False)
    peer.cut()
    room.wait(2.0)
    assert room.job("de").text == "we met again on Thursday"
    assert reader.session.member.catch_up is None


def test_a_server_that_stops_waits_for_those_who_are_away_and_then_cancels_visibly() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x")
    peer.say("two", id="y", final=False)
    peer.cut()
    assert not current(room.room.settled)
    room.room.stop(room.now)
    assert cancels(room) == ["x", "y"] and room.room.settled
    room.wait(60.0)
    assert cancels(room) == ["x", "y"]


# --- said to an earlier process -----------------------------------------------------------------


def test_an_utterance_of_an_earlier_process_may_be_repeated_but_not_changed() -> None:
    before, peer = meeting("de")
    peer.say("one", id="x", rev=3)
    before.finish_all()
    room = Meeting(log=before.room.log)
    again = room.enter("de")
    again.events()
    assert one(Ack, again.say("one", id="x", rev=3)) == Ack(id="x", rev=3, ord=1)
    assert one(Ack, again.say("one", id="x", ref="r")).ref == "r"
    for fields in ({"text": "two"}, {"rev": 4}, {"final": False}):
        assert names(again.send("say", **{"id": "x", "text": "one", "rev": 3, **fields})) == [
            "error"
        ]
    assert room.room.log.seq == 2
