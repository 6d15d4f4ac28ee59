"""What a search found, for people and for a configuration: a table, pictures, reasons, TOML.

Owns: how results are written. Must not know: how they came about, where they are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gateway.bench import chart, page, table
from gateway.tune.load import Load
from gateway.tune.steps import Figures, reason

TAIL = 100
"""Captions below which it is said how few the latest five of a hundred are."""

PLACES = ("max_num_seqs", "batch")
"""Settings that are jobs at once."""

COMMENT = 80
"""Letters of a line in a configuration."""

LATE_S = 0.05
"""Seconds that the measuring itself may be late."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one setting."""

    setting: str
    usual: int
    """What it was before."""
    best: int
    steps: dict[int, Figures]
    verdicts: dict[int, str]
    """Of each step beside the best before it."""
    stopped: str
    """Why no further steps were taken."""
    times: dict[int, int]
    """How often each was measured."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All that a search found."""

    engine: str
    load: str
    seconds: float
    languages: int
    utterances: int
    characters: tuple[float, float]
    """That one of ten utterances does not exceed, and nine of ten do not."""
    tried: tuple[Tried, ...]
    recommended: dict[str, int]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    toml: str


def made(engine: str, load: Load, tried: Sequence[Tried], *, forced: bool = False) -> Found:
    """The report of a search. ``forced``: the load was uniform, and somebody said to go on."""
    recommended = {one.setting: one.best for one in tried}
    reasons = [told for one in tried for told in reason(one.setting, one.steps, one.best)]
    reasons += [f"{one.setting}: {one.stopped}" for one in tried if one.stopped]
    reasons += _tail(load, tried)
    return Found(
        engine=engine,
        load=load.told,
        seconds=load.seconds,
        languages=load.languages,
        utterances=len(load.said),
        characters=load.spread,
        tried=tuple(tried),
        recommended=recommended,
        reasons=tuple(reasons),
        warnings=tuple(_warnings(load, tried, forced)),
        toml=_toml(engine, load, recommended, tried),
    )


def _tail(load: Load, tried: Sequence[Tried]) -> Iterable[str]:
    """How far the tails that were compared can be believed. All steps are of the same texts."""
    fewest = min(figures.captions for one in tried for figures in one.steps.values())
    if fewest < TAIL:
        seconds = math.ceil(load.seconds * TAIL / max(1, fewest) / 10) * 10
        latest = math.ceil(fewest / 20)
        yield (
            f"A step had {fewest} captions, of the same texts in each: what 95 of 100 keep is told"
            f" by the latest{f' {latest}' if latest > 1 else ''} of them. With --seconds"
            f" {seconds} there would be {TAIL}."
        )


def _warnings(load: Load, tried: Sequence[Tried], forced: bool) -> Iterable[str]:
    steps = [figures for one in tried for figures in one.steps.values()]
    if load.few:
        yield load.few
    elif forced:
        yield "The load is uniform, which is no evidence: all its texts are of one length."
    for one in tried:
        if one.setting in PLACES and one.best == max(one.steps) <= one.steps[one.best].running:
            yield (
                f"{one.setting} = {one.best} is the largest that was tried, and all of it was used:"
                f" more may be better. See with --try {one.setting}={one.best},{2 * one.best}"
            )
    late = max((one.late for one in steps), default=0.0)
    if late > LATE_S:
        yield (
            f"The measuring itself was {1000 * late:.0f} ms late at worst: this machine was too"
            " busy to keep time. The engine and the voices share its processors."
        )


def _toml(engine: str, load: Load, recommended: dict[str, int], tried: Sequence[Tried]) -> str:
    lines = [
        f"# Found by gateway tune with {engine}.",
        f"# Load: {load.told}.",
    ]
    for one in tried:
        figures = one.steps[one.best]
        lines.append(
            f"# {one.setting}: 95 of 100 captions within {1000 * figures.final.p95:.0f} ms,"
            f" first texts within {1000 * figures.first.p95:.0f} ms; it was {one.usual}."
        )
    lines += [f"{name} = {value}" for name, value in recommended.items()]
    return "\n".join(table.prose(line.replace("\n", " "), COMMENT, "#   ") for line in lines) + "\n"


def text(found: Found, width: int | None = None) -> str:
    """The report for a terminal with so many letters in a line; None: any number."""
    parts = [
        f"{found.engine}; {found.load}; {found.seconds:g} s a step, {found.utterances} utterances,"
        f" {found.characters[0]:.0f} to {found.characters[1]:.0f} characters (1 and 9 of 10)"
    ]
    for one in found.tried:
        told = [f"{value}: {verdict}" for value, verdict in one.verdicts.items()]
        parts.append(table.text(*_table(one), width=width))
        parts.append("\n".join(table.prose(line, width) for line in told))
    told = ["Times are milliseconds.", *found.reasons]
    parts.append("\n".join(table.prose(line, width) for line in told))
    parts += [table.prose(f"Warning: {warning}", width) for warning in found.warnings]
    parts.append(found.toml.rstrip())
    parts[0] = table.prose(parts[0], width)
    return "\n\n".join(parts)


