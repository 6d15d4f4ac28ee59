"""Time between two attempts of a client to connect.

Must not know: sockets, clocks, random numbers.
"""

from __future__ import annotations

from collections.abc import Callable

BASE_S = 0.25
"""Maximum seconds before the first attempt. The maximum doubles with each attempt."""
CAP_S = 15.0
"""Maximum seconds before any attempt."""
STABLE_S = 5.0
"""Seconds after which a connection counts as stable, so that the back-off starts again."""


class Backoff:
    """Exponential back-off with full jitter, so that clients of one gateway do not reconnect all at
    once.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    :param chance: returns random numbers, uniformly from 0 to 1
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._tries = 0

    def wait(self) -> float:
        """Return the seconds to wait before the next attempt."""
        bound = min(CAP_S, BASE_S * 2.0 ** min(self._tries, 64))
        self._tries += 1
        return self._chance() * bound

    def reset(self) -> None:
        """Start again, after a stable connection."""
        self._tries = 0
