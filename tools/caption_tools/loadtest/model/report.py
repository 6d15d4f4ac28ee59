"""The report of a load test: figures, whether they are valid, and whether goals were met.

Owns: the report and its table. Must not know: how anything was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import astuple

from caption_tools.loadtest.model.plan import KINDS, Goal, Plan
from caption_tools.loadtest.model.tally import FLOWS, LoadTally
from caption_tools.report import table
from caption_tools.report.stats import Summary

BUSY = 0.85  # share of a core above which a client process may itself have caused the waits
LATE = 0.01  # share of the sends that may be later than `Plan.late`
COURSES = (0.5, 0.95, 0.99)  # percentiles over time
OF_CAPTIONS = ("first", "grown", "final")  # latencies that a caption without a text does not have
NAMES = {
    "ack": "text taken",
    "first": "first text",
    "grown": "first text, growing",
    "final": "finished caption",
    "cancel": "cancelled",
}
HEADS = ("ms", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max")

Points = list[tuple[float, float]]


class LoadReport(msgspec.Struct, kw_only=True):
    """The results of one run. Rates are those within the plan's seconds, without the warm-up."""

    engine: str
    plan: Plan
    whole: bool  # False if it was stopped, or lost its gateway
    invalid: list[str]  # reasons why the latencies are not those of the gateway
    missed: list[str]  # goals that were missed
    rates: dict[str, float]
    """Number a second: ``said`` (utterances), ``captions`` and ``deltas`` (as read), ``bytes``. A
    run that was stopped counts the time until then.
    """
    times: dict[str, Summary]  # latencies in milliseconds, by kind
    errors_share: float  # share of the expected captions that were refused, failed or did not end
    counts: dict[str, int]
    errors: dict[str, int]
    closes: dict[str, int]
    late: Summary  # milliseconds between due and sent
    busiest: float  # share of a core that the busiest client process used
    cpu_us: float  # CPU microseconds of all client processes, per frame read
    courses: dict[str, dict[str, Points]]
    """Percentiles over time: by kind and percentile, (second, ms)."""
    metrics: dict[str, Points] = {}
    """The gateway's gauges over time, and the growth a second of its counters."""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    why: str | None = None  # reason why the gateway's own figures are missing

    @property
    def good(self) -> bool:
        """True if the run proves that the goals were met."""
        return self.whole and not self.invalid and not self.missed


def made(
    plan: Plan,
    tally: LoadTally,
    *,
    engine: str,
    goals: Sequence[Goal] = (),
    samples: Sequence[tuple[float, Mapping[str, float]]] = (),
    why: str | None = None,
    until: float | None = None,
) -> LoadReport:
    """Return the report of a run.

    :param samples: (second, values) of the gateway's ``/metrics``
    :param until: second at which the run was stopped; None: it ran to its end
    """
    errors = errors_share(plan, tally)
    end = min(plan.seconds, until or math.inf)
    return LoadReport(
        engine=engine,
        plan=plan,
        whole=tally.whole,
        invalid=[*_invalid(plan, tally)],
        missed=[line for goal in goals if (line := _missed(goal, tally, errors))],
        rates={name: round(tally.rate(name, plan.warm, end), 3) for name in FLOWS},
        times={kind: tally.times[kind].summary() for kind in KINDS},
        errors_share=round(errors, 5),
        counts=dict(tally.counts),
        errors=dict(tally.errors),
        closes=dict(tally.closes),
        late=tally.late.summary(),
        busiest=round(tally.busiest, 3),
        cpu_us=round(1e6 * tally.cpu / max(1, tally.counts["frames"]), 2),
        courses={
            kind: {
                f"p{100 * share:g}": [(at, round(1000 * s, 3)) for at, s in course.points(share)]
                for share in COURSES
            }
            for kind, course in tally.courses.items()
            if course.spans
        },
        metrics=_metrics(samples),
        before=dict(samples[0][1]) if samples else {},
        after=dict(samples[-1][1]) if samples else {},
        why=why,
    )


def errors_share(plan: Plan, tally: LoadTally) -> float:
    """Return the share of the expected captions that got no text and were not cancelled.

    It is 0 if no utterance ended.
    """
    counts, langs = tally.counts, len(plan.langs)
    wanted = (counts["whole"] + counts["unsent"]) * langs
    if not wanted:
        return 0.0
    bad = (counts["refused"] + counts["unsent"]) * langs + counts["missed"] + counts["unended"]
    return bad / wanted


def _invalid(plan: Plan, tally: LoadTally) -> Iterator[str]:
    """Yield reasons why the latencies are not the gateway's own."""
    if not any(tally.counts[name] for name in ("whole", "unsent", "refused", "cancels")):
        yield "Nothing was said in the time that counts: more --seconds, or a larger --rate."
    if (over := 1 - tally.late.within(plan.late)) > LATE:
        yield (
            f"{over:.1%} of the sends were more than {1000 * plan.late:g} ms late"
            f" (most {1000 * tally.late.high:.0f} ms): the client or its machine was too slow."
        )
    # A busy client delays its own reading, and so adds to the latencies that it measures.
    if tally.busiest > BUSY:
        yield (
            f"A client process used {tally.busiest:.0%} of its core: it may have been too slow."
            " Use more --processes."
        )


