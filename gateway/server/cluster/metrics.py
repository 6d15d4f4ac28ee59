"""Metrics of several processes as one answer.

Owns: the union of texts in the Prometheus format, each sample labelled with its worker. Must not
know: what is measured, and how the texts were fetched.

Samples are labelled and not added up. A query can add what can be added (``sum without (worker)``).
A counter that starts again with its process is recognised as such. For some gauges, such as that of
the slowest reader, a sum would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

LABEL = "worker"
UP = "gateway_up"
"""Metric that is 1 for each worker that answered."""


def merged(texts: Mapping[str, str]) -> str:
    """Return the union of the metrics of several workers as text.

    Raises `ValueError` for a text that is not in the Prometheus format.

    :param texts: text of each worker, by the value of its label
    """
    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text):
            whole = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            for sample in family.samples:
                whole.add_sample(sample.name, {LABEL: worker, **sample.labels}, sample.value)
    registry = CollectorRegistry()
    registry.register(_Families(families.values()))
    return generate_latest(registry).decode()


class _Families(Collector):
    """A collector of finished metrics, as the writer of prometheus-client needs one."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
