"""The room's log: numbering, bounds, and how far back it can be replayed."""

from __future__ import annotations

import gc
import tracemalloc
from sys import getsizeof

import pytest

from gateway.core.history.event_log import ENTRY_BYTES, Durable, EventLog, StreamPosition, cost
from gateway.limits import Limits, memory
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    By,
    Cancelled,
    Edited,
    Final,
    Retracted,
    Settings,
    Source,
    Timing,
)


def log(events: int, limits: Limits | None = None) -> EventLog:
    log = EventLog("e", limits if limits is not None else Limits())
    for _ in range(events):
        seq = log.seq + 1
        log.append(spoken(seq), seq)
    return log


def spoken(seq: int) -> Source:
    return Source(seq=seq, id=f"u{seq:02}", rev=1, ord=seq, lang="en", text="x" * 100)


def test_a_new_log_is_empty_and_begins_at_0_of_its_clock() -> None:
    made = EventLog("e", Limits())
    assert (made.seq, made.oldest, made.bytes, len(made)) == (0, 1, 0, 0)
    assert (made.began, made.before, made.settings, made.originals) == (0.0, None, None, set())


def test_everything_can_be_shed() -> None:
    made = log(3)
    made.shed(made.bytes)
    assert (len(made), made.bytes, made.oldest) == (0, 0, 4)


def test_an_erased_event_stays_at_its_time() -> None:
    made = log(2)
    made.erase(1)
    assert [entry.at for entry in made.entries()] == [1, 2]


def test_the_cost_of_an_event_counts_each_of_its_parts() -> None:
    plain = Settings(seq=1, version=1)
    assert cost(plain) == ENTRY_BYTES + getsizeof(plain)
    glossary = {"a" * 50: "ü" * 60}
    parts = getsizeof(glossary) + memory("a" * 50) + memory("ü" * 60)
    assert cost(Settings(seq=1, version=1, glossary=glossary)) == cost(plain) + parts
    by_tag = {"de": "ü" * 60}
    parts += getsizeof(by_tag) + memory("de")
    assert cost(Settings(seq=1, version=1, glossary={"a" * 50: by_tag})) == cost(plain) + parts
    # CPython keeps a single object of each integer up to 256.
    assert cost(Settings(seq=256, version=1)) == cost(plain)
    assert cost(Settings(seq=257, version=1)) == cost(plain) + getsizeof(257)
    ms = Timing(queue=300, first=400, total=500)
    final = Final(seq=1, id="u1", rev=1, ord=1, lang="de", text="x", by="mt", ms=ms)
    flagged = Final(
        seq=1, id="u1", rev=1, ord=1, lang="de", text="x", by="mt", ms=ms, flags=("glossary",)
    )
    texts = memory("u1") + memory("de") + memory("x")
    times = getsizeof(ms) + sum(map(getsizeof, (300, 400, 500)))
    assert cost(final) == ENTRY_BYTES + getsizeof(final) + texts + times + getsizeof(())
    assert cost(flagged) == cost(final) - getsizeof(()) + getsizeof(("x",)) + memory("glossary")


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
    limits = Limits(log_bytes=10 * cost(spoken(50)))
    full = log(50, limits)
    assert len(full) == 10
    # Strings of Python 3.12 take 8 bytes less, so the size is well between two and three events.
    large = Settings(seq=51, version=1, context="c" * 500, glossary={"a" * 100: "b" * 100})
    assert 2 < cost(large) / cost(spoken(50)) < 3
    full.append(large, 50.0)
    assert len(full) == 8  # three of the others went
    full.append(Cancelled(seq=full.seq + 1, id="u1", rev=1, was="queued"), 51.0)
    assert len(full) == 8


