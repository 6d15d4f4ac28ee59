"""The time that text waits for more of itself, so that one write carries both.

Owns: this time, as it follows from the load of the process. Must not know: clocks, engines,
sockets, texts.

A token that is shown by itself costs as much as ten that are shown together, and no reader sees the
difference. While the process has time, each token is shown when it comes. If it has not, tokens
wait for each other in any case, so they are better shown together.
"""

from __future__ import annotations

BUSY = 0.5
"""Share of the thread's time in use above which text waits."""
FULL = 0.9
"""Share at which text waits longest."""
CALM = 0.4
"""Share below which text waits no more; lower than `BUSY`, so that the decision does not flap."""
SHORTEST_S = 0.02
"""Seconds that text waits at least, if it waits: a shorter time would gather next to nothing."""
RATE = 1_000.0
"""Chunks a second below which text never waits. A thread that is busy with fewer is busy with
something else, such as a large transcript, and waiting would not help."""


class Coalescing:
    """The decision, renewed about once a second.

    Time that waiting saves must not look like a low load. So the load is computed from the cost of
    chunks that are shown each by itself, which was measured before text began to wait.

    :param longest: seconds that text may wait at most; 0: it never waits
    """

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.interval = 0.0
        """Seconds that text waits for more of itself."""
        self._cost = 0.0  # of a chunk shown by itself: seconds, with all other work

    def poll(self, share: float, rate: float) -> None:
        """Decide anew.

        :param share: part of the last second (0 to 1) in which the thread was at work
        :param rate: chunks a second that came
        """
        if rate < RATE:
            self.interval = 0.0
            return
        if not self.interval:
            self._cost = share / rate
        load = max(share, self._cost * rate)
        if load < (CALM if self.interval else BUSY):
            self.interval = 0.0
            return
        above = min(1.0, max(0.0, (load - BUSY) / (FULL - BUSY)))
        shortest = min(SHORTEST_S, self.longest)
        self.interval = shortest + above * (self.longest - shortest)
