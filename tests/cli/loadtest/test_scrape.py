"""What `/metrics` says."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.cli.loadtest.scrape import parse


def test_names_and_numbers_are_read_and_labels_added_up() -> None:
    registry = CollectorRegistry()
    Gauge("depth", "Text with 1 number.", registry=registry).set(3.5)
    captions = Counter("captions", "By.", ("by",), registry=registry)
    captions.labels('mt"} 7').inc(2)
    captions.labels("human").inc()
    Histogram("wait", "Seconds.", registry=registry).observe(2)
    found = parse(generate_latest(registry).decode())
    assert found is not None
    assert (found["depth"], found["captions_total"]) == (3.5, 3)
    assert (found["wait_count"], found["wait_sum"]) == (1, 2)
    assert "wait_bucket" not in found


def test_comments_and_empty_lines_are_left_out() -> None:
    assert parse("# a comment\n\nname 1\n") == {"name": 1}


@pytest.mark.parametrize("text", ["name x\n", "<html>\n"])
def test_a_text_in_another_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_of_some_figures_several_workers_have_a_largest_and_no_sum() -> None:
    text = """
    gateway_up{worker="0"} 1
    gateway_jobs_running{worker="0"} 3
    gateway_engine_kv_cache_usage{worker="0"} 0.9
    gateway_outbox_largest_bytes{worker="0"} 10
    """
    found = parse(
        "\n".join(line.strip() for line in (text + text.replace("0.9", "0.4")).split("\n"))
    )
    assert found is not None
    assert found["gateway_jobs_running"] == 6
    assert found["gateway_engine_kv_cache_usage"] == 0.9
    assert found["gateway_outbox_largest_bytes"] == 10


def test_a_scrape_that_a_worker_is_missing_from_is_none() -> None:
    text = (
        'gateway_up{worker="0"} 1\ngateway_up{worker="1"} 0\ngateway_tokens_total{worker="0"} 5\n'
    )
    assert parse(text) is None
    assert parse(text.replace("} 0", "} 1")) is not None
