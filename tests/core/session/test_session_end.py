"""The end of a session, by its client, by its limits, or by the end of the gateway."""

from __future__ import annotations

import gc
import logging
import sys
from typing import Any

import msgspec
import pytest

from gateway.auth.permissions import EVERYTHING
from gateway.core.session.session import WEIGHT
from gateway.core.session.state import SessionState
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Ack, Cancelled, Final
from gateway.protocol.notices import Error, Stats
from tests.support.meeting import NOW, Meeting, assert_error, client, names, one, only

# --- too much, and nonsense -----------------------------------------------------------------------


def test_more_frames_than_the_rate_are_not_read_and_the_socket_stays() -> None:
    peer = client(rate=10, burst=2)
    peer.say("a")
    peer.say("b")
    error = assert_error(peer.say("c"), ErrorCode.RATE)
    assert error.retry_ms == 100
    assert peer.meeting.room.log.seq == 2
    peer.meeting.now += 0.1
    assert names(peer.say("c")) == ["ack", "source"]


@pytest.mark.parametrize("binary", [False, True])
def test_a_long_frame_counts_as_several_against_the_rate(binary: bool) -> None:
    peer = client(rate=10, burst=4)
    glossary = {f"{n} " + "x" * 190: "y" * 200 for n in range(100)}
    change = {"type": "set", "glossary": glossary}
    frame = msgspec.msgpack.encode(change) if binary else msgspec.json.encode(change).decode()
    assert 9 * WEIGHT < len(frame) < 10 * WEIGHT
    assert names(peer.frame(frame)) == ["settings"]
    # Of the bucket, one is for the frame itself and nine are for its length.
    assert assert_error(peer.say("a"), ErrorCode.RATE).retry_ms == 700
    peer.meeting.now += 0.7
    assert names(peer.say("a")) == ["ack", "source"]


def test_the_longest_utterance_counts_as_one_frame_in_every_script() -> None:
    peer = client(rate=10, burst=3)
    for letter in ("x", "ü", "字"):
        assert names(peer.say(letter * 2_000)) == ["ack", "source"]
    peer.meeting.now += 0.1
    assert names(peer.say("a")) == ["ack", "source"]


def test_a_glossary_is_taken_in_with_a_few_calls_for_each_term_however_long_it_is() -> None:
    counts = []
    for length in (10, 50):
        peer = client()
        glossary = {f"{n:03} " + "字" * length: "ü" * length for n in range(300)}
        frame = msgspec.json.encode({"type": "set", "glossary": glossary}).decode()
        calls = 0

        def count(frame: object, event: str, _: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        gc.disable()  # its callbacks are calls too
        sys.setprofile(count)
        try:
            peer.session.receive(frame, NOW)
        finally:
            sys.setprofile(None)
            gc.enable()
        counts.append(calls)
    assert counts[0] == counts[1] < 40 * 300


def test_ten_unreadable_frames_in_a_row_close_the_socket() -> None:
    peer = client()
    errors = [one(Error, peer.frame("{")) for _ in range(10)]
    assert [error.fatal for error in errors] == [False] * 9 + [True]
    outbox = peer.session.outbox
    assert (outbox.closing, outbox.reason) == (
        CloseCode.PROTOCOL_ERROR,
        "10 unreadable frames in a row.",
    )
    assert peer.say("hello") == []


def test_a_readable_frame_between_them_starts_the_count_again() -> None:
    peer = client()
    for between in ('{"type":"help"}', '{"type":"from-the-future"}', ""):
        for _ in range(9):
            peer.frame("{")
        peer.frame(between)
    assert peer.session.outbox.closing is None


def test_types_of_a_newer_protocol_never_close_the_socket() -> None:
    peer = client()
    for _ in range(30):
        assert_error(peer.send("whisper", ref="s"), ErrorCode.UNKNOWN_TYPE)
    assert peer.session.outbox.closing is None


def test_the_error_of_an_unreadable_frame_echoes_what_could_be_made_out() -> None:
    error = assert_error(client().send("say", text=5, id="x", ref="r"), ErrorCode.BAD_FRAME)
    assert (error.id, error.ref) == ("x", "r")


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"auth","token":"t"}',
        '{"type":"get","id":"a"}',
        '{"type":"stats"}',
        '{"type":"help"}',
        '{"type":"sync","epoch":"epoch","seq":2}',
        '{"type":"set"}',
        "{",
    ],
)
def test_every_answer_counts_from_when_it_was_sent_if_nobody_takes_it(frame: str) -> None:
    room = Meeting()
    peer = room.enter("de", renew=lambda _: EVERYTHING)
    peer.say("hello", id="a")
    room.finish_all()
    peer.events()
    peer.session.receive(frame, room.now)
    peer.session.tick(room.now + room.limits.outbox_s)
    assert peer.session.outbox.closing is None
    peer.session.tick(room.now + room.limits.outbox_s + 1)
    assert peer.session.outbox.closing is CloseCode.TOO_SLOW


