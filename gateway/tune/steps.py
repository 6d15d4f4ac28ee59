"""Which value of a setting is best, and when to stop looking.

Owns: what one step measured, when a step is better or worse than another, the order of steps, the
reason in words. Must not know: engines, clocks, how anything is measured.

**The best.** A load comes at its own pace, so what a setting can change is how long captions take.
Of all steps those are kept that are as good as the best of them, first by one figure, then by the
next:

1. whether it keeps up with the load; where none does, how many captions it makes a second;
2. how late the latest captions are: the time from said to finished that 95 of 100 keep;
3. the same of the first text of a job;
4. that no requests were thrown out of the KV cache, and that it is not nearly full;
5. the time of each token.

Figures differ where they are apart by more than `MARGIN` and `LEAST_S`: what is less, the same
setting shows when it is measured twice. Of what is left the smallest is the best: each place more
is memory, and makes every stream slower when it is used.

**Stopping.** A `Ladder` goes up until a step is worse than the best so far (`compare`), and is so
again when it is measured once more; or until a step was not used to its end: a larger one would
change nothing. A best that was measured once is measured again before it is recommended, and where
that takes away the reason to stop, the ladder goes on. All measurements of a step count, by their
medians.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

MARGIN = 0.10
"""Share by which two figures have to differ."""

LEAST_S = 0.010
"""Seconds by which two waits have to differ as well: nobody sees less."""

LEAST_TOKEN_S = 0.0005
"""The same for the time of one token."""

LOST = 0.01
"""Share of captions that may be missing in a setting that keeps up."""

FULL = 0.95
"""Use of the KV cache from which on the next long text throws another one out."""

THROWN = 0.01
"""Requests thrown out of the KV cache, for each caption, that count."""

ENOUGH = 2
"""Times that a step is measured before a verdict on it is believed."""


class Spread(msgspec.Struct, frozen=True):
    """Of many times, in seconds: the median, and what 95 and 99 of 100 do not exceed."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a load was like under one setting. Times are in seconds."""

    captions: int
    """That were asked for."""
    seconds: float
    lost: int = 0
    """Of them: failed, refused, or not there in time. They count in ``final`` as long as they were
    waited for."""
    growing: bool = False
    """Captions waited longer and longer for the engine."""
    final: Spread = Spread()
    """From said to finished."""
    first: Spread = Spread()
    """Of a job: from asked for to its first text, jobs for growing texts included."""
    queue: Spread = Spread()
    """Of a job: until the engine was given it."""
    token: Spread = Spread()
    """Of a job: each token after the first."""
    tokens: float = 0.0
    """A second."""
    made: float = 0.0
    """Captions a second."""
    running: float = 0.0
    """Most jobs that the engine had at once."""
    waiting: float = 0.0
    """Most that waited at once, in the dispatcher or in the engine."""
    cache: float = 0.0
    """Largest share of the KV cache in use; 0 where there is none."""
    preemptions: int = 0
    """Requests thrown out of the KV cache."""
    inside: float = 0.0
    """Of a request, on average, as the engine itself counts: waiting in the engine; 0 where it does
    not say."""
    prefill: float = 0.0
    """The same: from there to its first token."""
    batch: float = 0.0
    """Tokens that a step of the model made, on average; 0 where the engine does not say."""
    late: float = 0.0
    """Most that the measuring itself was late; above some tens of milliseconds, read with care."""

    @property
    def kept(self) -> bool:
        """Whether it keeps up with the load."""
        return not self.growing and self.lost <= LOST * self.captions

    @property
    def tight(self) -> bool:
        """Whether the KV cache is too small for it."""
        return self.cache >= FULL or self.preemptions > THROWN * self.captions


