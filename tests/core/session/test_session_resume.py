"""A client that comes back: the events that it is sent, in order and each once."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.history.event_log import StreamPosition
from gateway.core.members.member import OWED
from gateway.core.session.log_reader import PAGE
from gateway.core.session.state import SessionState
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Edited,
    Final,
    Resumed,
    Retracted,
    ServerMessage,
    Settings,
    Snapshot,
    Synced,
    View,
    Welcome,
)
from gateway.protocol.notices import Error, Presence, Stats, Tick
from tests.support.meeting import Meeting, Peer, blank, meeting, names, one, only


def said(room: Meeting, peer: Peer, *texts: str) -> None:
    """Say and translate texts, and let the speaker read everything."""
    for text in texts:
        peer.say(text)
        room.finish_all()
        peer.events()


def numbers(events: list[ServerMessage]) -> list[int]:
    """Return the numbers of the durable events."""
    found = (getattr(e, "seq", None) for e in events if not isinstance(e, Welcome | Tick | Synced))
    return [seq for seq in found if seq is not None]


# --- what was missed ----------------------------------------------------------------------------


def test_a_resumed_session_is_sent_missed_events_and_then_captions_in_flight() -> None:
    room, peer = meeting("de", "fr")
    reader = room.enter("de-AT")
    said(room, peer, "one")
    reader.events()
    reader.cut()
    said(room, peer, "two", "three")
    peer.say("four")
    room.feed(room.job("de"), "[de] f")
    events = room.back(reader).events()
    assert names(events) == ["welcome", *(["source", "final"] * 2), "source", "snapshot"]
    assert numbers(events) == [4, 5, 7, 8, 10] == sorted(numbers(events))
    welcome = one(Welcome, events)
    assert (welcome.seq, welcome.session) == (2, reader.session.id)
    assert welcome.resumed == Resumed(ok=True, replayed=5)
    assert {final.lang for final in only(Final, events)} == {"de-AT"}
    (line,) = one(Snapshot, events).lines
    assert (line.lang, line.state, line.text) == ("de-AT", "running", "[de] f")


def test_then_life_goes_on_where_the_snapshot_ended() -> None:
    room, peer = meeting("de")
    reader = room.enter("de")
    peer.say("one")
    reader.events()
    reader.cut()
    room.feed(room.job("de"), "ei")
    again = room.back(reader)
    assert names(again.events()) == ["welcome", "snapshot"]
    room.finish(room.job("de"), "ns")
    assert names(again.events()) == ["delta", "final"]
    assert again.screen["u1", "de"].text == "eins"


@pytest.mark.parametrize(
    ("view", "shown"), [("live", [("a", "b c")]), ("stable", [("a", None)]), ("final", [])]
)
def test_a_snapshot_shows_what_the_view_has(
    view: View, shown: list[tuple[str, str | None]]
) -> None:
    room, peer = meeting("de")
    for text, output in (("one", "a"), ("one two", "a b c")):
        peer.say(text, id="x", final=False)
        room.finish(room.job("de"), output.removeprefix(room.job("de").prefix))
    reader = room.enter("de", view=view)
    reader.cut()
    (caption,) = room.room.utterances.by_id["x"].captions.values()
    caption.stable, caption.draft = "a", "b c"
    events = room.back(reader).events()
    lines = [line for shot in only(Snapshot, events) for line in shot.lines]
    assert [(line.text, line.draft) for line in lines] == shown


def test_a_snapshot_is_of_what_somebody_reads() -> None:
    room, peer = meeting("de")
    other = room.enter("fr")
    peer.say("one")
    room.finish(room.job("de"), "eins")
    for client in (peer, other):
        client.events()
        client.cut()
    assert "snapshot" not in names(room.back(peer).events())
    assert [line.lang for line in one(Snapshot, room.back(other).events()).lines] == ["fr"]


def test_snapshots_that_do_not_fit_are_left_out() -> None:
    room = Meeting(limits=Limits(outbox_bytes=4_000))
    peer, reader = room.enter(), room.enter("de")
    for n in range(10):
        peer.say(f"{n} " + "word " * 50)
        peer.events()
        reader.events()
    reader.cut()
    events = room.back(reader).events()
    assert names(events) == ["welcome"]


def test_settings_corrections_and_cancels_are_told_again_as_they_were_decided() -> None:
    room, peer = meeting("de")
    reader, deaf = room.enter("de"), room.enter("fr")
    first = names(reader.events()), deaf.events()
    assert first
    said(room, peer, "one", "two", "three")
    peer.send("set", context="a stand-up")
    peer.send("edit", id="u1", lang="de", text="eins")
    peer.send("edit", id="u2", lang="en", text="too")
    peer.send("cancel", id="u3")
    room.finish_all()
    peer.say("four")
    peer.send("cancel", id="u4", langs=["de"])
    peer.send("retract", id="u3")
    for client in (reader, deaf):
        told = client.events()
        client.cut()
        again = room.back(client, 0).events()
        assert [e for e in again if numbers([e])] == [
            e if getattr(e, "id", None) != "u3" or isinstance(e, Retracted) else blank(e)
            for e in told
            if numbers([e])
        ]
        assert only(Edited, again)[-1].by == "mt" or client is deaf


def test_a_client_can_catch_up_without_an_earlier_session() -> None:
    room, peer = meeting("de")
    said(room, peer, "one", "two")
    new = room.enter("de", since=StreamPosition("epoch", 2), greeted=False)
    events = new.events()
    assert one(Welcome, events).resumed == Resumed(ok=True, replayed=2)
    assert numbers(events) == [3, 4]


def test_a_client_that_has_all_events_is_sent_none() -> None:
    room, peer = meeting("de")
    said(room, peer, "one")
    peer.cut()
    events = room.back(peer).events()
    assert one(Welcome, events).resumed == Resumed(ok=True, replayed=0)
    assert names(events) == ["welcome"]


def test_two_tags_of_one_language_are_both_told() -> None:
    room, peer = meeting("de", "de-AT")
    said(room, peer, "one")
    peer.cut()
    events = room.back(peer, 0).events()
    assert one(Welcome, events).resumed == Resumed(ok=True, replayed=3)
    assert [final.lang for final in only(Final, events)] == ["de", "de-AT"]


def test_a_language_that_does_not_exist_is_named_after_what_was_missed() -> None:
    room, peer = meeting("de")
    said(room, peer, "one")
    since = StreamPosition("epoch", 0)
    events = room.enter("de", "tlh", since=since, greeted=False).events()
    assert names(events) == ["welcome", "source", "final", "error"]
    many = room.enter(*["de"] * 99, since=since, greeted=False).events()
    assert names(many) == ["welcome", "source", "error"]


# --- what cannot be told ------------------------------------------------------------------------


def test_a_client_beyond_the_log_gets_recent_events_and_the_path_of_the_transcript() -> None:
    room, peer = meeting("de", log=4)
    said(room, peer, "one", "two", "three")
    peer.cut()
    events = room.back(peer, 1).events()
    welcome = one(Welcome, events)
    path = "/v1/rooms/meeting/transcript.json"
    assert welcome.resumed == Resumed(ok=False, replayed=4, from_=3, transcript=path)
    assert welcome.seq == 2
    assert numbers(events) == [3, 4, 5, 6]


def test_another_epoch_and_a_number_from_the_future_are_of_another_history() -> None:
    room, peer = meeting("de")
    said(room, peer, "one")
    for since in (StreamPosition("other", 1), StreamPosition("epoch", 3)):
        welcome = one(Welcome, room.enter("de", since=since, greeted=False).events())
        assert welcome.resumed is not None and not welcome.resumed.ok
        assert (welcome.resumed.from_, welcome.resumed.replayed) == (1, 2)


def test_a_position_before_a_crash_can_be_resumed() -> None:
    room, peer = meeting("de")
    said(room, peer, "one")
    room.room.log.before = StreamPosition("crashed", 1)
    welcome = one(
        Welcome, room.enter("de", since=StreamPosition("crashed", 1), greeted=False).events()
    )
    assert welcome.resumed == Resumed(ok=True, replayed=1)
    assert (welcome.epoch, welcome.seq) == ("epoch", 1)


def test_a_private_room_has_no_transcript() -> None:
    room = Meeting()
    room.room.name = "~own"
    welcome = one(Welcome, room.enter(since=StreamPosition("other", 1), greeted=False).events())
    assert welcome.resumed == Resumed(ok=False, replayed=0, from_=1)


# --- more than can wait -------------------------------------------------------------------------


def behind(texts: int = 60, **limits: Any) -> tuple[Meeting, Peer, Peer]:
    """Return a meeting, its speaker, and a reader that missed more than one page."""
    room = Meeting(limits=Limits(**{"outbox_bytes": 20_000, **limits}))
    peer, reader = room.enter(), room.enter("de")
    reader.cut()
    said(room, peer, *(f"{n} " + "word " * 20 for n in range(texts)))
    return room, peer, room.back(reader, 0)


def test_an_outbox_that_empties_within_a_page_asks_for_no_other() -> None:
    room, peer = meeting("de", rate=1e6, burst=1_000)
    for _ in range(PAGE // 2 + 10):
        said(room, peer, "one")
    session = room.enter("de", greeted=False).session
    session.outbox.take()
    taken: list[str | bytes] = []
    session.outbox.wake = lambda: taken.extend(session.outbox.take())  # a socket with room
    session.receive('{"type":"sync","epoch":"epoch","seq":0}', room.now)
    assert len(taken) == 1 + PAGE and room.behind == [session.reader]
    room.act()
    assert len(taken) == 1 + PAGE + 20 and session.member.catch_up is None


def test_a_long_replay_comes_as_fast_as_it_is_read_and_never_fills_the_outbox() -> None:
    room, _, reader = behind()
    told: list[int] = []
    while reader.session.member.catch_up is not None:
        assert 0 < reader.session.outbox.bytes <= 20_000 // 4 + 2_000
        told += range(len(reader.session.outbox.take()))
        room.act()
    assert len(told) + len(reader.session.outbox) == 1 + 120
    assert reader.session.outbox.refill is None


def test_events_during_a_catch_up_come_in_order_and_deltas_do_not_come() -> None:
    room, peer, reader = behind()
    peer.say("new")
    room.feed(room.job("de"), "ne")
    peer.send("want", langs=["fr"])
    room.wait(1.0)
    assert reader.session.member.catch_up is not None
    events = reader.events()
    assert numbers(events) == list(range(1, 122))
    assert only(Delta, events) == []
    assert one(Presence, events)
    assert names(events)[-1] == "snapshot"
    room.finish(room.job("de"), "u")
    assert names(reader.events()) == ["delta", "final"]
    assert reader.screen["u61", "de"].text == "neu"
    assert one(Stats, reader.send("stats")).finals == 61


def test_a_heartbeat_says_how_far_it_has_been_told() -> None:
    room, _, reader = behind()
    reader.session.tick(room.now)
    events = reader.events()
    at = names(events).index("tick")
    assert one(Tick, events).seq == numbers(events[:at])[-1] < 120
    reader.session.tick(room.now)
    assert one(Tick, reader.events()).seq == 120


def test_an_answer_comes_in_its_place_with_its_ref() -> None:
    room, _, reader = behind()
    reader.session.receive('{"type":"set","context":"x","ref":"r"}', room.now)
    reader.session.receive('{"type":"say","id":"own","text":"mine","ref":"s"}', room.now)
    reader.session.receive('{"type":"cancel","id":"own","langs":["de"],"ref":"c"}', room.now)
    events = reader.events()
    assert numbers(events) == list(range(1, 124))
    assert one(Ack, events).ref == "s"
    assert (one(Settings, events).ref, one(Cancelled, events).ref) == ("r", "c")
    assert one(Cancelled, events).lang == "de"


def test_an_answer_in_a_language_that_it_does_not_read_comes_beside_those_it_reads() -> None:
    room, peer, reader = behind()
    peer.send("want", langs=["de"])
    reader.session.receive('{"type":"say","id":"own","text":"mine"}', room.now)
    reader.session.receive('{"type":"cancel","id":"own","langs":["de-AT"],"ref":"c"}', room.now)
    ends = only(Cancelled, reader.events())
    assert [(end.lang, end.ref) for end in ends] == [("de", None), ("de-AT", "c")]


def test_answers_beyond_the_bound_come_without_their_ref() -> None:
    room, _, reader = behind(burst=1_000)
    for _ in range(OWED + 1):
        reader.session.receive('{"type":"set","context":"x","ref":"r"}', room.now)
    told = only(Settings, reader.events())
    assert [event.ref for event in told] == ["r"] * OWED + [None]


def test_a_session_that_the_log_leaves_behind_is_closed_and_may_resume() -> None:
    room, peer, reader = behind(log=130)
    said(room, peer, *"abcdefghijklmnop")
    assert reader.session.member.catch_up is not None
    reader.events()
    assert reader.session.outbox.closing is CloseCode.TOO_SLOW


def test_a_bye_waits_until_all_is_told() -> None:
    room, _, reader = behind()
    reader.session.receive('{"type":"bye"}', room.now)
    assert reader.session.state is SessionState.LEAVING and reader.session.outbox.closing is None
    events = reader.events()
    assert numbers(events) == list(range(1, 121))
    assert names(events)[-1] == "stats"
    assert reader.session.outbox.closing is CloseCode.DONE


def test_a_socket_that_is_lost_meanwhile_is_told_no_more() -> None:
    room, _, reader = behind()
    reader.session.outbox.take()
    assert room.behind == [reader.session.reader]
    reader.cut()
    assert not len(reader.session.outbox)
    assert numbers(room.back(reader, 120).events()) == []


def test_pages_in_which_there_is_nothing_for_a_reader_are_passed_over() -> None:
    room, peer = meeting("de", "fr", "es", burst=1_000)
    reader = room.enter(codec=Codec.PLAIN)
    reader.cut()
    for _ in range(PAGE // 2):
        said(room, peer, "one")
    session = room.enter(
        "fr", since=StreamPosition("epoch", 0), codec=Codec.PLAIN, role=peer.session.member.role
    ).session
    lines = session.outbox.take()
    room.act()
    while frames := session.outbox.take():
        lines += frames
        room.act()
    assert lines == ["[fr] [fr] one"] * (PAGE // 2) and session.member.catch_up is None


def test_a_reader_who_is_shown_nothing_at_all_catches_up_by_itself() -> None:
    room, peer = meeting("de", "fr", burst=1_000)
    for _ in range(PAGE):
        said(room, peer, "one")
    session = room.enter(since=StreamPosition("epoch", 0), codec=Codec.PLAIN).session
    session.outbox.take()
    for _ in range(4):
        room.act()
    assert session.member.catch_up is None and not room.behind


# --- sync ---------------------------------------------------------------------------------------


def test_an_open_socket_is_told_again_what_came_after_a_number() -> None:
    room, peer = meeting("de")
    said(room, peer, "one", "two")
    peer.say("three")
    room.feed(room.job("de"), "dr")
    peer.events()
    events = peer.send("sync", epoch="epoch", seq=2, ref="r")
    assert names(events) == ["synced", "source", "final", "source", "snapshot"]
    answer = one(Synced, events)
    assert (answer.ok, answer.replayed, answer.seq, answer.ref) == (True, 3, 2, "r")
    assert numbers(events) == [3, 4, 5]
    room.finish(room.job("de"), "ei")
    assert names(peer.events()) == ["delta", "final"]


def test_a_sync_beyond_the_log_is_answered_as_lost() -> None:
    room, peer = meeting("de", log=4)
    said(room, peer, "one", "two", "three")
    peer.say("four")
    peer.events()
    events = peer.send("sync", epoch="epoch", seq=1)
    answer = one(Synced, events)
    assert (answer.ok, answer.from_, answer.replayed) == (False, 4, 3)
    assert answer.transcript == "/v1/rooms/meeting/transcript.json"
    assert names(events) == ["synced", "source", "final", "source", "snapshot"]
    assert answer.seq == numbers(events)[0] - 1


def test_a_second_sync_during_a_catch_up_is_refused() -> None:
    room, _, reader = behind()
    reader.session.receive('{"type":"sync","epoch":"epoch","seq":0,"ref":"r"}', room.now)
    events = reader.events()
    error = one(Error, events)
    assert (error.code, error.ref, error.retry) == (ErrorCode.BUSY, "r", True)
    assert numbers(events) == list(range(1, 121))
    assert numbers(reader.send("sync", epoch="epoch", seq=118)) == [119, 120]


def test_a_reader_cannot_have_long_histories_told_again_and_again() -> None:
    room, peer = meeting("de", rate=1.0, burst=2)
    for _ in range(PAGE // 2):
        peer.meeting.wait(10.0)
        said(room, peer, "one")
    room.wait(10.0)
    assert names(peer.send("sync", epoch="epoch", seq=0))[0] == "synced"
    error = one(Error, peer.send("sync", epoch="epoch", seq=0))
    assert (error.code, error.retry_ms) == (ErrorCode.RATE, 1000)


def test_a_sync_at_the_end_of_a_long_log_costs_nothing() -> None:
    room, peer = meeting("de", rate=1.0, burst=2)
    for _ in range(PAGE // 2):
        room.wait(10.0)
        said(room, peer, "one")
    room.wait(10.0)
    for _ in range(2):
        assert names(peer.send("sync", epoch="epoch", seq=room.room.log.seq)) == ["synced"]


def test_a_sync_needs_both_and_no_negative_number() -> None:
    _, peer = meeting()
    for fields in ({"seq": 1}, {"epoch": "e"}, {"epoch": "e", "seq": -1}):
        assert one(Error, peer.send("sync", **fields)).code == ErrorCode.BAD_FRAME
