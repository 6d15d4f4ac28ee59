"""The figures of one gateway, computed from its answers at two times.

Owns: which metrics are shown, and what is worth a sentence. Must not know: HTTP, the format of
``/metrics``, columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

DOWN = "down"  # state of a gateway that does not answer
FULL = 0.95  # share of vLLM's KV cache from which on work is about to be thrown away
BEHIND = 1_000
"""Events that the store may be late with. The alert `GatewayStoreBehind` has the same bound."""

REFUSALS = {"queue": "queue full", "seat": "too many rooms"}
"""Words for the label ``why`` of refused utterances."""

GAUGES = {
    "sockets": "gateway_sessions",
    "rooms": "gateway_rooms",
    "running": "gateway_jobs_running",
    "capacity": "gateway_jobs_capacity",
    "queued": "gateway_jobs_queued",
    "memory": "process_resident_memory_bytes",
}
"""Metrics that are figures as they are."""

Series = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]
"""Values by the name of the metric, each with its labels."""


class GatewayReading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a gateway as it answered at one time."""

    at: float  # seconds of any clock that only goes forward
    status: str = DOWN  # that of ``/readyz``
    engine: str = ""
    fallback: str | None = None
    partials: str = "on"
    why: str | None = None  # reason why there are no ``series``, as a sentence
    series: Series = {}


class GatewayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway's row. None: not known, or nothing happened that could be measured."""

    name: str
    status: str
    engine: str = ""
    sockets: float | None = None
    rooms: float | None = None
    running: float | None = None
    capacity: float | None = None
    queued: float | None = None
    tokens: float | None = None  # a second
    utterances: float | None = None  # a minute
    first50: float | None = None  # seconds to the first text, median
    first95: float | None = None  # the same, 95th percentile
    total95: float | None = None  # seconds to the finished caption
    failed: float | None = None  # share of the captions
    cpu: float | None = None  # cores
    memory: float | None = None  # bytes
    notes: tuple[str, ...] = ()  # sentences


def figures(
    name: str, now: GatewayReading, before: GatewayReading | None, *, latencies_of_all: bool
) -> GatewayFigures:
    """Return the row of a gateway.

    :param before: an earlier answer, for rates; None: there is none
    :param latencies_of_all: percentiles of all captions since the gateway's start; else of those
        since ``before``
    """
    engine = now.engine if now.fallback is None else f"{now.fallback} for {now.engine}"
    if not now.series:
        notes = () if now.why is None else (now.why,)
        return GatewayFigures(name=name, status=now.status, engine=engine, notes=notes)
    window = _Window(now, before)
    # Without an earlier answer, nothing is known of the time since then.
    base = None if latencies_of_all else before or now
    first = _buckets(now, base, "gateway_caption_first_seconds")
    ended = window.grown("gateway_captions_total")
    failed = window.grown("gateway_captions_total", outcome="failed")
    utterances = window.rate("gateway_utterances_total")
    return GatewayFigures(
        name=name,
        status=now.status,
        engine=engine,
        **{field: _sum(now, metric) for field, metric in GAUGES.items()},
        tokens=window.rate("gateway_tokens_total"),
        utterances=None if utterances is None else 60 * utterances,
        first50=quantile(first, 0.5),
        first95=quantile(first, 0.95),
        total95=quantile(_buckets(now, base, "gateway_caption_total_seconds"), 0.95),
        failed=failed / ended if ended else None,
        cpu=window.rate("process_cpu_seconds_total"),
        notes=tuple(_notes(now, window)),
    )


def quantile(buckets: Mapping[float, float], q: float) -> float | None:
    """Return a quantile of a cumulative histogram, linear within a bucket; None if it is empty.

    A quantile in the last bucket, which has no bound, is the bound before it. Prometheus computes
    ``histogram_quantile`` in the same way.
    """
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None
    rank = q * buckets[bounds[-1]]
    below, counted = 0.0, 0.0
    for bound in bounds[:-1]:
        if buckets[bound] >= rank:
            return below + (bound - below) * (rank - counted) / (buckets[bound] - counted)
        below, counted = bound, buckets[bound]
    return below


