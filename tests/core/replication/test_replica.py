"""A copy of a room for the members of one gateway."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import Role
from gateway.core.replication.member_requests import WAITING
from gateway.core.replication.messages import Asked, Ended, decode_inbox
from gateway.core.replication.replica import MOVED
from gateway.core.session.quota import Account
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Edited,
    Final,
    Retracted,
    Settings,
    Snapshot,
    Source,
)
from gateway.protocol.notices import Degraded, Error, Stats
from tests.support.fleet import FleetMeeting
from tests.support.meeting import Meeting, Peer, assert_error, names, one, only


def fleet(**limits: float) -> FleetMeeting:
    return FleetMeeting(limits=Limits(**limits))  # type: ignore[arg-type]


def growing(room: FleetMeeting) -> tuple[Peer, Peer]:
    """Return a speaker and a reader in two gateways, with a caption that grows."""
    speaker, reader = room.enter("de", gateway="g1"), room.enter("de", gateway="g2")
    speaker.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut")
    return speaker, reader


def test_every_request_works_from_another_gateway() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g2", role=Role.MODERATE)
    assert names(speaker.say("good", id="x", ref="r")) == ["ack", "source"]
    room.finish_all()
    assert names(speaker.events()) == ["delta", "final"]
    edited = one(Edited, speaker.send("edit", id="x", lang="de", text="gut", ref="e"))
    assert (edited.text, edited.ref) == ("gut", "e")
    snapshot = one(Snapshot, speaker.send("get", id="x", ref="g"))
    assert [line.text for line in snapshot.lines] == ["gut"]
    settings = one(Settings, speaker.send("set", speaker="Ann", ref="s"))
    assert settings.speaker == "Ann" and speaker.session.member.speaker == "Ann"
    one(Settings, speaker.send("set", style="formal"))
    assert one(Cancelled, speaker.send("cancel", id="x")).was == "done"
    assert one(Retracted, speaker.send("retract", id="x")).id == "x"
    assert speaker.session.room.log.since(0) == room.room.log.since(0)
    assert_error(speaker.send("retract", id="x", ref="q"), ErrorCode.NOT_FOUND)
    assert one(Stats, speaker.send("bye")).inflight == 0
    assert speaker.session.outbox.closing is CloseCode.DONE


def test_every_gateway_knows_names_and_terms_for_the_recognition_of_speech() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g1")
    speaker.send("set", context="a stand-up", glossary={"Kubernetes": "K8s"}, speaker="Ada")
    other = room.enter("de", gateway="g2", speaker="Bo")
    hints = other.session.room.translation_context.hints()
    assert hints == ("a stand-up", ("Ada", "Bo", "Kubernetes"))
    # The name of a speaker is known where it speaks; one without a name adds none.
    own = speaker.session.room.translation_context.hints()
    assert own == ("a stand-up", ("Ada", "Kubernetes"))


def test_an_edited_original_is_everybodys() -> None:
    room = fleet()
    speaker, reader = room.enter("de", gateway="g1"), room.enter("fr", gateway="g2")
    speaker.say("good", id="x")
    room.finish_all()
    reader.events()
    speaker.send("edit", id="x", lang="en", text="better")
    assert one(Edited, reader.events()).lang == "en"
    late = room.enter("de", gateway="g2", greeted=False)
    assert "better" in [getattr(event, "text", "") for event in late.events()]


def test_a_growing_caption_is_shown_to_those_who_come_late() -> None:
    room = fleet()
    growing(room)
    late = room.enter("de", gateway="g3", greeted=False)
    assert one(Delta, late.events()).draft == "gut"
    other = room.enter("fr", gateway="g3")
    assert one(Delta, other.send("want", langs=["fr", "de"])).draft == "gut"
    assert not only(Delta, other.send("want", langs=["de", "fr"])), "it has seen that"
    # With another view all of it is shown again, without the draft.
    assert only(Delta, other.send("want", langs=["de"], view="stable"))[0].draft is None
    assert other.session.member.view == "stable"


def test_a_gateway_that_begins_to_follow_is_told_what_grows() -> None:
    room = fleet()
    growing(room)
    room.add_gateway("g4")
    room.act()
    late = room.enter("de", gateway="g4", greeted=False)
    assert one(Delta, late.events()).draft == "gut"


def test_a_reader_that_has_caught_up_is_shown_what_grows_as_its_view_has_it() -> None:
    for view, draft in (("live", ["gut"]), ("stable", [None]), ("final", [])):
        room = fleet()
        _, reader = growing(room)
        reader.cut()
        back = room.back(reader, view=view, role=Role.VIEW)
        found = [delta.draft for delta in only(Delta, back.events())]
        assert found == draft or view == "live", view
        shown = [e.message for e in back.session.room.in_flight(("de",), view)]  # type: ignore[arg-type]
        assert [delta.draft for delta in only(Delta, shown)] == draft


def test_what_readers_see_of_a_dead_authoritys_caption_is_taken_back() -> None:
    room = fleet()
    speaker, reader = growing(room)
    reader.events()
    room.lose_authority()
    assert reader.screen["x", "de"].text == "gut", "until the next authority has greeted"
    room.take("g2")
    room.act()
    (delta,) = only(Delta, reader.events())
    assert delta.reset and reader.screen["x", "de"].text == ""
    speaker.events()
    assert speaker.session.outbox.closing is CloseCode.GOAWAY
    assert reader.session.outbox.closing is None


def test_an_utterance_that_was_said_to_its_end_is_translated_by_the_next_authority() -> None:
    room = fleet()
    speaker, reader = room.enter("de", gateway="g1"), room.enter("de", gateway="g2")
    speaker.say("good", id="x")
    room.lose_authority()
    room.take("g3")
    room.act()
    room.finish_all()
    assert one(Final, reader.events()).text == "[de] good"
    # Its speaker says it again after the lost socket, and is told that it is known.
    back = room.back(speaker, gateway="g2")
    assert one(Ack, back.say("good", id="x")).rev == 1


def test_requests_wait_while_there_is_no_authority() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g2")
    room.lose_authority()
    assert speaker.say("good", id="x") == []
    assert not speaker.session.room.settled
    assert speaker.session.member.in_flight.utterances == {"x"}
    assert only(Stats, speaker.send("bye")) == []
    room.take("g1")
    room.act()
    room.finish_all()
    assert names(speaker.events()) == ["ack", "source", "delta", "final", "stats"]


def test_requests_that_wait_are_bounded() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g2")
    room.lose_authority()
    for number in range(WAITING):
        assert speaker.say("good", id=f"x{number}") == []
    assert_error(speaker.say("good"), ErrorCode.BUSY)


def test_a_member_whose_request_may_be_lost_is_asked_to_come_back() -> None:
    room = FleetMeeting(slow=True)
    room.pump()
    speaker, reader = room.enter("de", gateway="g2"), room.enter("de", gateway="g3")
    room.pump()
    speaker.say("good", id="x")
    room.lose_authority()
    for one_gateway in room.gateways.values():
        one_gateway.inbox.clear()
    room.take("g3")
    room.pump()
    assert speaker.session.outbox.closing is CloseCode.GOAWAY
    assert speaker.session.outbox.reason == MOVED
    assert speaker.session.room.settled and reader.session.outbox.closing is None


def test_a_lost_message_leads_to_a_new_introduction() -> None:
    room = FleetMeeting(slow=True)
    room.pump()
    reader = room.enter("de", gateway="g2")
    room.pump()
    speaker = room.enter("de", gateway="g1", greeted=False)
    room.pump()
    speaker.say("good", id="x", final=False)
    room.pump()
    room.act()
    room.finish(room.job("de"), "gut")
    while room.unwritten:
        room.write()
    room.lose_message(room.gateways["g2"])
    room.pump()
    assert not only(Delta, reader.events())
    room.authority.resume_feed()
    room.pump()
    assert one(Delta, reader.events()).draft == "gut"


def test_a_gateway_that_was_held_for_dead_introduces_itself_again() -> None:
    room = fleet()
    reader = room.enter("de", gateway="g2")
    room.authority.lose_gateway("g2", room.now)
    assert not room.room.subscribers.members
    reader.say("good")
    room.act()
    assert set(room.room.subscribers.members) == {reader.session.id}
    assert reader.session.outbox.closing is CloseCode.GOAWAY, "its request may be lost"


def test_a_session_that_goes_on_in_another_gateway_closes_its_socket_here() -> None:
    room = fleet()
    old = room.enter("de", gateway="g2", id="s")
    new = room.enter("de", gateway="g3", id="s")
    assert (old.session.outbox.closing, old.session.outbox.reason) == (CloseCode.GOAWAY, MOVED)
    assert new.session.outbox.closing is None
    old.cut()
    assert set(room.room.subscribers.members) == {"s"}


def test_the_state_of_the_engine_is_known_to_those_who_come_later() -> None:
    room = fleet()
    room.enter("de", gateway="g2")
    room.room.degrade(Degraded(partials="off"), room.now)
    room.act()
    room.add_gateway("g4")
    room.act()
    for name in ("g2", "g4"):
        late = room.enter("de", gateway=name, greeted=False)
        assert one(Degraded, late.events()).partials == "off"
    room.room.degrade(Degraded(partials="on"), room.now)
    room.act()
    late = room.enter("de", gateway="g2", greeted=False)
    assert not only(Degraded, late.events())


def test_readers_are_told_that_the_authority_cannot_be_reached() -> None:
    room = fleet()
    reader = room.enter("de", gateway="g2")
    replica = room.gateways["g2"].replica
    replica.reach(False, room.now)
    assert one(Degraded, reader.events()).partials == "off"
    late = room.enter("de", gateway="g2", greeted=False)
    assert one(Degraded, late.events()).partials == "off"
    replica.reach(True, room.now)
    assert one(Degraded, reader.events()).partials == "on"


def test_the_end_of_a_room_closes_the_sockets_of_all_gateways() -> None:
    room = fleet()
    peers = [room.enter("de", gateway=name) for name in room.gateways]
    replica = room.gateways["g1"].replica
    assert replica.dismiss()
    room.authority.feed.send(Ended)
    room.act()
    assert {peer.session.outbox.closing for peer in peers} == {CloseCode.ROOM_ENDED}
    assert replica.ended and not replica.dismiss()
    replica.introduce()
    assert not room.gateways["g1"].inbox


def test_what_a_tenant_has_in_flight_ends_with_the_socket() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g2")
    account = speaker.session.account = Account()
    account.members.add(speaker.session.member)
    speaker.say("good", id="x", final=False)
    assert account.in_flight == 1
    speaker.cut()
    assert account.in_flight == 0


def test_the_limit_of_utterances_in_flight_holds_at_the_authority() -> None:
    room = fleet(inflight=1)
    speaker = room.enter("de", gateway="g2")
    speaker.say("good", id="x", final=False)
    error = one(Error, speaker.say("more", id="y", final=False))
    assert (error.code, error.id) == ("busy", "y")


def test_a_slow_reader_is_not_sent_all_that_was_said_before() -> None:
    room = fleet(outbox_bytes=4_096)
    speaker = room.enter("de", gateway="g1")
    for number in range(8):
        speaker.say("good " * 20, id=f"x{number}")
        room.finish_all()
    reader = room.enter("fr", gateway="g2")
    reader.session.receive('{"type":"want","langs":["de"]}', room.now)
    room.act()
    assert 0 < len(only(Snapshot, reader.events())) < 8


def test_a_replica_forgets_its_oldest_events() -> None:
    room = fleet()
    room.enter("de", gateway="g1").say("good")
    replica = room.gateways["g2"].replica
    replica.shed(replica.log.bytes)
    assert replica.log.since(0) is None


def test_a_member_that_is_away_keeps_its_work_wherever_it_comes_back() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g2")
    speaker.say("good", id="x", final=False)
    speaker.cut()
    back = room.back(speaker, gateway="g3")
    assert back.session.member.in_flight.utterances == {"x"}
    assert one(Source, back.say("good day", id="x")).text == "good day"


@pytest.mark.parametrize("kind", [Meeting, FleetMeeting])
def test_a_drained_socket_may_complete_what_it_has_begun(kind: type[Meeting]) -> None:
    speaker = kind().enter("de")
    speaker.say("good", id="x", final=False)
    speaker.session.drain()
    assert_error(speaker.say("new", id="y"), ErrorCode.BUSY)
    assert "source" in names(speaker.say("good day", id="x"))


def slow() -> FleetMeeting:
    """Return a meeting whose gateways were greeted, and where no message arrives by itself."""
    room = FleetMeeting(slow=True)
    room.pump()
    return room


def test_a_late_word_of_an_authority_that_is_gone_is_ignored() -> None:
    room = slow()
    gateway = room.gateways["g2"]
    gateway.replica.introduce()
    room.receive(room.gateways["g1"])
    room.write()
    gateway.replica.owned(None)
    room.deliver(gateway)
    assert not gateway.replica.greeted


def test_who_comes_and_goes_before_the_greeting_is_known_after_it() -> None:
    room = slow()
    room.gateways["g2"].replica.introduce()
    stays, leaves = room.enter("de", gateway="g2"), room.enter("fr", gateway="g2")
    leaves.close()
    room.pump()
    members = room.room.subscribers.members
    assert {id: member.langs for id, member in members.items()} == {stays.session.id: ("de",)}
    room.lose_authority()
    stays.send("want", langs=["fr"])
    room.take("g3")
    room.pump()
    assert room.room.subscribers.members[stays.session.id].langs == ("fr",)


def test_a_request_is_sent_once_however_many_follow() -> None:
    room = slow()
    speaker = room.enter("de", gateway="g2")
    room.pump()
    speaker.say("one", id="x")
    speaker.say("two", id="y")
    asked = [decode_inbox(payload) for payload in room.gateways["g1"].inbox]
    assert [one.asked for one in asked if isinstance(one, Asked)] == [1, 2]
    room.pump()
    assert [event.id for event in only(Source, speaker.events())] == ["x", "y"]


def test_an_event_that_was_read_from_the_log_is_not_sent_again() -> None:
    room = slow()
    reader = room.enter("de", gateway="g2")
    room.pump()
    speaker = room.enter("de", gateway="g1")
    speaker.say("one", id="x")
    while room.gateways["g1"].inbox:
        room.receive(room.gateways["g1"])
    room.pump_writes()
    (entry,) = room.entries()
    room.gateways["g2"].replica.apply(entry, room.now)
    room.pump()
    assert one(Source, reader.events()).text == "one"


def test_the_first_event_names_the_log_if_no_authority_has_greeted() -> None:
    room = fleet()
    room.enter("de", gateway="g1").say("one", id="x")
    entries = room.entries()
    room.stream.clear()
    new = room.add_gateway("g4")
    new.replica.apply(entries[0], room.now)
    assert (new.replica.log.epoch, new.replica.log.seq) == ("epoch", 1)


def test_the_news_that_a_session_has_moved_may_come_after_its_end() -> None:
    room = fleet()
    old = room.enter("de", gateway="g2", id="s")
    room.gateways["g2"].replica.greeted = False
    old.close()
    room.gateways["g2"].replica.greeted = True
    room.enter("de", gateway="g3", id="s")
    assert set(room.room.subscribers.members) == {"s"}
