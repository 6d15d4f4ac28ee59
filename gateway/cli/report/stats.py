"""Percentiles: of lists exactly, of any number of times in a bounded amount of memory.

Owns: nearest-rank percentiles, a histogram with a bounded relative error, histograms by time. Must
not know: what was measured, or where.

The histogram is that of HdrHistogram in its idea: whole microseconds, in buckets that double every
128, so that a value is known to 1/128 of itself from 256 us on and exactly below. It holds at most
4,352 numbers, whatever is put in, and histograms of several processes add up. The library of that
name would be a compiled dependency for sixty lines, on machines where nothing can be installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

HALF_BITS = 7
HALF = 1 << HALF_BITS
"""Buckets to each doubling: a value is known to one part in so many."""
MOST_US = (1 << 40) - 1
"""The largest value, some 12 days; what is larger counts as this."""
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so large a part does not exceed, ``share`` from 0 to 1; 0 of nothing."""
    if not values:
        return 0.0
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def below(values: Sequence[float], bound: float) -> float:
    """Share of the values that are less than ``bound``; 0 of nothing."""
    return sum(value < bound for value in values) / len(values) if values else 0.0


class Summary(msgspec.Struct, frozen=True):
    """Of many times, in milliseconds; all 0 where there were none."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


class Histogram(msgspec.Struct):
    """How often which time occurred; add to it with `add`, seconds in and seconds out.

    It can be encoded as it is, to be sent to another process and merged there.
    """

    buckets: dict[int, int] = {}
    count: int = 0
    total: float = 0.0
    low: float = MOST_US / 1e6
    high: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a time; one below 0 counts as 0."""
        seconds = max(0.0, seconds)
        bucket = _bucket(min(MOST_US, round(seconds * 1e6)))
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += times
        self.total += seconds * times
        self.low = min(self.low, seconds)
        self.high = max(self.high, seconds)

    def merge(self, other: Histogram) -> None:
        """Count all that the other one has counted."""
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    @classmethod
    def of(cls, times: Iterable[float]) -> Histogram:
        """A histogram of some times, in seconds."""
        made = cls()
        for seconds in times:
            made.add(seconds)
        return made

    @property
    def mean(self) -> float:
        """In seconds, exact; 0 of nothing."""
        return self.total / self.count if self.count else 0.0

    def at(self, share: float) -> float:
        """The time in seconds that so large a part does not exceed, at most 1/128 too long; 0 of
        nothing."""
        left = max(1, math.ceil(share * self.count))
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return min(self.high, max(self.low, _most(bucket) / 1e6))
        return 0.0

    def within(self, seconds: float) -> float:
        """Share of the times that are at most so long, to 1/128; 1 of nothing."""
        bound = _bucket(min(MOST_US, round(max(0.0, seconds) * 1e6)))
        kept = sum(times for bucket, times in self.buckets.items() if bucket <= bound)
        return kept / self.count if self.count else 1.0

    def summary(self) -> Summary:
        """The figures that reports have."""
        p50, p90, p95, p99, p999 = (_ms(self.at(share)) for share in SHARES)
        return Summary(self.count, _ms(self.mean), p50, p90, p95, p99, p999, _ms(self.high))


class Timeline(msgspec.Struct):
    """Histograms of equal spans of time, one after the other: how a percentile went.

    ``most`` spans are kept; what comes later counts in the last one.
    """

    span: float
    """Seconds."""
    most: int = 600
    spans: dict[int, Histogram] = {}

    def add(self, at: float, seconds: float) -> None:
        """Count a time that belongs to the moment ``at``, in seconds since the beginning."""
        number = min(self.most - 1, max(0, int(at / self.span)))
        self.spans.setdefault(number, Histogram()).add(seconds)

    def merge(self, other: Timeline) -> None:
        """Count all that the other one has counted; its spans are as long. Raises `ValueError`."""
        if other.span != self.span:
            raise ValueError(f"Spans of {other.span} s cannot be added to those of {self.span} s.")
        for number, histogram in other.spans.items():
            self.spans.setdefault(number, Histogram()).merge(histogram)

    def points(self, share: float) -> list[tuple[float, float]]:
        """(second at which the span began, percentile in seconds), where there was anything."""
        return [(n * self.span, self.spans[n].at(share)) for n in sorted(self.spans)]

    def rates(self) -> list[tuple[float, float]]:
        """(second at which the span began, how many a second), with 0 where there was nothing."""
        if not self.spans:
            return []
        counts = {n: histogram.count for n, histogram in self.spans.items()}
        return [(n * self.span, counts.get(n, 0) / self.span) for n in range(max(counts) + 1)]


def _bucket(us: int) -> int:
    shift = max(0, us.bit_length() - HALF_BITS - 1)
    return (shift << HALF_BITS) + (us >> shift)


def _most(bucket: int) -> int:
    """The largest number of microseconds in a bucket."""
    shift = max(0, (bucket >> HALF_BITS) - 1)
    return ((bucket - (shift << HALF_BITS) + 1) << shift) - 1


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
