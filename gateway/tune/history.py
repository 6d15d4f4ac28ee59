"""What ``/metrics`` said over time: how much was said, how long it was, how many jobs ran at once.

Owns: reading scrapes, and what they tell of a load. Must not know: files, networks, what is
measured for it.

Two forms are read. Expositions one after the other, each behind a line with its time in seconds::

    # at 1732250000
    gateway_utterances_total 17.0
    ...

as ``(date +'# at %s'; curl -s HOST/metrics) >> history.txt`` writes them; and the answer of
Prometheus to ``query_range``, with its matrix of series. Series that differ by anything but what is
asked here, such as the instance, are added up: several gateways are one load.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

import msgspec

from gateway.bench.stats import percentile

UTTERANCES = "gateway_utterances_total"
LENGTHS = "gateway_utterance_characters_bucket"
CAPTIONS = "gateway_captions_total"
JOBS = "gateway_jobs_total"
RUNNING, QUEUED = "gateway_jobs_running", "gateway_jobs_queued"

BUSY = 0.95
"""The rate that is tuned for: so large a part of the time less was said. The mean of a day with a
night in it would be the load of no moment."""

KEPT = frozenset({"le", "priority", "outcome", "by"})
"""Labels that matter here."""

_AT = re.compile(r"#\s*at\s+([\d.]+)\s*$")
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Series = tuple[str, frozenset[tuple[str, str]]]
"""A name, and those of its labels that are in `KEPT`."""


class Scrape(msgspec.Struct):
    """All that was counted at one time, in seconds."""

    at: float
    values: dict[Series, float]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a history."""

    seconds: float
    """From the first scrape to the last."""
    rate: float
    """Utterances a second in the busiest twentieth of the time; see `BUSY`."""
    mean: float
    """The same over all of it."""
    lengths: tuple[tuple[float, float, float], ...]
    """(above, up to, how many): characters of an utterance."""
    languages: float
    """Captions that an utterance had, on average."""
    partials: float
    """Jobs for texts that were still growing, for each caption."""
    jobs: tuple[float, float, float]
    """Jobs that ran or waited at once: median, 95 of 100, most."""


def parse(text: str) -> list[Scrape]:
    """The scrapes of a history, by time. Raises `ValueError` with a sentence."""
    scrapes = _matrix(text) if text.lstrip()[:1] == "{" else _expositions(text)
    return sorted(scrapes, key=lambda one: one.at)


def recorded(scrapes: Sequence[Scrape]) -> Recorded:
    """What load they saw. Raises `ValueError` with a sentence where they do not tell."""
    if len(scrapes) < 2:
        raise ValueError("A history needs two scrapes: one alone says nothing of the time between.")
    seconds = scrapes[-1].at - scrapes[0].at
    if seconds <= 0:
        raise ValueError("All scrapes of this history are of the same time.")
    said = _grown(scrapes, lambda series: series[0] == UTTERANCES)
    if not sum(grown for _, grown in said):
        raise ValueError("Nothing was said in the time of this history.")
    captions = _sum(scrapes, lambda series: series[0] == CAPTIONS and ("by", "mt") in series[1])
    grown = _sum(scrapes, lambda series: series[0] == JOBS and ("priority", "partial") in series[1])
    running = [
        sum(value for (name, _), value in one.values.items() if name in (RUNNING, QUEUED))
        for one in scrapes
    ]
    total = sum(grown for _, grown in said)
    return Recorded(
        seconds=seconds,
        rate=_busy([(width, grown / width) for width, grown in said]),
        mean=total / seconds,
        lengths=_lengths(scrapes),
        languages=captions / total,
        partials=grown / captions if captions else 0.0,
        jobs=(percentile(running, 0.5), percentile(running, 0.95), max(running)),
    )


def _busy(rates: Iterable[tuple[float, float]]) -> float:
    """The rate that is not exceeded in `BUSY` of the time, of (seconds, rate); above 0."""
    ordered = sorted(rates, key=lambda one: one[1])
    until = list(accumulate(width for width, _ in ordered))
    return next(
        rate
        for (_, rate), width in zip(ordered, until, strict=True)
        if rate and width >= BUSY * until[-1]
    )


def _lengths(scrapes: Sequence[Scrape]) -> tuple[tuple[float, float, float], ...]:
    """How many utterances were how long. Raises `ValueError` where the history does not tell."""
    bounds: dict[float, float] = defaultdict(float)
    names = {series for one in scrapes for series in one.values if series[0] == LENGTHS}
    for series in names:
        bound = float(dict(series[1])["le"])
        bounds[bound] += _sum(scrapes, series.__eq__)
    found: list[tuple[float, float, float]] = []
    for (low, below), (high, count) in pairwise([(0.0, 0.0), *sorted(bounds.items())]):
        if count > below:
            found.append((low, 2 * low if math.isinf(high) else high, count - below))
    if not found:
        raise ValueError(
            f"This history has no {LENGTHS}: it does not say how long the utterances were. Describe"
            " the load with --describe, or record a meeting with gateway record."
        )
    return tuple(found)


def _grown(scrapes: Sequence[Scrape], of: Callable[[Series], bool]) -> list[tuple[float, float]]:
    """(seconds, growth) of counters between each two scrapes; one that fell has begun anew."""
    series = {name for one in scrapes for name in one.values if of(name)}
    return [
        (
            after.at - before.at,
            sum(_growth(before.values.get(one, 0.0), after.values.get(one)) for one in series),
        )
        for before, after in pairwise(scrapes)
        if after.at > before.at
    ]


def _growth(before: float, after: float | None) -> float:
    if after is None:
        return 0.0
    return after - before if after >= before else after


def _sum(scrapes: Sequence[Scrape], of: Callable[[Series], bool]) -> float:
    return sum(grown for _, grown in _grown(scrapes, of))


def _expositions(text: str) -> list[Scrape]:
    scrapes: list[Scrape] = []
    for line in text.splitlines():
        if at := _AT.match(line):
            scrapes.append(Scrape(float(at[1]), {}))
        elif (sample := _SAMPLE.match(line)) and line.startswith("gateway_"):
            if not scrapes:
                raise ValueError(
                    "This history has no times: each scrape needs a line before it, `# at SECONDS`."
                )
            series = (sample[1], _kept(_LABEL.findall(sample[2] or "")))
            values = scrapes[-1].values
            values[series] = values.get(series, 0.0) + float(sample[3])
    return scrapes


class _Row(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Row]


class _Answer(msgspec.Struct):
    data: _Data


def _matrix(text: str) -> list[Scrape]:
    try:
        rows = msgspec.json.decode(text, type=_Answer).data.result
    except msgspec.DecodeError as exc:
        raise ValueError(f"This is no answer of Prometheus to query_range: {exc}.") from exc
    scrapes: dict[float, Scrape] = {}
    for row in rows:
        series = (row.metric.get("__name__", ""), _kept(row.metric.items()))
        for at, value in row.values:
            values = scrapes.setdefault(at, Scrape(at, {})).values
            values[series] = values.get(series, 0.0) + float(value)
    return list(scrapes.values())


def _kept(labels: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels if name in KEPT)
