"""Which value of a setting is best.

Owns: the figures of a step, when a step is better or worse than another, the reason in words. Must
not know: engines, clocks, how anything is measured.

A load comes at its own pace, so what a setting can change is how long captions take. Of all steps
those are kept that are as good as the best of them, first by one figure, then by the next:

1. whether it keeps up with the load; where none does, how many captions it makes a second;
2. the time from said to finished that 95 of 100 captions keep;
3. the same of the first text of an utterance;
4. that no requests were thrown out of the KV cache, and that it is not nearly full;
5. the time of each token.

Figures differ where they are apart by more than `MARGIN` and `LEAST_MS`: the same setting differs
by less when it is measured twice. Of what is left the smallest is the best: each place more is
memory, and makes every stream slower when it is used.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import msgspec

from gateway.cli.report.stats import Summary

MARGIN = 0.10
"""Share by which two figures have to differ."""

LEAST_MS = 10.0
"""Milliseconds by which two waits have to differ as well: nobody sees less."""

LEAST_TOKEN_MS = 0.5
"""The same for the time of one token."""

LOST = 0.01
"""Share of captions that may be missing in a setting that keeps up."""

FULL = 0.95
"""Use of the KV cache from which on the next long text throws another one out."""

THROWN = 0.01
"""Requests thrown out of the KV cache, for each caption, that count."""

RISEN_MS = 250.0
"""Milliseconds of waiting below which no wait is too long."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a load was like under one setting. Times are in milliseconds.

    :param final: from said to finished
    :param first: from said to the first text
    :param made: captions a second
    :param asked: captions a second that were asked for
    :param lost: share of the captions that were refused, failed or not there in time
    :param growing: captions waited longer and longer
    :param token: of a job: each token, in the middle
    :param tokens: a second
    :param running: most jobs that the engine had at once
    :param waiting: most that waited at once
    :param cache: largest share of the KV cache in use; 0 where there is none
    :param preemptions: requests thrown out of the KV cache
    :param doubts: why the figures may not be those of the gateway
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
        """Whether it keeps up with the load."""
        return not self.growing and self.lost <= LOST

    @property
    def tight(self) -> bool:
        """Whether the KV cache is too small for it."""
        return self.cache >= FULL or self.preemptions > THROWN * self.final.count


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was tried.

    :param usual: its value before
    :param steps: the figures by value
    :param verdicts: of each step beside the best before it
    """

    setting: str
    usual: int
    best: int
    steps: dict[int, Figures]
    verdicts: dict[int, str]


class Verdict(enum.Enum):
    """One setting beside another."""

    BETTER = "better"
    SAME = "as good"
    WORSE = "worse"


_TAILS: dict[str, Callable[[Figures], float]] = {
    "captions": lambda one: one.final.p95,
    "first texts": lambda one: one.first.p95,
}
"""The tails that decide, the first before the second."""


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

    :param usual: kept instead of a smaller one where it is as good

    Raises `ValueError` where there are no steps.
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
    """Return the steps in which a figure is as small as anywhere."""
    lowest = min(map(of, steps.values()))
    return {value: one for value, one in steps.items() if not _above(of(one), lowest, least)}


def reason(name: str, steps: Mapping[int, Figures], value: int) -> list[str]:
    """Return why this value of a setting, in sentences."""
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
    """Return whether waits (ms), in the order of their times, grow without an end in sight: in the
    last third they are more than twice those of the first, and long at all."""
    third = len(waits) // 3
    if third < 2:
        return False
    return median(waits[-third:]) > max(RISEN_MS, 2 * median(waits[:third]))


def _above(one: float, other: float, least: float = 0.0) -> bool:
    """Return whether a figure is larger by more than chance makes it."""
    return one > other * (1 + MARGIN) + least


def _ms(ms: float) -> str:
    if ms >= 10_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms"
