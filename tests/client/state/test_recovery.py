"""What a client keeps so that it can come back, without any connection."""

from __future__ import annotations

import msgspec

from gateway.client.state import recovery
from gateway.client.state.recovery import CAP_S, Backoff, PendingRequests, ResumePosition, goes_on
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Edit,
    Edited,
    Error,
    Final,
    Presence,
    Retract,
    Retracted,
    Say,
    Source,
    Stats,
    Tick,
    Timing,
)
from tests.support.fake import welcome


def say(id: str = "a", rev: int = 1, *, final: bool = True) -> Say:
    return Say(ref=f"{id}{rev}", id=id, rev=rev, text="hello", final=final)


def ack(id: str = "a", rev: int = 1, ord: int = 1) -> Ack:
    return Ack(id=id, rev=rev, ord=ord, ref=f"{id}{rev}")


def source(id: str = "a", ord: int = 1) -> Source:
    return Source(seq=ord, id=id, rev=1, ord=ord, lang="en", text="hello")


def error(code: str = "stale", *, retry: bool = False) -> Error:
    return Error(code=code, fatal=False, retry=retry, msg="No.")


def ledger(*said: Say, acked: bool = True) -> PendingRequests:
    made = PendingRequests()
    for ord, one in enumerate(said, 1):
        assert one.ref is not None and one.id is not None and one.rev is not None
        made.note(one.ref, one)
        if acked:
            made.answered(one.ref, ack(one.id, one.rev, ord))
    return made


def refs(ledger: PendingRequests) -> list[str | None]:
    return [frames[0].ref for frames in ledger.repeat()]


# --- when to try again ----------------------------------------------------------------------------


def test_waits_are_anywhere_below_a_bound_that_doubles_up_to_a_cap() -> None:
    longest = Backoff(lambda: 1.0)
    assert [longest.wait() for _ in range(4)] == [0.25, 0.5, 1.0, 2.0]
    assert [longest.wait() for _ in range(100)][-1] == CAP_S
    longest.reset()
    assert longest.wait() == 0.25
    assert Backoff(lambda: 0.0).wait() == 0.0


# --- how far it has come --------------------------------------------------------------------------


def test_what_was_told_before_is_not_fresh() -> None:
    position = ResumePosition(welcome(seq=3))
    assert [position.fresh(source(ord=n)) for n in (3, 4, 4, 7, 5)] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert position.fresh(Cancelled(id="x", rev=0, was="none"))
    assert position.fresh(Tick(seq=1)) and position.fresh(welcome())
    assert position.seq == 7


def test_of_one_number_there_is_an_event_for_each_tag_of_its_language() -> None:
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
    assert position.go_on(welcome(seq=3, ok=True))
    assert position.fresh(austrian) and not position.fresh(austrian) and not position.fresh(german)
    assert not position.go_on(welcome("f", 9))
    assert position.since(several=True) == 9


def test_a_history_that_goes_on_keeps_the_number_whatever_it_is_called_now() -> None:
    position = ResumePosition(welcome(seq=3))
    assert position.go_on(welcome("f", 9, ok=True))
    assert (position.epoch, position.seq) == ("f", 3)


def test_a_history_that_lost_its_beginning_keeps_the_number_and_another_one_begins_anew() -> None:
    position = ResumePosition(welcome(seq=30))
    assert not position.go_on(welcome(seq=40, ok=False))
    assert (position.epoch, position.seq) == ("e", 30)
    assert not position.go_on(welcome("f", 2))
    assert (position.epoch, position.seq) == ("f", 2)


def test_who_was_not_asked_to_resume_does_not() -> None:
    assert [goes_on(welcome(ok=ok)) for ok in (None, False, True)] == [False, False, True]


# --- what may be lost -----------------------------------------------------------------------------


def test_what_was_asked_is_repeated_in_order_until_it_is_answered() -> None:
    asked = PendingRequests()
    asked.note("1", Retract(ref="1", id="x"))
    asked.note("2", say())
    asked.note("3", Edit(ref="3", id="y", lang="de", text="z"))
    assert [len(frames) for frames in asked.repeat()] == [1, 1, 1]
    answer = Stats(
        said=0, finals=0, failed=0, cancelled=0, errors=0, frames_in=0, frames_out=0,
        bytes_out=0, merged=0, inflight=0, seconds=0.0, ref="1",
    )  # fmt: skip
    assert asked.answered("1", answer) is answer
    assert [frames[0].ref for frames in asked.repeat()] == ["a1", "3"]
    assert asked.answered("nobody", answer) is answer


def test_what_was_said_is_kept_until_its_original_comes() -> None:
    said = ledger(say())
    assert refs(said) == ["a1"] and said.says("a") and not said.says("b")
    said.heard(source("b", 1))
    assert len(said) == 1
    said.heard(source("a", 1))
    assert len(said) == 0


