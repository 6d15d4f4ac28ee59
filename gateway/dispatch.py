"""Which job runs next.

Owns: the queue of jobs, the set of running ones, and the only place where either changes. Decides
synchronously; the hub carries out what `actions` returns. Must not know: engines, rooms' insides.

Order: finals before partials before backfill; within one priority the tenants take turns, then the
rooms of a tenant, and each room's jobs keep their order. Bound: ``depth`` waiting jobs, answered by
``busy`` before anything of an utterance is accepted; and fewer where the engine does not keep up,
see `gateway.load`. Gauges: ``queued``, ``finals``, ``running``; ``given`` counts.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator

import msgspec

from gateway.job import Job, Priority
from gateway.load import Load


class Stage(enum.Enum):
    """Where a job was when it was aborted."""

    QUEUED = "queued"
    RUNNING = "running"


class Start(msgspec.Struct, frozen=True):
    """Give this job to the engine."""

    job: Job


class Stop(msgspec.Struct, frozen=True):
    """Abort this running job in the engine now."""

    job_id: str


class Turns:
    """Ids of waiting jobs of one priority, in the order in which they are to run."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[str, deque[str]]] = OrderedDict()

    def __iter__(self) -> Iterator[str]:
        return (id for rooms in self._tenants.values() for ids in rooms.values() for id in ids)

    def add(self, job: Job) -> None:
        """It waits behind those of its room."""
        rooms = self._tenants.setdefault(job.tenant, OrderedDict())
        rooms.setdefault(job.room, deque()).append(job.id)

    def remove(self, job: Job) -> None:
        """It waits no longer."""
        rooms = self._tenants[job.tenant]
        rooms[job.room].remove(job.id)
        if not rooms[job.room]:
            del rooms[job.room]
        if not rooms:
            del self._tenants[job.tenant]

    def behind(self, room: str, jobs: int) -> bool:
        """Whether another room has more than this one would have with so many jobs more."""
        counts = [
            (name, len(ids)) for rooms in self._tenants.values() for name, ids in rooms.items()
        ]
        own = sum(count for name, count in counts if name == room)
        return any(count > own + jobs for _, count in counts)

    def next(self) -> str | None:
        """Take out the one whose turn it is; its room and its tenant come last then."""
        if not self._tenants:
            return None
        tenant, rooms = self._tenants.popitem(last=False)
        room, ids = rooms.popitem(last=False)
        id = ids.popleft()
        if ids:
            rooms[room] = ids
        if rooms:
            self._tenants[tenant] = rooms
        return id


