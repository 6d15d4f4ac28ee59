"""The one timer of a room.

Owns: the earliest time at which the room has something to do. Must not know: clocks, tasks, what is
due then.
"""

from __future__ import annotations

from collections.abc import Callable


class RoomTimer:
    """A timer that keeps the earliest of the times that it is asked for.

    :param set_timer: called with the time at which `Room.on_timer` is to be called next
    """

    def __init__(self, set_timer: Callable[[float], None]) -> None:
        self._set_timer = set_timer
        self._due: float | None = None

    def at(self, when: float) -> None:
        """Ask for a call of `Room.on_timer` at ``when`` or earlier."""
        if self._due is None or when < self._due:
            self._due = when
            self._set_timer(when)

    def expired(self) -> None:
        """Note that the timer has gone off; the next call of `at` sets it again."""
        self._due = None
