"""Counters and latencies of a load test that add up over processes.

Owns: the counters, and their sums. Must not know: where the values come from, what they mean
together. Latencies are kept in histograms and rates by the second, so a tally stays small for any
length of run.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from caption_tools.loadtest.model.plan import KINDS, Plan
from caption_tools.report.stats import Histogram, Timeline

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
SPANS = 3_600  # seconds that are counted apart; see `second`


def second(now: float) -> int:
    """Return the second in which a moment counts. Everything after the last second counts in it."""
    return min(SPANS - 1, max(0, int(now)))


@dataclass
class LoadTally:
    """The results of some sockets, or of all."""

    times: dict[str, Histogram]
    courses: dict[str, Timeline]
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    errors: Counter[str] = field(default_factory=Counter)
    """Number of ``error`` frames and failed captions, by code."""
    closes: Counter[str] = field(default_factory=Counter)
    """Sockets that this side did not close, by close code."""
    # Counted for every frame: writing to a Counter would cost the client a fifth more.
    flows: dict[str, dict[int, int]] = field(
        default_factory=lambda: {name: defaultdict(int) for name in FLOWS}
    )
    late: Histogram = field(default_factory=Histogram)
    """Time between due and sent: the measure of the client itself."""
    cpu: float = 0.0  # CPU seconds of all client processes
    busiest: float = 0.0  # share of a core that the busiest client process used
    whole: bool = True  # False if a process was stopped or cut off

    @classmethod
    def of(cls, plan: Plan) -> LoadTally:
        """Return an empty tally."""
        courses = {kind: Timeline(plan.span) for kind in KINDS}
        return cls({kind: Histogram() for kind in KINDS}, courses)

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
        self.errors[code] += 1

    def merge(self, other: LoadTally) -> None:
        """Add the results of another tally."""
        for kind in KINDS:
            self.times[kind].merge(other.times[kind])
            self.courses[kind].merge(other.courses[kind])
        self.counts = {name: count + other.counts[name] for name, count in self.counts.items()}
        self.errors.update(other.errors)
        self.closes.update(other.closes)
        for name, flow in other.flows.items():
            for at, count in flow.items():
                self.flows[name][at] += count
        self.late.merge(other.late)
        self.cpu += other.cpu
        self.busiest = max(self.busiest, other.busiest)
        self.whole = self.whole and other.whole

    def rate(self, name: str, begin: float, end: float) -> float:
        """Return the number a second, within the whole seconds between; 0 if there is none."""
        first, last = math.ceil(begin), int(end)
        flow = self.flows[name]
        return sum(flow.get(at, 0) for at in range(first, last)) / max(1, last - first)
