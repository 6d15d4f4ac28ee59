"""The time that text waits for more of itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.scheduling.output_batching import (
    BUSY,
    CALM,
    FULL,
    MERGED,
    RATE,
    SHORTEST_S,
    TRIES,
    Coalescing,
)

MANY = RATE * 10


def after(*looks: tuple[float, ...], longest: float = 0.05) -> float:
    """Return the interval after decisions by these tuples of (share, rate, part merged or none)."""
    coalescing = Coalescing(longest)
    for share, rate, *merged in looks:
        coalescing.poll(share, rate, *(merged or [0.0]))
    return coalescing.interval


def waited(alone: float, merged: float) -> tuple[float, float, float]:
    """Return a decision's values for chunks that would take the share ``alone`` if none waited."""
    return alone * (1 - merged * (1 - MERGED)), MANY, merged


def test_text_does_not_wait_while_there_is_time() -> None:
    assert after() == after((BUSY - 0.01, MANY)) == 0


def test_few_chunks_never_wait_however_busy_the_machine_is() -> None:
    assert after((1.0, RATE - 1)) == after((1.0, MANY), (1.0, RATE - 1)) == 0
    assert after((1.0, RATE)) > 0


@pytest.mark.parametrize(
    ("share", "seconds"), [(BUSY, 0.02), (0.7, 0.035), (FULL, 0.05), (1.0, 0.05)]
)
def test_text_waits_longer_the_busier_the_process_is(share: float, seconds: float) -> None:
    assert after((share, MANY)) == pytest.approx(seconds)


def test_time_saved_by_waiting_does_not_look_like_a_low_load() -> None:
    assert after((FULL, MANY), waited(FULL, 0.75)) == pytest.approx(0.05)
    assert after((FULL, MANY), waited(BUSY, 0.75)) == pytest.approx(SHORTEST_S)
    assert after((FULL, MANY), waited(CALM - 0.01, 0.75)) == 0


def test_the_cost_of_a_chunk_at_the_busiest_time_is_forgotten() -> None:
    # The first second of a load is spent on prompts, so few chunks take the whole of it.
    begin = ((1.0, RATE), (0.4, 4 * RATE, 0.9))
    assert after(*begin) > 0
    assert after(*begin, waited(CALM - 0.01, 0.85)) == 0


def test_the_decision_does_not_flap_around_the_bound() -> None:
    assert after((BUSY, MANY), waited(BUSY - 0.01, 0.5)) == pytest.approx(SHORTEST_S)
    assert after((BUSY - 0.01, MANY)) == 0


def test_text_that_waits_at_a_middling_load_is_soon_shown_at_once() -> None:
    calmer = [waited(BUSY - 0.01, 0.5)] * TRIES
    assert after((BUSY, MANY), *calmer[1:]) == pytest.approx(SHORTEST_S)
    assert after((BUSY, MANY), *calmer) == 0
    assert after((BUSY, MANY), *calmer[1:], (BUSY, MANY), *calmer[1:]) > 0


def test_a_longest_of_nothing_is_never() -> None:
    assert after((1.0, MANY), longest=0) == 0
    assert after((BUSY, MANY), (1.0, MANY), longest=0.01) == pytest.approx(0.01)


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1e6), st.floats(0, 1)), max_size=20),
    st.floats(0, 1, allow_subnormal=False),
)
def test_text_never_waits_longer_than_the_longest_interval(
    looks: list[tuple[float, float, float]], longest: float
) -> None:
    interval = after(*looks, longest=longest)
    assert interval == 0 or min(SHORTEST_S, longest) <= interval <= max(longest, 1e-9)
