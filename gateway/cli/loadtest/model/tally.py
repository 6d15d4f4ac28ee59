"""Counters and latencies of a load test that add up over processes.

Owns: the counters, and their sums. Must not know: where the values come from, what they mean
together. Latencies are kept in histograms and rates by the second, so a tally stays small for any
length of run.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import msgspec

from gateway.cli.loadtest.model.plan import KINDS, Plan
from gateway.cli.report.schedule import SendDelay
from gateway.cli.report.stats import Histogram, Timeline

COUNTS = (
    *("said", "whole", "unsent", "refused", "cancels", "unended"),
    *("deltas", "captions", "failed", "missed", "cancelled", "frames", "bytes", "lags", "dropped"),
    *("degraded", "restored", "resets", "sockets", "lost", "errors"),
)
"""Names of the counters:

said       utterances begun               whole     of these, said to their end
unsent     whole ones that could not be   refused   of the whole, answered by an error
cancels    sent                           unended   captions of whole ones that had no end in time
missed     captions of them that failed
deltas, captions (finals), failed, cancelled: as all sockets together read them
frames, bytes     read                    resets    captions that began anew
lags       readers told that they lag     dropped   deltas that these were not sent
degraded   sockets told that partials are off, ``restored`` that they are on again
sockets    opened                         lost      of these, closed by the gateway or the network
errors     answers by ``error``, and captions that failed; `LoadTally.errors` has them by code
"""
FLOWS = ("said", "captions", "deltas", "bytes", "errors", "lags", "degraded")
"""Counters kept for each second; `LoadTally.settle` sums them up."""
SPANS = 3_600
"""Seconds that are counted apart; see `second`."""


def second(now: float) -> int:
    """Return the second in which a moment counts. Everything after the last second counts in it."""
    return min(SPANS - 1, max(0, int(now)))


class LoadTally(msgspec.Struct):
    """The results of some sockets, or of all."""

    span: float
    times: dict[str, Histogram] = {}
    courses: dict[str, Timeline] = {}
    counts: dict[str, int] = {}
    errors: dict[str, int] = {}
    """Number of ``error`` frames and failed captions, by code."""
    closes: dict[str, int] = {}
    """Sockets that this side did not close, by close code."""
    slow: dict[str, int] = {}
    """`COUNTS` and close codes of slow readers, which count nowhere else."""
    flows: dict[str, dict[int, int]] = {}
    slip: SendDelay = msgspec.field(default_factory=SendDelay)
    cpu: float = 0.0
    """CPU seconds of all client processes."""
    busiest: float = 0.0
    """Share of a core that the busiest client process used."""

    @classmethod
    def of(cls, plan: Plan) -> LoadTally:
        """Return an empty tally."""
        return cls(
            plan.span,
            times={kind: Histogram() for kind in KINDS},
            courses={kind: Timeline(plan.span) for kind in KINDS},
            counts=dict.fromkeys(COUNTS, 0),
            flows={name: defaultdict(int) for name in FLOWS},
        )

    def time(self, kind: str, due: float, now: float, warm: float) -> None:
        """Count a latency, from ``due`` to ``now``. Before ``warm`` it counts for the timeline
        only.
        """
        self.courses[kind].add(due, now - due)
        # The warm-up is shown over time, but must not count in the percentiles.
        if due >= warm:
            self.times[kind].add(now - due)

    def settle(self) -> LoadTally:
        """Bring the counters up to date with the flows, and return the tally."""
        for name, flow in self.flows.items():
            self.counts[name] = sum(flow.values())
        return self

    def error(self, code: str, now: float) -> None:
        """Count an error by its code."""
        self.flows["errors"][second(now)] += 1
        self.errors[code] = self.errors.get(code, 0) + 1

    def merge(self, other: LoadTally) -> None:
        """Add the results of another tally."""
        for kind in KINDS:
            self.times[kind].merge(other.times[kind])
            self.courses[kind].merge(other.courses[kind])
        for mine, theirs in (
            (self.counts, other.counts),
            (self.errors, other.errors),
            (self.closes, other.closes),
            (self.slow, other.slow),
        ):
            _add(mine, theirs)
        for name, flow in other.flows.items():
            whole = Counter(self.flows[name])
            whole.update(flow)
            self.flows[name] = dict(whole)
        self.slip.late.merge(other.slip.late)
        self.cpu += other.cpu
        self.busiest = max(self.busiest, other.busiest)

    def rate(self, name: str, begin: float, end: float) -> float:
        """Return the number a second, within the whole seconds between; 0 if there is none."""
        first, last = math.ceil(begin), int(end)
        flow = self.flows[name]
        return sum(flow.get(at, 0) for at in range(first, last)) / max(1, last - first)


def _add(mine: dict[str, int], theirs: dict[str, int]) -> None:
    for name, count in theirs.items():
        mine[name] = mine.get(name, 0) + count
