"""The metrics of several processes as one answer.

Owns: putting texts in the Prometheus format together, each sample marked with its worker. Must not
know: what is measured, how the texts were fetched.

Samples are marked and not added up. Whoever asks can add what can be added (``sum without
(worker)``), a counter that starts again with its process is seen to do so, and of some gauges, such
as the slowest reader's, a sum would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

LABEL = "worker"
UP = "gateway_up"
"""1 for each worker that answered."""


def merged(texts: Mapping[str, str]) -> str:
    """Return one text made of those of several workers, by the value of their label.

    Raises `ValueError` for a text that is not in the Prometheus format.
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
    """A collector of metrics that are known already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
