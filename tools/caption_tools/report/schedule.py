"""Send times of an open loop, which do not wait for answers.

Owns: arrivals at a rate. Must not know: clocks, what is sent. Randomness is passed in, so that the
same seed makes the same schedule.

In a closed loop the next request waits for the last answer. A server that stops for a second then
gets no requests in that second, and the delay counts once instead of for all that would have come
(coordinated omission). Here every latency counts from the moment at which the request was due.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol

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
