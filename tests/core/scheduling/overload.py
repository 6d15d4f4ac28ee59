"""An engine whose finals a test makes, on a clock moved by hand."""

from __future__ import annotations

import itertools

from gateway.core.scheduling.overload import OverloadMonitor
from tests.support.meeting import NOW

SIZE = 60
CAPACITY = 10


class Engine:
    """A monitor and its clock. The monitor is polled once a second."""

    def __init__(self, **options: float) -> None:
        self.load = OverloadMonitor(**options)
        self.now = NOW
        self.ids = map(str, itertools.count())
        self.oldest = 0.0

    def learn(self, seconds: float = 1.0) -> None:
        """Measure the time of a final without load."""
        for _ in range(10):
            self.make(seconds, alone=True)
        self.second()

    def make(self, seconds: float, waited: float = 0.0, *, alone: bool = False) -> None:
        """Make a final while the clock stands still."""
        id = next(self.ids)
        self.load.asked += 1
        self.load.begun(id, SIZE, waited, self.now - seconds, alone=alone)
        self.load.made(id, self.now)

    def second(self, *finals: tuple[float, float], asked: int | None = None) -> None:
        """Let a second pass in which finals were made, each as (seconds waited, seconds taken)."""
        self.now += 1
        for waited, took in finals:
            self.make(took, waited)
        for _ in range((asked or 0) - len(finals)):
            self.load.asked += 1
        self.load.poll(self.oldest, self.now)

    def seat(self, *rooms: str, tenant: str = "") -> list[bool]:
        """Return the rooms among these that are admitted."""
        return [not self.load.admit(room, tenant, 0, CAPACITY, self.now) for room in rooms]

    def overload(self, rooms: int = 10) -> list[str]:
        """Return an overloaded engine that served this many rooms."""
        self.learn()
        names = [f"r{n}" for n in range(rooms)]
        assert all(self.seat(*names))
        self.second((1.0, 1.0), (2.0, 1.0))
        assert self.load.overloaded
        return names
