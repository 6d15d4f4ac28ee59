"""Overload of the engine, and the rooms that are still served during it.

Owns: the decision that the engine is overloaded, and the seats of the rooms that are served then.
Must not know: jobs' texts, the queue, who asks. ``docs/design/overload.md`` explains the rule.

The least wait of an interval, since a queue that never becomes empty is a sign of overload (Nichols
and Jacobson, "Controlling Queue Delay", 2012), and the time that finals take are compared with the
time that finals took while the engine had little else to do. If a final takes much longer:

1. Partials are left out: they are most of the work, and the final says all of it again.
2. Rooms in which nobody has spoken lately wait for a seat.
3. If that is not enough, seats are taken away: from the tenant that has most of them, the newest
   first, as many as the engine is short of. They are given back slowly.

A single room is never an overload: no other room is served worse because of it.
"""

from __future__ import annotations

import math
from collections import Counter

INTERVAL = 1.0
"""Seconds between two decisions: some captions, on any engine that can caption a meeting."""

SEAT_S = 30.0
"""Seconds that a room keeps its seat while nothing new is said in it: a pause for thought."""

SETTLE = 1.0
"""Least seconds between two measures, so that the first shows: two captions take longer."""

SPARE = 0.85
"""Share of the engine's highest rate that is given out: with all of it the queue would stay."""

CALM = 5.0
"""Seconds without overload before another room gets a seat."""

HOLD = (10.0, 120.0)
"""Seconds without a refusal before the overload ends: at first, and at most. The time doubles
whenever it was too short, since the partials that return are most of the work."""

BYTES = 40
"""Cost of a job beside its text, as bytes of text: prompt and first token."""

SLOW, QUICK = 0.1, 0.2
"""Weights of a new measurement: of the engine's speed alone, and of its speed now."""

AT_LEAST = 0.25
"""Least seconds after which a refused client is told to try again."""