def test_the_computed_cost_of_an_event_is_its_memory() -> None:
    def keep(made: EventLog, event: Durable, at: float) -> None:
        made.append(event, at)
        Envelope(event).wire(Codec.JSON)  # encoding keeps the UTF-8 of the texts

    def spoken(made: EventLog, n: int) -> None:
        id, at = f"u{n}", 0.5 + n
        keep(
            made,
            Source(seq=made.seq + 1, id=id, rev=1, ord=n, lang="en", text="x" * 80 + id, t0=at),
            at,
        )
        for lang, text in (("de", "ü" * 80), ("ja", "字" * 40), ("fr", "é" * 80)):
            ms = Timing(queue=n + 300, first=n + 400, total=n + 500)
            told = Final(
                seq=made.seq + 1, id=id, rev=1, ord=n, lang=lang, text=text + id, by="mt", ms=ms
            )
            keep(made, told, at + 0.25)

    made = EventLog("e", Limits())
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for n in range(1_000, 3_000):
        spoken(made, n)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 * used < made.bytes < 1.2 * used


def test_a_log_tells_by_how_much_it_grows() -> None:
    made = log(1)
    told: list[int] = []
    made.grew = told.append
    before = made.bytes
    made.append(Retracted(seq=made.seq + 1, id="u1", ord=1), 1.0)
    assert told == [made.bytes - before]


def test_an_event_is_appended_under_its_own_number() -> None:
    with pytest.raises(AssertionError):
        log(1).append(Cancelled(seq=7, id="u1", rev=1, was="queued"), 1.0)


def test_an_event_came_so_many_seconds_after_the_history_began() -> None:
    late = EventLog("e", Limits(), began=100.0)
    late.append(Retracted(seq=late.seq + 1, id="u1", ord=1), 103.5)
    assert [entry.at for entry in late.entries()] == [3.5]


def test_entries_are_those_after_a_number_that_are_still_there() -> None:
    short = log(5, Limits(log=3))
    assert [entry.event.seq for entry in short.entries()] == [3, 4, 5]
    assert [entry.event.seq for entry in short.entries(1)] == [3, 4, 5]
    assert [entry.event.seq for entry in short.entries(4)] == [5]
    assert short.entries(5) == []


def test_a_restored_log_goes_on_where_the_other_ended() -> None:
    old = log(5, Limits(log=3))
    new = EventLog("e", Limits())
    new.restore(old.entries(), {})
    assert new.since(2) == old.since(2)
    assert new.since(1) is None
    assert new.seq + 1 == 6


def test_a_log_that_has_begun_is_not_restored() -> None:
    with pytest.raises(AssertionError):
        log(1).restore((), {})


def test_an_erased_utterance_leaves_its_events_without_their_text() -> None:
    made = log(3)
    cost = made.bytes
    made.erase(2)
    made.erase(2)
    events = made.since(0) or []
    assert [getattr(event, "text", None) for event in events] == ["x" * 100, "", "x" * 100]
    assert [event.seq for event in events] == [1, 2, 3]
    assert made.bytes == cost - 100


# --- how far it reaches back --------------------------------------------------------------------


def test_the_oldest_is_the_first_that_is_left_or_the_next_where_none_is() -> None:
    assert log(0).oldest == 1
    assert log(5).oldest == 1
    assert log(5, Limits(log=2)).oldest == 4


def test_a_log_reaches_back_to_a_number_of_its_epoch_if_no_later_event_was_dropped() -> None:
    short = log(5, Limits(log=2))
    assert [short.reaches("e", seq) for seq in range(7)] == [False] * 3 + [True] * 3 + [False]
    assert not short.reaches("f", 5)


def test_after_a_crash_it_reaches_back_to_what_it_shares_with_the_history_before() -> None:
    made = log(5)
    made.before = StreamPosition("old", 3)
    assert [made.reaches("old", seq) for seq in (0, 3, 4)] == [True, True, False]
    assert made.reaches("e", 4) and not made.reaches("older", 3)


def test_a_page_is_so_many_events_after_a_number() -> None:
    made = log(5)
    pages = [made.since(seq, 2) or [] for seq in (0, 2, 4, 5)]
    assert [[event.seq for event in page] for page in pages] == [[1, 2], [3, 4], [5], []]
    assert log(5, Limits(log=2)).since(2, 2) is None


