"""Figures of engines and cores from the reports of measurements."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from caption_tools.loadtest.model.report import STEP, LoadReport
from caption_tools.plan.model.figures import core_of, engine_of
from caption_tools.report.stats import Histogram
from tests.tools.loadtest.model.test_report import reported
from tests.tools.plan.model.examples import engine


def loaded(
    tokens: float, *, first: float = 0.1, running: int = 4, jobs: float = 10.0
) -> LoadReport:
    """Return a report of a run with this many tokens a second, for ten seconds."""
    report = reported()
    report.before = {"gateway_tokens_total": 5.0}
    report.after = {"gateway_tokens_total": 5 + 10 * tokens, "gateway_jobs_total": jobs}
    report.metrics = {
        "gateway_tokens_total a second": [(1.0, tokens), (2.0, tokens), (99.0, 0.0)],
        "gateway_jobs_running": [(1.0, float(running)), (2.0, 1.0)],
        STEP: [(1.0, running / tokens)],
    }
    if first:
        report.times["first"] = Histogram.of([first]).summary()
    return report


def core_report(readers: int, cpu: float, *, captions: int = 1000) -> LoadReport:
    """Return a report of a run with these readers and this CPU time in seconds."""
    report = reported()
    each = 1 + readers / 2
    return msgspec.structs.replace(
        report,
        plan=replace(report.plan, readers=readers),
        counts=report.counts
        | {"deltas": 0, "captions": int(captions * each), "frames": int(captions * each)}
        | {"bytes": int(captions * each * 90)},
        before={},
        after={"process_cpu_seconds_total": cpu},
    )


def test_load_tests_with_little_and_much_load_give_the_speed_alone_and_the_most() -> None:
    little, much = loaded(50, first=0.03, running=1), loaded(400, first=0.3, running=16)
    got = engine_of([little, much])
    assert (got.slots, got.tokens_s, got.job) == (16, 400, 400)
    assert got.first_ms == pytest.approx(30, rel=0.01)
    assert got.token_ms == pytest.approx(20)


@pytest.mark.parametrize(
    "report",
    [reported(), loaded(50, first=0), loaded(50, jobs=0)],
    ids=["no metrics", "only growing texts", "no jobs"],
)
def test_reports_without_the_speed_of_an_engine_are_refused(report: LoadReport) -> None:
    with pytest.raises(ValueError, match="--partials 0"):
        engine_of([report])


def test_the_costs_of_events_and_frames_follow_from_few_and_many_readers() -> None:
    # 1,000 events of 50 us each, and 1,000 or 101,000 frames of 7 us.
    few, many = core_report(0, 0.057), core_report(200, 0.05 + 0.707)
    got = core_of(few, many)
    assert got.event_us == pytest.approx(50)
    assert got.frame_us == pytest.approx(7)
    assert got.frame_bytes == 90


@pytest.mark.parametrize(
    ("few", "many"),
    [
        (core_report(0, 0.05), core_report(0, 0.05)),
        (core_report(0, 0.0), core_report(200, 0.5)),
    ],
    ids=["alike", "no CPU time"],
)
def test_reports_that_do_not_tell_what_a_reader_costs_are_refused(
    few: LoadReport, many: LoadReport
) -> None:
    with pytest.raises(ValueError, match="--readers 100"):
        core_of(few, many)


def test_a_job_takes_longer_beside_others_until_the_engine_makes_its_most_tokens() -> None:
    fast = engine(slots=8, tokens_s=200)
    assert fast.slower(1) == 1
    assert fast.slower(4.5) == pytest.approx(1.5)
    # All slots with jobs of the usual length make as many tokens a second as were measured.
    assert fast.slots * fast.job / (fast.alone(fast.job) * fast.slower(8)) == pytest.approx(200)
    assert fast.slower(100) == fast.slower(8)


def test_an_engine_with_one_slot_has_one_speed() -> None:
    assert engine(slots=1, tokens_s=25).slower(1) == pytest.approx(2)