class Dispatch:
    """The queue in front of one engine, shared by all rooms."""

    def __init__(self, *, capacity: int, depth: int, load: Load | None = None) -> None:
        self.capacity = capacity
        self.depth = depth
        self.load = load or Load()
        self.finals = 0
        """Finals that wait."""
        self.due = False
        """Whether something was queued or taken back since `actions` was last asked."""
        self.given: Counter[Priority] = Counter()
        """Jobs that the engine was given, since the start."""
        self._waiting: dict[str, tuple[Job, float]] = {}
        self._turns = {priority: Turns() for priority in Priority}
        self._running: dict[str, tuple[Job, float]] = {}
        self._stops: list[Stop] = []
        self._named = 0

    def __repr__(self) -> str:
        return f"<Dispatch {self.running}/{self.capacity} running, {self.queued} queued>"

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def name(self, room: str) -> str:
        """An id for a job of a room. No two in this process are the same, of rooms neither that
        have the same name one after the other: a job of the first may still be stopping."""
        self._named += 1
        return f"{room}.{self._named}"

    def admits(self, jobs: int, priority: Priority = Priority.FINAL) -> bool:
        """Whether so many more jobs may be submitted. Backfill leaves half of the queue free; where
        the engine does not keep up, there are only finals."""
        if self.load.overloaded and priority is not Priority.FINAL:
            return False
        depth = self.depth // 2 if priority is Priority.BACKFILL else self.depth
        return self.queued + jobs <= depth + max(0, self.capacity - self.running)

    def admit(self, room: str, tenant: str, jobs: int, now: float) -> float:
        """0 where something new that takes so many jobs may be said in a room, else the seconds
        after which to try again."""
        if not self.admits(jobs):
            return self.load.full(self.queued, self.capacity, now)
        behind = self.load.overloaded and self._turns[Priority.FINAL].behind(room, jobs)
        return self.load.admit(room, tenant, self.finals, self.capacity, now, behind=behind)

    def submit(self, job: Job, now: float) -> None:
        """Queue a job. The caller has asked `admits`; nothing is refused here."""
        self.due = True
        self._waiting[job.id] = (job, now)
        self._turns[job.priority].add(job)
        if job.priority is Priority.FINAL:
            self.finals += 1
            self.load.asked()

    def waits(self, job_id: str) -> bool:
        """Whether a job has not been given to the engine yet."""
        return job_id in self._waiting

    def update(self, job: Job) -> None:
        """Put a newer text in the place of a waiting job of the same id, room and priority."""
        old, since = self._waiting[job.id]
        place = (job.tenant, job.room, job.priority)
        assert (old.tenant, old.room, old.priority) == place, "it would lose its place"
        self._waiting[job.id] = (job, since)

    def abort(self, job_id: str) -> Stage | None:
        """Take a job back. None if it is neither queued nor running (any more)."""
        if job_id in self._waiting:
            self._forget(self._waiting[job_id][0])
            return Stage.QUEUED
        if job_id in self._running:
            self.due = True
            self._stops.append(Stop(job_id))
            return Stage.RUNNING
        return None

    def begun(self, job_id: str, now: float) -> None:
        """The engine has taken a job up."""
        job, since = self._running[job_id]
        if job.priority is Priority.FINAL:
            alone = len(self._running) <= max(1, self.capacity // 8)
            self.load.begun(job_id, len(job.text.encode()), now - since, now, alone=alone)

    def made(self, job_id: str, now: float) -> None:
        """The engine has done a job to its end."""
        if job_id in self._running and self._running[job_id][0].priority is Priority.FINAL:
            self.load.made(job_id, now)

    def done(self, job_id: str) -> None:
        """A running job has ended, however it ended: its slot is free, nothing is left to stop."""
        self._running.pop(job_id, None)
        self.load.dropped(job_id)
        if self._stops:
            self._stops = [stop for stop in self._stops if stop.job_id != job_id]

    def overdue(self, now: float, patience: float) -> list[Job]:
        """Jobs that have waited longer than ``patience`` seconds; they leave the queue."""
        late = [job for job, since in self._waiting.values() if now - since > patience]
        for job in late:
            self._forget(job)
        return late

    def look(self, now: float) -> list[Job]:
        """Decide anew whether the engine keeps up. Partials that need not be made any more leave
        the queue."""
        finals = (since for job, since in self._waiting.values() if job.priority is Priority.FINAL)
        self.load.look(now - next(finals, now), now)
        if not self.load.overloaded:
            return []
        spared = [self._waiting[id][0] for id in self._turns[Priority.PARTIAL]]
        for job in spared:
            self._forget(job)
        return spared

    def actions(self) -> list[Start | Stop]:
        """What the engine has to do now: stops first, then as many starts as there are slots."""
        self.due = False
        actions: list[Start | Stop] = list(self._stops)
        self._stops.clear()
        if self._waiting and len(self._running) < self.capacity:
            for turns in self._turns.values():
                while len(self._running) < self.capacity and (id := turns.next()) is not None:
                    job, since = self._waiting.pop(id)
                    self.finals -= job.priority is Priority.FINAL
                    self._running[id] = (job, since)
                    self.given[job.priority] += 1
                    actions.append(Start(job))
        return actions

    def _forget(self, job: Job) -> None:
        del self._waiting[job.id]
        self.finals -= job.priority is Priority.FINAL
        self._turns[job.priority].remove(job)
