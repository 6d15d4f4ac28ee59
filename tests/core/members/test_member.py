"""A member of a room, whose events are counted and queued."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.members.member import Member
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Cancelled, Failed, Final, Source, Timing


def test_events_of_a_member_are_queued_and_counted() -> None:
    member = Member("m", Role.VIEW, Outbox(Codec.JSON, Limits()))
    ms = Timing(queue=1, first=2, total=3)
    for event in (
        Source(seq=1, id="a", rev=1, ord=1, lang="en", text="one"),
        Final(seq=2, id="a", rev=1, ord=1, lang="de", text="eins", by="mt", ms=ms),
        Failed(seq=3, id="a", rev=1, ord=1, lang="fr", code="timeout", retry=True),
        Cancelled(seq=4, id="b", rev=1, was="running"),
    ):
        member.hear(Envelope(event), 0.0)
    assert len(member.outbox) == 4
    assert (member.finals, member.failed, member.cancelled) == (1, 1, 1)
    member.ended(0.0)
    assert len(member.outbox) == 4
