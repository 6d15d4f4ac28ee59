"""The log of a room, restored from its entries."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.core.history.event_log import EventLog
from gateway.core.replication.messages import restored_log
from gateway.limits import Limits
from gateway.protocol.messages import Source
from tests.support.fleet import WALL, FleetMeeting
from tests.support.meeting import NOW

LIMITS = Limits()


def spoken() -> FleetMeeting:
    room = FleetMeeting()
    peer = room.enter("de")
    for id in ("x", "y"):
        peer.say("good 你好", id=id)
        room.finish_all()
    return room


def test_a_log_without_entries_has_no_epoch_yet() -> None:
    log = restored_log([], LIMITS, NOW, WALL)
    assert (log.epoch, log.seq, log.began) == ("", 0, NOW)


def test_a_log_is_that_of_the_authority() -> None:
    room = spoken()
    log = restored_log(room.entries(), LIMITS, room.now + 7, room.wall + 7)
    assert log.entries() == room.room.log.entries()
    assert log.epoch == "epoch" and log.began == NOW + 0


def test_no_event_is_in_the_future_if_a_clock_is_wrong() -> None:
    late = [replace(entry, at=9.0) for entry in spoken().entries()]
    assert restored_log(late, LIMITS, NOW, WALL - 5).began == NOW - 9.0


def test_a_log_begins_behind_a_hole_and_behind_another_epoch() -> None:
    entries = spoken().entries()
    log = restored_log([entries[0], *entries[2:]], LIMITS, NOW, WALL)
    assert (log.oldest, log.seq) == (3, 4)
    entries[2] = replace(entries[2], epoch="before")
    assert restored_log(entries, LIMITS, NOW, WALL).oldest == 4


def test_texts_that_were_retracted_are_not_restored() -> None:
    room = spoken()
    room.peers[0].send("retract", id="x")
    log = restored_log(room.entries(), LIMITS, room.now, room.wall)
    events = [entry.event for entry in log.entries()]
    originals = {event.id: event.text for event in events if isinstance(event, Source)}
    assert originals == {"x": "", "y": "good 你好"}
    assert log.since(0) == room.room.log.since(0)


def test_a_copied_log_goes_on_with_the_next_number_even_if_its_events_were_dropped() -> None:
    log = spoken().room.log
    copy = log.copied(NOW + 7)
    assert copy.since(0) == log.since(0)
    assert (copy.epoch, copy.began, copy.seq) == (log.epoch, log.began, 4)
    log.shed(log.bytes)
    assert (log.copied(NOW + 7).seq, copy.seq) == (4, 4)
    assert EventLog("epoch", LIMITS).copied(NOW).began == NOW, "an empty log begins now"
