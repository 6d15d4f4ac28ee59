"""Whether the engine keeps up, and whom it still serves where it does not.

Owns: the verdict that there is too much to do, and the seats of those rooms that are served then.
Must not know: jobs' texts, the queue, who asks. It is told what finals were asked for, begun and
made, and asked by those who want to say something new.

That a queue is long says little: a sentence into ten languages is ten jobs at once. That it does
not become empty does (Nichols and Jacobson, "Controlling Queue Delay", 2012), so the least wait of
an interval counts, together with the time that finals take. Both are measured against how long
they took while there was little else to do: that is learnt all the time, for each byte of text.

There is too much to do where a final takes so much longer than that. Then, in this order:

1. Partials are left out: most of the work, and nothing that is not said again in the final.
2. Rooms that nobody has spoken in of late wait for a seat.
3. Where that is not enough, seats are taken away: from the tenant that has most of them, the newest
   first, as many as the engine is short of. They are given back slowly.

One room by itself is never too much: nobody else is served worse for it.
"""

from __future__ import annotations

import math
from collections import Counter

INTERVAL = 1.0
"""Seconds between two looks: some captions, on any engine that can caption a meeting."""

SEAT_S = 30.0
"""Seconds that a room keeps its seat while nothing new is said in it: a pause for thought."""

SETTLE = 1.0
"""Seconds that a measure is given to show before the next one, at least: two captions take more."""

SPARE = 0.85
"""Share of what the engine makes at its busiest that is given out: with all of it a queue stays."""

CALM = 5.0
"""Seconds without too much to do before somebody else gets a seat."""

HOLD = (10.0, 120.0)
"""Seconds in which nobody was refused before all is as usual again: at first, and at most. It
doubles each time that this was too early: the partials that come back are most of the work."""

BYTES = 40
"""What a job costs beside its text, as bytes of text: prompt and first token."""

SLOW, QUICK = 0.1, 0.2
"""Weights of a new measure: of how fast the engine is alone, and of how fast it is now."""

AT_LEAST = 0.25
"""Shortest time in seconds after which somebody who was refused is told to try again."""