class OverloadMonitor:
    """The finals of one engine. Times are in seconds, of a clock that only goes forward.

    :param stretch: factor by which a final may take longer than without load
    :param soon: seconds within which a final is soon enough, however fast the engine could be
    """

    def __init__(self, stretch: float = 2.0, soon: float = 0.5) -> None:
        self.stretch = stretch
        self.soon = soon
        self.overloaded = False
        self.refused: Counter[str] = Counter()
        """Utterances that were refused because the ``queue`` was full or there was no ``seat``."""
        self._pace = 0.0  # seconds for each byte, alone
        self._known = 0  # finals that were alone
        self._run = 0.0  # of a final, lately; 0 before the first
        self._size = 0.0  # bytes of a final, lately
        self._running: dict[str, tuple[int, float, bool]] = {}
        self._least = math.inf  # shortest wait of this interval
        self.asked = self._made = 0  # finals in this interval
        self._rates = (0.0, 0.0)  # the same, lately
        self._polled = -math.inf
        # Tenant and time of the last utterance of each room, the longest served first.
        self._seats: dict[str, tuple[str, float]] = {}
        self._seats_held: Counter[str] = Counter()  # seats of each tenant
        self._allowed = 0  # rooms that may have a seat
        self._measured = 0.0  # time of the last measure against overload
        self._late_at = -math.inf  # time at which finals took too long last
        self._refused_at = -math.inf  # time of the last refusal
        self._grown_at = -math.inf
        self._wait = CALM
        self._hold = HOLD[0]
        self._ended_at = -math.inf

    @property
    def rooms(self) -> int:
        """Number of rooms in which something new was said lately."""
        return len(self._seats)

    @property
    def alone(self) -> float:
        """Seconds that a final of the usual length takes without load; 0 if unknown."""
        return self._pace * self._size

    # --- measurements ---------------------------------------------------------------------------

    def begun(self, id: str, size: int, waited: float, now: float, *, alone: bool) -> None:
        """Note that the engine was given a final of ``size`` bytes, as its only job or not."""
        self._least = min(self._least, waited)
        self._running[id] = (size + BYTES, now, alone)

    def made(self, id: str, now: float) -> None:
        """Note that the engine has made a final."""
        size, since, alone = self._running.pop(id)
        seconds = now - since
        self._made += 1
        # The first measurements weigh most, later ones change the estimate slowly.
        self._known += alone
        if alone:
            self._pace += max(SLOW, 1 / self._known) * (seconds / size - self._pace)
        elif not self._known:  # no final was alone yet, so the fastest of the others have to do
            gap = seconds / size - self._pace
            self._pace += gap * (1.0 if not self._pace else QUICK if gap < 0 else QUICK / 10)
        # The first final is all that is known.
        weight = QUICK if self._run else 1.0
        self._run += weight * (seconds - self._run)
        self._size += weight * (size - self._size)

    def dropped(self, id: str) -> None:
        """Forget a job that has ended; after `made` this changes nothing."""
        self._running.pop(id, None)

    def renew(self) -> None:
        """Measure from the beginning, because another engine does the work."""
        self._pace = self._run = self._size = 0.0
        self._known = 0

    # --- decisions ------------------------------------------------------------------------------

    def poll(self, oldest: float, now: float) -> None:
        """Decide anew. The first of the waiting finals has waited for ``oldest`` seconds."""
        # Called with every event, but a decision needs some finals.
        if now - self._polled < INTERVAL:
            return
        self._polled = now
        late = self._is_late(oldest)
        asked, made = self._rates
        weight = 2 * QUICK
        self._rates = (asked + weight * (self.asked - asked), made + weight * (self._made - made))
        # A room in which nobody speaks leaves its seat to another.
        for room, (_, spoke) in list(self._seats.items()):
            if now - spoke > SEAT_S:
                self.vacate(room)
        if late:
            self._late_at = now
            if not self.overloaded:
                self._enter(now)
            else:
                self._shrink(now)
        elif self.overloaded:
            self._relax(now)
        self._least, self.asked, self._made = math.inf, 0, 0

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
        """Return 0 if a new utterance is admitted in a room, else seconds after which to try again.

        :param waiting: finals that the engine was not given yet
        :param capacity: jobs that the engine takes at once
        :param behind: whether another room has more finals waiting than this one would have; then
            this room is not refused, since the others would fill the queue
        :param kept: whether the only free slot was kept for this tenant
        """
        ahead = waiting * self._run / max(1, capacity)
        others = len(self._seats) > (room in self._seats)
        late = not kept and ahead > max(self.soon, self.stretch * self.alone)
        if late and others and not self.overloaded:
            self._enter(now)  # more than a burst: this final would be late already
            self._late_at = now
        if self.overloaded and not kept:
            full = waiting >= max(1.0, 0.75 * (self.stretch - 1) * capacity) and not behind
            if full or not self._find_seat(room, tenant):
                self.refused["queue" if full else "seat"] += 1
                self._refused_at = now
                return max(AT_LEAST, ahead) if full else self._wait
        # Counted for the tenant that opened the room, even if another one speaks in it now.
        if room not in self._seats:
            self._seats_held[tenant] += 1
        self._seats[room] = (self._seats.get(room, (tenant,))[0], now)
        return 0.0

    def full(self, queued: int, capacity: int, now: float) -> float:
        """Count a refusal because the queue is full; return seconds after which to try again."""
        self.refused["queue"] += 1
        self._refused_at = now
        return max(AT_LEAST, queued * self._run / max(1, capacity) / 2) if self._run else 1.0

    def vacate(self, room: str) -> None:
        """Free the seat of a room, if it has one."""
        if room in self._seats:
            tenant, _ = self._seats.pop(room)
            self._seats_held[tenant] -= 1
            if not self._seats_held[tenant]:
                del self._seats_held[tenant]

    # --- inside ---------------------------------------------------------------------------------

    def _is_late(self, oldest: float) -> bool:
        """Tell whether finals take too long, and not only because many came at once."""
        idle = self._least == math.inf
        # A single room waits for nobody but itself, which is no overload.
        if (idle and not oldest) or not self._run or len(self._seats) < 2:
            return False
        total = (oldest if idle else self._least) + self._run
        return total > self.soon and total > (1 + self.stretch) / 2 * self.alone

    def _enter(self, now: float) -> None:
        # It came back soon, so the last hold was too short.
        if now - self._ended_at < 3 * self._hold:
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
        if now - self._grown_at < 2 * CALM:  # the seat given back last was one too many
            self._wait = min(2 * self._wait, HOLD[1])
            self._grown_at = -math.inf
        # At least a tenth goes, so that it helps, and at most six tenths at once.
        share = min(0.9, max(0.4, SPARE * made / asked))
        self._allowed = max(1, math.floor(share * min(self._allowed, max(1, len(self._seats)))))
        while len(self._seats) > self._allowed:
            self._free_newest(self._largest_tenant())

    def _relax(self, now: float) -> None:
        if now - max(self._refused_at, self._late_at) >= self._hold:
            self.overloaded = False
            self._ended_at = now
        elif now - self._late_at >= self._wait and now - self._grown_at >= self._wait:
            self._grown_at = now
            self._allowed += max(1, self._allowed // 10)

    def _find_seat(self, room: str, tenant: str) -> bool:
        """Tell whether a room has or gets a seat, if need be that of a tenant with many more."""
        if room in self._seats or len(self._seats) < self._allowed:
            return True
        largest = self._largest_tenant()
        if self._seats_held[largest] <= self._seats_held[tenant] + 1:
            return False
        self._free_newest(largest)
        return True

    def _largest_tenant(self) -> str:
        return max(self._seats_held, key=self._seats_held.__getitem__)

    def _free_newest(self, tenant: str) -> None:
        rooms = reversed(self._seats)
        self.vacate(next(room for room in rooms if self._seats[room][0] == tenant))
