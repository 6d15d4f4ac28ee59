"""Values of `/metrics`."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from caption_tools.scrape import parse


def test_metrics_are_read_by_name_and_summed_over_labels() -> None:
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


def test_some_metrics_of_several_engines_are_combined_by_their_maximum() -> None:
    text = """
    gateway_jobs_running{engine="0"} 3
    gateway_engine_kv_cache_usage{engine="0"} 0.9
    gateway_outbox_largest_bytes{engine="0"} 10
    """
    found = parse(
        "\n".join(line.strip() for line in (text + text.replace("0.9", "0.4")).split("\n"))
    )
    assert found["gateway_jobs_running"] == 6
    assert found["gateway_engine_kv_cache_usage"] == 0.9
    assert found["gateway_outbox_largest_bytes"] == 10
