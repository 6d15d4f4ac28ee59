"""Metrics of several processes as one answer."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.server.cluster.metrics import merged


def text(said: int, state: str) -> str:
    registry = CollectorRegistry()
    Counter("said", 'What was "said".', registry=registry).inc(said)
    Gauge("health", "Its state.", ["state"], registry=registry).labels(state).set(1)
    Histogram("wait", "Seconds.", buckets=(1, 2), registry=registry).observe(1.5)
    return generate_latest(registry).decode()


def test_each_worker_has_one_labelled_sample_of_each_metric() -> None:
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(
            merged({"0": text(3, "ready"), "1": text(4, 'a "b"\\')})
        )
        for sample in family.samples
    }
    assert found["said_total", (("worker", "0"),)] == 3
    assert found["said_total", (("worker", "1"),)] == 4
    assert found["health", (("state", "ready"), ("worker", "0"))] == 1
    assert found["health", (("state", 'a "b"\\'), ("worker", "1"))] == 1
    assert found["wait_bucket", (("le", "2.0"), ("worker", "1"))] == 1


def test_the_samples_of_a_metric_stand_together_under_one_description() -> None:
    lines = merged({"0": text(3, "ready"), "1": text(4, "dead")}).splitlines()
    assert len([line for line in lines if line.startswith("# HELP said_total")]) == 1
    at = [n for n, line in enumerate(lines) if line.startswith("said_total{")]
    assert at == [at[0], at[0] + 1]
    assert lines[at[0] - 1] == "# TYPE said_total counter"


def test_a_metric_that_only_some_workers_have_is_kept() -> None:
    assert merged({"0": "# HELP a x\n# TYPE a gauge\na 1\n", "1": "\n# EOF\n"}) == (
        '# HELP a x\n# TYPE a gauge\na{worker="0"} 1.0\n'
    )


def test_a_sample_with_an_empty_list_of_labels_is_labelled() -> None:
    assert 'a{worker="7"} 1.0\n' in merged({"7": "# TYPE a gauge\na{} 1\n"})


def test_a_text_in_another_format_is_refused() -> None:
    with pytest.raises(ValueError):
        merged({"0": "<html>\n"})
