"""Percentiles, exactly and in a bounded amount of memory."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.report.stats import HALF, MOST_US, SPANS, Histogram, Timeline, mean, percentile

SECONDS = st.floats(min_value=0, max_value=1000)


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0, 0.5, 0.95, 0.99, 1)] == [1, 50, 95, 99, 100]
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2


def test_percentiles_and_means_of_an_empty_list_are_zero() -> None:
    assert (percentile([], 0.5), mean([])) == (0, 0)
    empty = Histogram()
    assert (empty.at(0.5), empty.mean, empty.within(1.0), empty.summary().count) == (0, 0, 1, 0)
    assert Timeline(1.0).points(0.5) == []


def test_a_mean_is_that_of_all_values() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3


@given(st.lists(SECONDS, min_size=1, max_size=200), st.floats(min_value=0, max_value=1))
def test_a_histogram_is_right_to_one_part_in_128(times: list[float], share: float) -> None:
    exact, told = percentile(times, share), Histogram.of(times).at(share)
    assert exact - 1e-6 <= told <= exact * (1 + 1 / HALF) + 2e-6


@given(st.lists(st.lists(SECONDS, max_size=50), max_size=5))
def test_histograms_of_several_processes_add_up_to_that_of_one(parts: list[list[float]]) -> None:
    whole, merged = Histogram.of(sum(parts, [])), Histogram()
    for part in parts:
        sent = msgspec.msgpack.encode(Histogram.of(part))
        merged.merge(msgspec.msgpack.decode(sent, type=Histogram))
    assert merged.total == pytest.approx(whole.total)
    merged.total = whole.total
    assert merged == whole


@given(st.lists(st.integers(min_value=0, max_value=2 * MOST_US), max_size=300))
def test_a_histogram_is_bounded_and_counts_everything(times: list[int]) -> None:
    made = Histogram.of(us / 1e6 for us in times)
    assert made.count == sum(made.buckets.values()) == len(times)
    assert all(0 <= bucket < 4352 for bucket in made.buckets)


def test_every_bucket_begins_where_the_one_before_ends() -> None:
    edges = [Histogram.of([us / 1e6]) for us in range(2000)]
    numbers = [next(iter(one.buckets)) for one in edges]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(max(numbers) + 1))


def test_the_share_of_times_within_a_bound_is_known() -> None:
    made = Histogram.of([0.001, 0.002, 0.003, 0.5])
    assert made.within(0.003) == 0.75
    assert made.within(-1) == 0
    assert made.within(1) == 1


def test_a_time_below_zero_counts_as_zero() -> None:
    made = Histogram.of([-1.0])
    assert (made.low, made.high, made.total) == (0, 0, 0)


def test_a_summary_is_in_milliseconds() -> None:
    told = Histogram.of([0.001 * n for n in range(1, 101)]).summary()
    assert (told.count, told.mean, told.max) == (100, 50.5, 100.0)
    assert told.p50 == pytest.approx(50, rel=1 / HALF)
    assert told.p999 == 100.0


def test_a_course_shows_each_span_by_itself() -> None:
    course = Timeline(2.0)
    for at, seconds in ((0.0, 1.0), (1.9, 3.0), (6.5, 5.0), (-1.0, 2.0)):
        course.add(at, seconds)
    assert course.points(1.0) == [(0.0, 3.0), (6.0, 5.0)]


def test_a_course_is_bounded() -> None:
    course = Timeline(1.0)
    for at in range(SPANS + 9):
        course.add(float(at), 1.0)
    assert len(course.spans) == SPANS
    assert course.spans[SPANS - 1].count == 10


def test_courses_of_several_processes_add_up_if_their_spans_are_as_long() -> None:
    one, other = Timeline(1.0), Timeline(1.0)
    one.add(0.5, 1.0)
    other.add(0.6, 3.0)
    other.add(1.6, 2.0)
    one.merge(other)
    assert one.points(1.0) == [(0.0, 3.0), (1.0, 2.0)]
    with pytest.raises(ValueError, match=r"2\.0 s cannot be added"):
        one.merge(Timeline(2.0))
