"""Measured figures of engines, a gateway core and Redis, each with its source.

Owns: the figures that are known, and reading others from the reports of `gateway bench load`. Must
not know: loads, files.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from caption_tools.loadtest.model.report import STEP, LoadReport

TOKENS_A_WORD = 1.5
"""Tokens of a translation for each word of an English original: 4,991 for 667 words, into five
languages (docs/figures/captions.md)."""


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of one engine."""

    source: str
    slots: int  # jobs at once
    first_ms: float  # time to the first token of a job that is alone
    token_ms: float  # time of each further token of it
    tokens_s: float  # tokens a second with all slots in use
    job: float  # tokens of a job, on average, in the measurement of `tokens_s`

    def alone(self, tokens: float) -> float:
        """Return the seconds that a job takes if it is alone."""
        return (self.first_ms + max(0.0, tokens - 1) * self.token_ms) / 1000

    def slower(self, running: float) -> float:
        """Return the factor by which a job takes longer beside others, linear in their number.

        :param running: jobs that the engine has, this one included
        """
        full = max(1.0, self.slots * self.job / self.tokens_s / self.alone(self.job))
        if self.slots == 1:
            return full
        return 1 + (full - 1) * (min(max(running, 1.0), self.slots) - 1) / (self.slots - 1)


class EngineShare(msgspec.Struct, frozen=True, kw_only=True):
    """One of the engines of a plan, and its share of the work."""

    figures: EngineFigures
    languages: int  # languages of each meeting that it translates into
    name: str = ""  # name among several engines; empty for the only one

    @property
    def label(self) -> str:
        """The end of the names of its rows."""
        return f" of {self.name}" if self.name else ""


class CoreFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU time of a gateway process."""

    source: str
    event_us: float
    """CPU time of an event, whoever reads it: from the engine's text to the encoded frame. It
    includes the share of all other work, such as reading what speakers send."""
    frame_us: float  # CPU time of writing a frame to one socket
    frame_bytes: float  # size of a frame, without the headers of WebSocket, TLS and TCP


class RedisFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU time of Redis, whose commands run in one thread."""

    source: str
    publish_us: float  # time of a PUBLISH, each in a write of its own
    append_us: float  # time of the script that writes a durable event
    delivery_us: float  # time of sending a published message to one gateway


# fmt: off
ENGINES = {
    "embedded": EngineFigures(
        source="embedded model of 44 M parameters on two shared CPU cores; captions of 12 words:"
        " first token 16.6 ms, whole 121 ms, 35 a second (docs/figures/engines.md)",
        slots=32, first_ms=16.6, token_ms=6.1, tokens_s=630, job=18,
    ),
    "h200-4b": EngineFigures(
        source="a model of the shape of Qwen3-4B on one H200, vLLM 0.25.1, no trained weights;"
        " texts of 66 tokens: first text 18 ms, 200 tokens 0.65 s, 106 texts a second at 64 at once"
        " (docs/figures/engines.md)",
        slots=64, first_ms=18, token_ms=3.2, tokens_s=7_000, job=66,
    ),
    "h200-24m": EngineFigures(
        source="a trained model of 24 M parameters on one H200, an older version of the gateway;"
        " lines of 7 words: first text 9.5 ms, whole 39 ms, 248 a second at 16 at once"
        " (docs/figures/engines.md)",
        slots=16, first_ms=9.5, token_ms=3.3, tokens_s=2_500, job=10,
    ),
}
# fmt: on

CORE = CoreFigures(
    source="a gateway process with the scripted engine on a busy machine of two shared CPU cores"
    " (python -m benchmarks.capacity core)",
    event_us=250,
    frame_us=12,
    frame_bytes=115,
)

REDIS = RedisFigures(
    source="Redis 7.0 on two shared CPU cores, messages of 180 bytes, CPU time of its main thread"
    " (python -m benchmarks.capacity redis)",
    publish_us=11,
    append_us=9.8,
    delivery_us=4.1,
)


def engine_of(reports: Sequence[LoadReport]) -> EngineFigures:
    """Return the figures of an engine from at least one report.

    Its speed alone is the best of them, and its tokens a second are the most of any. A report of
    little load and one of too much are needed for both to be right.

    Raises `ValueError` with a sentence if the reports lack them.
    """
    firsts: list[float] = []
    tokens: list[float] = []
    most: list[tuple[float, float]] = []  # tokens a second, and those of a job
    slots = 0
    for report in reports:
        flow = report.metrics.get("gateway_tokens_total a second", ())
        rates = [rate for at, rate in flow if report.plan.warm <= at <= report.plan.seconds]
        jobs = grown(report, "gateway_jobs_total")
        if rates and jobs:
            most.append((median(rates), grown(report, "gateway_tokens_total") / jobs))
        slots = max([slots, *(int(n) for _, n in report.metrics.get("gateway_jobs_running", ()))])
        firsts += [report.times["first"].p50] if report.times["first"].count else []
        steps_ms = [1000 * seconds for _, seconds in report.metrics.get(STEP, ())]
        tokens += [median(steps_ms)] if steps_ms else []
    if not (firsts and tokens and slots and most and max(most)[0]):
        raise ValueError(
            "The reports do not have the speed of an engine. It takes a report of gateway bench"
            " load with texts that do not grow (--partials 0), on an engine that counts its tokens."
        )
    speed, job = max(most)
    given, first, token = "the reports given", min(firsts), min(tokens)
    return EngineFigures(
        source=given, slots=slots, first_ms=first, token_ms=token, tokens_s=speed, job=job
    )


def core_of(few: LoadReport, many: LoadReport) -> CoreFigures:
    """Return the figures of a gateway core from two reports of an engine outside of the gateway,
    or of the scripted engine: with few readers in a room, and with many.

    Raises `ValueError` with a sentence if they do not tell the two costs apart.
    """
    rows: list[tuple[float, float, float]] = []
    size = 0.0
    for report in (few, many):
        plan, frames = report.plan, report.counts["frames"]
        share = plan.speakers + plan.readers / len(plan.langs)
        # Captions alone: each is written to all who read its language.
        events = (report.counts["deltas"] + report.counts["captions"]) / share
        size = report.counts["bytes"] / max(1, frames)
        rows.append((events, frames, 1e6 * grown(report, "process_cpu_seconds_total")))
    (events1, frames1, cpu1), (events2, frames2, cpu2) = rows
    apart = events1 * frames2 - events2 * frames1
    if not all((cpu1, cpu2)) or apart <= 0.5 * events1 * frames2:
        raise ValueError(
            "The two reports do not tell what a reader costs. Take one with --readers 0 and one"
            " with --readers 100, of a gateway that is a single process on Linux."
        )
    event_us = max(0.0, (cpu1 * frames2 - cpu2 * frames1) / apart)
    frame_us = max(0.0, (events1 * cpu2 - events2 * cpu1) / apart)
    given = "the reports given"
    return CoreFigures(source=given, event_us=event_us, frame_us=frame_us, frame_bytes=size)


def grown(report: LoadReport, name: str) -> float:
    """Return by how much a counter of the gateway grew during a run; 0 if it has none."""
    return report.after.get(name, 0.0) - report.before.get(name, 0.0)
