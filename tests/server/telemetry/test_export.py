"""The metrics of prometheus-client as OTLP data."""

from __future__ import annotations

from opentelemetry.sdk.metrics.export import Gauge, Histogram, Sum
from prometheus_client import CollectorRegistry, Counter, Info
from prometheus_client import Gauge as PrometheusGauge
from prometheus_client import Histogram as PrometheusHistogram

from gateway.server.telemetry.export import translated


def test_a_counter_keeps_the_name_that_it_has_in_metrics() -> None:
    registry = CollectorRegistry()
    Counter("captions", "Captions.", ("outcome",), registry=registry).labels("final").inc(3)
    (metric,) = translated(registry.collect(), 5, 9)
    assert (metric.name, metric.description) == ("captions_total", "Captions.")
    assert isinstance(metric.data, Sum) and metric.data.is_monotonic
    (point,) = metric.data.data_points
    assert (point.attributes, point.value) == ({"outcome": "final"}, 3.0)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)


def test_a_gauge_has_a_point_per_set_of_labels() -> None:
    registry = CollectorRegistry()
    gauge = PrometheusGauge("health", "State.", ("state",), registry=registry)
    gauge.labels("ready").set(1)
    gauge.labels("dead").set(0)
    (metric,) = translated(registry.collect(), 5, 9)
    assert isinstance(metric.data, Gauge)
    points = {p.attributes["state"]: p.value for p in metric.data.data_points if p.attributes}
    assert points == {"ready": 1.0, "dead": 0.0}


def test_the_buckets_of_a_histogram_are_counted_one_by_one() -> None:
    registry = CollectorRegistry()
    waits = PrometheusHistogram("wait", "Time.", ("by",), buckets=(1, 2), registry=registry)
    for seconds in (0.5, 0.6, 1.5, 9):
        waits.labels("mt").observe(seconds)
    (metric,) = translated(registry.collect(), 5, 9)
    assert isinstance(metric.data, Histogram)
    (point,) = metric.data.data_points
    assert point.attributes == {"by": "mt"}
    assert (point.count, round(point.sum, 1)) == (4, 11.6)
    assert list(point.explicit_bounds) == [1.0, 2.0]
    assert list(point.bucket_counts) == [2, 1, 1]


def test_a_type_without_a_counterpart_is_left_out() -> None:
    registry = CollectorRegistry()
    Info("build", "Version.", registry=registry).info({"version": "1"})
    assert list(translated(registry.collect(), 5, 9)) == []
