"""What ``/metrics`` said over time: how much was said, how long it was, how many jobs ran at once.

Owns: reading scrapes, and what they tell of a load. Must not know: files, networks, what is
measured for it.

Two forms are read. Expositions one after the other, each behind a line with its time in seconds::

    # at 1732250000
    gateway_utterances_total 17.0
    ...

as ``(date +'# at %s'; curl -s HOST/metrics) >> history.txt`` writes them; and the answer of
Prometheus to ``query_range``, with its matrix of series. Series that differ by anything but what is
asked here, such as the instance or the worker, are added up: several gateways are one load. Their
growth is that of each: one that begins anew, or gives no answer once, is not seen in a sum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import msgspec

from gateway import scrape
from gateway.bench.stats import percentile

UTTERANCES = "gateway_utterances_total"
LENGTHS = "gateway_utterance_characters_bucket"
CAPTIONS = "gateway_captions_total"
JOBS = "gateway_jobs_total"
RUNNING, QUEUED = "gateway_jobs_running", "gateway_jobs_queued"

BUSY = 0.95
"""The rate that is tuned for: so large a part of the time less was said. The mean of a day with a
night in it would be the load of no moment."""

BUSY_S = 30.0
"""Seconds, at least, of which the rate is looked at. In a second there are often none or two where
half of one is said on average, and the busiest of such would be the load of no moment either."""

NAMES = frozenset({UTTERANCES, LENGTHS, CAPTIONS, JOBS, RUNNING, QUEUED})

OWN = frozenset({"le", "priority", "outcome", "by"})
"""Labels that the gateway gives to these; all others tell which process it was."""

_AT = re.compile(r"#\s*at\s+(\d+(?:\.\d*)?)\s*$")

Labels = frozenset[tuple[str, str]]
Series = tuple[str, Labels]


class Scrape(msgspec.Struct):
    """What was counted at one time, in seconds, of `NAMES`."""

    at: float
    values: dict[Series, float]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a history."""

    seconds: float
    """From the first scrape to the last."""
    rate: float
    """Utterances a second in the busiest twentieth of the time; see `BUSY` and `BUSY_S`."""
    mean: float
    """The same over all of it."""
    said: float
    """Utterances that it saw."""
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
    steps = _grown(scrapes)
    said = [(width, _of(grown, UTTERANCES)) for width, grown in steps]
    total = sum(grown for _, grown in said)
    if not total:
        raise ValueError("Nothing was said in the time of this history.")
    whole: Growth = {}
    for _, grown in steps:
        for series, more in grown.items():
            whole[series] = whole.get(series, 0.0) + more
    captions = _of(whole, CAPTIONS, ("by", "mt"))
    running = [
        sum(value for (name, _), value in one.values.items() if name in (RUNNING, QUEUED))
        for one in scrapes
    ]
    return Recorded(
        seconds=seconds,
        rate=_busy(_spans(said)),
        mean=total / seconds,
        said=total,
        lengths=_lengths(whole),
        languages=captions / total,
        partials=_of(whole, JOBS, ("priority", "partial")) / captions if captions else 0.0,
        jobs=(percentile(running, 0.5), percentile(running, 0.95), max(running)),
    )


def _spans(said: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """(seconds, a second), of spans of `BUSY_S` or more; what is left over is of the last one."""
    spans: list[tuple[float, float]] = []
    left = sum(width for width, _ in said)
    width = count = 0.0
    for more, grown in said:
        width, count, left = width + more, count + grown, left - more
        if width >= BUSY_S and left >= BUSY_S:
            spans.append((width, count / width))
            width = count = 0.0
    return [*spans, (width, count / width)]


def _busy(rates: Iterable[tuple[float, float]]) -> float:
    """The rate that is not exceeded in `BUSY` of the time, of (seconds, rate); above 0."""
    ordered = sorted(rates, key=lambda one: one[1])
    until = list(accumulate(width for width, _ in ordered))
    return next(
        rate
        for (_, rate), width in zip(ordered, until, strict=True)
        if rate and width >= BUSY * until[-1]
    )


def _lengths(whole: Growth) -> tuple[tuple[float, float, float], ...]:
    """How many utterances were how long. Raises `ValueError` where the history does not tell."""
    bounds: dict[float, float] = {}
    for (name, labels), grown in whole.items():
        if name == LENGTHS:
            bound = _number(dict(labels).get("le", ""))
            bounds[bound] = bounds.get(bound, 0.0) + grown
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


Growth = dict[Series, float]


def _grown(scrapes: Sequence[Scrape]) -> list[tuple[float, Growth]]:
    """(seconds, growth) between each two scrapes; of what falls, all that is there is new.

    A process that comes when others are there already counts from what it has then: it may have
    been there for long. One that gives no answer has not begun anew when it does.
    """
    known = dict(scrapes[0].values)
    processes = {_process(series) for series in known}
    found: list[tuple[float, Growth]] = []
    for before, after in pairwise(scrapes):
        grown: Growth = {}
        for series, value in after.values.items():
            was = known.get(series, 0.0 if _process(series) in processes else value)
            grown[series] = value - was if value >= was else value
        known |= after.values
        processes |= {_process(series) for series in after.values}
        if after.at > before.at:
            found.append((after.at - before.at, grown))
    return found


def _process(series: Series) -> Labels:
    return frozenset(label for label in series[1] if label[0] not in OWN)


def _of(grown: Growth, name: str, label: tuple[str, str] | None = None) -> float:
    return sum(
        more
        for (one, labels), more in grown.items()
        if one == name and (label is None or label in labels)
    )


def _expositions(text: str) -> list[Scrape]:
    scrapes: list[Scrape] = []
    for line in text.splitlines():
        if at := _AT.match(line):
            scrapes.append(Scrape(float(at[1]), {}))
        elif (found := scrape.sample(line)) and _counts(found.name, found.value):
            if not scrapes:
                raise ValueError(
                    "This history has no times: each scrape needs a line before it, `# at SECONDS`."
                )
            scrapes[-1].values[found.name, found.labels] = found.value
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
        name = row.metric.pop("__name__", "")
        series = name, frozenset(row.metric.items())
        for at, value in row.values:
            if _counts(name, number := _number(value)):
                scrapes.setdefault(at, Scrape(at, {})).values[series] = number
    return list(scrapes.values())


def _counts(name: str, value: float) -> bool:
    return name in NAMES and math.isfinite(value)


def _number(text: str) -> float:
    """Raises `ValueError` with a sentence."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"This history has {text!r} where a number has to be.") from None