def _table(one: Tried) -> tuple[list[str], list[list[table.Cell]]]:
    """Heads and rows; without the columns that this engine has nothing for. Times are in
    milliseconds."""
    heads = [one.setting, *_COLUMNS, "times"]
    rows: list[list[table.Cell]] = [
        [
            f"{value}{' <-' if value == one.best else ''}",
            *(of(figures) for of in _COLUMNS.values()),
            one.times[value],
        ]
        for value, figures in sorted(one.steps.items())
    ]
    kept = [place for place in range(len(heads)) if any(row[place] is not None for row in rows)]
    return [heads[place] for place in kept], [[row[place] for place in kept] for row in rows]


_COLUMNS: dict[str, Callable[[Figures], table.Cell]] = {
    "captions/s": lambda one: one.made,
    "final p50": lambda one: _ms(one.final.p50),
    "final p95": lambda one: _ms(one.final.p95),
    "final p99": lambda one: _ms(one.final.p99),
    "first p50": lambda one: _ms(one.first.p50),
    "first p95": lambda one: _ms(one.first.p95),
    "first p99": lambda one: _ms(one.first.p99),
    "queue p95": lambda one: _ms(one.queue.p95),
    "inside": lambda one: _ms(one.inside) if one.batch else None,
    "prefill": lambda one: _ms(one.prefill) if one.batch else None,
    "ms/token": lambda one: 1000 * one.token.p50,
    "tokens/s": lambda one: one.tokens,
    "tokens/step": lambda one: one.batch or None,
    "jobs": lambda one: round(one.running),
    "waiting": lambda one: round(one.waiting),
    "lost": lambda one: one.lost or None,
    "KV %": lambda one: 100 * one.cache if one.cache else None,
    "thrown": lambda one: one.preemptions if one.cache else None,
}


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def charts(found: Found) -> list[str]:
    """A picture of waits for each setting, and one of what is behind them."""
    drawn = []
    for one in found.tried:
        steps = sorted(one.steps.items())
        drawn.append(
            chart.lines(
                f"Waits by {one.setting} ({found.engine})",
                {
                    name: [(value, max(0.1, 1000 * of(figures))) for value, figures in steps]
                    for name, of in _WAITS
                },
                x=one.setting,
                y="ms",
                x_log=True,
                y_log=True,
            )
        )
        drawn.append(
            chart.lines(
                f"Each token by {one.setting} ({found.engine})",
                {
                    "token p50": [(value, 1000 * figures.token.p50) for value, figures in steps],
                    "token p95": [(value, 1000 * figures.token.p95) for value, figures in steps],
                },
                x=one.setting,
                y="ms",
                x_log=True,
            )
        )
    return drawn


_WAITS: tuple[tuple[str, Callable[[Figures], float]], ...] = (
    ("final p95", lambda one: one.final.p95),
    ("final p50", lambda one: one.final.p50),
    ("first p95", lambda one: one.first.p95),
    ("first p50", lambda one: one.first.p50),
    ("queue p95", lambda one: one.queue.p95),
)


def svg(found: Found) -> str:
    """All pictures in one file, one below the other."""
    drawn = charts(found)
    height = chart.HEIGHT * len(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.WIDTH} {height}"'
        f' width="{chart.WIDTH}" height="{height}">'
    ]
    for place, one in enumerate(drawn):
        parts.append(f'<g transform="translate(0,{place * chart.HEIGHT})">{one}</g>')
    return "\n".join([*parts, "</svg>\n"])


def html(found: Found) -> str:
    """The report as a page."""
    sections = [
        page.Section(
            head="Recommendation",
            warnings=found.warnings,
            text=(
                f"Engine: {found.engine}. Load: {found.load}; {found.utterances} utterances of"
                f" {found.characters[0]:.0f} to {found.characters[1]:.0f} characters (1 and 9 of"
                f" 10) in {found.seconds:g} s.",
                *found.reasons,
            ),
            verbatim=(found.toml,),
        ),
        page.Section(
            head="Steps",
            text=(
                "Times are milliseconds.",
                *(
                    f"{one.setting} = {value}: {verdict}"
                    for one in found.tried
                    for value, verdict in one.verdicts.items()
                ),
            ),
            tables=[page.Table(*_table(one), one.setting) for one in found.tried],
            charts=charts(found),
        ),
    ]
    return page.html("gateway tune", sections)