class Verdict(enum.Enum):
    """One setting beside another."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"


Judgement = tuple[Verdict, str]
"""And why, in a few words."""


def compare(new: Figures, old: Figures) -> Judgement:
    """Whether ``new`` is better than ``old``; see the head of this module."""
    if new.kept is not old.kept:
        if new.kept:
            return Verdict.BETTER, "it keeps up with the load"
        return Verdict.WORSE, "it does not keep up with the load"
    if not new.kept:
        if _above(new.made, old.made):
            return Verdict.BETTER, f"{new.made:.1f} captions a second, not {old.made:.1f}"
        if _above(old.made, new.made):
            return Verdict.WORSE, f"{new.made:.1f} captions a second, not {old.made:.1f}"
    tail = f"95 of 100 captions take {_ms(new.final.p95)}, not {_ms(old.final.p95)}"
    if _above(new.final.p95, old.final.p95, LEAST_S):
        return Verdict.WORSE, tail
    if _above(old.final.p95, new.final.p95, LEAST_S):
        return Verdict.BETTER, tail
    first = f"95 of 100 first texts take {_ms(new.first.p95)}, not {_ms(old.first.p95)}"
    if _above(new.first.p95, old.first.p95, LEAST_S):
        return Verdict.WORSE, first
    if _above(old.first.p95, new.first.p95, LEAST_S):
        return Verdict.BETTER, first
    if new.tight and not old.tight:
        return Verdict.WORSE, (
            f"it fills {new.cache:.0%} of the KV cache, and throws {new.preemptions} requests out"
        )
    slower = _above(new.token.p50, old.token.p50, LEAST_TOKEN_S)
    if slower and not _above(old.queue.p95, new.queue.p95, LEAST_S):
        return Verdict.WORSE, (
            f"a token takes {_ms(new.token.p50)}, not {_ms(old.token.p50)}, and nothing waits less"
        )
    return Verdict.SAME, "no difference"


def pooled(found: Sequence[Figures]) -> Figures:
    """Several measurements of one setting as one: of each figure the median (of two, the mean)."""
    if len(found) == 1:
        return found[0]

    def of(name: str) -> float:
        return float(median(getattr(one, name) for one in found))

    def spread(name: str) -> Spread:
        each = [getattr(one, name) for one in found]
        return Spread(*(median(getattr(one, at) for one in each) for at in ("p50", "p95", "p99")))

    return Figures(
        captions=round(of("captions")),
        lost=round(of("lost")),
        preemptions=round(of("preemptions")),
        growing=sum(one.growing for one in found) * 2 > len(found),
        final=spread("final"),
        first=spread("first"),
        queue=spread("queue"),
        token=spread("token"),
        **{name: of(name) for name in _PLAIN},
    )


_PLAIN = (
    *("seconds", "tokens", "made", "running", "waiting", "cache"),
    *("inside", "prefill", "batch", "late"),
)


def best(steps: Mapping[int, Figures], usual: int | None = None) -> int:
    """The value to recommend; ``usual`` instead of a smaller one where that is as good. See the
    head of this module. Raises `ValueError` where there are no steps."""
    if not steps:
        raise ValueError("No step could be measured.")
    left = {value: one for value, one in steps.items() if one.kept}
    if not left:
        most = max(one.made for one in steps.values())
        left = {value: one for value, one in steps.items() if not _above(most, one.made)}
    left = _least(left, lambda one: one.final.p95, LEAST_S)
    left = _least(left, lambda one: one.first.p95, LEAST_S)
    left = {value: one for value, one in left.items() if not one.tight} or left
    left = _least(left, lambda one: one.token.p50, LEAST_TOKEN_S)
    return usual if usual is not None and usual in left else min(left)


def _least(
    steps: dict[int, Figures], of: Callable[[Figures], float], least: float
) -> dict[int, Figures]:
    """The steps in which a figure is as small as anywhere."""
    lowest = min(map(of, steps.values()))
    return {value: one for value, one in steps.items() if not _above(of(one), lowest, least)}


class Ladder:
    """The steps of one setting, in the order in which they are to be taken.

    :param values: in the order to try them
    :param usual: what is used where no other value is better; None: the first
    :param known: what is known of ``usual`` already; it counts as measured often enough
    :param places: the values are jobs at once, so that a larger one is of no use where it is not
        filled
    """

    def __init__(
        self,
        values: Sequence[int],
        *,
        usual: int | None = None,
        known: Sequence[Figures] = (),
        places: bool = False,
    ) -> None:
        self.found: dict[int, list[Figures]] = {}
        """What was measured, by value."""
        self.stopped = ""
        """Why it went no further."""
        self._values = values
        self._usual = usual
        self._places = places
        self._failed: dict[int, str] = {}
        if usual is not None and known:
            self.found[usual] = list(known)

    @property
    def steps(self) -> dict[int, Figures]:
        """What is known of each value that was measured."""
        return {value: pooled(found) for value, found in self.found.items()}

    @property
    def best(self) -> int:
        """The value to recommend. Raises `ValueError` where none was measured."""
        return best(self.steps, self._usual)

    @property
    def verdicts(self) -> dict[int, str]:
        """What each value was, beside the best before it."""
        told = dict(self._failed)
        before, steps = self._known(), self.steps
        for value in self._values:
            if value in steps:
                told[value] = "first step"
                if before:
                    verdict, why = compare(steps[value], before[best(before, self._usual)])
                    told[value] = f"{verdict.value}: {why}"
                before[value] = steps[value]
        return told

    def __iter__(self) -> Iterator[int]:
        """The values to measure one after the other, each to be told by `tell` before the next."""
        while (value := self._next()) is not None:
            yield value

    def skip(self, value: int, why: str) -> None:
        """A value cannot be used, or not again."""
        self._failed[value] = why

    def tell(self, value: int, figures: Figures) -> None:
        """A step was measured."""
        self.found.setdefault(value, []).append(figures)

    def _next(self) -> int | None:
        """What is to be measured next, by all that is known now: a step that is measured again can
        turn out to have been no reason to stop."""
        self.stopped = "There are no more steps."
        before, steps = self._known(), self.steps
        for value in self._values:
            if value in self._failed and value not in steps:
                continue
            if value not in steps:
                return value
            here = steps[value]
            if before:
                other = best(before, self._usual)
                verdict, why = compare(here, before[other])
                if verdict is Verdict.WORSE:
                    if self._doubtful(value):
                        return value
                    self.stopped = f"{value} is worse than {other}: {why}."
                    break
            if self._places and here.kept and here.running < value:
                self.stopped = f"There were never more than {here.running:.0f} jobs at once."
                break
            before[value] = here
        return self.best if self.found and self._doubtful(self.best) else None

    def _doubtful(self, value: int) -> bool:
        """Whether it has to be measured again."""
        return len(self.found[value]) < ENOUGH and value not in self._failed

    def _known(self) -> dict[int, Figures]:
        """The usual value, where it was measured before and is not tried here."""
        usual = self._usual
        if usual is None or usual in self._values or usual not in self.found:
            return {}
        return {usual: pooled(self.found[usual])}


def reason(name: str, steps: Mapping[int, Figures], value: int) -> list[str]:
    """Why this value of a setting, in sentences."""
    here = steps[value]
    told = []
    if not here.kept:
        told.append(
            f"No {name} keeps up with this load: {value} makes {here.made:.1f} captions a second of"
            f" the {here.captions / here.seconds:.1f} that are asked for, the most there are."
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
            told.append(f"{other} is {_WORDS[verdict]}: {why}{_because(why, steps[other], here)}.")
    return told


_WORDS = {
    Verdict.BETTER: "better in one figure and not in those that come before it",
    Verdict.SAME: "as good",
    Verdict.WORSE: "worse",
}


def _because(why: str, other: Figures, here: Figures) -> str:
    """What lies behind it: waiting for a place, or waiting for each token."""
    causes = []
    if _above(other.queue.p95, here.queue.p95, LEAST_S):
        causes.append(
            f"jobs wait {_ms(other.queue.p95)} for a place instead of {_ms(here.queue.p95)}"
        )
    if "token" not in why and _above(other.token.p50, here.token.p50, LEAST_TOKEN_S):
        causes.append(f"a token takes {_ms(other.token.p50)} instead of {_ms(here.token.p50)}")
    return f" ({' and '.join(causes)})" if causes else ""


def rises(waits: Sequence[float]) -> bool:
    """Whether waits, in the order of their ends, grow without an end in sight: in the last third
    they are more than twice those of the first (three times, where half as much is made as is asked
    for), and long at all."""
    third = len(waits) // 3
    if third < RISING // 3:
        return False
    return median(waits[-third:]) > max(RISEN_S, 2 * median(waits[:third]))


RISEN_S = 0.25
"""Seconds of waiting below which no queue is too long."""

RISING = 12
"""Waits below which they tell nothing of where they go."""


def _above(one: float, other: float, least: float = 0.0) -> bool:
    """Whether a figure is larger by more than chance makes it."""
    return one > other * (1 + MARGIN) + least


def _ms(seconds: float) -> str:
    if seconds >= 10:
        return f"{seconds:.1f} s"
    ms = 1000 * seconds
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms"
