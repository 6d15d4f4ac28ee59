"""Time between two attempts of a client to connect.

Must not know: sockets, clocks, random numbers.
"""

BASE_S = 0.25
"""Maximum seconds before the first attempt. The maximum doubles with each attempt."""
CAP_S = 15.0
"""Maximum seconds before any attempt."""
STABLE_S = 5.0
"""Seconds after which a connection counts as stable, so that the back-off starts again."""


def backoff(tries: int, chance: float) -> float:
    """Return the seconds to wait after ``tries`` attempts; ``chance`` is from 0 to 1.

    Full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015): clients of one
    gateway do not reconnect all at once.
    """
    return chance * min(CAP_S, BASE_S * 2.0 ** min(tries, 64))
