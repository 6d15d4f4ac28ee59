"""The members of a replica: what each is sent, counted for and asked."""

from __future__ import annotations

from gateway.auth.permissions import Permissions, Quota, Role
from gateway.core.replication.messages import Asked, decode_inbox
from gateway.core.session.quota import Account
from gateway.errors import ErrorCode
from gateway.protocol.messages import Edited, Final
from tests.support.fleet import FleetMeeting
from tests.support.meeting import assert_error, names


def test_only_the_readers_of_a_language_are_sent_its_captions() -> None:
    room = FleetMeeting()
    speaker = room.enter("de", gateway="g1", role=Role.MODERATE)
    reader = room.enter("fr", gateway="g2")
    speaker.say("good", id="x")
    room.finish_all()
    speaker.send("edit", id="x", lang="de", text="gut")
    speaker.send("edit", id="x", lang="en", text="better")
    events = [event for event in reader.events() if isinstance(event, Final | Edited)]
    assert [event.lang for event in events] == ["fr", "en"]
    assert reader.session.room.log.originals == room.room.log.originals


def test_a_replica_notes_since_when_nobody_is_here() -> None:
    room = FleetMeeting()
    replica = room.gateways["g2"].replica
    peers = [room.enter("de", gateway="g2") for _ in range(2)]
    for peer, since in zip(peers, (None, room.now), strict=True):
        peer.close()
        assert replica.empty_since == since


def test_a_quota_counts_each_utterance_once_in_the_gateway_of_its_speaker() -> None:
    room = FleetMeeting()
    quota = Permissions(tenant="acme", quota=Quota(minute=1))
    speaker = room.enter("de", gateway="g2")
    speaker.session.permissions = quota
    speaker.session.account = Account()
    speaker.say("good", id="x", final=False)
    assert "source" in names(speaker.say("good day", id="x"))
    assert_error(speaker.say("more", id="y"), ErrorCode.BUSY)


def test_a_speaker_with_nothing_in_flight_leaves_without_asking_anybody() -> None:
    room = FleetMeeting(slow=True)
    room.pump()
    speaker = room.enter("de", gateway="g2")
    room.pump()
    speaker.session.receive('{"type":"bye"}', room.now)
    asked = [decode_inbox(payload) for payload in room.gateways["g1"].inbox]
    assert not any(isinstance(message, Asked) for message in asked)
