"""Members that join late: recent events, backfilled languages, and presence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.auth.permissions import Role
from gateway.job import Priority
from gateway.limits import Limits
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Line,
    Retracted,
    Snapshot,
    Source,
    Welcome,
)
from gateway.protocol.notices import Presence
from tests.support.meeting import NOW, Meeting, Peer, meeting, names, one, only

# --- who comes late -----------------------------------------------------------------------------


def test_a_new_reader_is_sent_recent_events_of_its_languages() -> None:
    room, peer = meeting("de", "fr")
    for text in ("one", "two"):
        peer.say(text)
        room.finish_all()
    peer.send("set", context="a stand-up")
    events = room.enter("de-AT", greeted=False).events()
    welcome = one(Welcome, events)
    assert names(events) == ["welcome", "source", "final", "source", "final"]
    assert [final.lang for final in only(Final, events)] == ["de-AT", "de-AT"]
    told = [event for event in events if isinstance(event, Source | Final)]
    assert [event.seq for event in told] == [1, 2, 4, 5]
    assert welcome.seq == 0


def test_the_number_in_the_welcome_is_the_one_before_the_first_event_that_follows() -> None:
    room, peer = meeting("de", backfill=1)
    for text in ("one", "two"):
        peer.say(text)
        room.finish_all()
    assert one(Welcome, room.enter("de", greeted=False).events()).seq == 2
    assert one(Welcome, room.enter(greeted=False).events()).seq == 4


def test_recent_utterances_are_bounded() -> None:
    room, peer = meeting("de", backfill=2)
    for n in range(4):
        peer.say(f"{n}")
    room.finish_all()
    events = room.enter("de", greeted=False).events()
    assert [source.text for source in only(Source, events)] == ["2", "3"]
    assert len(only(Final, events)) == 2


def test_a_new_reader_is_sent_no_more_than_its_outbox_has_room_for() -> None:
    room, peer = meeting("de", backfill=8, outbox_bytes=16_000)
    for n in range(8):
        peer.say(f"{n} " + "words " * 50)
        room.finish_all()
        peer.events()
    late = room.enter("de", greeted=False)
    assert [source.text[0] for source in only(Source, late.events())] == ["4", "5", "6", "7"]
    late.send("want", langs=["fr"])
    room.finish_all()
    late.events()
    events = room.enter().send("want", langs=["de"])
    assert [snapshot.text[0] for snapshot in only(Snapshot, events)] == ["4", "5", "6", "7"]
    assert late.session.outbox.closing is None


def test_a_new_reader_is_sent_failures_corrections_and_cancels() -> None:
    room, peer = meeting("de")
    for id in ("failed", "cancelled", "whole", "edited", "original"):
        peer.say(id, id=id)
    room.fail(room.job("de", "failed"))
    peer.send("cancel", id="cancelled", langs=["de"])
    peer.send("cancel", id="whole")
    room.finish_all()
    peer.send("edit", id="edited", lang="de", text="besser")
    peer.send("edit", id="original", lang="en", text="better")
    room.finish_all()
    late = room.enter("de", greeted=False)
    late.events()
    assert late.screen["edited", "de"].text == "besser"
    assert late.screen["original", "de"].text == "[de] better"
    assert late.screen.originals["original"].text == "better"
    assert isinstance(late.screen["failed", "de"].end, Failed)
    assert isinstance(late.screen["cancelled", "de"].end, Cancelled)
    assert late.screen.void == {"whole": 1}
    other = room.enter("fr", greeted=False).events()
    assert not only(Failed, other)
    assert [event.lang for event in only(Edited, other)] == ["en"]


def test_retracted_utterances_are_not_sent_to_new_readers() -> None:
    room, peer = meeting("de", utterances=1)
    for text in ("kept", "gone"):
        peer.say(text)
    room.finish_all()
    peer.send("retract", id="u2")
    peer.say("next")
    events = room.enter("de", greeted=False).events()
    assert [source.text for source in only(Source, events)] == ["kept", "next"]
    assert not only(Retracted, events)


def test_a_reader_with_too_many_languages_is_sent_only_the_error() -> None:
    room, peer = meeting("de", targets=1)
    peer.say("hello")
    assert names(room.enter("de", "fr", greeted=False).events()) == ["welcome", "error"]


def test_a_reader_that_adds_a_language_is_shown_its_finished_captions() -> None:
    room, peer = meeting("de", "fr")
    reader = room.enter("de")
    peer.say("hello")
    room.finish_all()
    reader.events()
    assert reader.send("want", langs=["de", "fr-CA"]) == [
        Snapshot(
            id="u1",
            rev=1,
            ord=1,
            lang="en",
            text="hello",
            final=True,
            lines=(Line(lang="fr-CA", state="final", text="[fr] hello", by="mt"),),
        )
    ]
    assert reader.screen["u1", "fr-CA"].text == "[fr] hello"


def test_a_reader_that_came_without_a_language_is_shown_finished_captions_too() -> None:
    room, peer = meeting("de")
    reader = room.enter()
    for text in ("one", "two", "three"):
        peer.say(text)
    room.fail(room.job("de", "one"))
    room.finish_all()
    reader.events()
    shown = only(Snapshot, reader.send("want", langs=["de"]))
    assert [snapshot.text for snapshot in shown] == ["two", "three"]


def test_a_reader_chooses_how_many_utterances_it_is_shown() -> None:
    room, peer = meeting("de", backfill=3)
    for n in range(5):
        peer.say(f"{n}")
    room.finish_all()
    shown = {}
    for most in (0, 1, 100):
        events = room.enter().send("want", langs=["de"], backfill=most)
        shown[most] = [snapshot.text for snapshot in only(Snapshot, events)]
    assert shown == {0: [], 1: ["4"], 100: ["2", "3", "4"]}


# --- a language that is new to the room ---------------------------------------------------------


def test_a_language_new_to_the_room_is_backfilled_when_the_engine_has_time() -> None:
    room, peer = meeting("de", backfill=2)
    for text in ("one", "two", "three"):
        peer.say(text)
    room.finish_all()
    late = room.enter("fr", role=Role.VIEW)
    assert [(job.text, job.priority) for job in room.jobs.values()] == [
        ("three", Priority.BACKFILL),
        ("two", Priority.BACKFILL),
    ]
    room.finish_all()
    assert {final.id: final.text for final in only(Final, late.events())} == {
        "u2": "[fr] two",
        "u3": "[fr] three",
    }
    assert {final.seq for final in only(Final, room.log) if final.lang == "fr"} == {7, 8}


def test_a_reader_may_ask_for_no_backfill() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.finish_all()
    room.enter().send("want", langs=["fr"], backfill=0)
    assert not room.jobs


def test_cancelled_and_retracted_utterances_are_not_backfilled() -> None:
    room, peer = meeting("de")
    for text in ("cancelled", "retracted", "growing"):
        peer.say(text, id=text, final=text != "growing")
    peer.send("cancel", id="cancelled")
    peer.send("retract", id="retracted")
    peer.send("cancel", id="growing")
    room.enter("fr")
    assert not room.jobs


def test_utterances_that_were_forgotten_are_not_backfilled() -> None:
    room, peer = meeting(utterances=1)
    for text in ("one", "two"):
        peer.say(text)
    room.enter("fr")
    assert [job.text for job in room.jobs.values()] == ["two"]


def test_a_cancel_that_came_too_late_changes_nothing_of_that() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.finish_all()
    peer.send("cancel", id="u1")
    room.enter("fr")
    assert room.job("fr").text == "hello"


def test_originals_in_the_new_language_are_shown_at_once() -> None:
    room, peer = meeting()
    peer.say("hello")
    assert one(Final, room.enter("en", greeted=False).events()).by == "same"


def test_backfill_leaves_half_of_the_queue_free() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=6))
    peer = room.enter("de")
    for n in range(7):
        peer.say(f"{n}")
    room.finish_all()
    room.enter("fr", "en", role=Role.VIEW)
    room.enter("es", role=Role.VIEW)
    assert (room.scheduler.running, room.scheduler.queued) == (1, 3)
    assert room.scheduler.admits(3)
    made = [final for final in only(Final, room.log) if final.lang == "en"]
    assert len(made) == 7


def test_backfill_is_cancelled_when_its_reader_has_left_for_good() -> None:
    room, peer = meeting("de", linger_s=30.0)
    peer.say("hello")
    room.finish_all()
    reader = room.enter("fr", role=Role.VIEW)
    room.feed(room.job("fr"), "bon")
    reader.close()
    room.wait(30.0)
    assert not room.jobs
    assert [line.state for line in room.room.snapshots.snapshot("u1").lines] == [
        "final",
        "cancelled",
    ]


def test_a_reader_that_comes_during_a_backfill_is_shown_what_it_missed() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.finish_all()
    room.enter("fr", role=Role.VIEW)
    room.feed(room.job("fr"), "bon")
    late = room.enter("fr-CA", role=Role.VIEW)
    room.finish(room.job("fr"), "jour")
    late.events()
    assert late.screen["u1", "fr-CA"].text == "bonjour"


def test_a_reader_may_change_its_view_with_its_languages() -> None:
    _, peer = meeting("de")
    peer.send("want", langs=["de"], view="stable")
    assert peer.session.member.view == "stable"
    peer.send("want", langs=["de", "fr"])
    assert peer.session.member.view == "stable"


# --- presence -----------------------------------------------------------------------------------


def test_everybody_is_told_who_is_here_and_many_who_come_at_once_are_told_of_once() -> None:
    room = Meeting()
    peers = [
        room.enter("de", speaker="Ada"),
        room.enter("de-AT", "fr", speaker="Bob", role=Role.MODERATE),
        room.enter("fr", speaker="Eve", role=Role.VIEW),
    ]
    room.wait(1.0)
    for peer in peers:
        assert only(Presence, peer.events()) == [
            Presence(readers={"de": 2, "fr": 2}, members=3, speakers=("Ada", "Bob"))
        ]


def test_a_person_alone_is_told_nothing_until_somebody_has_come_and_gone() -> None:
    room = Meeting()
    peer = room.enter("de")
    room.wait(60.0)
    assert peer.events() == []
    room.enter().close()
    room.wait(1.0)
    assert peer.events() == [Presence(readers={"de": 1}, members=1)]
    peer.send("want", langs=["fr"])
    room.wait(60.0)
    assert peer.events() == []


def test_changes_are_told_once_a_second_at_most() -> None:
    room = Meeting(limits=Limits(presence_s=1.0))
    peer, other = room.enter(), room.enter()
    room.wait(1.0)
    for lang in ("de", "fr", "es"):
        other.send("want", langs=[lang])
        room.wait(0.25)
    assert [event.readers for event in only(Presence, peer.events())] == [{}]
    room.wait(0.25)
    assert [event.readers for event in only(Presence, peer.events())] == [{"es": 1}]
    other.send("set", speaker="Bob")
    room.wait(1.0)
    assert one(Presence, peer.events()).speakers == ("Bob",)


def test_a_room_that_is_woken_before_its_time_waits_on() -> None:
    room = Meeting()
    peer = room.enter()
    room.enter()
    room.room.on_timer(NOW)
    assert peer.events() == []
    room.wait(1.0)
    assert names(peer.events()) == ["presence"]


@pytest.mark.parametrize("go", [Peer.close, Peer.cut])
def test_the_others_are_told_when_a_member_has_gone(go: Callable[[Peer], None]) -> None:
    room = Meeting(limits=Limits(presence_s=1.0))
    peer, other = room.enter("de"), room.enter("fr")
    room.wait(1.0)
    peer.events()
    go(other)
    assert peer.events() == []
    room.wait(1.0)
    assert one(Presence, peer.events()).members == 1


def test_a_new_language_is_made_of_the_utterances_that_a_newcomer_is_shown() -> None:
    room, peer = meeting("de", backfill=3)
    for n in range(7):
        peer.say(f"{n}", id=f"u{n}x")
        room.finish_all()
    peer.send("retract", id="u6x")
    peer.send("cancel", id="u5x")
    late = room.enter("fr", greeted=False)
    shown = [source.text for source in only(Source, late.events())]
    room.finish_all()
    made = sorted(room.room.utterances.by_id[f.id].text for f in only(Final, late.events()))
    assert made == shown == ["3", "4", "5"]
