"""The report of a load test."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from caption_tools.loadtest.model import report
from caption_tools.loadtest.model.plan import Goal, Plan
from caption_tools.loadtest.model.report import LoadReport, _step, errors_share, lines, made
from caption_tools.loadtest.model.tally import LoadTally, second
from tests.support.typed import near

PLAN = Plan(url="ws://x", langs=("de", "fr"), seconds=10.0, warm=0.0, readers=2)
SAMPLES: list[tuple[float, dict[str, float]]] = [
    (-1.0, {"gateway_tokens_total": 0.0, "gateway_jobs_running": 0.0, "gateway_jobs_queued": 0.0}),
    (
        1.0,
        {
            "gateway_tokens_total": 100.0,
            "gateway_jobs_running": 4.0,
            "gateway_jobs_queued": 2.0,
            "gateway_engine_kv_cache_usage": 0.5,
            "gateway_engine_health": 1.0,
            "gateway_too_slow_total": 0.0,
        },
    ),
    (1.0, {"gateway_tokens_total": 100.0, "gateway_too_slow_total": 0.0}),
    (
        2.0,
        {
            "gateway_tokens_total": 100.0,
            "gateway_jobs_running": 4.0,
            "gateway_jobs_queued": 3.0,
            "gateway_outbox_bytes": 7.0,
            "gateway_engine_kv_cache_usage": 0.75,
            "gateway_engine_health": 1.0,
            "gateway_too_slow_total": 1.0,
            "gateway_captions_created": 9.0,
            "process_cpu_seconds_total": 5.0,
        },
    ),
]


def tally() -> LoadTally:
    found = LoadTally.of(PLAN)
    for number in range(100):
        found.time("final", number / 10, number / 10 + 0.1, 0.0)
        found.late.add(number / 10 + 0.001 - (number / 10))
        found.flows["captions"][second(number / 10)] += 1
    found.counts.update(whole=50, frames=100, captions=100, sockets=3)
    found.cpu, found.busiest = 0.01, 0.1
    return found


def reported(**change: Any) -> LoadReport:
    given: dict[str, Any] = {"tally": tally(), "engine": "scripted"} | change
    given["tally"].whole = given.pop("whole", True)
    return made(PLAN, **given)


def test_figures_are_in_the_units_that_their_names_say() -> None:
    found = reported()
    assert found.times["final"].max == pytest.approx(100, rel=0.01)
    assert (found.rates["captions"], found.cpu_us, found.late.max) == (
        *(10, 100),
        near(1.0, abs=0.01),
    )
    assert set(found.courses) == {"final"}
    assert found.courses["final"]["p95"][0] == (0.0, near(100, rel=0.01))
    assert found.good


def test_only_missed_goals_are_listed_with_the_measured_value() -> None:
    goals = [
        *(Goal("final", 95, 150), Goal("final", 99, 50), Goal("first", 50, 10)),
        *(Goal("errors", 0, 0.0), Goal("errors", 0, 0.5)),
    ]
    seen = tally()
    seen.counts["unended"] = 1
    found = reported(tally=seen, goals=goals)
    assert found.missed == [
        "final-p99 is 100.0 ms; the goal is 50 ms.",
        "first-p50 has nothing to be told from.",
        "errors are 1.000% of the captions; the goal is 0.000%.",
    ]
    assert not found.good


def test_rates_of_a_stopped_run_count_the_time_until_it_was_stopped() -> None:
    seen = tally()
    for at in range(5, 10):
        seen.flows["captions"][at] = 0
    assert reported(tally=seen, until=5.4).rates["captions"] == 10
    assert reported(tally=seen, until=60.0).rates["captions"] == 5
    assert reported(tally=seen, until=0.3).rates["captions"] == 0


def test_captions_that_never_came_count_as_later_than_the_goal() -> None:
    seen = tally()
    for _ in range(5):
        seen.time("final", 1.0, 3.0, 0.0)
    seen.counts["missed"] = 4  # of 100: the 95th is the 99th of those that came
    goals = [Goal("final", 50, 150), Goal("final", 95, 150), Goal("final", 99, 3000)]
    assert reported(tally=seen, goals=goals).missed == [
        "final-p95 is 2000.0 ms; the goal is 150 ms.",
        "final-p99 is never reached: 4.0% of the captions had no text in the end; the goal is"
        " 3000 ms.",
    ]


def test_goals_for_answers_other_than_captions_ignore_missing_captions() -> None:
    seen = tally()
    seen.time("ack", 1.0, 1.01, 0.0)
    seen.counts["missed"] = 40
    assert not reported(tally=seen, goals=[Goal("ack", 99, 150)]).missed


def test_a_counter_that_fell_has_no_growth() -> None:
    ends = [(at, {"gateway_tokens_total": n, "gateway_too_slow_total": n})
            for at, n in ((0.0, 100.0), (1.0, 150.0), (2.0, 10.0), (3.0, 30.0))]  # fmt: skip
    found = reported(samples=ends)
    assert found.metrics["gateway_tokens_total a second"] == [(1.0, 50.0), (3.0, 20.0)]


def test_every_caption_without_a_text_is_an_error() -> None:
    seen = tally()
    seen.counts.update(whole=8, unsent=2, refused=1, missed=3, unended=1)
    assert errors_share(PLAN, seen) == (3 * 2 + 4) / 20
    assert errors_share(PLAN, LoadTally.of(PLAN)) == 0


def test_a_run_with_a_client_that_was_too_slow_is_invalid() -> None:
    seen = tally()
    seen.busiest = 0.95
    for _ in range(50):
        seen.late.add(1.0 - (0.0))
    found = reported(tally=seen)
    assert len(found.invalid) == 2 and not found.good
    assert "95% of its core" in found.invalid[1]
    text = "\n".join(lines(found))
    assert text.count("INVALID:") == 2


def test_a_run_in_which_nothing_was_said_is_invalid() -> None:
    (why,) = reported(tally=LoadTally.of(PLAN)).invalid
    assert why.startswith("Nothing was said in the time that counts")


def test_the_gateways_own_figures_are_kept_over_time() -> None:
    found = reported(samples=SAMPLES)
    assert found.metrics["gateway_jobs_queued"] == [(-1.0, 0.0), (1.0, 2.0), (2.0, 3.0)]
    assert found.metrics["gateway_engine_kv_cache_usage"] == [(1.0, 0.5), (2.0, 0.75)]
    assert found.metrics["gateway_tokens_total a second"] == [(1.0, 50.0), (2.0, 0.0)]
    assert found.metrics[report.STEP] == [(1.0, 2.0 * 2 / 100)]
    assert "gateway_engine_health" not in found.metrics
    assert (found.before["gateway_jobs_queued"], found.after["gateway_jobs_queued"]) == (0, 3)


def test_a_report_reads_the_same_after_it_was_written() -> None:
    found = reported(samples=SAMPLES, goals=[Goal("final", 50, 1)])
    assert msgspec.json.decode(msgspec.json.encode(found), type=LoadReport) == found


def test_the_table_has_all_results() -> None:
    seen = tally()
    seen.errors.update(busy=3)
    seen.closes.update({"1006": 1})
    text = "\n".join(lines(reported(tally=seen, samples=SAMPLES, whole=False)))
    for part in (
        "finished caption    100",
        "10.0 captions/s",
        "errors: busy 3",
        "closed: 1006 1",
        "NOT WHOLE",
    ):
        assert part in text
    assert "first text" not in text


def test_the_table_names_results_that_are_missing() -> None:
    text = "\n".join(lines(reported(why="/metrics answered 403.")))
    assert "/metrics answered 403." in text


def test_on_a_narrow_terminal_no_line_is_longer_than_it() -> None:
    seen = tally()
    seen.errors.update({f"code {number}": 1000 for number in range(8)})
    whole = "\n".join(lines(reported(tally=seen, whole=False)))
    text = "\n".join(lines(reported(tally=seen, whole=False), 80))
    assert max(map(len, whole.splitlines())) > 80 >= max(map(len, text.splitlines()))
    assert whole.split() == text.split()


def test_the_reason_why_a_run_is_not_whole_is_given_if_known() -> None:
    assert "NOT WHOLE: it was stopped." in lines(reported(whole=False))
    lost = tally()
    lost.closes.update({"1006": 1})
    (told,) = [line for line in lines(reported(tally=lost, whole=False)) if "NOT WHOLE" in line]
    assert "sockets that had to speak were lost" in told


def test_the_time_of_a_token_is_computed_from_the_running_jobs() -> None:
    before = {"gateway_tokens_total": 100.0, "gateway_jobs_running": 2.0}
    after = {"gateway_tokens_total": 300.0, "gateway_jobs_running": 6.0}
    assert _step(before, after, 1.0) == pytest.approx(4 / 200)
    assert _step(before, before, 1.0) is None
    assert _step({}, {}, 1.0) is None
