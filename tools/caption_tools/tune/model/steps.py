"""The figures of the steps of a search, the best value of a setting, and the report.

Owns: when a step is better or worse than another, the recommendation and its reasons, the output.
Must not know: engines, clocks, how anything is measured.

A load comes at its own pace, so a setting can only change how long captions take. Of all steps
those are kept that are as good as the best of them, first by one figure, then by the next:

1. whether it keeps up with the load; if none does, how many captions it makes a second;
2. the 95th percentile of the time from said to finished;
3. the 95th percentile of the time to the first text of an utterance.

Figures differ if they are apart by more than `MARGIN` and `LEAST_MS`, because two measurements of
one setting differ by less. Of the steps that are left the smallest value is best: more jobs at once
take memory, and slow every stream down when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from caption_tools.report import table
from caption_tools.report.stats import Summary
from caption_tools.tune.model.load import Load

MARGIN = 0.10  # share by which two figures must differ
LEAST_MS = 10.0  # milliseconds by which two waits must differ as well, since nobody notices less
LOST = 0.01  # share of captions that may be missing in a setting that keeps up
FULL = 0.95  # use of the KV cache from which the next long text evicts another request
RISEN_MS = 250.0  # milliseconds below which no wait counts as growing
TAIL = 100  # captions of a step below which the report says that its percentiles rest on few
PLACES = ("max_num_seqs", "batch")  # settings that limit jobs at once


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one step. Times are in milliseconds."""

    final: Summary  # from said to finished
    first: Summary  # from said to the first text
    made: float  # captions a second
    asked: float  # captions a second that were requested
    lost: float = 0.0  # share of the captions that were refused, failed or late
    growing: bool = False  # captions waited longer and longer
    token: float = 0.0  # median time of a token of one job
    tokens: float = 0.0  # a second
    running: int = 0  # most jobs that the engine had at once
    waiting: int = 0  # most jobs that waited at once
    cache: float = 0.0  # largest share of the KV cache in use; 0 if there is none
    evicted: int = 0  # requests evicted from the KV cache
    doubts: tuple[str, ...] = ()  # reasons why the figures may not be those of the gateway

    @property
    def kept(self) -> bool:
        """True if it keeps up with the load."""
        return not self.growing and self.lost <= LOST


class Tried(msgspec.Struct, kw_only=True):
    """The results for one setting so far."""

    setting: str
    usual: int  # its value before
    steps: dict[int, Figures] = {}  # the figures by value
    unusable: dict[int, str] = {}  # reasons why values could not be measured

    @property
    def best(self) -> int:
        """Value to recommend."""
        return best(self.steps)


def _waits(step: Figures) -> dict[str, float]:
    """Return the percentiles that decide, the first before the second."""
    return {"captions": step.final.p95, "first texts": step.first.p95}


def compare(new: Figures, old: Figures) -> tuple[int, str]:
    """Return 1 if ``new`` is better than ``old``, -1 if it is worse, else 0, and why."""
    if new.kept is not old.kept:
        told = "it keeps up with the load" if new.kept else "it does not keep up with the load"
        return (1 if new.kept else -1), told
    if not new.kept and _apart(new.made, old.made):
        sign = 1 if new.made > old.made else -1
        return sign, f"{new.made:.1f} captions a second, not {old.made:.1f}"
    before = _waits(old)
    for what, wait in _waits(new).items():
        if _apart(wait, before[what], LEAST_MS):
            sign = 1 if wait < before[what] else -1
            return sign, f"95 of 100 {what} take {wait:.0f} ms, not {before[what]:.0f} ms"
    return 0, "no difference"


def best(steps: Mapping[int, Figures]) -> int:
    """Return the value to recommend, of at least one; see the head of this module."""
    left = {value: step for value, step in steps.items() if step.kept}
    if not left:
        most = max(step.made for step in steps.values())
        left = {value: step for value, step in steps.items() if not _apart(most, step.made)}
    for what in _waits(next(iter(left.values()))):
        waits = {value: _waits(step)[what] for value, step in left.items()}
        lowest = min(waits.values())
        left = {value: left[value] for value in left if not _apart(waits[value], lowest, LEAST_MS)}
    return min(left)


def rises(waits: Sequence[float]) -> bool:
    """Return whether waits (ms), in the order of time, keep growing.

    They do if in the last third their median is more than twice that of the first third, and above
    `RISEN_MS`.
    """
    third = len(waits) // 3
    # A median of one value is no trend.
    if third < 2:
        return False
    return median(waits[-third:]) > max(RISEN_MS, 2 * median(waits[:third]))


def _apart(first: float, second: float, least: float = 0.0) -> bool:
    """Return whether two figures differ by more than chance explains."""
    return max(first, second) > min(first, second) * (1 + MARGIN) + least


