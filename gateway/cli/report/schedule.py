"""Send times of an open loop, which do not wait for answers.

Owns: arrivals at a rate, and how late sends were. Must not know: clocks, what is sent. Randomness
is passed in: the same seed makes the same schedule.

In a closed loop the next request waits for the last answer. A server that stops for a second then
gets no requests in that second, and the delay counts once instead of for all that would have come
(coordinated omission). Here every latency counts from the moment at which the request was due, and
`SendDelay` tells whether the generator kept its schedule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from gateway.cli.report.stats import Histogram

Arrivals = Literal["poisson", "fixed"]
"""``poisson``: independent callers, with their bunches and gaps; ``fixed``: equal steps."""


class ArrivalRandom(Protocol):
    """The part of `random.Random` that is used."""

    def random(self) -> float: ...


def arrivals(rate: float, seconds: float, kind: Arrivals, draw: ArrivalRandom) -> Iterator[float]:
    """Yield the due times, in seconds below ``seconds``, of ``rate`` arrivals a second.

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
    """The delay between due and sent: the measure of the generator itself."""

    late: Histogram = msgspec.field(default_factory=Histogram)

    def sent(self, due: float, now: float) -> float:
        """Count something that was due and is sent now. Return the delay in seconds."""
        late = max(0.0, now - due)
        self.late.add(late)
        return late

    def verdict(self, bound: float, share: float = 0.01) -> str | None:
        """Return why latencies are not valid, or None if they are.

        They are not if more than ``share`` of the sends were over ``bound`` seconds late.
        """
        over = 1 - self.late.within(bound)
        if over <= share:
            return None
        return (
            f"{over:.1%} of the sends were more than {1000 * bound:g} ms late"
            f" (most {1000 * self.late.high:.0f} ms): the client or its machine was too slow."
        )
