"""CPython's garbage collector, told to take small bites.

Owns: when garbage is looked for, how long that stopped everything, and what is left out of it. Must
not know: what is served.

References alone free nearly all there is. What is left are cycles, and CPython finds those by going
through every object that has survived before, of all sessions: a quarter of a second with five
thousand, in which no caption moves. Here what has survived twice is *settled*: frozen, so that no
collection looks at it again (`gc.freeze`). A session that ends is freed all the same, by its
references (``tests/end_to_end/test_memory.py``); a cycle that falls apart only after it was settled
is found when nobody is there, since then everything is looked through."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

YOUNG = 250
"""Objects more than at the last look, after which those that have come are looked through. Others
have gone meanwhile, so that several times as many have come."""
SETTLE = 4
"""Looks at what has come, after which all that survived them is looked through once more and
settled."""
NEVER = 1_000_000_000
"""Looks after which CPython itself would go further: `SETTLE` comes before."""
THAW_S = 600.0
"""Seconds between two times that everything is looked through, if nobody is there."""
STEPS_S = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Pauses are counted up to each of these."""


class GarbageCollector:
    """The collector of this process, from `start` to `stop`; there is one such at a time.

    :param idle: whether nobody is there whom a pause would disturb
    :param clock: of the CPU, or a busy neighbour would be taken for garbage
    """

    def __init__(
        self, idle: Callable[[], bool], *, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self.pauses = [0] * (len(STEPS_S) + 1)
        """How many took at most as long as each of `STEPS_S`, and longer than the one before."""
        self.longest = 0.0
        """Seconds of the longest pause since everything was looked through."""
        self.seconds = 0.0
        """Of all pauses."""
        self.settled = 0
        """How often what survived was settled."""
        self._idle = idle
        self._clock = clock
        self._begun = 0.0
        self._looks = 0
        self._stale = False  # whether something was settled since everything was looked through
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle
        self._before: tuple[int, int, int]

    def start(self) -> None:
        """Take over, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold()
        gc.set_threshold(YOUNG, NEVER, NEVER)
        gc.callbacks.append(self._watch)
        self._timer = self._loop.call_later(THAW_S, self._look)

    def stop(self) -> None:
        """Leave the rest to CPython again. What was settled stays so."""
        self._timer.cancel()
        gc.callbacks.remove(self._watch)
        gc.set_threshold(*self._before)

    def thaw(self) -> None:
        """Look through everything, and settle it. Takes as long as CPython's own collections."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._stale = False
        self.longest = 0.0

    def _watch(self, phase: str, info: dict[str, Any]) -> None:
        """CPython begins or ends a collection, in whatever thread it was due."""
        if phase == "start":
            self._begun = self._clock()
            return
        taken = self._clock() - self._begun
        self.seconds += taken
        self.longest = max(self.longest, taken)
        self.pauses[sum(taken > step for step in STEPS_S)] += 1
        self._looks += 1
        if self._looks == SETTLE:  # not here: while one collection runs there is no other
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        gc.collect(1)
        gc.freeze()
        self._looks = 0
        self.settled += 1
        self._stale = True

    def _look(self) -> None:
        self._timer = self._loop.call_later(THAW_S, self._look)
        if self._stale and self._idle():
            self.thaw()
