"""One virtual user: its frames, the events that it reads, and how they are counted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from caption_tools.loadtest.model import session as user
from caption_tools.loadtest.model.plan import Plan, VirtualUser
from caption_tools.loadtest.model.script import Send, label
from caption_tools.loadtest.model.session import UserSession
from caption_tools.loadtest.model.tally import LoadTally
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    ServerMessage,
    Source,
    Timing,
)
from gateway.protocol.notices import Degraded, Error, Lag, Presence

PLAN = Plan(url="ws://x", langs=("de", "fr"), warm=1.0)
WHOLE = label(0, 1, 10.0, 10.0)
GROWN = label(0, 2, 10.0, 15.0)
MS = Timing(queue=0, first=0, total=0)


class Room:
    """A member, and frames by hand."""

    def __init__(self, plan: Plan = PLAN, speaker: int | None = 0) -> None:
        self.tally = LoadTally.of(plan)
        self.member = UserSession(plan, VirtualUser("r", plan.langs, speaker), self.tally)
        self._wire = msgspec.msgpack if plan.wire == "msgpack" else msgspec.json

    def hear(self, event: ServerMessage, now: float) -> None:
        self.member.read(self._wire.encode(event), now)

    def say(self, id: str, rev: int = 1, *, final: bool = True, due: float = 10.0) -> Any:
        return self._wire.decode(self.member.frame(Send(due, id, rev, "text", final), due))

    def source(self, id: str, now: float = 10.1) -> None:
        self.hear(Source(seq=1, id=id, rev=1, ord=1, lang="en", text="text"), now)

    def ack(self, id: str, now: float = 10.1, rev: int = 1) -> None:
        self.hear(Ack(id=id, rev=rev, ord=1), now)

    def delta(self, id: str, now: float, lang: str = "de", **more: Any) -> None:
        self.hear(Delta(id=id, rev=1, lang=lang, add="a", n=1, **more), now)

    def final(self, id: str, now: float, lang: str = "de") -> None:
        self.hear(Final(seq=2, id=id, rev=1, ord=1, lang=lang, text="a", by="mt", ms=MS), now)

    @property
    def counts(self) -> dict[str, int]:
        return self.tally.settle().counts

    def ms(self, kind: str) -> list[float]:
        """Return the number of times of a kind, and the largest in ms."""
        told = self.tally.times[kind].summary()
        return [told.count, told.max]


def test_sent_frames_follow_the_protocol() -> None:
    room = Room()
    assert room.say(GROWN, 2, final=False) == {
        **{"type": "say", "id": GROWN, "rev": 2, "text": "text", "final": False}
    }
    assert room.say(GROWN, 0) == {"type": "cancel", "id": GROWN}
    assert room.say(WHOLE)["type"] == "say"
    assert {name: n for name, n in room.counts.items() if n} == {
        **{"said": 1, "whole": 1, "cancels": 1}
    }


@pytest.mark.parametrize("wire", ["json", "msgpack"])
def test_latencies_count_from_the_due_time(wire: Any) -> None:
    room = Room(msgspec.structs.replace(PLAN, wire=wire))
    room.say(WHOLE)
    room.ack(WHOLE, 10.25)
    room.source(WHOLE)
    room.delta(WHOLE, 10.5)
    room.delta(WHOLE, 10.75)
    room.final(WHOLE, 12.0)
    assert (room.ms("ack"), room.ms("first"), room.ms("final")) == (
        *([1, 250.0], [1, 500.0]),
        [1, 2000.0],
    )
    assert (room.counts["deltas"], room.counts["captions"]) == (2, 1)


def test_first_text_counts_from_the_start_of_an_utterance_and_final_from_its_end() -> None:
    room = Room()
    room.delta(GROWN, 11.5)
    room.final(GROWN, 15.5)
    assert (room.ms("grown"), room.ms("final"), room.ms("first")) == (
        *([1, 1500.0], [1, 500.0]),
        [0, 0.0],
    )


def test_a_segment_that_ended_before_its_utterance_has_no_final_latency() -> None:
    room = Room()
    room.final(GROWN, 13.0)
    room.delta(f"{GROWN}.2", 14.0)
    room.final(f"{GROWN}.2", 16.0)
    assert (room.ms("final"), room.ms("grown")) == ([1, 1000.0], [1, 3000.0])


def test_a_caption_without_deltas_counts_as_its_own_first_text() -> None:
    room = Room()
    room.final(WHOLE, 10.5)
    assert room.ms("first") == [1, 500.0]


def test_latencies_of_the_warm_up_are_only_in_the_timeline() -> None:
    room = Room()
    room.final(label(0, 0, 0.5, 0.5), 0.75)
    assert room.ms("final") == [0, 0.0]
    assert room.tally.courses["final"].points(1.0) == [(0.0, 0.25)]


def test_a_speaker_knows_which_of_its_captions_have_not_ended() -> None:
    room = Room()
    room.say(WHOLE)
    assert room.member.open == 2
    room.ack(WHOLE)
    room.source(WHOLE)
    assert room.member.open == 2
    room.final(WHOLE, 11.0, "de")
    assert room.member.open == 1
    room.hear(Failed(seq=3, id=WHOLE, rev=1, ord=1, lang="fr", code="rejected", retry=False), 11.0)
    assert room.member.open == 0
    assert (room.counts["missed"], room.tally.errors) == (1, {"rejected": 1})


def test_segments_are_captions_of_their_own() -> None:
    room = Room()
    room.say(GROWN, 1, final=False)
    room.source(GROWN)
    assert room.member.open == 2
    room.say(GROWN, 2)
    assert room.member.open == 4
    room.ack(GROWN, rev=1)
    room.ack(GROWN, rev=2)
    room.source(f"{GROWN}.2")
    assert room.member.open == 4
    for id in (GROWN, f"{GROWN}.2"):
        for lang in PLAN.langs:
            room.final(id, 16.0, lang)
    assert room.member.open == 0


def test_captions_of_other_speakers_are_awaited_but_not_counted_as_its_own() -> None:
    room, theirs = Room(), label(1, 1, 10.0, 10.0)
    room.source(theirs)
    room.ack(theirs)
    assert (room.member.open, room.member.waits) == (0, True), "it is still to be read"
    room.final(theirs, 10.5)
    room.hear(Failed(seq=3, id=theirs, rev=1, ord=1, lang="fr", code="timeout", retry=True), 11.0)
    assert room.member.open == room.counts["missed"] == 0
    assert not room.member.waits
    assert (room.counts["failed"], room.ms("final"), room.ms("ack")) == (
        *(1, [1, 500.0]),
        [0, 0.0],
    )


def test_captions_with_foreign_ids_are_read_without_a_latency() -> None:
    room = Room(speaker=None)
    room.delta("u1", 1.0)
    room.final("u1", 2.0)
    assert (room.counts["captions"], room.ms("first"), room.ms("final")) == (
        *(1, [0, 0.0]),
        [0, 0.0],
    )


def test_a_refused_utterance_is_not_waited_for() -> None:
    room = Room()
    room.say(WHOLE)
    busy = Error(code="busy", fatal=False, retry=True, id=WHOLE, msg="Full.")
    room.hear(busy, 10.1)
    room.hear(busy, 10.1)
    assert (room.member.open, room.counts["refused"], room.tally.errors) == (
        *(0, 1),
        {"busy": 2},
    )


def test_a_cancel_is_answered_once_and_nothing_is_waited_for_then() -> None:
    room = Room()
    room.say(GROWN, 1, final=False)
    room.source(GROWN)
    room.say(GROWN, 0, due=12.0)
    room.hear(Cancelled(seq=4, id=GROWN, rev=1, was="running"), 12.5)
    room.hear(Cancelled(seq=5, id=f"{GROWN}.2", rev=1, was="running"), 12.6)
    assert (room.ms("cancel"), room.member.open, room.counts["cancelled"]) == (
        *([1, 500.0], 0),
        2,
    )


def test_a_language_that_is_cancelled_by_itself_is_one_caption_less() -> None:
    room = Room()
    room.say(WHOLE)
    room.ack(WHOLE)
    room.source(WHOLE)
    room.hear(Cancelled(seq=4, id=WHOLE, rev=1, lang="fr", was="running"), 12.5)
    assert (room.member.open, room.counts["missed"]) == (1, 0)


def test_lag_degraded_and_resets_are_counted_and_other_frames_are_accepted() -> None:
    room = Room()
    room.hear(Lag(dropped=5, ms=100), 1.0)
    room.hear(Degraded(partials="off"), 1.0)
    room.hear(Degraded(partials="on"), 1.0)
    room.hear(Presence(readers={}, members=1), 1.0)
    room.delta(WHOLE, 11.0, reset=True)
    counts = room.counts
    assert [counts[name] for name in ("lags", "dropped", "degraded", "restored", "resets")] == [
        *(1, 5, 1, 1, 1)
    ]
    assert counts["frames"] == 5
    assert counts["bytes"] == sum(room.tally.flows["bytes"].values()) > 0


def test_the_state_of_a_session_is_bounded() -> None:
    room = Room()
    for number in range(user.BEGUN + 10):
        room.delta(label(0, number, 1.0, 1.0), 2.0)
    assert len(room.member._begun) == user.BEGUN
    for number in range(user.OPEN + 10):
        room.say(label(0, number, 1.0, 1.0))
    assert len(room.member._acks) == len(room.member._said) == user.OPEN


def test_a_frame_that_is_not_of_the_protocol_raises() -> None:
    with pytest.raises(msgspec.MsgspecError):
        Room().member.read(b"{", 1.0)
