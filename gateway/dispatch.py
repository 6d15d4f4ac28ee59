"""Which job runs next.

Owns: the queue of jobs, the set of running ones, and the only place where either changes. Decides
synchronously; the hub carries out what `actions` returns. Must not know: engines, rooms' insides.

Order: finals before partials before backfill; within one priority the rooms take turns, and each
room's jobs keep their order. Bound: ``depth`` waiting jobs, answered by ``busy`` before anything of
an utterance is accepted. Gauges: ``queued``, ``running``.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterator

import msgspec

from gateway.job import Job, Priority


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


class Dispatch:
    """The queue in front of one engine, shared by all rooms."""

    def __init__(self, *, capacity: int, depth: int) -> None:
        self.capacity = capacity
        self.depth = depth
        self._waiting: dict[str, tuple[Job, float]] = {}
        self._order: dict[Priority, OrderedDict[str, deque[str]]] = {
            priority: OrderedDict() for priority in Priority
        }
        self._running: set[str] = set()
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
        """Whether so many more jobs may be submitted. Backfill leaves half of the queue free."""
        depth = self.depth // 2 if priority is Priority.BACKFILL else self.depth
        return self.queued + jobs <= depth + max(0, self.capacity - self.running)

    def submit(self, job: Job, now: float) -> None:
        """Queue a job. The caller has asked `admits`; nothing is refused here."""
        self._waiting[job.id] = (job, now)
        self._order[job.priority].setdefault(job.room, deque()).append(job.id)

    def waits(self, job_id: str) -> bool:
        """Whether a job has not been given to the engine yet."""
        return job_id in self._waiting

    def update(self, job: Job) -> None:
        """Put a newer text in the place of a waiting job of the same id, room and priority."""
        old, since = self._waiting[job.id]
        assert (old.room, old.priority) == (job.room, job.priority), "it would lose its place"
        self._waiting[job.id] = (job, since)

    def abort(self, job_id: str) -> Stage | None:
        """Take a job back. None if it is neither queued nor running (any more)."""
        if job_id in self._waiting:
            self._forget(self._waiting.pop(job_id)[0])
            return Stage.QUEUED
        if job_id in self._running:
            self._stops.append(Stop(job_id))
            return Stage.RUNNING
        return None

    def done(self, job_id: str) -> None:
        """A running job has ended, however it ended: its slot is free, nothing is left to stop."""
        self._running.discard(job_id)
        if self._stops:
            self._stops = [stop for stop in self._stops if stop.job_id != job_id]

    def overdue(self, now: float, patience: float) -> list[Job]:
        """Jobs that have waited longer than ``patience`` seconds; they leave the queue."""
        late = [job for job, since in self._waiting.values() if now - since > patience]
        for job in late:
            del self._waiting[job.id]
            self._forget(job)
        return late

    def actions(self) -> list[Start | Stop]:
        """What the engine has to do now: stops first, then as many starts as there are slots."""
        actions: list[Start | Stop] = list(self._stops)
        self._stops.clear()
        if self._waiting and len(self._running) < self.capacity:
            for job in self._turns():
                self._running.add(job.id)
                actions.append(Start(job))
                if len(self._running) >= self.capacity:
                    break
        return actions

    def _turns(self) -> Iterator[Job]:
        for rooms in self._order.values():
            while rooms:
                room, ids = next(iter(rooms.items()))
                job, _ = self._waiting.pop(ids.popleft())
                if ids:
                    rooms.move_to_end(room)
                else:
                    del rooms[room]
                yield job

    def _forget(self, job: Job) -> None:
        rooms = self._order[job.priority]
        rooms[job.room].remove(job.id)
        if not rooms[job.room]:
            del rooms[job.room]
