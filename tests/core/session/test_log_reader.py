"""A member that is behind is sent the log page by page, as its socket takes it."""

from __future__ import annotations

from typing import Any

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import StreamPosition
from gateway.core.members.member import Member
from gateway.core.session.log_reader import PAGE_BYTES, LogReader
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import ServerMessage, Sync, Want
from gateway.protocol.notices import Tick
from tests.support.meeting import meeting, names, read


class Behind:
    """A member of a meeting in which ``count`` utterances were said, and its reader."""

    def __init__(self, count: int, **limits: Any) -> None:
        self.meeting, peer = meeting("de", rate=1e6, burst=1_000_000, **limits)
        for n in range(count):
            peer.say(f"text {n}")
            self.meeting.finish_all()
            peer.events()
        self.room = self.meeting.room
        self.deferred: list[LogReader] = []
        self.member = Member("late", Role.VIEW, Outbox(Codec.JSON, self.meeting.limits))
        self.room.join(self.member, self.meeting.now)
        self.room.want(self.member, Want(langs=("de",)), self.meeting.now)
        append = self.deferred.append
        self.reader = LogReader(self.member, self.room, self.meeting.limits, append)

    def start(self, seq: int) -> tuple[int, bool]:
        """Begin after event ``seq``; return where, and whether the log reaches back."""
        since = StreamPosition(self.room.log.epoch, seq)
        begin, resumed, _ = self.reader.start(("de",), since)
        assert resumed is not None
        return begin, resumed.ok

    def heard(self) -> list[ServerMessage]:
        return [read(frame) for frame in self.member.outbox.take()]


def test_a_member_that_missed_nothing_is_up_to_date_at_once() -> None:
    behind = Behind(2)
    assert behind.start(behind.room.log.seq) == (4, True)
    behind.reader.advance(behind.meeting.now)
    assert behind.member.catch_up is None and behind.heard() == []


def test_a_member_is_sent_what_came_after_its_position() -> None:
    behind = Behind(2)
    assert behind.start(1) == (1, True)
    behind.reader.advance(behind.meeting.now)
    assert names(behind.heard()) == ["final", "source", "final"]
    assert behind.member.catch_up is None


def test_a_new_member_is_sent_recent_events_without_an_answer() -> None:
    behind = Behind(3, backfill=2)
    seq, resumed, recent = behind.reader.start(("de",), None)
    assert (seq, resumed, len(recent)) == (2, None, 4)


def test_the_next_page_follows_when_the_first_was_taken_and_is_asked_for_once() -> None:
    behind = Behind(100)
    behind.start(0)
    sent = 0
    pages = 0
    while behind.member.catch_up is not None:
        behind.reader.advance(behind.meeting.now)
        assert behind.member.outbox.bytes < 2 * PAGE_BYTES
        sent += len(behind.heard())
        behind.member.outbox.take()
        assert behind.deferred == [behind.reader] * (behind.member.catch_up is not None)
        behind.deferred.clear()
        pages += 1
    assert (sent, pages > 1) == (200, True)


def test_the_next_page_is_asked_for_once_however_often_the_socket_is_empty() -> None:
    behind = Behind(100)
    behind.start(0)
    behind.reader.advance(behind.meeting.now)
    refill = behind.member.outbox.refill
    assert refill is not None and behind.member.catch_up is not None
    behind.heard()
    refill()
    assert behind.deferred == [behind.reader]


def test_a_page_fills_a_quarter_of_a_small_outbox() -> None:
    behind = Behind(40, outbox_bytes=8_192)
    behind.start(0)
    behind.reader.advance(behind.meeting.now)
    assert behind.member.catch_up is not None
    assert 2_048 <= behind.member.outbox.bytes < 2_500  # the last event may cross the bound


def test_half_of_the_recent_events_are_sent_if_all_do_not_fit() -> None:
    behind = Behind(8, backfill=8)
    half = behind.room.log_view.recent(("de",), 4)
    scale = Outbox(Codec.JSON, Limits())
    for envelope in half:
        scale.push(envelope, behind.meeting.now)
    # Recent events may fill half of an outbox.
    behind.member.outbox = Outbox(Codec.JSON, Limits(outbox_bytes=2 * scale.bytes))
    _, _, recent = behind.reader.start(("de",), None)
    assert [envelope.message for envelope in recent] == [envelope.message for envelope in half]


def test_a_member_whose_position_was_dropped_meanwhile_is_closed() -> None:
    behind = Behind(3)
    behind.start(0)
    behind.member.outbox.send(Tick(seq=1), behind.meeting.now)
    behind.room.shed(behind.room.log.bytes)
    behind.reader.advance(behind.meeting.now)
    assert behind.member.outbox.closing is CloseCode.TOO_SLOW
    assert behind.heard() == []  # what waits would leave a gap


def test_a_position_of_another_log_is_answered_with_the_oldest_event_that_is_left() -> None:
    behind = Behind(2)
    seq, resumed, recent = behind.reader.start(("de",), StreamPosition("another", 3))
    assert resumed is not None and not resumed.ok
    assert (seq, resumed.from_, resumed.replayed) == (0, 1, len(recent))
    assert resumed.transcript == "/v1/rooms/meeting/transcript.json"
    lost = Sync(epoch="another", seq=0)
    assert behind.reader.sync(lost, behind.meeting.now) == 0.0, "no page of the log was read"


def test_a_reader_that_is_up_to_date_or_closed_sends_nothing() -> None:
    behind = Behind(1)
    behind.reader.advance(behind.meeting.now)
    behind.start(0)
    behind.member.outbox.close(CloseCode.DONE)
    behind.reader.advance(behind.meeting.now)
    assert behind.heard() == []
