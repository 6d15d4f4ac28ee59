"""Alarms of rooms: one timer for each.

Owns: the timers. Must not know: rooms, and why they set an alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarms:
    """Timers by the name of a room.

    :param ring: called with the name when a timer ends; the room may be gone by then
    :param now: clock, in seconds
    """

    def __init__(self, ring: Callable[[str], None], now: Callable[[], float]) -> None:
        self.timers: dict[str, asyncio.TimerHandle] = {}
        self._ring = ring
        self._now = now

    def set(self, name: str, when: float) -> None:
        """Set the alarm of a room to a time; an earlier setting no longer counts."""
        if name in self.timers:
            self.timers[name].cancel()
        delay = max(0.0, when - self._now())
        self.timers[name] = asyncio.get_running_loop().call_later(delay, self._end, name)

    def _end(self, name: str) -> None:
        del self.timers[name]
        self._ring(name)
