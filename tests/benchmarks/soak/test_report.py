"""The report of a soak, and its broken promises."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from benchmarks.soak.report import (
    LINES,
    SLOPE_MB,
    Quantiles,
    Report,
    first_traceback,
    growth,
    slope,
    table,
    warm,
)
from tests.support.typed import near

GOOD = Report(
    seed=0,
    seconds=60.0,
    hours=0.1,
    sessions=10,
    rooms=1,
    sockets=20,
    resumed=10,
    gaps_told=0,
    afresh=0,
    cuts={"reset": 3},
    kills=1,
    restarts=0,
    said=5,
    void=0,
    events=100,
    lost=0,
    duplicated=0,
    contradicted=0,
    ended_twice=0,
    unended=0,
    unexpected={},
    errors={},
    closes={"1000": 10},
    caught_up_ms=Quantiles.of([0.01, 0.02]),
    final_ms=Quantiles.of([]),
    rss_mb=(50.0, 50.5),
    slope_mb_h=None,
    exit_status=0,
    examples=[],
)


def line(rate: float, *, begin: float = 0.0, level: float = 50.0) -> list[tuple[float, float]]:
    return [(begin + x, level + rate * x) for x in range(1000)]


def test_quantiles_are_times_that_occurred_in_milliseconds() -> None:
    assert Quantiles.of([n / 1000 for n in range(1, 101)]) == Quantiles(100, 50.0, 95.0, 100.0)
    assert Quantiles.of([]) == Quantiles(0, 0.0, 0.0, 0.0)


def test_the_slope_is_the_same_whatever_level_each_process_began_at() -> None:
    found = slope([line(0.5), line(0.5, begin=5000, level=10), [(0.0, 1.0)]])
    assert found == (near(0.5), near(1998))
    assert slope([[]]) is None


def test_a_warm_up_counts_for_nothing() -> None:
    assert warm([]) == []
    assert warm(line(0))[0][0] == 250
    assert warm(line(0)[:40])[0][0] == 20


def test_growth_is_told_per_simulated_hour_and_not_from_a_few_seconds() -> None:
    assert growth([line(1 / 3600)], 1) == pytest.approx(1.0)
    assert growth([line(1 / 3600)], 48) == pytest.approx(1 / 48, abs=1e-3)
    assert growth([line(1)[:100]], 1) is None
    assert growth([[]], 1) is None


def test_the_first_traceback_of_a_log_is_shown_with_the_message_above_it() -> None:
    log = "ready\nERROR a task failed\nTraceback (most recent call last):\n  File x\nKeyError\n"
    assert first_traceback(log) == log.removeprefix("ready\n").rstrip()
    assert len(first_traceback(log * LINES).splitlines()) == LINES + 1
    report = msgspec.structs.replace(
        GOOD, unexpected={"tracebacks": 1}, examples=[first_traceback(log)]
    )
    assert "ERROR a task failed" in table(report)


def test_a_soak_without_faults_says_so() -> None:
    assert GOOD.broken == []
    assert table(GOOD).endswith("Every promise held.")
    assert "reset 3" in table(GOOD)


@dataclass(frozen=True)
class Bad:
    field: str
    value: object
    said: str


@pytest.mark.parametrize(
    "bad",
    [
        Bad("lost", 1, "1 durable events were lost."),
        Bad("duplicated", 2, "2 durable events came twice."),
        Bad("contradicted", 1, "1 numbers stood for two events."),
        Bad("ended_twice", 1, "1 captions ended twice."),
        Bad("unended", 1, "1 captions never ended."),
        Bad("unexpected", {"close 4000": 2}, "Unexpected: close 4000, 2 times."),
        Bad("slope_mb_h", SLOPE_MB + 1, "The memory grew by 2.00 MB an hour."),
        Bad("exit_status", 1, "The gateway ended with status 1."),
        Bad("events", 0, "Nothing was said or heard: this proves nothing."),
    ],
    ids=lambda bad: bad.field,
)
def test_each_broken_promise_is_listed(bad: Bad) -> None:
    report = msgspec.structs.replace(GOOD, **{bad.field: bad.value})
    assert report.broken == [bad.said]
    assert table(report).endswith("BROKEN: " + bad.said)
