"""The room's log: numbering, bounds, and how far back it can be replayed."""

from __future__ import annotations

import pytest

from gateway.limits import Limits
from gateway.log import EVENT_BYTES, Log
from gateway.messages import Cancelled, Retracted, Settings, Source


def log(events: int, limits: Limits | None = None) -> Log:
    log = Log("e", limits if limits is not None else Limits())
    for _ in range(events):
        seq = log.next()
        log.append(Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text="x" * 100), seq)
    return log


def test_numbers_rise_by_one_from_one() -> None:
    events = log(3).since(0)
    assert events is not None
    assert [event.seq for event in events] == [1, 2, 3]


def test_a_reader_gets_what_came_after_the_number_it_has() -> None:
    events = log(5).since(3)
    assert events is not None
    assert [event.seq for event in events] == [4, 5]
    assert log(5).since(5) == []


def test_a_reader_who_asks_too_far_back_gets_nothing_rather_than_a_part() -> None:
    short = log(5, Limits(log=2))
    assert short.since(2) is None
    assert len(short.since(3) or ()) == 2


def test_a_number_from_the_future_is_of_another_history() -> None:
    assert log(2).since(3) is None


def test_the_bytes_of_texts_and_settings_are_bounded_too() -> None:
    limits = Limits(log_bytes=10 * (EVENT_BYTES + 100))
    full = log(50, limits)
    assert len(full) == 10
    full.append(
        Settings(seq=full.next(), version=1, context="c" * 500, glossary={"a" * 100: "b" * 100}),
        50.0,
    )
    full.append(Cancelled(seq=full.next(), id="u1", rev=1, was="queued"), 51.0)
    assert len(full) == 8


def test_an_event_is_appended_under_its_own_number() -> None:
    with pytest.raises(AssertionError):
        log(1).append(Cancelled(seq=7, id="u1", rev=1, was="queued"), 1.0)


def test_an_event_came_so_many_seconds_after_the_history_began() -> None:
    late = Log("e", Limits(), began=100.0)
    late.append(Retracted(seq=late.next(), id="u1", ord=1), 103.5)
    assert [entry.at for entry in late.entries()] == [3.5]


def test_entries_are_those_after_a_number_that_are_still_there() -> None:
    short = log(5, Limits(log=3))
    assert [entry.event.seq for entry in short.entries()] == [3, 4, 5]
    assert [entry.event.seq for entry in short.entries(1)] == [3, 4, 5]
    assert [entry.event.seq for entry in short.entries(4)] == [5]
    assert short.entries(5) == []


def test_a_restored_log_goes_on_where_the_other_ended() -> None:
    old = log(5, Limits(log=3))
    new = Log("e", Limits())
    new.restore(old.entries())
    assert new.since(2) == old.since(2)
    assert new.since(1) is None
    assert new.next() == 6


def test_a_log_that_has_begun_is_not_restored() -> None:
    with pytest.raises(AssertionError):
        log(1).restore(())


def test_an_erased_utterance_leaves_its_events_without_their_text() -> None:
    made = log(3)
    cost = made.bytes
    made.erase(2)
    made.erase(2)
    events = made.since(0) or []
    assert [getattr(event, "text", None) for event in events] == ["x" * 100, "", "x" * 100]
    assert [event.seq for event in events] == [1, 2, 3]
    assert made.bytes == cost - 100


# --- the last utterances ------------------------------------------------------------------------


def conversation() -> Log:
    """``a`` and ``b`` were said, then decided on; ``c`` was cancelled before it was said."""
    made = Log("e", Limits())
    for ord, id in enumerate(("a", "b"), 1):
        made.append(Source(seq=made.next(), id=id, rev=1, ord=ord, lang="en", text=id), 1.0)
    made.append(Settings(seq=made.next(), version=1), 1.0)
    made.append(Cancelled(seq=made.next(), id="c", rev=1, was="queued"), 1.0)
    for ord, id in enumerate(("a", "b"), 1):
        made.append(Cancelled(seq=made.next(), id=id, rev=1, lang="de", was="running"), 2.0)
        made.append(Retracted(seq=made.next(), id=id, ord=ord), 3.0)
    return made


def test_the_last_utterances_come_with_all_that_was_decided_of_them_in_order() -> None:
    assert [event.seq for event in conversation().last(1)] == [2, 7, 8]
    assert [event.seq for event in conversation().last(2)] == [1, 2, 5, 6, 7, 8]
    assert conversation().last(9) == conversation().last(2)
    assert conversation().last(0) == []