def test_an_original_may_come_before_the_acknowledgement_that_was_lost() -> None:
    said = ledger(say(), acked=False)
    said.heard(source())
    assert refs(said) == ["a1"], "who said it still waits"
    assert said.answered("a1", ack()) == ack()
    assert len(said) == 0


def test_what_has_ended_meanwhile_was_accepted_though_it_is_stale_now() -> None:
    said = ledger(say(), acked=False)
    said.heard(source())
    assert said.answered("a1", error()) == ack()
    assert len(said) == 0


def test_what_is_refused_is_not_said_again() -> None:
    said = ledger(say(), acked=False)
    refused = error("busy", retry=True)
    assert said.answered("a1", refused) is refused
    assert len(said) == 0


def test_what_was_accepted_and_is_forgotten_is_said_until_there_is_a_place_for_it() -> None:
    said = ledger(say())
    assert said.answered("a1", error("busy", retry=True)) is None
    assert said.frames("a1") == (say(),)
    assert said.answered("a1", ack(ord=7)) is None, "it was answered before"
    assert said.answered("a1", error()) is None
    assert len(said) == 0 and said.frames("a1") == ()


def test_of_what_grows_the_newest_revision_counts() -> None:
    said = ledger(say(rev=1, final=False), say(rev=2, final=False))
    assert refs(said) == ["a2"] and said.growing("a") and not said.growing("b")
    said.note("a3", say(rev=3))
    assert refs(said) == ["a2", "a3"] and said.growing("a")
    said.answered("a3", ack(rev=3))
    assert refs(said) == ["a3"] and not said.growing("a")


def test_a_revision_that_was_refused_leaves_the_one_before() -> None:
    said = ledger(say("b"), say(rev=1, final=False))
    said.note("a2", say(rev=2))
    said.answered("a2", error("busy", retry=True))
    assert refs(said) == ["b1", "a1"]


def test_a_long_utterance_is_kept_until_the_last_part_has_come() -> None:
    said = ledger(say(rev=1, final=False))
    said.heard(source("a", 1))
    said.note("a2", say(rev=2))
    said.answered("a2", ack(rev=2, ord=3))
    said.heard(source("a.2", 2))
    assert refs(said) == ["a2"]
    said.heard(source("a.3", 3))
    assert len(said) == 0


def test_what_was_cancelled_or_taken_back_is_not_said_again() -> None:
    ended = Cancelled(seq=9, id="a.2", rev=1, was="running")
    for event in (ended, Retracted(seq=9, id="a", ord=1)):
        said = ledger(say(final=False))
        said.heard(event)
        assert len(said) == 0
    said = ledger(say(final=False))
    said.heard(source("a", 1))
    said.heard(Cancelled(seq=9, id="a", rev=1, was="running"))  # the first part
    said.heard(Cancelled(seq=9, id="a.2", rev=1, lang="de", was="running"))
    said.heard(Cancelled(id="a.2", rev=1, was="none"))
    said.heard(Presence(readers={}, members=1))
    assert refs(said) == ["a1"]
    unsure = ledger(say(), acked=False)
    unsure.heard(Cancelled(seq=9, id="a", rev=1, was="running"))
    assert refs(unsure) == ["a1"], "who said it still waits"


def test_nobody_waits_for_what_was_given_up_but_what_was_accepted_stays_said() -> None:
    said = ledger(say())
    said.note("b1", say("b"))
    for ref in ("a1", "b1", "nobody"):
        said.drop(ref)
    assert refs(said) == ["a1"]


def test_an_answer_that_was_lost_is_found_in_what_was_decided() -> None:
    asked = ledger(say())
    asked.note("1", Retract(ref="1", id="x"))
    asked.note("2", Edit(ref="2", id="y", lang="de", text="neu"))
    edited = Edited(seq=1, id="y", rev=1, ord=1, lang="de", text="neu", by="human")
    final = Final(
        seq=1, id="y", rev=1, ord=1, lang="de", text="neu", by="human",
        ms=Timing(queue=0, first=0, total=0),
    )  # fmt: skip
    assert asked.replayed(Retracted(seq=1, id="x", ord=1)) == "1"
    assert asked.replayed(Retracted(seq=1, id="y", ord=1)) is None
    assert asked.replayed(edited) == asked.replayed(final) == "2"
    other = Edited(seq=1, id="y", rev=1, ord=1, lang="fr", text="neu", by="human")
    assert asked.replayed(other) is asked.replayed(source()) is None


def test_the_oldest_request_is_forgotten() -> None:
    asked = PendingRequests()
    for n in range(recovery.MOST + 1):
        asked.note(str(n), Retract(ref=str(n), id="x"))
    assert len(asked) == recovery.MOST and refs(asked)[0] == "1"
