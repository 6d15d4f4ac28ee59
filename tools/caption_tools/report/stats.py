"""Percentiles, exact of lists, and of any number of times in bounded memory.

Owns: nearest-rank percentiles, a histogram with a bounded relative error, histograms over time.
Must not know: what was measured, or where.

The histogram follows HdrHistogram: whole microseconds in buckets that double every 128, so that a
value is known to 1/128 of itself from 256 us on and exactly below. It holds at most 4,352 numbers,
and histograms of several processes can be merged. The library of that name would be a compiled
dependency in place of sixty lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

HALF_BITS = 7
HALF = 1 << HALF_BITS  # buckets to each doubling; a value is known to one part in so many
MOST_US = (1 << 40) - 1  # largest value in microseconds, some 12 days. Larger values count as this
SPANS = 600  # spans of a timeline
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that a ``share`` (0 to 1) of the values does not exceed.

    It is 0 for an empty list.
    """
    if not values:
        return 0.0
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0 for an empty list."""
    return math.fsum(values) / len(values) if values else 0.0


class Summary(msgspec.Struct, frozen=True):
    """Percentiles of many times, in milliseconds; all 0 if there were none."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


class Histogram(msgspec.Struct):
    """A histogram of times. `add` takes seconds, and all results are in seconds.

    It can be encoded as it is, sent to another process and merged there.
    """

    buckets: dict[int, int] = {}
    count: int = 0
    total: float = 0.0
    low: float = MOST_US / 1e6
    high: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a time in seconds. A negative one counts as 0."""
        seconds = max(0.0, seconds)
        bucket = _bucket(min(MOST_US, round(seconds * 1e6)))
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds
        self.low = min(self.low, seconds)
        self.high = max(self.high, seconds)

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    @classmethod
    def of(cls, times: Iterable[float]) -> Histogram:
        """Return a histogram of some times in seconds."""
        made = cls()
        for seconds in times:
            made.add(seconds)
        return made

    @property
    def mean(self) -> float:
        """Mean in seconds, exact; 0 if it is empty."""
        return self.total / self.count if self.count else 0.0

    def at(self, share: float) -> float:
        """Return the time in seconds that a ``share`` of the times does not exceed.

        It is at most 1/128 too long, and 0 if the histogram is empty.
        """
        # Nearest rank: the result is a bucket that has a value.
        left = max(1, math.ceil(share * self.count))
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return min(self.high, max(self.low, _most(bucket) / 1e6))
        return 0.0

    def within(self, seconds: float) -> float:
        """Return the share of the times up to ``seconds``, to 1/128; 1 if it is empty."""
        bound = _bucket(min(MOST_US, round(max(0.0, seconds) * 1e6)))
        kept = sum(times for bucket, times in self.buckets.items() if bucket <= bound)
        return kept / self.count if self.count else 1.0

    def summary(self) -> Summary:
        """Return the percentiles that reports have."""
        p50, p90, p95, p99, p999 = (_ms(self.at(share)) for share in SHARES)
        return Summary(self.count, _ms(self.mean), p50, p90, p95, p99, p999, _ms(self.high))


class Timeline(msgspec.Struct):
    """Histograms of equal spans of time: a percentile over time.

    `SPANS` are kept; later times count in the last one.
    """

    span: float  # seconds of a span
    spans: dict[int, Histogram] = {}

    def add(self, at: float, seconds: float) -> None:
        """Count a time that belongs to the moment ``at``, in seconds since the beginning."""
        number = min(SPANS - 1, max(0, int(at / self.span)))
        self.spans.setdefault(number, Histogram()).add(seconds)

    def merge(self, other: Timeline) -> None:
        """Add the counts of another timeline. Raises `ValueError` if its spans differ."""
        if other.span != self.span:
            raise ValueError(f"Spans of {other.span} s cannot be added to those of {self.span} s.")
        for number, histogram in other.spans.items():
            self.spans.setdefault(number, Histogram()).merge(histogram)

    def points(self, share: float) -> list[tuple[float, float]]:
        """Return (second at which a span began, percentile in seconds) of non-empty spans."""
        return [(n * self.span, self.spans[n].at(share)) for n in sorted(self.spans)]


def _bucket(us: int) -> int:
    shift = max(0, us.bit_length() - HALF_BITS - 1)
    return (shift << HALF_BITS) + (us >> shift)


def _most(bucket: int) -> int:
    """Return the largest number of microseconds in a bucket."""
    shift = max(0, (bucket >> HALF_BITS) - 1)
    return ((bucket - (shift << HALF_BITS) + 1) << shift) - 1


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
