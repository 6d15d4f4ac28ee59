"""The time that text waits for more of itself, so that one write carries both.

Owns: this time, as it follows from the load of the process. Must not know: clocks, engines,
sockets, texts.

A token that is shown by itself costs as much as ten that are shown together, and no reader sees the
difference. While the process has time, each token is shown when it comes.
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


MERGED = 0.3
"""Cost of a chunk that is shown together with the one before, as a share of the cost of one that is
shown by itself. Measured with the scripted engine: 17 to 21 us a chunk without waiting, 8 to 10
with 70 to 80 % of the chunks merged."""
TRIES = 5
"""Decisions in a row with a load between `CALM` and `BUSY` after which text no longer waits. The
estimate is too high if the thread does much other work, and only chunks that do not wait show
that."""


class Coalescing:
    """The decision, renewed about once a second.

    Time that waiting saves must not look like a low load. So the load is the share of the thread's
    time that the chunks of the last second would have taken if each had been shown by itself.

    :param longest: seconds that text may wait at most; 0: it never waits
    """

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.interval = 0.0
        """Seconds that text waits for more of itself."""
        self._calmer = 0  # decisions in a row below `BUSY` while text waited

    def poll(self, share: float, rate: float, merged: float) -> None:
        """Decide anew, by the last second: the share of it in which the thread was at work, the
        chunks that came, and the part of them that was shown together with the chunk before.
        """
        load = share / (1 - merged * (1 - MERGED))
        self._calmer = self._calmer + 1 if self.interval and load < BUSY else 0
        bound = CALM if 0 < self._calmer < TRIES else BUSY
        if rate < RATE or load < bound:
            self.interval = 0.0
            return
        above = min(1.0, max(0.0, (load - BUSY) / (FULL - BUSY)))
        shortest = min(SHORTEST_S, self.longest)
        self.interval = shortest + above * (self.longest - shortest)
