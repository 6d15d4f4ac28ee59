"""When an open loop sends: times that do not wait for answers.

Owns: arrivals at a rate, and how late they were kept. Must not know: clocks, what is sent. Chance
is passed in: the same draws make the same schedule.

In a closed loop the next request waits for the last answer, so a server that stops for a second is
asked nothing in that second, and the delay counts once instead of for all who would have come
(coordinated omission). Here every latency counts from the moment at which the request was due, and
a generator that could not keep to that says so by its `SendDelay`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from gateway.cli.report.stats import Histogram

Arrivals = Literal["poisson", "fixed"]
"""``poisson``: independent callers, with the bunches and gaps they make; ``fixed``: even steps."""


class ArrivalRandom(Protocol):
    """Chance, as `random.Random` has it."""

    def random(self) -> float: ...


def arrivals(rate: float, seconds: float, kind: Arrivals, draw: ArrivalRandom) -> Iterator[float]:
    """The seconds, from 0 up to ``seconds``, at which ``rate`` a second on average are due.

    Raises `ValueError` for a rate that is not above 0.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"A rate has to be above 0, not {rate}.")
    at, number = 0.0, 0
    while True:
        if kind == "poisson":
            at -= math.log(1 - draw.random()) / rate
        else:
            at = number / rate  # no sum of steps, whose errors would add up
        if at >= seconds:
            return
        yield at
        number += 1


class SendDelay(msgspec.Struct):
    """How much later than due things were sent: the measure of the generator itself."""

    late: Histogram = msgspec.field(default_factory=Histogram)

    def sent(self, due: float, now: float) -> float:
        """Something due was sent now; how late that was, in seconds."""
        late = max(0.0, now - due)
        self.late.add(late)
        return late

    def verdict(self, bound: float, share: float = 0.01) -> str | None:
        """Why the times are not to be believed: more than ``share`` was sent over ``bound`` s late;
        None where they are."""
        over = 1 - self.late.within(bound)
        if over <= share:
            return None
        return (
            f"{over:.1%} of the sends were more than {1000 * bound:g} ms late"
            f" (most {1000 * self.late.high:.0f} ms): the client or its machine was too slow."
        )