def test_so_does_a_refusal_over_the_rate() -> None:
    peer = client(rate=1, burst=1)
    peer.send("stats")
    now = peer.meeting.now
    peer.session.receive('{"type":"stats"}', now)
    peer.session.tick(now + peer.meeting.limits.outbox_s + 1)
    assert peer.session.outbox.closing is CloseCode.TOO_SLOW


def test_so_does_a_welcome_and_a_session_is_refused_behind_it() -> None:
    room = Meeting()
    peer, other = room.enter(greeted=False), room.enter(greeted=False)
    peer.session.tick(room.now + room.limits.outbox_s + 1)
    assert peer.session.outbox.closing is CloseCode.TOO_SLOW
    fault = ClientFault(ErrorCode.UNAUTHENTICATED, "It has expired.")
    other.session.refuse(fault, CloseCode.UNAUTHENTICATED, room.now)
    assert names(other.events()) == ["welcome", "error"]


def test_a_slow_reader_is_closed_and_changes_nothing_for_a_fast_one() -> None:
    room = Meeting(limits=Limits(outbox_bytes=16_000))
    speaker, slow, fast = room.enter(), room.enter("de"), room.enter("de")
    shown = []
    for n in range(30):
        speaker.say(f"hello {n}")
        speaker.events()
        room.finish_all()
        shown += only(Final, fast.events())
    assert [final.text for final in shown] == [f"[de] hello {n}" for n in range(30)]
    assert slow.session.outbox.closing is CloseCode.TOO_SLOW
    assert slow.session.outbox.bytes == 0
    assert slow.frame("{") == []


# --- the end --------------------------------------------------------------------------------------


def test_bye_finishes_what_is_in_flight_then_sends_stats_and_closes() -> None:
    peer = client("de")
    peer.say("hello")
    assert peer.send("bye", ref="b") == []
    assert peer.session.state is SessionState.LEAVING
    assert_error(peer.say("more"), ErrorCode.BUSY)
    peer.meeting.finish_all()
    events = peer.events()
    assert names(events)[-2:] == ["final", "stats"]
    assert one(Stats, events).ref == "b"
    assert peer.session.outbox.closing is CloseCode.DONE


def test_bye_with_nothing_in_flight_closes_at_once() -> None:
    peer = client()
    assert names(peer.send("bye")) == ["stats"]
    assert peer.session.outbox.closing is CloseCode.DONE
    assert peer.send("bye") == []


def test_a_second_bye_changes_nothing() -> None:
    peer = client("de")
    peer.say("hello")
    peer.send("bye", ref="first")
    assert peer.send("bye", ref="second") == []
    peer.meeting.finish_all()
    assert one(Stats, peer.events()).ref == "first"


def test_without_a_ref_the_last_stats_have_none() -> None:
    (stats,) = client().send("bye")
    assert isinstance(stats, Stats) and stats.ref is None


def test_bye_cancels_nothing_of_another_speaker() -> None:
    room = Meeting()
    peer, other = room.enter("de"), room.enter("de")
    other.say("we met", id="theirs", final=False)
    peer.events()
    assert names(peer.send("bye")) == ["stats"]
    assert "cancelled" not in names(other.events())


def test_bye_cancels_what_was_not_said_to_its_end() -> None:
    peer = client("de")
    peer.say("hello", id="x", final=False)
    peer.say("done")
    assert one(Cancelled, peer.send("bye")).id == "x"
    peer.meeting.finish_all()
    assert names(peer.events())[-2:] == ["final", "stats"]


def test_a_session_that_drains_lets_what_is_in_flight_end_and_takes_nothing_new() -> None:
    peer = client("de")
    peer.say("hello", id="x", final=False)
    peer.session.drain()
    peer.session.drain()
    assert_error(peer.say("new"), ErrorCode.BUSY)
    assert one(Ack, peer.say("hello you", id="x")).rev == 2
    peer.meeting.finish_all()
    assert one(Final, peer.events()).text == "[de] hello you"
    assert peer.session.outbox.closing is None, "it is closed with its room"


