"""Members that are present or away, and their utterances in flight."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.members.attendance import Attendance
from gateway.core.members.member import Member
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.collection import Utterances
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from tests.support.meeting import NOW
from tests.support.typed import current


def member(id: str, *inflight: str) -> Member:
    made = Member(id, Role.SPEAK, Outbox(Codec.JSON, Limits()))
    made.in_flight.utterances.update(inflight)
    return made


def attendance(*present: Member) -> Attendance:
    """Return an attendance in whose room `a`, `b` and `c` were said, in this order."""
    utterances = Utterances("meeting", StreamingOptions(), Limits())
    for id in ("a", "b", "c"):
        utterances.begin(id, "s1", NOW)
    return Attendance({one.id: one for one in present}, utterances)


def test_a_member_is_found_whether_it_is_present_or_away() -> None:
    here, gone = member("here"), member("gone", "a")
    made = attendance(here)
    made.wait_for(gone, NOW + 5)
    assert (made.find("here"), made.find("gone"), made.find("nobody")) == (here, gone, None)
    assert made.everybody == (here, gone)


def test_a_member_that_comes_back_is_waited_for_no_longer() -> None:
    gone = member("gone", "a")
    made = attendance()
    made.wait_for(gone, NOW + 5)
    assert made.release("gone") is gone
    assert made.release("gone") is None
    assert (made.deadline, made.expire(NOW + 9), made.everybody) == (None, [], ())


def test_a_period_of_grace_ends_at_its_deadline_and_not_before() -> None:
    early, late = member("early", "a"), member("late", "b")
    made = attendance()
    made.wait_for(late, NOW + 8)
    made.wait_for(early, NOW + 5)
    assert current(made.deadline) == NOW + 5
    assert made.expire(NOW + 4.9) == []
    assert made.expire(NOW + 5) == [early]
    assert (current(made.deadline), list(made.away)) == (NOW + 8, ["late"])
    assert made.expire(NOW + 8) == [late]
    assert (made.deadline, made.everybody) == (None, ())


def test_unfinished_utterances_of_all_members_stand_in_order_of_their_begin() -> None:
    here, gone = member("here", "c", "a"), member("gone", "b")
    made = attendance(here)
    made.wait_for(gone, NOW + 5)
    assert [one.id for one in made.unfinished()] == ["a", "b", "c"]
    assert [one.id for one in made.unfinished(here)] == ["a", "c"]
