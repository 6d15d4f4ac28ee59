"""The load that a history of metrics shows: rate, lengths of texts, number of languages.

Owns: the two forms of a history, the growth of counters, the load computed from it. Must not know:
files, networks, steps.

A history is expositions one after the other, each behind a line with its time in seconds::

    # at 1732250000
    gateway_utterances_total 17.0
    ...

This command writes them: ``(date +'# at %s'; curl -s HOST/metrics) >> history.txt``. The other form
is the answer of Prometheus to ``query_range``, with its matrix of series. Several processes are one
load. Their growth is added up series by series, since a restart of one process cannot be seen in a
sum.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from caption_tools.report.stats import percentile
from caption_tools.scrape import series
from caption_tools.tune.model.load import Recorded

UTTERANCES = "gateway_utterances_total"
LENGTHS = "gateway_utterance_characters_bucket"
CAPTIONS = "gateway_captions_total"
JOBS = "gateway_jobs_total"
NAMES = (UTTERANCES, LENGTHS, CAPTIONS, JOBS)
OWN = frozenset({"le", "priority", "outcome", "by"})
"""Labels that the gateway gives to these metrics. All others name the process."""

BUSY = 0.95
"""Share of the spans in which the rate was lower than the rate to tune for. The mean of a day and
its night would be the load of no moment.
"""

BUSY_S = 30.0
"""Least seconds over which a rate is counted. The rate of a single second would be chance."""

_AT = re.compile(r"^#[ \t]*at[ \t]+(\d+(?:\.\d*)?)[ \t]*$", re.MULTILINE)

Labels = frozenset[tuple[str, str]]
Values = dict[tuple[str, Labels], float]  # values of series by name and labels


def recorded(text: str) -> Recorded:
    """Return the load of a history. Raises `ValueError` if the history does not tell it."""
    scrapes = _parsed(text)
    if len(scrapes) < 2:
        raise ValueError("A history needs two scrapes, of different times.")
    whole: Values = defaultdict(float)
    said: list[tuple[float, float]] = []
    for seconds, grown in _growth(scrapes):
        said.append((seconds, _sum(grown, UTTERANCES)))
        for labels, more in grown.items():
            whole[labels] += more
    time, total = (sum(column) for column in zip(*said, strict=True))
    if not total:
        raise ValueError("Nothing was said in the time of this history.")
    captions = _sum(whole, CAPTIONS, ("by", "mt"))
    return Recorded(
        seconds=time,
        rate=_busy(said),
        mean=total / time,
        lengths=tuple(_lengths(whole)),
        languages=captions / total,
        partials=_sum(whole, JOBS, ("priority", "partial")) / captions if captions else 0.0,
    )


# --- files ---------------------------------------------------------------------------------------


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


def _parsed(text: str) -> list[tuple[float, Values]]:
    """Return the scrapes of a history in the order of time."""
    scrapes: dict[float, Values] = defaultdict(dict)
    if text.lstrip()[:1] == "{":
        try:
            answer = msgspec.json.decode(text, type=_Answer)
        except msgspec.DecodeError as exc:
            raise ValueError(f"This is no answer of Prometheus to query_range: {exc}.") from exc
        for result in answer.data.result:
            name = result.metric.pop("__name__", "")
            for at, number in result.values:
                _put(scrapes[at], name, result.metric, _number(number))
        return sorted(scrapes.items())
    before, *parts = _AT.split(text)
    if before.strip():
        raise ValueError(
            "This history has no times: each scrape needs a line before it, `# at SECONDS`."
        )
    for moment, scrape in zip(parts[::2], parts[1::2], strict=True):
        values = scrapes[float(moment)]  # an empty scrape counts as one, too
        # Other metrics are most of a scrape; parsing them would take most of the time.
        lines = (line for line in scrape.splitlines() if line.startswith(NAMES))
        for name, samples in series("\n".join((*lines, ""))).items():
            for labels, value in samples:
                _put(values, name, labels, value)
    return sorted(scrapes.items())


def _put(values: Values, name: str, labels: dict[str, str], value: float) -> None:
    if name in NAMES and math.isfinite(value):
        values[name, frozenset(labels.items())] = value


# --- growth --------------------------------------------------------------------------------------


def _growth(scrapes: Sequence[tuple[float, Values]]) -> Iterator[tuple[float, Values]]:
    """Yield (seconds, growth) between each two scrapes.

    A counter that falls was restarted, so all of its value is growth. A process that appears later
    may have counted long before, so its first values are no growth.
    """
    known = dict(scrapes[0][1])
    processes = {_process(labels) for _, labels in known}
    for (before, _), (at, values) in pairwise(scrapes):
        grown: Values = {}
        for (name, labels), value in values.items():
            was = known.get((name, labels), 0.0 if _process(labels) in processes else value)
            grown[name, labels] = value - was if value >= was else value
        known |= values
        processes |= {_process(labels) for _, labels in values}
        yield at - before, grown


def _process(labels: Labels) -> Labels:
    return frozenset(label for label in labels if label[0] not in OWN)


def _sum(grown: Values, name: str, *wanted: tuple[str, str]) -> float:
    return sum(more for (own, has), more in grown.items() if own == name and has.issuperset(wanted))


def _busy(said: Sequence[tuple[float, float]]) -> float:
    """Return the rate that is not exceeded in `BUSY` of the spans, from (seconds, utterances)."""
    rates: list[float] = []
    left = sum(width for width, _ in said)
    width = count = 0.0
    for more, utterances in said:
        width, count, left = width + more, count + utterances, left - more
        # A short rest would be a span with a rate of chance, so it joins the last one.
        if not left or (width >= BUSY_S and left >= BUSY_S):
            rates.append(count / width)
            width = count = 0.0
    # Silence is no load, even if it fills nearly all of the time.
    return percentile(rates, BUSY) or min(rate for rate in rates if rate)


def _lengths(whole: Values) -> Iterator[tuple[float, float, float]]:
    """Yield how many utterances had which length. Raises `ValueError` if that is unknown."""
    bounds: dict[float, float] = defaultdict(float)
    for (name, labels), grown in whole.items():
        if name == LENGTHS:
            bounds[_number(dict(labels).get("le", ""))] += grown
    if not any(bounds.values()):
        raise ValueError(
            f"This history has no {LENGTHS}: it does not say how long the utterances were. Describe"
            " the load with --describe, or record a meeting with gateway record."
        )
    for (low, below), (high, count) in pairwise([(0.0, 0.0), *sorted(bounds.items())]):
        if count > below:
            # The last bucket has no upper bound; twice its lower one is a guess.
            yield low, 2 * low if math.isinf(high) else high, count - below


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"This history has {text!r} where a number has to be.") from None