def test_a_bye_during_a_drain_ends_the_session_as_usual() -> None:
    peer = client("de")
    peer.say("hello")
    peer.session.drain()
    peer.send("bye")
    peer.session.drain()
    peer.session.dismiss()
    peer.meeting.finish_all()
    assert names(peer.events())[-2:] == ["final", "stats"]
    assert peer.session.outbox.closing is CloseCode.DONE


@pytest.mark.parametrize("first", ["bye", "dismiss"])
def test_a_session_that_leaves_a_released_room_while_it_catches_up_changes_nothing(
    first: str,
) -> None:
    peer = client("de")
    for n in range(200):
        peer.say("hello" * 100, id=f"x{n}")
        peer.meeting.finish_all()
        peer.events()
        peer.meeting.wait(1.0)
    peer.session.receive('{"type":"sync","epoch":"epoch","seq":0}', peer.meeting.now)
    if first == "dismiss":
        peer.session.dismiss()
    peer.session.receive('{"type":"bye"}', peer.meeting.now)
    if first == "bye":
        peer.session.dismiss()
    assert peer.session.state is SessionState.LEAVING
    seq = peer.meeting.room.log.seq
    peer.session.receive('{"type":"set","context":"a meeting"}', peer.meeting.now)
    assert (peer.session.errors, peer.meeting.room.log.seq) == (1, seq)
    assert names(peer.events())[-1] == "stats"
    assert peer.session.outbox.closing is CloseCode.DONE


def test_a_dismissed_session_may_ask_and_changes_nothing() -> None:
    peer = client("de")
    peer.say("hello", id="x")
    peer.meeting.finish_all()
    peer.events()
    peer.session.dismiss()
    peer.session.drain()
    seq = peer.meeting.room.log.seq
    asked: tuple[dict[str, Any], ...] = (
        {"type": "say", "text": "more"},
        {"type": "want", "langs": ["fr"]},
        {"type": "set", "context": "a meeting"},
        {"type": "edit", "id": "x", "lang": "de", "text": "Hallo"},
        {"type": "retract", "id": "x"},
    )
    for message in asked:
        error = assert_error(peer.send(**message), ErrorCode.BUSY)
        assert error.retry_ms is not None
    assert names(peer.send("get", id="x")) == ["snapshot"]
    assert one(Cancelled, peer.send("cancel", id="x")).was == "done"
    assert peer.meeting.room.log.seq == seq
    peer.send("bye")
    assert peer.session.outbox.closing is CloseCode.DONE


def test_a_closed_socket_aborts_its_work_and_hears_nothing_more() -> None:
    peer = client("de")
    peer.say("hello")
    peer.close()
    peer.close()
    assert len(peer.meeting.aborted) == 1
    assert peer.frame("hello") == []
    assert peer.session.state is SessionState.CLOSED
    assert not peer.session.member.in_flight.utterances


def test_what_waits_for_a_closed_socket_is_dropped() -> None:
    peer = client()
    peer.session.tick(NOW)
    assert len(peer.session.outbox) == 1
    peer.close()
    assert len(peer.session.outbox) == 0


def test_the_work_of_a_lost_socket_goes_on_without_it() -> None:
    room = Meeting()
    peer, other = room.enter("de"), room.enter("de")
    peer.say("hello")
    peer.cut()
    assert list(room.room.subscribers.members) == [other.session.id]
    assert list(room.room.attendance.away) == [peer.session.id]
    room.finish_all()
    assert one(Final, other.events()).text == "[de] hello"


def test_a_dismissed_session_is_in_a_state_of_its_own() -> None:
    peer = client()
    peer.session.dismiss()
    assert peer.session.state is SessionState.DISMISSED


def test_a_session_can_be_read_in_a_log() -> None:
    assert repr(client().session) == (
        "<Session s1 open in meeting, <Outbox open, 0 frames, 0 bytes>>"
    )


def test_a_language_is_cancelled_by_any_spelling_of_its_tag() -> None:
    peer = client("de")
    peer.say("good", id="x", final=False)
    assert [one.lang for one in only(Cancelled, peer.send("cancel", id="x", langs=["DE"]))] == [
        "de"
    ]


def test_a_change_of_state_is_logged_with_session_and_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = client("de")
    with caplog.at_level(logging.DEBUG, "gateway.session"):
        peer.session.drain()
    (record,) = caplog.records
    assert record.getMessage() == f"{peer.session.id} open -> draining"
    assert record.__dict__["session"] == peer.session.id
    assert record.__dict__["room"] == "meeting"
