"""Tuning of CPython's garbage collector, so that its pauses stay short.

Owns: when garbage is searched for, how long the pauses were, and which objects are left out. Must
not know: what is served.

Reference counts free nearly everything. The rest are cycles, and CPython finds those by visiting
every object that has survived before, of all sessions: a quarter of a second with five thousand of
them, during which no caption moves. Here, objects that have survived twice are *settled*: frozen,
so that no collection visits them again (`gc.freeze`). A connection that ends is freed all the same,
by its reference counts (``tests/end_to_end/test_garbage.py`` has all kinds of them). A cycle that
becomes garbage only after it was settled is found when everything is visited: while no session is
open, or at the latest when there are twice as many settled objects as there were after the last
time. Without cycles, only the growth of the gateway leads to that, a few times in its life.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

YOUNG = 250
"""New objects, less those freed, after which CPython visits the new ones. Several times as many
were created meanwhile."""
SETTLE = 4
"""Collections of new objects, after which all that survived them are visited once more and settled.
"""
NEVER = 1_000_000_000
"""Collections after which CPython itself would visit older objects: `SETTLE` comes before."""
THAW_S = 600.0
"""Seconds between two collections of everything, if no session is open."""
GROWTH = 2.0
"""Multiple of the objects that everything once was, at which everything is visited although
sessions are open, so that cycles which no test has found are bounded all the same."""
STEPS_S = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Upper bounds, in seconds, of the classes that pauses are counted in."""


class GarbageCollector:
    """The garbage collector of this process, while its block lasts. There may be one only.

    It needs a running event loop. Its end restores CPython's settings; settled objects stay frozen.

    :param idle: tells whether no session is open, so that a long pause disturbs nobody
    :param clock: seconds of CPU time; with wall-clock time a busy neighbour would count as a pause
    """

    def __init__(
        self, idle: Callable[[], bool], *, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.pauses = [0] * (len(STEPS_S) + 1)
        """Pauses by class of `STEPS_S`; the last element counts longer ones."""
        self.longest = 0.0  # seconds of the longest pause since everything was visited
        self.seconds = 0.0  # of all pauses together
        self.settled = 0  # times that survivors were settled
        self._idle = idle
        self._clock = clock
        self._begun = 0.0
        self._collections = 0  # since survivors were settled
        self._stale = False  # whether anything was settled since everything was visited
        self._least = gc.get_freeze_count()  # settled objects when everything was visited
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle
        self._thresholds: tuple[int, int, int]

    def __enter__(self) -> GarbageCollector:
        self._loop = asyncio.get_running_loop()
        self._thresholds = gc.get_threshold()
        gc.set_threshold(YOUNG, NEVER, NEVER)
        gc.callbacks.append(self._observe)
        self._timer = self._loop.call_later(THAW_S, self._thaw_if_due)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        gc.callbacks.remove(self._observe)
        gc.set_threshold(*self._thresholds)

    def thaw(self) -> None:
        """Visit everything and settle it. This takes as long as CPython's own full collection."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._least = gc.get_freeze_count()
        self._stale = False
        self.longest = 0.0

    def _observe(self, phase: str, info: dict[str, Any]) -> None:
        """Measure a collection. CPython calls this at its start and its end, in any thread."""
        if phase == "start":
            self._begun = self._clock()
            return
        taken = self._clock() - self._begun
        self.seconds += taken
        self.longest = max(self.longest, taken)
        self.pauses[sum(taken > step for step in STEPS_S)] += 1
        self._collections += 1
        if self._collections == SETTLE:  # not now: a collection cannot start within another
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        gc.collect(1)
        gc.freeze()
        self._collections = 0
        self.settled += 1
        self._stale = True

    def _thaw_if_due(self) -> None:
        self._timer = self._loop.call_later(THAW_S, self._thaw_if_due)
        grown = gc.get_freeze_count() > GROWTH * self._least
        if self._stale and (self._idle() or grown):
            self.thaw()
