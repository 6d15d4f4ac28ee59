"""The one place where a shared room decides."""

from __future__ import annotations

from gateway.auth.permissions import Permissions, Role
from gateway.core.replication.messages import Asked, Left, Told, decode_feed
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Retracted, Say, Snapshot
from gateway.protocol.notices import Degraded, Error, Presence
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
    refusal = one(Error, peer.say("more", id="y", ref="r"))
    assert (refusal.code, refusal.id, refusal.ref) == (ErrorCode.BUSY, "y", "r")
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
    assert back.session.member.in_flight.utterances == {"x"}


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
    assert (members[second.session.id].langs, members[second.session.id].view) == (("es",), "final")


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
    assert (room.job("de").tenant, room.job("de").room) == ("acme", "meeting")


def test_a_gateway_that_introduces_itself_again_keeps_its_members_and_their_work() -> None:
    room = FleetMeeting()
    speaker = room.enter("de", gateway="g2")
    speaker.say("good", id="x", final=False)
    replica, members = room.gateways["g2"].replica, room.room.subscribers.members
    known = members[speaker.session.id]
    replica.introduce()
    room.act()
    assert members[speaker.session.id] is known
    assert speaker.session.member.in_flight.utterances == {"x"}
    assert speaker.session.outbox.closing is None
    assert "source" in names(speaker.say("good day", id="x"))


def test_work_that_ended_while_a_gateway_was_out_of_step_ends_with_its_introduction() -> None:
    room = FleetMeeting()
    speaker = room.enter("de", gateway="g2")
    speaker.say("good", id="x")
    replica = room.gateways["g2"].replica
    replica.greeted = False
    room.finish_all()
    assert speaker.session.member.in_flight.utterances == {"x"}
    replica.introduce()
    room.act()
    assert speaker.session.member.in_flight.utterances == set()


def test_a_reader_in_another_gateway_gets_as_many_finished_captions_as_it_asks_for() -> None:
    room = FleetMeeting()
    speaker = room.enter("de", gateway="g1")
    for id in ("x", "y"):
        speaker.say("good", id=id)
        room.finish_all()
    reader = room.enter("fr", gateway="g2")
    found = only(Snapshot, reader.send("want", langs=["fr", "de"], view="stable", backfill=1))
    assert [event.id for event in found] == ["y"]
    assert room.room.subscribers.members[reader.session.id].view == "stable"


def test_a_moderator_and_the_names_of_speakers_count_in_all_gateways() -> None:
    room = FleetMeeting(limits=Limits(presence_s=0.0))
    speaker = room.enter("de", gateway="g1", speaker="Ann")
    moderator = room.enter("de", gateway="g2", role=Role.MODERATE, speaker="Bo")
    room.wait(1.0)
    assert only(Presence, speaker.events())[-1].speakers == ("Ann", "Bo")
    speaker.say("good", id="x")
    assert one(Retracted, moderator.send("retract", id="x")).id == "x"


def test_the_authority_forgets_captions_that_have_ended() -> None:
    room = FleetMeeting()
    room.enter("de", "fr", gateway="g1").say("good")
    room.finish_all()
    assert room.authority.feed._growing._shown == {}


def test_a_codec_is_encoded_while_somebody_reads_it() -> None:
    room = FleetMeeting()
    room.enter("de", gateway="g1")
    first, second = (room.enter("de", gateway="g2", codec=Codec.MSGPACK) for _ in range(2))
    codecs = []
    for leaving in (None, first, second):
        if leaving is not None:
            leaving.close()
        room.room.degrade(Degraded(partials="off"), room.now)
        told = next(m for m in map(decode_feed, room.unwritten) if isinstance(m, Told))
        codecs.append(set(told.frames.others))
        room.act()
    assert codecs == [{Codec.MSGPACK.value}, {Codec.MSGPACK.value}, set()]
