"""A member of a room, whose events are counted and queued."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.members.member import OWED, CatchUp, Member
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Ack, Cancelled, Failed, Final, Source, Timing
from gateway.protocol.notices import Tick
from tests.support.meeting import NOW

SOURCE = Source(seq=1, id="a", rev=1, ord=1, lang="en", text="one")


class Listener:
    """A listener that keeps all calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def charge(self, now: float) -> None:
        self.told.append(("charge", now))

    def ended(self, now: float) -> None:
        self.told.append(("ended", now))


def member(listener: Listener | None = None) -> Member:
    return Member("m", Role.VIEW, Outbox(Codec.JSON, Limits()), listener)


def behind(cursor: int = 0) -> Member:
    """Return a member that is sent events it missed."""
    made = member()
    made.catch_up = CatchUp(cursor)
    return made


def test_a_new_member_reads_nothing_yet() -> None:
    made = member()
    assert (made.langs, made.view, made.speaker, made.welcomed) == ((), "live", None, False)
    assert not made.in_flight and made.catch_up is None
    assert (made.finals, made.failed, made.cancelled) == (0, 0, 0)


def test_a_member_begins_to_catch_up_at_a_position_and_is_owed_nothing() -> None:
    catch_up = CatchUp(7)
    assert (catch_up.cursor, catch_up.due, catch_up.owed) == (7, False, {})


def test_events_of_a_member_are_queued_and_counted() -> None:
    made = member()
    ms = Timing(queue=1, first=2, total=3)
    events = (
        SOURCE,
        Final(seq=2, id="a", rev=1, ord=1, lang="de", text="eins", by="mt", ms=ms),
        Failed(seq=3, id="a", rev=1, ord=1, lang="fr", code="timeout", retry=True),
        Cancelled(seq=4, id="b", rev=1, was="running"),
    )
    for event in events * 2:
        made.hear(Envelope(event), 0.0)
    assert len(made.outbox) == 8
    assert (made.finals, made.failed, made.cancelled) == (2, 2, 2)
    made.ended(0.0)
    made.charge(0.0)
    assert len(made.outbox) == 8


def test_the_listener_is_told_of_new_and_ended_utterances() -> None:
    listener = Listener()
    made = member(listener)
    made.charge(1.0)
    made.ended(2.0)
    assert listener.told == [("charge", 1.0), ("ended", 2.0)]


def test_a_member_that_is_behind_is_sent_durable_events_by_the_log_alone() -> None:
    made = behind()
    made.hear(Envelope(SOURCE), NOW)
    assert len(made.outbox) == 0
    made.hear(Envelope(Ack(id="a", rev=1, ord=1)), NOW)
    assert len(made.outbox) == 1


def test_an_answer_is_sent_at_once_or_kept_until_its_turn() -> None:
    made = member()
    made.answer(Envelope(SOURCE), NOW)
    assert len(made.outbox) == 1
    late, envelope = behind(), Envelope(SOURCE)
    late.answer(envelope, NOW)
    assert len(late.outbox) == 0
    assert late.catch_up is not None and late.catch_up.owed == {1: envelope}


def test_no_more_answers_are_kept_than_the_bound_and_only_those_of_the_log() -> None:
    late = behind()
    for seq in range(OWED + 1):
        late.answer(Envelope(Source(seq=seq, id="a", rev=1, ord=1, lang="en", text="x")), NOW)
    assert late.catch_up is not None and list(late.catch_up.owed) == list(range(OWED))
    with pytest.raises(AssertionError):
        behind().answer(Envelope(Ack(id="a", rev=1, ord=1)), NOW)


@pytest.mark.parametrize("send", [Member.hear, Member.answer, Member.send])
def test_an_event_counts_from_when_it_was_sent_if_nobody_takes_it(
    send: Callable[[Member, Envelope, float], None],
) -> None:
    made = member()
    send(made, Envelope(SOURCE), NOW)
    made.hear(Envelope(Tick(seq=1)), NOW + Limits().outbox_s)
    assert made.outbox.closing is None
    made.hear(Envelope(Tick(seq=1)), NOW + Limits().outbox_s + 1)
    assert made.outbox.closing is CloseCode.TOO_SLOW
