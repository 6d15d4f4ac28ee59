"""Counters and latencies that add up over processes."""

from __future__ import annotations

import pickle

from caption_tools.loadtest.model.plan import Plan
from caption_tools.loadtest.model.tally import SPANS, LoadTally, second

PLAN = Plan(url="ws://x", langs=("de",))


def filled(scale: float) -> LoadTally:
    made = LoadTally.of(PLAN)
    made.time("final", 5.0, 5.0 + scale, 2.0)
    made.counts["said"] += 2
    made.error("busy", 3.0)
    made.closes["4008"] = 1
    made.flows["said"][second(3.5)] += 2
    made.late.add(1.0 + scale - (1.0))
    made.cpu, made.busiest = scale, scale
    return made


def test_tallies_of_several_processes_add_up() -> None:
    whole = LoadTally.of(PLAN)
    for scale in (0.25, 0.5):
        whole.merge(pickle.loads(pickle.dumps(filled(scale))))
    assert (whole.times["final"].count, whole.times["final"].high) == (2, 0.5)
    assert whole.courses["final"].points(1.0) == [(5.0, 0.5)]
    assert (whole.counts["said"], whole.errors, whole.closes) == (4, {"busy": 2}, {"4008": 2})
    assert whole.flows["said"] == {3: 4}
    assert (whole.late.count, whole.cpu, whole.busiest) == (2, 0.75, 0.5)


def test_a_rate_is_that_of_the_seconds_that_count() -> None:
    made = LoadTally.of(PLAN)
    for at in range(10):
        made.flows["said"][second(at + 0.5)] += at
    assert made.rate("said", 2.0, 6.0) == (2 + 3 + 4 + 5) / 4
    assert made.rate("said", 1.5, 6.9) == (2 + 3 + 4 + 5) / 4
    assert made.rate("captions", 0.0, 1.0) == 0


def test_a_tally_is_bounded_in_time() -> None:
    made = LoadTally.of(PLAN)
    made.flows["said"][second(-5.0)] += 1
    made.flows["said"][second(10.0 * SPANS)] += 1
    assert made.flows["said"] == {0: 1, SPANS - 1: 1}
