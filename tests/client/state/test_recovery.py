"""State of a client for resuming, without any connection."""

from __future__ import annotations

import msgspec

from gateway.client.state import recovery
from gateway.client.state.recovery import (
    PendingRequests,
    ResumePosition,
    is_resumed,
)
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Edit,
    Edited,
    Final,
    Retract,
    Retracted,
    Say,
    Source,
    Timing,
)
from gateway.protocol.notices import Error, Presence, Stats, Tick
from tests.support.fake import welcome


def say(id: str = "a", rev: int = 1, *, final: bool = True) -> Say:
    return Say(ref=f"{id}{rev}", id=id, rev=rev, text="hello", final=final)


def ack(id: str = "a", rev: int = 1, ord: int = 1) -> Ack:
    return Ack(id=id, rev=rev, ord=ord, ref=f"{id}{rev}")


def source(id: str = "a", ord: int = 1) -> Source:
    return Source(seq=ord, id=id, rev=1, ord=ord, lang="en", text="hello")


def error(code: str = "stale", *, retry: bool = False) -> Error:
    return Error(code=code, fatal=False, retry=retry, msg="No.")


def pending(*said: Say, acked: bool = True) -> PendingRequests:
    made = PendingRequests()
    for ord, one in enumerate(said, 1):
        assert one.ref is not None and one.id is not None and one.rev is not None
        made.add(one.ref, one)
        if acked:
            made.answered(one.ref, ack(one.id, one.rev, ord))
    return made


def refs(pending: PendingRequests) -> list[str | None]:
    return [frames[0].ref for frames in pending.all_frames()]


# --- how far it has come --------------------------------------------------------------------------


def test_a_repeated_event_is_not_fresh() -> None:
    position = ResumePosition(welcome(seq=3))
    assert [position.fresh(source(ord=n)) for n in (3, 4, 4, 7, 5)] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert position.fresh(Cancelled(id="x", rev=0, was="none"))
    assert position.fresh(Tick(seq=1)) and position.fresh(welcome())
    assert position.seq == 7


def test_one_number_has_an_event_for_each_tag_of_its_language() -> None:
    position = ResumePosition(welcome(seq=3))
    german, austrian = (
        Final(
            seq=4,
            id="x",
            rev=1,
            ord=1,
            lang=lang,
            text="hallo",
            by="mt",
            ms=Timing(queue=0, first=0, total=0),
        )
        for lang in ("de", "de-AT")
    )
    assert not position.fresh(msgspec.structs.replace(german, seq=3)), "it came with the welcome"
    assert (position.since(several=True), position.since(several=False)) == (3, 3)
    assert position.fresh(german) and not position.fresh(german)
    assert (position.since(several=True), position.since(several=False)) == (3, 4)
    assert position.reconnected(welcome(seq=3, ok=True))
    assert position.fresh(austrian) and not position.fresh(austrian) and not position.fresh(german)
    assert not position.reconnected(welcome("f", 9))
    assert position.since(several=True) == 9


def test_a_resumed_position_keeps_its_number_even_with_a_new_epoch() -> None:
    position = ResumePosition(welcome(seq=3))
    assert position.reconnected(welcome("f", 9, ok=True))
    assert (position.epoch, position.seq) == ("f", 3)


def test_a_position_that_was_not_resumed_restarts_only_with_a_new_epoch() -> None:
    position = ResumePosition(welcome(seq=30))
    assert not position.reconnected(welcome(seq=40, ok=False))
    assert (position.epoch, position.seq) == ("e", 30)
    assert not position.reconnected(welcome("f", 2))
    assert (position.epoch, position.seq) == ("f", 2)


def test_only_a_resumed_ok_counts_as_resumed() -> None:
    assert [is_resumed(welcome(ok=ok)) for ok in (None, False, True)] == [False, False, True]


# --- what may be lost -----------------------------------------------------------------------------


def test_requests_are_repeated_in_order_until_they_are_answered() -> None:
    asked = PendingRequests()
    asked.add("1", Retract(ref="1", id="x"))
    asked.add("2", say())
    asked.add("3", Edit(ref="3", id="y", lang="de", text="z"))
    assert [len(frames) for frames in asked.all_frames()] == [1, 1, 1]
    answer = Stats(
        said=0, finals=0, failed=0, cancelled=0, errors=0, frames_in=0, frames_out=0,
        bytes_out=0, merged=0, inflight=0, seconds=0.0, ref="1",
    )  # fmt: skip
    assert asked.answered("1", answer) is answer
    assert [frames[0].ref for frames in asked.all_frames()] == ["a1", "3"]
    assert asked.answered("nobody", answer) is answer


def test_an_utterance_is_pending_until_its_source_arrives() -> None:
    said = pending(say())
    assert refs(said) == ["a1"] and said.will_repeat("a") and not said.will_repeat("b")
    said.record(source("b", 1))
    assert len(said.all_frames()) == 1
    said.record(source("a", 1))
    assert len(said.all_frames()) == 0


