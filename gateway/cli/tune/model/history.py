"""The load that a history of metrics shows: rate, lengths of texts, number of languages.

Owns: the growth of counters, and the load computed from it. Must not know: files, networks, steps.

Several processes are one load. Their growth is added up series by series, since a restart of one
process cannot be seen in a sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec

UTTERANCES = "gateway_utterances_total"
LENGTHS = "gateway_utterance_characters_bucket"
CAPTIONS = "gateway_captions_total"
JOBS = "gateway_jobs_total"

NAMES = (UTTERANCES, LENGTHS, CAPTIONS, JOBS)

OWN = frozenset({"le", "priority", "outcome", "by"})
"""Labels that the gateway gives to these metrics. All others name the process."""

BUSY = 0.95
"""Share of the time in which the rate was lower than the rate to tune for. The mean of a day and
its night would be the load of no moment.
"""

BUSY_S = 30.0
"""Least seconds over which a rate is counted. In a single second there are often none or two
utterances if the mean is one half, so its rate would be that of no longer moment.
"""

Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name and its labels."""

Values = dict[Series, float]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The load of a history.

    :param seconds: from the first scrape to the last
    :param rate: utterances a second in the busiest twentieth of the time; see `BUSY`
    :param mean: utterances a second over all of it
    :param lengths: (above, up to, count): characters of an utterance
    :param languages: captions of an utterance, on average
    :param partials: jobs for texts that were still growing, for each caption
    """

    seconds: float
    rate: float
    mean: float
    lengths: tuple[tuple[float, float, float], ...]
    languages: float
    partials: float


def recorded(scrapes: Sequence[tuple[float, Values]]) -> Recorded:
    """Return the load of a history. Raises `ValueError` if the history does not tell it."""
    if len(scrapes) < 2:
        raise ValueError(
            "A history needs two scrapes, of different times: one says nothing of the time between."
        )
    steps = list(_grown(scrapes))
    said = [(width, _sum(grown, UTTERANCES)) for width, grown in steps]
    seconds, total = (sum(column) for column in zip(*said, strict=True))
    if not total:
        raise ValueError("Nothing was said in the time of this history.")
    whole: Values = {}
    for _, grown in steps:
        for series, more in grown.items():
            whole[series] = whole.get(series, 0.0) + more
    captions = _sum(whole, CAPTIONS, ("by", "mt"))
    return Recorded(
        seconds=seconds,
        rate=_busy(said),
        mean=total / seconds,
        lengths=tuple(_lengths(whole)),
        languages=captions / total,
        partials=_sum(whole, JOBS, ("priority", "partial")) / captions if captions else 0.0,
    )


def _grown(scrapes: Sequence[tuple[float, Values]]) -> Iterator[tuple[float, Values]]:
    """Yield (seconds, growth) between each two scrapes.

    A counter that falls was restarted, so all of its value is growth. A process that appears later
    may have counted long before, so its first values are no growth.
    """
    known = dict(scrapes[0][1])
    processes = {_process(series) for series in known}
    for (before, _), (at, values) in pairwise(scrapes):
        grown: Values = {}
        for series, value in values.items():
            was = known.get(series, 0.0 if _process(series) in processes else value)
            grown[series] = value - was if value >= was else value
        known |= values
        processes |= {_process(series) for series in values}
        yield at - before, grown


def _process(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(label for label in series[1] if label[0] not in OWN)


def _sum(grown: Values, name: str, label: tuple[str, str] | None = None) -> float:
    return sum(
        more
        for (one, labels), more in grown.items()
        if one == name and (label is None or label in labels)
    )


def _busy(said: Sequence[tuple[float, float]]) -> float:
    """Return the rate that is not exceeded in `BUSY` of the time, from (seconds, utterances).

    Rates are those of spans of `BUSY_S` or more; the rest belongs to the last span.
    """
    spans: list[tuple[float, float]] = []
    left = sum(width for width, _ in said)
    width = count = 0.0
    for more, utterances in said:
        width, count, left = width + more, count + utterances, left - more
        # A short rest would be a span with a rate of chance, so it joins the last one.
        if not left or (width >= BUSY_S and left >= BUSY_S):
            spans.append((count / width, width))
            width = count = 0.0
    spans.sort()
    until = list(accumulate(width for _, width in spans))
    ordered = zip(spans, until, strict=True)
    return next(rate for (rate, _), at in ordered if rate and at >= BUSY * until[-1])


def _lengths(whole: Values) -> Iterator[tuple[float, float, float]]:
    """Yield how many utterances had which length. Raises `ValueError` if that is unknown."""
    bounds: dict[float, float] = {}
    for (name, labels), grown in whole.items():
        if name == LENGTHS:
            bound = number(dict(labels).get("le", ""))
            bounds[bound] = bounds.get(bound, 0.0) + grown
    if not any(bounds.values()):
        raise ValueError(
            f"This history has no {LENGTHS}: it does not say how long the utterances were. Describe"
            " the load with --describe, or record a meeting with gateway record."
        )
    for (low, below), (high, count) in pairwise([(0.0, 0.0), *sorted(bounds.items())]):
        if count > below:
            # The last bucket has no upper bound; twice its lower one is a guess.
            yield low, 2 * low if math.isinf(high) else high, count - below


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"This history has {text!r} where a number has to be.") from None
