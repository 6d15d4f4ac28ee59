"""How long text may wait for more of itself, so that one write carries both.

Owns: from how busy the process is to that time. Must not know: clocks, engines, sockets, what text.

A token that is shown by itself costs as much as ten that are shown together, and nobody can read
the difference. While there is time for it each is shown when it comes. Where there is not, tokens
would wait for each other anyway, in no order: then it is better that they are put together.
"""

from __future__ import annotations

BUSY = 0.5
"""Share of the thread's time from which on text waits; there is as much left as is used."""
FULL = 0.9
"""Share at which it waits longest."""
CALM = 0.4
"""Share below which it waits no more: less than `BUSY`, or it would begin anew in the next look."""
SHORTEST_S = 0.02
"""Seconds that it waits at least, where it waits at all: less would gather next to nothing."""
RATE = 1_000.0
"""Chunks a second below which text never waits. A thread that is busy with so few is busy with
something else, which waiting would not make less: a test under load, a large transcript."""


class Coalescing:
    """Decides from what was measured, look by look; they are about a second apart.

    What waiting saves must not be taken for calm. So it reckons with what the chunks would cost if
    each was shown by itself, which it knows from before.

    :param longest: seconds that text may wait at most; 0: it never does
    """

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.interval = 0.0
        """Seconds that text waits for more of itself."""
        self._cost = 0.0  # of one chunk shown by itself: seconds, other work included

    def look(self, share: float, rate: float) -> None:
        """Take in the last second: the share of it (0 to 1) that the thread was at work, and the
        chunks a second that came."""
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
