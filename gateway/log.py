"""What a room has decided, in order.

Owns: sequence numbers and how far back they can be replayed. Must not know: who reads, encodings.

Bound: `Limits.log` events and `Limits.log_bytes`; the oldest go first. A reader who asks for more
than is left is told so, and never given a part as the whole.
"""

from __future__ import annotations

from collections import deque
from itertools import chain

from gateway.limits import Limits
from gateway.messages import Cancelled, Failed, Final, Settings, Source

Durable = Source | Final | Failed | Cancelled | Settings
"""Events that carry a ``seq``."""

EVENT_BYTES = 256
"""What an event costs beside its text, roughly."""


class Log:
    """The durable events of one room. ``epoch`` names this history: another one begins anew."""

    __slots__ = ("_bytes", "_events", "_limits", "epoch", "seq")

    def __init__(self, epoch: str, limits: Limits) -> None:
        self.epoch = epoch
        self.seq = 0
        self._limits = limits
        self._events: deque[tuple[Durable, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def next(self) -> int:
        """The number of the event that is about to be appended."""
        self.seq += 1
        return self.seq

    def append(self, event: Durable) -> None:
        """Keep an event that has the newest number."""
        assert event.seq == self.seq, "an event was numbered and not appended"
        cost = _cost(event)
        self._events.append((event, cost))
        self._bytes += cost
        while len(self._events) > self._limits.log or self._bytes > self._limits.log_bytes:
            self._bytes -= self._events.popleft()[1]

    def since(self, seq: int) -> list[Durable] | None:
        """The events after ``seq``, or None where the log does not reach back so far."""
        first = self.seq - len(self._events) + 1
        if seq > self.seq or seq < first - 1:
            return None
        return [event for event, _ in self._events][seq - first + 1 :]


def _cost(event: Durable) -> int:
    match event:
        case Source() | Final():
            return EVENT_BYTES + len(event.text)
        case Settings():
            terms = (event.glossary or {}).items()
            return EVENT_BYTES + len(event.context or "") + sum(map(len, chain(*terms)))
        case _:
            return EVENT_BYTES
