"""The rooms that this process decides for, in front of one engine.

Owns: rooms by name, their alarms, and the jobs that they share: how many the engine is given, and
what is left out under load. Must not know: sockets, sessions, stores, other gateways.

All changes of state are synchronous: a room decides, and `RoomHost.act` starts and aborts jobs
before the event loop turns. Only then does anything wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gateway.core.history.event_log import EventLog
from gateway.core.room.room import Room, RoomOptions
from gateway.core.scheduling.overload import OverloadMonitor
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.session.quota import TenantUsage
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.engines.base.language_detection import Detector
from gateway.engines.base.service import Health
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import ServerMessage
from gateway.protocol.notices import Degraded
from gateway.server.runtime.job_runner import JobRunner

log = logging.getLogger("gateway.hub")

NOT_DEGRADED = Degraded(partials="on")
"""The normal state, which clients are not told."""


@dataclass(frozen=True)
class TextOptions:
    """Treatment of text if a client says nothing else.

    :param lang: language of speakers who name none; default: detected, or English without detector
    :param detect: detector of the language of a text; None: languages have to be named
    :param flow: how growing text is translated; default: that of the core
    :param coalesce_s: seconds that text may wait for more of itself under load; 0: it never waits
    """

    lang: str | None = None
    detect: Detector | None = None
    flow: StreamingOptions | None = None
    coalesce_s: float = 0.05


class RoomHost:
    """The rooms of one process, and the jobs of its engine.

    :param observe: called with a room's name, an event that it decided, and the time of that
    :param clock: seconds, monotonic
    :param wall: seconds since the epoch, for what expires
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        text: TextOptions = TextOptions(),  # it is frozen
        observe: Callable[[str, ServerMessage, float], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.text = text
        self.now = clock
        self.wall = wall
        self.rooms: dict[str, Room] = {}
        self.tenants = TenantUsage()
        self.load = OverloadMonitor(limits.stretch, limits.soon_s)
        self._started = False  # whether the engine was ready once; it may start again later
        self.scheduler = Scheduler(
            capacity=self._capacity(), depth=limits.queue, load=self.load, lanes=engine.lanes
        )
        self.jobs = JobRunner(
            engine,
            self.scheduler,
            self.rooms.__getitem__,
            patience=limits.job_s,
            longest=text.coalesce_s,
            clock=clock,
        )
        self.degraded = NOT_DEGRADED
        self._flow = text.flow or StreamingOptions()
        self._length_ratios = LengthRatios(self._flow.stability)
        self._observe = observe
        self._alarms: dict[str, asyncio.TimerHandle] = {}  # by the name of the room
        engine.changed = self.refresh_capacity

    # --- rooms ----------------------------------------------------------------------------------

    def open(self, name: str, log: EventLog) -> Room:
        """Make a room and add it."""
        return self.add(Room(name, log, self.options(name)))

    def options(self, name: str) -> RoomOptions:
        """Return the options that every room of this gateway is made with."""
        return RoomOptions(
            scheduler=self.scheduler,
            model=self.engine.profile,
            limits=self.limits,
            streaming=self._flow,
            observe=partial(self._observe, name),
            set_timer=partial(self.set_alarm, name),
        )

    def add(self, room: Room) -> Room:
        """Serve a room; tell it how long translations are, and how the service is."""
        self.rooms[room.name] = room
        room.captioner.builder.length_ratios = self._length_ratios
        room.captioner.instead = self.text.detect and self.text.detect.instead
        room.pairs.prepare = self.engine.prepare
        if self.degraded != NOT_DEGRADED:
            room.degrade(self.degraded, self.now())
        return room

    def end(self, room: Room) -> bool:
        """End a room in this process, and return whether it was served here."""
        room.end()
        if self.rooms.get(room.name) is not room:
            return False
        del self.rooms[room.name]
        if (alarm := self._alarms.pop(room.name, None)) is not None:
            alarm.cancel()  # it would keep the room until it rings
        self.load.vacate(room.name)
        return True

    def set_alarm(self, name: str, when: float) -> None:
        """Wake a room at a time; an earlier setting no longer counts."""
        if name in self._alarms:
            self._alarms[name].cancel()
        delay = max(0.0, when - self.now())
        self._alarms[name] = asyncio.get_running_loop().call_later(delay, self._wake, name)

    def _wake(self, name: str) -> None:
        del self._alarms[name]
        room = self.rooms.get(name)
        if room is not None:  # else it has ended since it set the alarm
            room.on_timer(self.now())
            self.act()

    # --- jobs -----------------------------------------------------------------------------------

    def act(self) -> None:
        """Carry out the scheduler's decisions now."""
        if self.load.overloaded != (self.degraded.partials == "off"):
            self.refresh_capacity()
        if not self._started:
            self.scheduler.capacity = self._capacity()
        self.jobs.act()

    def refresh_capacity(self) -> None:
        """Update the scheduler and the clients after a change of the engine or of the load."""
        now = self.now()
        self.scheduler.capacity = self._capacity()
        substitute = self.engine.substitute
        if substitute != self.degraded.engine:
            self.load.renew()
        for job in self.scheduler.poll(now):
            self.rooms[job.room].captioner.failed(job.id, ErrorCode.BUSY, now)
        if self.scheduler.queued:  # the engine may take more jobs at once than before
            asyncio.get_running_loop().call_soon(self.act)
        how = Degraded(partials="off" if self.load.overloaded else "on", engine=substitute)
        if how != self.degraded:
            self.degraded = how
            log.warning("degraded: partials %s, fallback %s", how.partials, substitute)
            for room in self.rooms.values():
                room.degrade(how, now)

    def _capacity(self) -> int:
        """Return how many jobs the engine gets at the same time."""
        # During its first start they would all fail. They wait in the queue instead.
        self._started = self._started or self.engine.health is not Health.STARTING
        return self.engine.capacity if self._started else 0

    def sweep(self) -> None:
        """Fail jobs that have waited too long."""
        now = self.now()
        self.jobs.measure()
        self.refresh_capacity()
        late = ErrorCode.TIMEOUT if self._started else ErrorCode.ENGINE_UNAVAILABLE
        for job in self.scheduler.overdue(now, self.limits.job_s):
            self.rooms[job.room].captioner.failed(job.id, late, now)
