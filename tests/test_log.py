"""The room's log: numbering, bounds, and how far back it can be replayed."""

from __future__ import annotations

import pytest

from gateway.limits import Limits
from gateway.log import EVENT_BYTES, Log
from gateway.messages import Cancelled, Settings, Source


def log(events: int, limits: Limits | None = None) -> Log:
    log = Log("e", limits if limits is not None else Limits())
    for _ in range(events):
        seq = log.next()
        log.append(Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text="x" * 100))
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
        Settings(seq=full.next(), version=1, context="c" * 500, glossary={"a" * 100: "b" * 100})
    )
    full.append(Cancelled(seq=full.next(), id="u1", rev=1, was="queued"))
    assert len(full) == 8


def test_an_event_is_appended_under_its_own_number() -> None:
    with pytest.raises(AssertionError):
        log(1).append(Cancelled(seq=7, id="u1", rev=1, was="queued"))
