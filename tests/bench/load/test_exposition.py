"""What `/metrics` says."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.bench.load.exposition import parse, step


def test_names_and_numbers_are_read_and_labels_added_up() -> None:
    registry = CollectorRegistry()
    Gauge("depth", "Text with 1 number.", registry=registry).set(3.5)
    captions = Counter("captions", "By.", ("by",), registry=registry)
    captions.labels('mt"} 7').inc(2)
    captions.labels("human").inc()
    Histogram("wait", "Seconds.", registry=registry).observe(2)
    found = parse(generate_latest(registry).decode())
    assert (found["depth"], found["captions_total"]) == (3.5, 3)
    assert (found["wait_count"], found["wait_sum"]) == (1, 2)
    assert "wait_bucket" not in found


def test_what_is_no_sample_is_left_out() -> None:
    assert parse("# a comment\n\nname\nname x\n<html>\n") == {}


def test_the_time_of_a_token_is_told_from_the_jobs_at_work() -> None:
    before = {"gateway_tokens_total": 100.0, "gateway_jobs_running": 2.0}
    after = {"gateway_tokens_total": 300.0, "gateway_jobs_running": 6.0}
    assert step(before, after, 1.0) == pytest.approx(4 / 200)
    assert step(before, before, 1.0) is None
    assert step({}, {}, 1.0) is None