# --- the report ----------------------------------------------------------------------------------


class TuneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search. ``toml`` has the settings as a file for ``gateway serve``."""

    engine: str
    load: str
    seconds: float
    tried: tuple[Tried, ...]
    recommended: dict[str, int]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    toml: str


def made(
    engine: str, load: Load, tried: Sequence[Tried], *, table: str | None = None
) -> TuneReport:
    """Return the report of a search.

    :param table: name of the ``[[engine]]`` table that was tuned; None if there are none
    """
    warnings = [load.few] if load.few else []
    if load.uniform:
        warnings.append("The load is uniform: its texts are of one length, unlike speech.")
    recommended = {result.setting: result.best for result in tried}
    lines = [f"# Found by gateway tune with {engine}.", f"# Load: {load.told}."]
    if table is not None:
        # A file of these lines alone would start other engines.
        lines.append("# Copy the values into the table of this name.")
        lines += ["[[engine]]", f'name = "{table}"']
    lines += [f"{name} = {value}" for name, value in recommended.items()]
    return TuneReport(
        engine=engine if table is None else f"{table} ({engine})",
        load=load.told,
        seconds=load.plan.seconds,
        tried=tuple(tried),
        recommended=recommended,
        reasons=tuple(told for result in tried for told in _reasons(result)),
        warnings=(*warnings, *(told for result in tried for told in _doubts(result))),
        toml="\n".join(lines) + "\n",
    )


def _reasons(result: Tried) -> Iterator[str]:
    """Yield sentences that justify the recommended value."""
    here = result.steps[result.best]
    if not here.kept:
        yield (
            f"No {result.setting} keeps up with this load: {result.best} makes {here.made:.1f}"
            f" captions a second of the {here.asked:.1f} that are asked for."
        )
    yield (
        f"With {result.setting} = {result.best} 95 of 100 captions are finished within"
        f" {here.final.p95:.0f} ms of being said, and 95 of 100 first texts come within"
        f" {here.first.p95:.0f} ms. It was {result.usual}."
    )
    for value, step in result.steps.items():
        if value != result.best:
            sign, why = compare(step, here)
            yield f"{value} is {('as good', 'better', 'worse')[sign]}: {why}."
    for value, why in result.unusable.items():
        yield f"{value} cannot be used: {why}"


def _doubts(result: Tried) -> Iterator[str]:
    """Yield the weaknesses of a recommendation."""
    value, here = result.best, result.steps[result.best]
    if result.setting in PLACES and value == max(result.steps) <= here.running:
        yield (
            f"{result.setting} = {value} is the largest that was tried, and all of it was used:"
            f" more may be better. See with --try {result.setting}={value},{2 * value}"
        )
    if here.cache >= FULL or here.evicted:
        yield (
            f"{result.setting} = {value} fills {here.cache:.0%} of the KV cache;"
            f" {here.evicted} requests were evicted."
        )
    if (fewest := min(step.final.count for step in result.steps.values())) < TAIL:
        yield f"A step had {fewest} captions, too few for a sure 95th percentile: more --seconds."
    for value, step in result.steps.items():
        for doubt in step.doubts:
            yield f"{result.setting} = {value} is in doubt: {doubt}"


_COLUMNS: dict[str, Callable[[Figures], table.Cell]] = {
    "captions/s": lambda step: step.made,
    "final p50": lambda step: step.final.p50,
    "final p95": lambda step: step.final.p95,
    "final p99": lambda step: step.final.p99,
    "first p50": lambda step: step.first.p50,
    "first p95": lambda step: step.first.p95,
    "ms/token": lambda step: step.token or None,
    "tokens/s": lambda step: step.tokens or None,
    "jobs": lambda step: step.running,
    "waiting": lambda step: step.waiting,
    "lost %": lambda step: 100 * step.lost,
    "KV %": lambda step: 100 * step.cache or None,
}


def text(report: TuneReport, width: int | None = None) -> str:
    """Return the report for a terminal with lines of ``width`` letters; None: any length."""
    head = f"{report.engine}; {report.load}; {report.seconds:g} s a step; times in ms"
    parts = [table.prose(head, width)]
    for result in report.tried:
        rows: list[list[table.Cell]] = [
            [f"{value}{' <-' * (value == result.best)}", *(of(step) for of in _COLUMNS.values())]
            for value, step in sorted(result.steps.items())
        ]
        parts.append(table.text((result.setting, *_COLUMNS), rows, width=width))
    said = (*report.reasons, *(f"Warning: {warning}" for warning in report.warnings))
    parts += ["\n".join(table.prose(line, width) for line in said), report.toml.rstrip()]
    return "\n\n".join(parts)