def _missed(goal: Goal, tally: LoadTally, errors: float) -> str | None:
    if goal.kind == "errors":
        if errors <= goal.most:
            return None
        return f"errors are {errors:.3%} of the captions; the goal is {goal.most:.3%}."
    times = tally.times[goal.kind]
    # A goal that nothing was measured for is not met.
    if not times.count:
        return f"{goal.name} has nothing to be told from."
    # A caption that never came is later than all that did: dropping half must not look fast.
    share = goal.share / 100
    if goal.kind in OF_CAPTIONS and errors:
        if share > 1 - errors:
            return (
                f"{goal.name} is never reached: {errors:.1%} of the captions had no text in the"
                f" end; the goal is {goal.most:g} ms."
            )
        share /= 1 - errors
    ms = 1000 * times.at(share)
    if ms <= goal.most:
        return None
    return f"{goal.name} is {ms:.1f} ms; the goal is {goal.most:g} ms."


# --- the gateway's own figures -------------------------------------------------------------------

GAUGES = (
    *("gateway_jobs_queued", "gateway_jobs_running", "gateway_sessions", "gateway_overloaded"),
    *("gateway_outbox_bytes", "gateway_log_bytes"),
)
GROWING = ("gateway_tokens_total", "gateway_too_slow_total", "gateway_lag_total")
STEP = "seconds per token and job"


def _metrics(samples: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, Points]:
    metrics: dict[str, Points] = {}
    for name in samples[-1][1] if samples else ():
        own = name.startswith("gateway_engine_") and name != "gateway_engine_health"
        if own or name in GAUGES:
            metrics[name] = [(at, values[name]) for at, values in samples if name in values]
    steps: Points = []
    for (begun, before), (at, after) in pairwise(samples):
        seconds = at - begun
        # Two scrapes of one moment have no rate.
        if seconds <= 0:
            continue
        if (step := _step(before, after, seconds)) is not None:
            steps.append((at, step))
        for name in GROWING:
            if name in after and after[name] >= before.get(name, math.inf):  # else it was restarted
                grown = (after[name] - before[name]) / seconds
                metrics.setdefault(f"{name} a second", []).append((at, grown))
    return metrics | ({STEP: steps} if steps else {})


def _step(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> float | None:
    """Return the seconds that a job waited for each token between two scrapes: jobs at work, over
    tokens a second. Return None where there were no tokens.
    """
    name, running = "gateway_tokens_total", "gateway_jobs_running"
    tokens = after.get(name, 0.0) - before.get(name, 0.0)
    if tokens <= 0:
        return None
    return (after.get(running, 0.0) + before.get(running, 0.0)) / 2 * seconds / tokens


# --- for people ----------------------------------------------------------------------------------


def lines(report: LoadReport, width: int | None = None) -> list[str]:
    """Return the report for a terminal."""
    plan = report.plan
    times = [_row(kind, summary) for kind, summary in report.times.items() if summary.count]
    parts = [
        f"{plan.url} ({report.engine}): {_many(plan.rooms, 'room')}, each with"
        f" {_many(plan.speakers, 'speaker')} and {_many(plan.readers, 'reader')}, to"
        f" {','.join(plan.langs)}, {plan.wire}; {plan.rate:g} utterances a second"
        f" ({plan.arrivals}) for {plan.seconds:g} s",
        "",
        table.text(HEADS, times, width=width),
        "",
        table.pairs(_facts(report).items(), width),
    ]
    for name, values in (("errors", report.errors), ("closed", report.closes)):
        if values:
            parts.append(f"{name}: " + ", ".join(f"{n} {c}" for n, c in sorted(values.items())))
    if report.why:
        parts.append(report.why)
    if not report.whole:
        parts.append(f"NOT WHOLE: {_cut(report)}")
    parts += [f"INVALID: {line}" for line in report.invalid]
    parts += [f"MISSED: {line}" for line in report.missed]
    return [line if "\n" in line else table.prose(line, width) for line in parts]


def _cut(report: LoadReport) -> str:
    """Return the reason why a run is not whole."""
    if report.closes or report.counts["unsent"]:
        return "sockets that had to speak were lost or not read by the gateway, or it was stopped."
    return "it was stopped."


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _row(kind: str, summary: Summary) -> tuple[table.Cell, ...]:
    return NAMES[kind], *astuple(summary)  # its fields are in the order of `HEADS`


def _facts(report: LoadReport) -> dict[str, str]:
    plan, counts, rates = report.plan, report.counts, report.rates
    return {
        "offered": f"{rates['said']:.1f} utterances/s (of {plan.rate:g} wanted)",
        "read": f"{rates['captions']:.1f} captions/s, {rates['deltas']:.1f} deltas/s,"
        f" {rates['bytes'] / 1e6:.2f} MB/s, by {counts['sockets']} sockets",
        "utterances": f"{counts['said']}, said to their end {counts['whole']}, refused"
        f" {counts['refused']}, not sent {counts['unsent']}, cancels {counts['cancels']}",
        "captions without a text": f"{report.errors_share:.2%}: failed {counts['missed']}, not"
        f" ended {counts['unended']}",
        "lag, degraded": f"{counts['lags']} times told, {counts['dropped']} deltas dropped;"
        f" partials off {counts['degraded']} times, on again {counts['restored']}",
        "the client itself": f"late p99 {report.late.p99:.1f} ms, most {report.late.max:.1f} ms;"
        f" busiest process {report.busiest:.0%} of a core, {report.cpu_us:.1f} us a frame",
    }
