"""The announcements of who is in a room.

Owns: when ``presence`` is sent. Must not know: who comes and goes, and why.
"""

from __future__ import annotations

from gateway.core.members.subscribers import Subscribers
from gateway.core.scheduling.timer import RoomTimer
from gateway.protocol.codec import Envelope


class PresenceAnnouncer:
    """The announcements of one room, a little after each change: many may come at once.

    :param delay: seconds from a change to its announcement
    """

    def __init__(self, subscribers: Subscribers, timer: RoomTimer, delay: float) -> None:
        self._subscribers = subscribers
        self._timer = timer
        self._delay = delay
        self._announced = False
        self._due: float | None = None

    def changed(self, now: float) -> None:
        """Announce later who is there."""
        # A member that is alone need not be told so, unless it was told of others.
        together = len(self._subscribers.members) > 1
        if together or self._announced:
            self._announced = together
            if self._due is None:
                self._due = now + self._delay
                self._timer.at(self._due)

    def on_timer(self, now: float) -> None:
        """Send the announcement that is due."""
        if self._due is None:
            return
        if self._due <= now:
            self._due = None
            self._subscribers.tell(Envelope(self._subscribers.presence()), None, now)
        else:
            self._timer.at(self._due)
