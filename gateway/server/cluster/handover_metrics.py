"""Prometheus metrics of connections that processes hand to each other.

Owns: their names and help texts. Must not know: how connections are passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.server.cluster.fd_passing import FdPassing


class HandoverCollector:
    """A collector of the counters of one process, for a Prometheus registry."""

    def __init__(self, handover: FdPassing) -> None:
        self._handover = handover

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "gateway_worker_starts",
            "Starts of this worker process.",
            value=self._handover.starts,
        )
        yield GaugeMetricFamily(
            "gateway_handover_held",
            "Connections that wait for the process of their room.",
            value=self._handover.held,
        )
        counts = CounterMetricFamily(
            "gateway_handover",
            "Connections passed between processes, by what became of them.",
            labels=["how"],
        )
        for how in ("sent", "taken", "refused", "lost"):
            counts.add_metric([how], self._handover.counts[how])
        yield counts