def test_a_source_may_arrive_before_the_lost_acknowledgement() -> None:
    said = pending(say(), acked=False)
    said.record(source())
    assert refs(said) == ["a1"], "who said it still waits"
    assert said.answered("a1", ack()) == ack()
    assert len(said.all_frames()) == 0


def test_a_repeated_utterance_that_has_ended_counts_as_accepted() -> None:
    said = pending(say(), acked=False)
    said.record(source())
    assert said.answered("a1", error()) == ack()
    assert len(said.all_frames()) == 0


def test_a_refused_utterance_is_not_repeated() -> None:
    said = pending(say(), acked=False)
    refused = error("busy", retry=True)
    assert said.answered("a1", refused) is refused
    assert len(said.all_frames()) == 0


def test_a_lost_utterance_is_repeated_while_the_gateway_is_busy() -> None:
    said = pending(say())
    assert said.answered("a1", error("busy", retry=True)) is None
    assert said.frames("a1") == (say(),)
    assert said.answered("a1", ack(ord=7)) is None, "it was answered before"
    assert said.answered("a1", error()) is None
    assert len(said.all_frames()) == 0 and said.frames("a1") == ()


def test_only_the_newest_accepted_revision_is_pending() -> None:
    said = pending(say(rev=1, final=False), say(rev=2, final=False))
    assert refs(said) == ["a2"] and said.is_growing("a") and not said.is_growing("b")
    said.add("a3", say(rev=3))
    assert refs(said) == ["a2", "a3"] and said.is_growing("a")
    said.answered("a3", ack(rev=3))
    assert refs(said) == ["a3"] and not said.is_growing("a")


def test_a_refused_revision_leaves_the_earlier_one_pending() -> None:
    said = pending(say("b"), say(rev=1, final=False))
    said.add("a2", say(rev=2))
    said.answered("a2", error("busy", retry=True))
    assert refs(said) == ["b1", "a1"]


def test_a_long_utterance_is_pending_until_the_source_of_its_last_part() -> None:
    said = pending(say(rev=1, final=False))
    said.record(source("a", 1))
    said.add("a2", say(rev=2))
    said.answered("a2", ack(rev=2, ord=3))
    said.record(source("a.2", 2))
    assert refs(said) == ["a2"]
    said.record(source("a.3", 3))
    assert len(said.all_frames()) == 0


def test_a_cancelled_or_withdrawn_utterance_is_not_repeated() -> None:
    ended = Cancelled(seq=9, id="a.2", rev=1, was="running")
    for event in (ended, Retracted(seq=9, id="a", ord=1)):
        said = pending(say(final=False))
        said.record(event)
        assert len(said.all_frames()) == 0
    said = pending(say(final=False))
    said.record(source("a", 1))
    said.record(Cancelled(seq=9, id="a", rev=1, was="running"))  # the first part
    said.record(Cancelled(seq=9, id="a.2", rev=1, lang="de", was="running"))
    said.record(Cancelled(id="a.2", rev=1, was="none"))
    said.record(Presence(readers={}, members=1))
    assert refs(said) == ["a1"]
    unsure = pending(say(), acked=False)
    unsure.record(Cancelled(seq=9, id="a", rev=1, was="running"))
    assert refs(unsure) == ["a1"], "who said it still waits"


def test_a_dropped_request_is_forgotten_unless_it_was_accepted() -> None:
    said = pending(say())
    said.add("b1", say("b"))
    for ref in ("a1", "b1", "nobody"):
        said.drop(ref)
    assert refs(said) == ["a1"]


def test_a_lost_answer_is_found_in_replayed_events() -> None:
    asked = pending(say())
    asked.add("1", Retract(ref="1", id="x"))
    asked.add("2", Edit(ref="2", id="y", lang="de", text="neu"))
    edited = Edited(seq=1, id="y", rev=1, ord=1, lang="de", text="neu", by="human")
    final = Final(
        seq=1, id="y", rev=1, ord=1, lang="de", text="neu", by="human",
        ms=Timing(queue=0, first=0, total=0),
    )  # fmt: skip
    assert asked.answered_by(Retracted(seq=1, id="x", ord=1)) == "1"
    assert asked.answered_by(Retracted(seq=1, id="y", ord=1)) is None
    assert asked.answered_by(edited) == asked.answered_by(final) == "2"
    other = Edited(seq=1, id="y", rev=1, ord=1, lang="fr", text="neu", by="human")
    assert asked.answered_by(other) is asked.answered_by(source()) is None


def test_the_oldest_request_is_forgotten() -> None:
    asked = PendingRequests()
    for n in range(recovery.MAX_PENDING + 1):
        asked.add(str(n), Retract(ref=str(n), id="x"))
    assert len(asked.all_frames()) == recovery.MAX_PENDING and refs(asked)[0] == "1"
