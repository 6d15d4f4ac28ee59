"""Figures of a cell: what counts, from when, and what a request without an answer does to them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.journey.cell import Sample, made, rate
from tests.support.typed import near


def sample(sent: float, done: float, **more: Any) -> Sample:
    return Sample(**{"due": sent, "sent": sent, "done": done, "first": done} | more)


def test_requests_of_the_filling_queue_are_not_in_the_response_times() -> None:
    # One worker, a second each, two clients: the first two came to an empty queue.
    samples = [sample(0, 1), sample(0, 2), *(sample(n, n + 2) for n in range(1, 8))]
    cell = made("a", "uniform", samples, 8.0, clients=2)
    assert (cell.p50, cell.p95, cell.p99) == (2, 2, 2)
    assert cell.throughput == pytest.approx(1)
    assert (cell.answered, cell.failed, cell.mode) == (9, 0, "closed")
    assert cell.name == "(a) uniform, 2 at once"


def test_if_each_client_asked_once_all_requests_count() -> None:
    cell = made("a", "uniform", [sample(0, 1), sample(0, 3)], 1.0, clients=2)
    assert (cell.p50, cell.p95) == (1, 3)
    assert cell.throughput == pytest.approx(2 / 3)


def test_latency_counts_from_when_a_request_was_due() -> None:
    samples = [sample(1.0, 2.0, due=0.5, first=1.5), sample(1.0, 1.5)]
    cell = made("f", "variable", samples, 2.0, offered=1.0)
    assert (cell.p50, cell.p95) == (0.5, 1.5)
    assert (cell.first_p50, cell.first_p95) == (0.5, 1.0)
    assert cell.slip == 0.5
    assert cell.how == "1/s due"


def test_an_open_loop_counts_what_was_answered_in_its_time() -> None:
    samples = [sample(n, n + 3) for n in range(10)]
    cell = made("a", "uniform", samples, 10.0, offered=1.0)
    assert cell.throughput == pytest.approx(0.8)
    assert cell.mode == "open"


def test_unanswered_requests_count_with_the_time_they_waited() -> None:
    samples = [sample(0, 1), sample(0, 9, error="503", first=None), sample(0, 9, error="503")]
    cell = made("a", "uniform", samples, 10.0, offered=1.0)
    assert cell.p95 == 9
    assert (cell.answered, cell.failed, cell.errors) == (1, 2, {"503": 2})


def test_without_answers_there_are_only_figures_of_the_wait() -> None:
    cell = made("a", "uniform", [sample(0, 5, error="closed", first=None)], 5.0, clients=1)
    assert (cell.throughput, cell.tokens_s, cell.p50) == (0, 0, 5)
    assert (cell.queue, cell.engine, cell.busy, cell.busy_p5, cell.idle) == (None,) * 5
    assert made("a", "uniform", [], 5.0, clients=1).p50 == 0


def test_tokens_are_those_of_the_answers_or_as_the_server_has_counted_them() -> None:
    samples = [sample(n, n + 1, tokens=10, queue=0.25, engine=0.75) for n in range(6)]
    cell = made("a", "uniform", samples, 6.0, clients=1)
    assert cell.tokens_s == pytest.approx(10)
    assert (cell.queue, cell.engine) == (0.25, 0.75)
    assert made("f", "uniform", samples, 6.0, clients=1, tokens=120).tokens_s == pytest.approx(20)


def test_the_use_of_the_device_has_a_mean_a_low_and_a_share_of_idle_time() -> None:
    usage = [0.9 if n % 2 else 0.0 for n in range(10)]
    cell = made("a", "uniform", [sample(0, 1)], 1.0, clients=1, usage=usage)
    assert (cell.busy, cell.busy_p5, cell.idle) == (near(0.45), 0.0, 0.5)


def test_only_whole_batches_count() -> None:
    # Sixteen at a time, every two seconds; each of a batch a moment after the one before.
    done = [2.0 * batch + 0.001 * n for batch in range(1, 5) for n in range(16)]
    assert rate(done, 25, until=8.0) == pytest.approx(8.0)
    assert rate(done, 16, until=8.0) == pytest.approx(8.0)


def test_a_fast_stream_of_answers_is_not_taken_for_one_batch() -> None:
    done = [0.001 * n for n in range(1, 1001)]
    assert rate(done, 10, until=1.0) == pytest.approx(1000)


def test_the_rate_of_too_few_answers_is_that_of_all_of_them() -> None:
    assert rate([1.0, 2.0], 5, until=3.0) == 1.0
    assert rate([], 5, until=3.0) == 0.0
