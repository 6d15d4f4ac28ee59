"""The report of a search: a table, reasons, and TOML.

Owns: how results are written. Must not know: how they were measured, where they are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gateway.cli.report import table
from gateway.cli.tune.model.load import Load
from gateway.cli.tune.model.steps import Figures, Tried, reason

TAIL = 100
"""Captions of a step below which the report says that its percentiles rest on few."""

PLACES = ("max_num_seqs", "batch")
"""Settings that limit jobs at once."""

COMMENT = 80
"""Letters of a line in the configuration."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search.

    :param characters: the 10th and the 90th percentile of the texts' characters
    :param toml: the recommended settings as a file for ``gateway serve``
    """

    engine: str
    load: str
    seconds: float
    languages: int
    characters: tuple[float, float]
    tried: tuple[Tried, ...]
    recommended: dict[str, int]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    toml: str


def made(engine: str, load: Load, tried: Sequence[Tried], *, forced: bool = False) -> Found:
    """Return the report of a search.

    :param forced: whether the load was uniform and ``--force-uniform`` was given
    """
    recommended = {one.setting: one.best for one in tried}
    reasons = [told for one in tried for told in reason(one.setting, one.steps, one.best)]
    return Found(
        engine=engine,
        load=load.told,
        seconds=load.plan.seconds,
        languages=load.languages,
        characters=load.spread,
        tried=tuple(tried),
        recommended=recommended,
        reasons=(*reasons, *_tail(load, tried)),
        warnings=tuple(_warnings(load, tried, forced)),
        toml=_toml(engine, load, tried),
    )


def _tail(load: Load, tried: Sequence[Tried]) -> Iterable[str]:
    """Yield a sentence if the percentiles that were compared rest on few captions."""
    fewest = min(one.final.count for each in tried for one in each.steps.values())
    if fewest < TAIL:
        seconds = math.ceil(load.plan.seconds * TAIL / max(1, fewest) / 10) * 10
        latest = max(1, math.ceil(fewest / 20))
        yield (
            f"A step had {fewest} captions: what 95 of 100 keep is told by the"
            f" latest{f' {latest}' if latest > 1 else ''} of them. With --seconds {seconds} there"
            f" would be {TAIL}."
        )


def _warnings(load: Load, tried: Sequence[Tried], forced: bool) -> Iterable[str]:
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
        for value, figures in one.steps.items():
            for doubt in figures.doubts:
                yield f"{one.setting} = {value} is in doubt: {doubt}"


def _toml(engine: str, load: Load, tried: Sequence[Tried]) -> str:
    lines = [f"# Found by gateway tune with {engine}.", f"# Load: {load.told}."]
    for one in tried:
        figures = one.steps[one.best]
        lines.append(
            f"# {one.setting}: 95 of 100 captions within {figures.final.p95:.0f} ms,"
            f" first texts within {figures.first.p95:.0f} ms; it was {one.usual}."
        )
    lines += [f"{one.setting} = {one.best}" for one in tried]
    return "\n".join(table.prose(line.replace("\n", " "), COMMENT, "#   ") for line in lines) + "\n"


def text(found: Found, width: int | None = None) -> str:
    """Return the report for a terminal with lines of ``width`` letters; None: any length."""
    parts = [table.prose(_head(found), width)]
    for one in found.tried:
        told = [f"{value}: {verdict}" for value, verdict in one.verdicts.items()]
        parts.append(table.text(*_table(one), width=width))
        parts.append("\n".join(table.prose(line, width) for line in told))
    told = ["Times are milliseconds.", *found.reasons]
    parts.append("\n".join(table.prose(line, width) for line in told))
    parts += [table.prose(f"Warning: {warning}", width) for warning in found.warnings]
    return "\n\n".join([*parts, found.toml.rstrip()])


def _head(found: Found) -> str:
    low, high = found.characters
    return (
        f"{found.engine}; {found.load}; {found.seconds:g} s a step, texts of {low:.0f} to"
        f" {high:.0f} characters (1 and 9 of 10)"
    )


def _table(one: Tried) -> tuple[list[str], list[list[table.Cell]]]:
    """Return heads and rows, without columns for which this engine has no values."""
    heads = [one.setting, *_COLUMNS]
    rows: list[list[table.Cell]] = [
        [f"{value}{' <-' if value == one.best else ''}", *(of(step) for of in _COLUMNS.values())]
        for value, step in one.steps.items()
    ]
    kept = [place for place in range(len(heads)) if any(row[place] is not None for row in rows)]
    return [heads[place] for place in kept], [[row[place] for place in kept] for row in rows]


_COLUMNS: dict[str, Callable[[Figures], table.Cell]] = {
    "captions/s": lambda one: one.made,
    "final p50": lambda one: one.final.p50,
    "final p95": lambda one: one.final.p95,
    "final p99": lambda one: one.final.p99,
    "first p50": lambda one: one.first.p50,
    "first p95": lambda one: one.first.p95,
    "ms/token": lambda one: one.token or None,
    "tokens/s": lambda one: one.tokens or None,
    "jobs": lambda one: one.running,
    "waiting": lambda one: one.waiting,
    "lost %": lambda one: 100 * one.lost or None,
    "KV %": lambda one: 100 * one.cache or None,
    "thrown": lambda one: one.preemptions if one.cache else None,
}