class OverloadMonitor:
    """The finals of one engine. Times are in seconds, of a clock that only goes forward.

    :param stretch: times its unloaded duration that a final may take
    :param soon: seconds within which a final comes soon enough, however fast the engine could be
    """

    def __init__(self, stretch: float = 2.0, soon: float = 0.5) -> None:
        self.stretch = stretch
        self.soon = soon
        self.overloaded = False
        self.refused: Counter[str] = Counter()
        """Utterances that were not taken, for want of a place in the ``queue`` or of a ``seat``."""
        self._pace = 0.0  # seconds for each byte, alone
        self._known = 0  # finals that were alone
        self._run = 0.0  # of a final, lately; 0 before the first
        self._size = 0.0  # bytes of a final, lately
        self._running: dict[str, tuple[int, float, bool]] = {}
        self._least = math.inf  # shortest wait of this interval
        self._asked = self._made = 0  # finals in this interval
        self._rates = (0.0, 0.0)  # the same, lately
        self._looked = -math.inf
        self._seats: dict[str, tuple[str, float]] = {}  # (tenant, last spoke), in order of coming
        self._held: Counter[str] = Counter()  # seats of each tenant
        self._allowed = 0  # seats there are
        self._measured = 0.0  # when the last measure was taken
        self._hot = -math.inf  # when there was too much to do last
        self._denied = -math.inf  # when somebody was refused last
        self._grew = -math.inf
        self._wait = CALM
        self._hold = HOLD[0]
        self._left = -math.inf

    def __repr__(self) -> str:
        state = f"overloaded, {self._allowed} seats" if self.overloaded else "as usual"
        return f"<Load {state}, {len(self._seats)} rooms, {self._run:.3f} s a final>"

    @property
    def seats(self) -> int:
        """Rooms in which something new was said of late."""
        return len(self._seats)

    @property
    def alone(self) -> float:
        """Seconds that a final of the usual length takes with little else to do; 0: not known."""
        return self._pace * self._size

    # --- what is measured -----------------------------------------------------------------------

    def asked(self) -> None:
        """A final was asked for."""
        self._asked += 1

    def begun(self, id: str, size: int, waited: float, now: float, *, alone: bool) -> None:
        """The engine was given a final of ``size`` bytes, ``alone`` or among others."""
        self._least = min(self._least, waited)
        self._running[id] = (size + BYTES, now, alone)

    def made(self, id: str, now: float) -> None:
        """The engine has made a final."""
        size, since, alone = self._running.pop(id)
        seconds = now - since
        self._made += 1
        self._known += alone
        if alone:
            self._pace += max(SLOW, 1 / self._known) * (seconds / size - self._pace)
        elif not self._known:  # the better ones among the others will have to do
            gap = seconds / size - self._pace
            self._pace += gap * (1.0 if not self._pace else QUICK if gap < 0 else QUICK / 10)
        weight = QUICK if self._run else 1.0
        self._run += weight * (seconds - self._run)
        self._size += weight * (size - self._size)

    def dropped(self, id: str) -> None:
        """A job has ended; of one that was made this says nothing new."""
        self._running.pop(id, None)

    def renew(self) -> None:
        """Another engine does the work: how fast it is has to be learnt anew."""
        self._pace = self._run = self._size = 0.0
        self._known = 0

    # --- what follows from it -------------------------------------------------------------------

    def look(self, oldest: float, now: float) -> None:
        """Decide anew; ``oldest`` is how long the first of the waiting finals has waited."""
        if now - self._looked < INTERVAL:
            return
        self._looked = now
        hot = self._is_hot(oldest)
        asked, made = self._rates
        weight = 2 * QUICK
        self._rates = (
            asked + weight * (self._asked - asked),
            made + weight * (self._made - made),
        )
        for room, (_, spoke) in list(self._seats.items()):
            if now - spoke > SEAT_S:
                self.vacate(room)
        if hot:
            self._hot = now
            if not self.overloaded:
                self._enter(now)
            else:
                self._shrink(now)
        elif self.overloaded:
            self._relax(now)
        self._least, self._asked, self._made = math.inf, 0, 0

    def admit(
        self,
        room: str,
        tenant: str,
        waiting: int,
        capacity: int,
        now: float,
        *,
        behind: bool = False,
        kept: bool = False,
    ) -> float:
        """0 where something new may be said in a room, else seconds after which to try again.

        ``waiting`` are finals that the engine, with room for ``capacity`` jobs, was not given yet;
        ``behind`` that another room has more of them than this one would have: it is not to wait
        for a place that those who say most take again and again. ``kept``: the only free slot was
        kept for this tenant, so that what others have waiting does not matter.
        """
        ahead = waiting * self._run / max(1, capacity)
        others = len(self._seats) > (room in self._seats)
        late = not kept and ahead > max(self.soon, self.stretch * self.alone)
        if late and others and not self.overloaded:
            self._enter(now)  # more than a burst: this one would come too late already
            self._hot = now
        if self.overloaded and not kept:
            full = waiting >= max(1.0, 0.75 * (self.stretch - 1) * capacity) and not behind
            if full or not self._has_seat(room, tenant):
                self.refused["queue" if full else "seat"] += 1
                self._denied = now
                return max(AT_LEAST, ahead) if full else self._wait
        if room not in self._seats:
            self._held[tenant] += 1
        self._seats[room] = (self._seats.get(room, (tenant,))[0], now)
        return 0.0

    def full(self, queued: int, capacity: int, now: float) -> float:
        """There is no place in the queue at all: the seconds after which there may be."""
        self.refused["queue"] += 1
        self._denied = now
        return max(AT_LEAST, queued * self._run / max(1, capacity) / 2) if self._run else 1.0

    def vacate(self, room: str) -> None:
        """A room has ended, or gives up its seat."""
        if room in self._seats:
            tenant, _ = self._seats.pop(room)
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]

    # --- inside ---------------------------------------------------------------------------------

    def _is_hot(self, oldest: float) -> bool:
        """Whether finals take too long, and not only because many came at once."""
        idle = self._least == math.inf
        if (idle and not oldest) or not self._run or len(self._seats) < 2:
            return False
        total = (oldest if idle else self._least) + self._run
        return total > self.soon and total > (1 + self.stretch) / 2 * self.alone

    def _enter(self, now: float) -> None:
        if now - self._left < 3 * self._hold:
            self._hold = min(2 * self._hold, HOLD[1])
        else:
            self._hold = HOLD[0]
        self.overloaded = True
        self._allowed = max(1, len(self._seats))
        self._measured = now
        self._wait = CALM

    def _shrink(self, now: float) -> None:
        """Serve fewer rooms, unless the queue gets shorter by itself."""
        asked, made = self._rates
        if now - self._measured < max(SETTLE, 2 * self._run) or asked < 0.9 * made or not made:
            return
        self._measured = now
        if now - self._grew < 2 * CALM:  # it was one too many
            self._wait = min(2 * self._wait, HOLD[1])
            self._grew = -math.inf
        share = min(0.9, max(0.4, SPARE * made / asked))
        self._allowed = max(1, math.floor(share * min(self._allowed, max(1, len(self._seats)))))
        while len(self._seats) > self._allowed:
            self._take(self._greediest())

    def _relax(self, now: float) -> None:
        """Serve more again, little by little."""
        if now - max(self._denied, self._hot) >= self._hold:
            self.overloaded = False
            self._left = now
        elif now - self._hot >= self._wait and now - self._grew >= self._wait:
            self._grew = now
            self._allowed += max(1, self._allowed // 10)

    def _has_seat(self, room: str, tenant: str) -> bool:
        """Whether there is a seat for a room, if need be one of a tenant that has many more."""
        if room in self._seats or len(self._seats) < self._allowed:
            return True
        greediest = self._greediest()
        if self._held[greediest] <= self._held[tenant] + 1:
            return False
        self._take(greediest)
        return True

    def _greediest(self) -> str:
        """The tenant with most seats."""
        return max(self._held, key=self._held.__getitem__)

    def _take(self, tenant: str) -> None:
        """Take the newest seat of a tenant."""
        rooms = reversed(self._seats)
        self.vacate(next(room for room in rooms if self._seats[room][0] == tenant))
