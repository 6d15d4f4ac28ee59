"""Replicas of a room whose log is another one than theirs, or begins later."""

from __future__ import annotations

from gateway.core.history.event_log import EventLog
from gateway.core.replication.messages import as_written
from gateway.errors import CloseCode
from tests.support.fleet import FleetMeeting


def fleet() -> FleetMeeting:
    return FleetMeeting()


def test_clients_return_to_a_new_replica_if_the_room_began_anew_without_the_old_one() -> None:
    room = fleet()
    peer = room.enter("de", gateway="g2")
    peer.say("good", id="x")
    room.gateways["g2"].replica.log.epoch = "before"
    room.gateways["g2"].replica.introduce()
    room.act()
    assert peer.session.outbox.closing is CloseCode.GOAWAY


def test_an_event_of_another_log_is_not_shown_and_its_readers_come_back() -> None:
    room = fleet()
    peer = room.enter("de", gateway="g2")
    peer.say("good", id="x")
    replica = room.gateways["g2"].replica
    before = replica.log.seq
    replica.log.epoch = "before"
    peer.say("night", id="y")
    assert peer.session.outbox.closing is CloseCode.GOAWAY
    assert replica.log.seq == before and replica.ended


def test_a_log_without_its_oldest_events_can_be_followed_from_its_first_one() -> None:
    room = fleet()
    room.enter("de", gateway="g2").say("good", id="x")
    room.finish_all()
    first, *rest = room.entries()
    newcomer = room.add_gateway("g4").replica
    newcomer.log = EventLog("", room.limits, began=room.now)
    for entry in rest:
        newcomer.apply(entry, room.now)
    assert newcomer.log.seq == room.entries()[-1].event.seq
    assert newcomer.log.oldest == 2


def test_a_replica_has_the_log_as_it_was_written() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g1")
    speaker.say("good 你好", id="x")
    room.finish_all()
    replica = room.gateways["g2"].replica
    kept = replica.log.entries()
    assert as_written(replica.log, kept, replica.began) == room.entries()
    assert room.entries()[0].author == speaker.session.id
    assert replica.bytes == replica.log.bytes > 0


def test_the_erased_events_of_an_utterance_are_looked_for_up_to_its_original() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g1")
    for id in ("x", "y"):
        speaker.say("good", id=id)
        room.finish_all()
    speaker.send("retract", id="y")
    log = room.gateways["g2"].replica.log
    assert [entry.event.id for entry in log.texts_of((2,))] == ["y", "y"]  # type: ignore[union-attr]
