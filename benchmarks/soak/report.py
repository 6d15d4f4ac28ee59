"""The report of a soak: figures, and whether the promises held.

Owns: the slope of the memory, percentiles, the table, the verdict. Must not know: how anything was
measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

WARM_SHARE, WARM_S = 0.25, 20.0
"""First part of each process that is not counted: caches and windows fill."""
SLOPE_S = 240.0
"""Seconds of memory, after that, below which a slope an hour is noise and no verdict."""
SLOPE_MB = 1.0
"""MB an hour that the memory may grow by."""
LINES = 60
"""Lines of a log that are shown from its first traceback on: a chain of several exceptions."""


class Quantiles(msgspec.Struct, frozen=True):
    """Percentiles of some times, in milliseconds."""

    count: int
    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles:
        """Return the percentiles of times; 0 if there are none."""
        times = sorted(seconds)
        if not times:
            return cls(0, 0.0, 0.0, 0.0)

        def at(share: float) -> float:
            return round(1000 * times[math.ceil(share * len(times)) - 1], 1)

        return cls(len(times), at(0.5), at(0.95), at(1.0))


class Report(msgspec.Struct, kw_only=True):
    """The figures of one soak. ``broken`` has a line for every broken promise."""

    seed: int
    seconds: float
    hours: float
    """Simulated hours."""
    sessions: int
    rooms: int
    sockets: int
    resumed: int
    gaps_told: int
    afresh: int
    cuts: dict[str, int]
    kills: int
    restarts: int
    said: int
    void: int
    events: int
    lost: int
    duplicated: int
    contradicted: int
    ended_twice: int
    unended: int
    unexpected: dict[str, int]
    errors: dict[str, int]
    closes: dict[str, int]
    caught_up_ms: Quantiles
    final_ms: Quantiles
    rss_mb: tuple[float, float]
    """Memory of the last process: after its warm-up, if it lived for so long, and at its end."""
    slope_mb_h: float | None
    """MB per simulated hour; None if it did not run for long enough to tell."""
    exit_status: int | None
    examples: list[str]

    @property
    def broken(self) -> list[str]:
        """Promises that were broken."""
        counts = {
            "durable events were lost": self.lost,
            "durable events came twice": self.duplicated,
            "numbers stood for two events": self.contradicted,
            "captions ended twice": self.ended_twice,
            "captions never ended": self.unended,
        }
        found = [f"{count} {what}." for what, count in counts.items() if count]
        found += [f"Unexpected: {what}, {n} times." for what, n in self.unexpected.items()]
        if self.slope_mb_h is not None and self.slope_mb_h > SLOPE_MB:
            found.append(f"The memory grew by {self.slope_mb_h:.2f} MB an hour.")
        if self.exit_status:
            found.append(f"The gateway ended with status {self.exit_status}.")
        if not self.events:
            found.append("Nothing was said or heard: this proves nothing.")
        return found


def slope(segments: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float] | None:
    """Return the slope of y over x, and the length in x that it is based on; None if that is 0.

    Least squares with one slope for all segments and a level for each: a new process begins anew.
    """
    xx = xy = length = 0.0
    for points in segments:
        if len(points) < 2:
            continue
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        xx += sum((x - mean_x) ** 2 for x, _ in points)
        xy += sum((x - mean_x) * (y - mean_y) for x, y in points)
        length += points[-1][0] - points[0][0]
    return (xy / xx, length) if xx else None


def warm(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of one process after its warm-up."""
    if not points:
        return []
    begun, ended = points[0][0], points[-1][0]
    from_ = begun + max(WARM_S, WARM_SHARE * (ended - begun))
    return [point for point in points if point[0] >= from_]


def growth(segments: Sequence[Sequence[tuple[float, float]]], speed: float) -> float | None:
    """Return MB per simulated hour, from (seconds, MB) of each process; None if that is noise."""
    found = slope([warm(points) for points in segments])
    if found is None or found[1] < SLOPE_S:
        return None
    return round(found[0] * 3600 / speed, 3)


def first_traceback(log: str) -> str:
    """Return the lines of a log from its first traceback on, with the message above it.

    Raises `StopIteration` if there is none.
    """
    lines = log.splitlines()
    at = next(at for at, line in enumerate(lines) if "Traceback" in line)
    return "\n".join(lines[max(0, at - 1) : at + LINES])


def table(report: Report) -> str:
    """Return the report as a table."""
    slope_text = "too short to tell" if report.slope_mb_h is None else f"{report.slope_mb_h:+.2f}"
    rows = {
        "seed": report.seed,
        "time": f"{report.seconds:.0f} s, {report.hours:.2f} h simulated",
        "sessions, rooms": f"{report.sessions}, {report.rooms}",
        "sockets opened": f"{report.sockets}, {report.resumed} of them resumed whole, "
        f"{report.gaps_told} told of a gap, {report.afresh} afresh",
        "faults of the network": _counts(report.cuts),
        "gateway killed, restarted": f"{report.kills}, {report.restarts}",
        "utterances": f"{report.said}, {report.void} given up with the process that had them",
        "durable events read": report.events,
        "lost, duplicated": f"{report.lost}, {report.duplicated}",
        "contradicted, ended twice": f"{report.contradicted}, {report.ended_twice}",
        "never ended": report.unended,
        "errors, as expected": _counts(report.errors),
        "close codes": _counts(report.closes),
        "unexpected": _counts(report.unexpected),
        "connected and caught up": _times(report.caught_up_ms),
        "said to first final": _times(report.final_ms),
        "memory, MB": "{:.1f} to {:.1f}".format(*report.rss_mb),
        "memory, MB an hour": slope_text,
    }
    width = max(map(len, rows))
    lines = [f"{name:{width}}  {value}" for name, value in rows.items()]
    lines += [f"  {example}" for example in report.examples]
    lines += [f"BROKEN: {line}" for line in report.broken] or ["Every promise held."]
    return "\n".join(lines)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _times(times: Quantiles) -> str:
    return f"p50 {times.p50:g} ms, p95 {times.p95:g} ms, max {times.max:g} ms of {times.count}"