class _Window:
    """The time between two answers."""

    def __init__(self, now: GatewayReading, before: GatewayReading | None) -> None:
        self._now = now
        self._before = before
        self._seconds = 0.0 if before is None else now.at - before.at

    def grown(self, name: str, **labels: str) -> float:
        """Return by how much a counter has grown; 0 without an earlier answer.

        A counter that is smaller than before began again at 0 with a new process.
        """
        if self._before is None:
            return 0.0
        value = _sum(self._now, name, **labels) or 0.0
        earlier = _sum(self._before, name, **labels) or 0.0
        return value - earlier if value >= earlier else value

    def rate(self, name: str) -> float | None:
        """Return the growth of a counter per second."""
        if self._seconds <= 0:
            return None
        return self.grown(name) / self._seconds

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return by how much a counter has grown for each value of a label, the largest first."""
        values = {own[label] for own, _ in self._now.series.get(name, ()) if label in own}
        grown = {value: self.grown(name, **labels, **{label: value}) for value in sorted(values)}
        return dict(sorted(((k, v) for k, v in grown.items() if v), key=lambda item: -item[1]))


def _sum(answer: GatewayReading, name: str, **labels: str) -> float | None:
    """Return the sum of a metric over all series with these labels; None if there is none."""
    values = [
        value
        for own, value in answer.series.get(name, ())
        if all(own.get(label) == wanted for label, wanted in labels.items())
    ]
    return sum(values) if values else None


def _buckets(now: GatewayReading, before: GatewayReading | None, name: str) -> dict[float, float]:
    """Return the cumulative buckets of a histogram, less the ones of an earlier answer."""
    counts: dict[float, float] = {}
    earlier = {} if before is None else _buckets(before, None, name)
    for labels, count in now.series.get(f"{name}_bucket", ()):
        bound = float(labels["le"])
        counts[bound] = counts.get(bound, 0.0) + count
    grown = {bound: count - earlier.get(bound, 0.0) for bound, count in counts.items()}
    # Less than before: it is a new process.
    return counts if any(count < 0 for count in grown.values()) else grown


def _notes(now: GatewayReading, window: _Window) -> list[str]:
    """Return sentences about everything that is not as it should be."""
    notes = []
    if now.fallback is not None:
        notes.append(f"{now.engine} is away; {now.fallback} translates.")
    if now.partials == "off":
        notes.append("Overloaded: partial texts are not translated.")
    if refused := window.by("gateway_refused_total", "why"):
        named = {REFUSALS.get(why, why): count for why, count in refused.items()}
        notes.append(f"Utterances refused as busy: {_listed(named)}.")
    if failed := window.by("gateway_captions_total", "by", outcome="failed"):
        notes.append(f"Captions failed: {_listed(failed)}.")
    if slow := window.grown("gateway_too_slow_total"):
        notes.append(f"Readers closed as too slow: {slow:,.0f}.")
    # Each of several engines has a cache of its own.
    used = now.series.get("gateway_engine_kv_cache_usage", ())
    if any(share >= FULL for _, share in used):
        notes.append("vLLM's KV cache is full: work is thrown away and repeated.")
    if _sum(now, "gateway_fleet_connected") == 0:
        notes.append("Redis does not answer: shared rooms show nothing new until it does.")
    if lost := window.grown("gateway_store_lost_total"):
        notes.append(f"Events that could not be written to the store: {lost:,.0f}.")
    behind = _sum(now, "gateway_store_behind") or 0.0
    if behind > BEHIND:
        notes.append(f"Events that the store has not written yet: {behind:,.0f}.")
    return notes


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count:,.0f}" for name, count in counts.items())
