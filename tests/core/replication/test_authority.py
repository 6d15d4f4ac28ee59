"""The one place where a shared room decides."""

from __future__ import annotations

from gateway.auth.permissions import Permissions
from gateway.core.replication.messages import Asked, Left
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Error, Presence, Say, Snapshot
from tests.support.fleet import FleetMeeting
from tests.support.meeting import names, one, only
from tests.support.typed import current


def test_a_request_to_another_authority_is_ignored() -> None:
    room = FleetMeeting()
    peer = room.enter("de", gateway="g2")
    asked = Asked("meeting", "g2", "t0", peer.session.id, 1, Say(text="good", lang="en"))
    room.authority.receive(asked, room.now)
    assert not room.room.log.seq


def test_a_request_of_an_unknown_member_is_ignored() -> None:
    room = FleetMeeting()
    peer = room.enter("de", gateway="g2")
    room.authority.receive(Left("meeting", "g3", "t1", peer.session.id, False), room.now)
    assert set(room.room.subscribers.members) == {peer.session.id}


def test_new_text_is_refused_while_too_much_is_unwritten() -> None:
    room = FleetMeeting()
    peer = room.enter("de", gateway="g2")
    peer.say("good", id="x", final=False)
    room.full = True
    assert one(Error, peer.say("more", id="y", ref="r")).code == ErrorCode.BUSY
    assert "source" in names(peer.say("good day", id="x"))


def test_a_room_is_in_one_gateway_alone_until_another_one_introduces_itself() -> None:
    room = FleetMeeting(gateways=1)
    room.enter("de", gateway="g1")
    assert current(room.authority.only_in("g1"))
    room.add_gateway("g2")
    room.pump()
    assert not room.authority.only_in("g1")


def test_members_leave_or_are_waited_for() -> None:
    room = FleetMeeting(limits=Limits(presence_s=0.0))
    stays, leaves = room.enter("de", gateway="g1"), room.enter("fr", gateway="g2")
    leaves.say("good", id="x", final=False)
    leaves.close()
    assert current(room.room.settled)
    again = room.enter("fr", gateway="g2")
    again.say("good", id="y", final=False)
    again.cut()
    assert not current(room.room.settled)
    room.wait(100.0)
    assert room.room.settled
    assert only(Presence, stays.events())[-1].members == 1


def test_members_of_a_dead_gateway_are_waited_for() -> None:
    room = FleetMeeting()
    room.enter("de", gateway="g1")
    lost = room.enter("de", gateway="g2")
    lost.say("good", id="x", final=False)
    (peer,) = room.kill("g2")
    back = room.back(peer, gateway="g3")
    assert back.session.member.inflight == {"x"}


def test_a_gateway_tells_who_has_left_while_it_was_out_of_step() -> None:
    room = FleetMeeting()
    first, second = room.enter("de", gateway="g2"), room.enter("fr", gateway="g2")
    replica = room.gateways["g2"].replica
    replica.greeted = False
    second.session.member.view = "final"
    replica.subscribers.change(second.session.member, ("es",), room.now)
    first.close()
    replica.introduce()
    room.act()
    members = room.room.subscribers.members
    assert set(members) == {second.session.id}
    assert members[second.session.id].langs == ("es",)


def test_a_snapshot_has_the_languages_that_the_member_may_read() -> None:
    room = FleetMeeting()
    peer = room.enter("de", "fr", gateway="g2")
    peer.say("good", id="x")
    room.finish_all()
    peer.events()
    peer.session.permissions = Permissions(langs=("de",))
    assert [line.lang for line in one(Snapshot, peer.send("get", id="x")).lines] == ["de"]


def test_jobs_use_the_share_of_the_first_tenant() -> None:
    room = FleetMeeting()
    room.gateways["g2"].replica.use_tenant("acme")
    peer = room.enter("de", gateway="g2")
    room.gateways["g3"].replica.use_tenant("other")
    room.enter("de", gateway="g3")
    peer.say("good")
    assert room.job("de").tenant == "acme"
