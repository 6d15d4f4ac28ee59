"""The comparison of steps, and the choice of the best value of a setting.

Owns: the figures of a step, when a step is better or worse than another, the reason in words. Must
not know: engines, clocks, how anything is measured.

A load comes at its own pace, so a setting can only change how long captions take. Of all steps
those are kept that are as good as the best of them, first by one figure, then by the next:

1. whether it keeps up with the load; if none does, how many captions it makes a second;
2. the 95th percentile of the time from said to finished;
3. the 95th percentile of the time to the first text of an utterance;
4. that no requests were evicted from the KV cache, and that it is not nearly full;
5. the time of each token.

Figures differ if they are apart by more than `MARGIN` and `LEAST_MS`, because two measurements of
one setting differ by less. Of the steps that are left the smallest value is best: more jobs at once
take memory, and slow every stream down when they are used.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import msgspec

from gateway.cli.report.stats import Summary

MARGIN = 0.10
"""Share by which two figures must differ."""

LEAST_MS = 10.0
"""Milliseconds by which two waits must differ as well, since nobody notices less."""

LEAST_TOKEN_MS = 0.5
"""Milliseconds by which the times of a token must differ."""

LOST = 0.01
"""Share of captions that may be missing in a setting that keeps up."""

FULL = 0.95
"""Use of the KV cache from which the next long text evicts another request."""

THROWN = 0.01
"""Evicted requests for each caption above which the KV cache is too small."""

RISEN_MS = 250.0
"""Milliseconds below which no wait counts as growing."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one step. Times are in milliseconds.

    :param final: from said to finished
    :param first: from said to the first text
    :param made: captions a second
    :param asked: captions a second that were requested
    :param lost: share of the captions that were refused, failed or late
    :param growing: captions waited longer and longer
    :param token: median time of a token of one job
    :param tokens: a second
    :param running: most jobs that the engine had at once
    :param waiting: most jobs that waited at once
    :param cache: largest share of the KV cache in use; 0 if there is none
    :param preemptions: requests evicted from the KV cache
    :param doubts: reasons why the figures may not be those of the gateway
    """

    final: Summary
    first: Summary
    made: float
    asked: float
    lost: float = 0.0
    growing: bool = False
    token: float = 0.0
    tokens: float = 0.0
    running: int = 0
    waiting: int = 0
    cache: float = 0.0
    preemptions: int = 0
    doubts: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """True if it keeps up with the load."""
        return not self.growing and self.lost <= LOST

    @property
    def tight(self) -> bool:
        """True if the KV cache is too small for it."""
        return self.cache >= FULL or self.preemptions > THROWN * self.final.count


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one setting.

    :param usual: its value before
    :param steps: the figures by value
    :param verdicts: the comparison of each step with the best before it
    """

    setting: str
    usual: int
    best: int
    steps: dict[int, Figures]
    verdicts: dict[int, str]


class Verdict(enum.Enum):
    """The result of a comparison."""

    BETTER = "better"
    SAME = "as good"
    WORSE = "worse"


_TAILS: dict[str, Callable[[Figures], float]] = {
    "captions": lambda one: one.final.p95,
    "first texts": lambda one: one.first.p95,
}
"""The percentiles that decide, the first before the second."""


def compare(new: Figures, old: Figures) -> tuple[Verdict, str]:
    """Return whether ``new`` is better than ``old``, and why in a few words."""
    if new.kept is not old.kept:
        if new.kept:
            return Verdict.BETTER, "it keeps up with the load"
        return Verdict.WORSE, "it does not keep up with the load"
    if not new.kept:
        more = f"{new.made:.1f} captions a second, not {old.made:.1f}"
        if _above(new.made, old.made):
            return Verdict.BETTER, more
        if _above(old.made, new.made):
            return Verdict.WORSE, more
    for what, of in _TAILS.items():
        one, other = of(new), of(old)
        why = f"95 of 100 {what} take {_ms(one)}, not {_ms(other)}"
        if _above(one, other, LEAST_MS):
            return Verdict.WORSE, why
        if _above(other, one, LEAST_MS):
            return Verdict.BETTER, why
    # Waits are equal here; a full cache would make them longer with the next long text.
    if new.tight and not old.tight:
        return Verdict.WORSE, (
            f"it fills {new.cache:.0%} of the KV cache, and throws {new.preemptions} requests out"
        )
    if _above(new.token, old.token, LEAST_TOKEN_MS):
        return Verdict.WORSE, (
            f"a token takes {_ms(new.token)}, not {_ms(old.token)}, and nothing waits less"
        )
    return Verdict.SAME, "no difference"


def best(steps: Mapping[int, Figures], usual: int | None = None) -> int:
    """Return the value to recommend; see the head of this module.

    :param usual: value before; kept if it is as good as the best

    Raises `ValueError` if there are no steps.
    """
    if not steps:
        raise ValueError("No step could be measured.")
    left = {value: one for value, one in steps.items() if one.kept}
    if not left:
        most = max(one.made for one in steps.values())
        left = {value: one for value, one in steps.items() if not _above(most, one.made)}
    for of in _TAILS.values():
        left = _least(left, of, LEAST_MS)
    left = {value: one for value, one in left.items() if not one.tight} or left
    left = _least(left, lambda one: one.token, LEAST_TOKEN_MS)
    return usual if usual in left else min(left)


def _least(
    steps: dict[int, Figures], of: Callable[[Figures], float], least: float
) -> dict[int, Figures]:
    """Return the steps in which a figure is as small as in any step."""
    lowest = min(map(of, steps.values()))
    return {value: one for value, one in steps.items() if not _above(of(one), lowest, least)}


def reason(name: str, steps: Mapping[int, Figures], value: int) -> list[str]:
    """Return sentences that justify a value of a setting."""
    here = steps[value]
    told = []
    if not here.kept:
        told.append(
            f"No {name} keeps up with this load: {value} makes {here.made:.1f} captions a second of"
            f" the {here.asked:.1f} that are asked for, the most there are."
        )
    told.append(
        f"With {name} = {value} 95 of 100 captions are finished within {_ms(here.final.p95)} of"
        f" being said, and 95 of 100 first texts come within {_ms(here.first.p95)}."
    )
    smaller = max((other for other in steps if other < value), default=None)
    larger = min((other for other in steps if other > value), default=None)
    for other in (smaller, larger):
        if other is not None:
            verdict, why = compare(steps[other], here)
            told.append(f"{other} is {verdict.value}: {why}.")
    return told


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


def _above(one: float, other: float, least: float = 0.0) -> bool:
    """Return whether a figure is larger by more than chance explains."""
    return one > other * (1 + MARGIN) + least


def _ms(ms: float) -> str:
    if ms >= 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms"
