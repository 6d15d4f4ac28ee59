"""The metrics of a gateway as OTLP data.

Owns: the translation from the families of prometheus-client, which `/metrics` shows as well. Must
not know: which metrics there are. Names, labels and units are those of `/metrics`, so that a
dashboard works with either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.errors import redacted

log = logging.getLogger("gateway.telemetry")

CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """A thread that exports what registries of prometheus-client have, at a fixed interval.

    The SDK's periodic reader collects from the SDK's own instruments only.

    :param interval: seconds between two exports
    """

    def __init__(
        self,
        exporter: MetricExporter,
        registries: Iterable[Collector],
        resource: Resource,
        interval: float,
    ) -> None:
        self._exporter = exporter
        self._registries = tuple(registries)
        self._resource = resource
        self._interval = interval
        self._began = time.time_ns()
        self._stop = threading.Event()
        # A daemon thread does not keep the process alive while a collector does not answer.
        self._thread = threading.Thread(target=self._run, name="metrics-export", daemon=True)
        self._thread.start()

    def shutdown(self) -> None:
        """Export once more, and end the thread. Blocks as long as the collector takes."""
        self._stop.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        over = False
        while not over:
            over = self._stop.wait(self._interval)
            try:
                self._export()
            except Exception as exc:
                log.error("the metrics could not be exported", exc_info=redacted(exc))

    def _export(self) -> None:
        families = (family for one in self._registries for family in one.collect())
        scope = InstrumentationScope("gateway", __version__)
        metrics = list(translated(families, self._began, time.time_ns()))
        data = ResourceMetrics(self._resource, [ScopeMetrics(scope, metrics, "")], "")
        self._exporter.export(MetricsData([data]))


def translated(families: Iterable[Metric], began: int, now: int) -> Iterator[OtlpMetric]:
    """Yield counters, gauges and histograms as OTLP metrics; other types have no counterpart.

    :param began: time since which counters count, in nanoseconds since the epoch
    :param now: time of the values, likewise
    """
    for family in families:
        data: Sum | Gauge | Histogram
        name = family.name
        if family.type == "counter":
            name = f"{family.name}_total"
            data = Sum(_numbers(family, name, began, now), CUMULATIVE, is_monotonic=True)
        elif family.type == "gauge":
            data = Gauge(_numbers(family, name, None, now))
        elif family.type == "histogram":
            data = Histogram(list(_histograms(family, began, now)), CUMULATIVE)
        else:
            continue
        yield OtlpMetric(name, family.documentation, family.unit, data)


def _numbers(family: Metric, name: str, began: int | None, now: int) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(dict(sample.labels), began, now, sample.value)  # type: ignore[arg-type]
        for sample in family.samples
        if sample.name == name
    ]


def _histograms(family: Metric, began: int, now: int) -> Iterator[HistogramDataPoint]:
    """Yield a point per set of labels."""
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, int]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        bound = labels.pop("le", None)
        key = tuple(sorted(labels.items()))
        if bound is not None:
            buckets.setdefault(key, []).append((float(bound), int(sample.value)))
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    for key, points in buckets.items():
        points.sort()
        # The buckets of Prometheus are cumulative, OTLP's are not.
        totals = [0, *(count for _, count in points)]
        yield HistogramDataPoint(
            attributes=dict(key),
            start_time_unix_nano=began,
            time_unix_nano=now,
            count=totals[-1],
            sum=sums.get(key, 0.0),
            bucket_counts=[
                after - before for before, after in zip(totals, totals[1:], strict=False)
            ],
            explicit_bounds=[bound for bound, _ in points[:-1]],  # the last bucket has no bound
            # A histogram of Prometheus knows neither, and both are optional in OTLP.
            min=None,  # type: ignore[arg-type]
            max=None,  # type: ignore[arg-type]
        )