def test_a_log_knows_which_of_its_edits_corrected_an_original() -> None:
    made = log(2, Limits(log=4))
    edits: list[tuple[str, By]] = [("en", "human"), ("de", "human"), ("en", "same")]
    for lang, by in edits:
        edit = Edited(seq=made.seq + 1, id="u1", rev=1, ord=2, lang=lang, text="x", by=by)
        made.append(edit, 3.0)
    assert made.originals == set()  # the publisher notes them, not `append`
    again = EventLog("e", Limits(log=4))
    again.restore(made.entries(), {})
    assert again.originals == {3}
    for _ in range(3):
        again.append(Retracted(seq=again.seq + 1, id="u1", ord=1), 4.0)
    assert again.originals == set()


def test_shedding_drops_the_oldest_events() -> None:
    made = log(10)
    each = made.bytes // 10
    made.shed(2 * each + 1)
    assert (made.oldest, len(made), made.bytes) == (4, 7, 7 * each)
    made.shed(100 * each)
    assert (made.oldest, len(made), made.bytes) == (11, 0, 0)


# --- the last utterances ------------------------------------------------------------------------


def conversation() -> EventLog:
    """Return a log in which ``a`` to ``d`` are said, ``b`` is cancelled and ``c`` retracted.

    ``e`` is cancelled before it is said.
    """
    made = EventLog("e", Limits())
    for ord, id in enumerate("abcd", 1):
        made.append(Source(seq=made.seq + 1, id=id, rev=1, ord=ord, lang="en", text=id), 1.0)
    made.append(Settings(seq=made.seq + 1, version=1), 1.0)
    made.append(Cancelled(seq=made.seq + 1, id="e", rev=1, was="queued"), 1.0)
    made.append(Cancelled(seq=made.seq + 1, id="a", rev=1, lang="de", was="running"), 2.0)
    made.append(Cancelled(seq=made.seq + 1, id="b", rev=1, was="running"), 2.0)
    made.append(Retracted(seq=made.seq + 1, id="c", ord=3), 3.0)
    return made


def test_the_last_standing_utterances_come_with_all_their_decisions_in_order() -> None:
    assert [event.seq for event in conversation().last(1)] == [4]
    assert [event.seq for event in conversation().last(2)] == [1, 2, 4, 7, 8]
    assert conversation().last(9) == conversation().last(2)
    assert conversation().last(0) == []


def test_the_utterances_that_stand_are_counted_without_cancelled_and_retracted_ones() -> None:
    assert [conversation().standing(most) for most in (0, 1, 2, 9)] == [
        [],
        ["d"],
        ["d", "a"],
        ["d", "a"],
    ]


def test_events_after_a_number_are_counted_for_a_language_or_for_everybody() -> None:
    made = EventLog("e", Limits(log=7))
    for n in range(6):
        made.append(Source(seq=made.seq + 1, id=f"u{n}", rev=1, ord=n, lang="en", text="x"), 0.0)
        made.append(Cancelled(seq=made.seq + 1, id=f"u{n}", rev=1, lang="de", was="done"), 0.0)
    made.append(Cancelled(seq=made.seq + 1, id="u5", rev=1, was="done"), 0.0)
    assert (made.oldest, made.seq) == (7, 13)
    assert [made.count(None, seq) for seq in (0, 6, 7, 12, 13, 99)] == [4, 4, 3, 1, 0, 0]
    assert [made.count("de", seq) for seq in (0, 6, 7, 8, 11, 12)] == [3, 3, 3, 2, 1, 0]
    assert made.count("fr", 0) == 0
    for n in range(9):
        made.append(Source(seq=made.seq + 1, id=f"v{n}", rev=1, ord=n, lang="en", text="x"), 0.0)
        assert made.count(None, 0) + made.count("de", 0) == len(made) == 7
    assert made.count("de", 0) == 0
    made.shed(made.bytes)
    assert made.count(None, 0) == len(made) == 0
