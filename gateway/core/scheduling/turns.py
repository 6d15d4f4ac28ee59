"""Turns of tenants, and of the rooms of a tenant, at something that all of them use.

Owns: whose turn it is. Must not know: engines, recognisers, threads, what a turn is used for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Protocol


class HasTurn(Protocol):
    """A job, or audio to decode, of a room and a tenant, between which the turns are shared."""

    @property
    def id(self) -> str: ...

    @property
    def room(self) -> str: ...

    @property
    def tenant(self) -> str: ...


class Shares:
    """The virtual times of the parties that share the engine (Goyal, Vin, Cheng, "Start-Time Fair
    Queuing", SIGCOMM 1996).

    Each party has a time at which its next job is due. A job moves this time on by its work, and a
    party that was idle is due now. So nobody saves up turns, or loses a debt, by being idle. While
    two parties have jobs waiting, their shares differ by at most the largest job of each.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._due: dict[str, float] = {}

    def join(self, key: str) -> None:
        """Add a party that had no jobs waiting."""
        self._due[key] = max(self._due.get(key, 0.0), self._now)

    def first(self, keys: Iterable[str]) -> str:
        """Return the party whose job is due first; of several the first of ``keys``."""
        return min(keys, key=self._due.__getitem__)

    def charge(self, key: str, work: int, waiting: Container[str]) -> None:
        """Count a job that starts, and forget parties that are due now and not ``waiting``."""
        # Virtual time never goes back, or a party that was idle would be ahead of all others.
        now = self._now = max(self._now, self._due[key])
        self._due[key] += work
        if len(self._due) > 1:
            self._due = {k: due for k, due in self._due.items() if due > now or k in waiting}


class JobTurns:
    """Ids of waiting jobs of one priority, in the order in which they are to run."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[str]]] = {}  # by tenant, then by room
        self._tenants = Shares()
        self._rooms: dict[str, Shares] = {}  # of the tenants that have jobs waiting

    def __iter__(self) -> Iterator[str]:
        return (id for rooms in self._waiting.values() for ids in rooms.values() for id in ids)

    def add(self, job: HasTurn) -> None:
        """Queue a job behind the others of its room."""
        rooms = self._waiting.get(job.tenant)
        # A tenant without waiting jobs begins where the virtual time is now.
        if rooms is None:
            rooms = self._waiting[job.tenant] = {}
            self._rooms[job.tenant] = Shares()
            self._tenants.join(job.tenant)
        if job.room not in rooms:
            rooms[job.room] = deque()
            self._rooms[job.tenant].join(job.room)
        rooms[job.room].append(job.id)

    def remove(self, job: HasTurn) -> None:
        """Remove a job from the queue."""
        self._waiting[job.tenant][job.room].remove(job.id)
        self._tidy(job.tenant, job.room)

    def behind(self, room: str, jobs: int) -> bool:
        """Tell whether another room has more jobs than this one would have with ``jobs`` more."""
        counts = [
            (name, len(ids)) for rooms in self._waiting.values() for name, ids in rooms.items()
        ]
        own = sum(count for name, count in counts if name == room)
        return any(count > own + jobs for _, count in counts)

    def next(
        self,
        work: Callable[[str], int],
        among: Container[str] | None = None,
        fits: Callable[[str], bool] | None = None,
    ) -> str | None:
        """Remove and return the job of some tenants whose turn it is; None if there is none.

        :param fits: tells whether there is a slot for a job; None: there is one for all
        """
        tenants = [tenant for tenant in self._waiting if among is None or tenant in among]
        ready: dict[str, dict[str, str]] = {}  # by tenant and room, the job that would be next
        if fits is not None:
            ready = {tenant: self._first_fits(tenant, fits) for tenant in tenants}
            tenants = [tenant for tenant in tenants if ready[tenant]]
        if not tenants:
            return None
        tenant = self._tenants.first(tenants)
        rooms = self._waiting[tenant]
        room = self._rooms[tenant].first(ready.get(tenant, rooms))
        # The first one of the room, unless those before it wait for another engine.
        id = ready[tenant][room] if ready else rooms[room][0]
        rooms[room].remove(id)
        cost = work(id)
        self._tenants.charge(tenant, cost, self._waiting)
        self._rooms[tenant].charge(room, cost, rooms)
        self._tidy(tenant, room)
        return id

    def _first_fits(self, tenant: str, fits: Callable[[str], bool]) -> dict[str, str]:
        """Return by room the first job of a tenant for which there is a slot."""
        rooms = self._waiting[tenant].items()
        firsts = {room: next(filter(fits, ids), None) for room, ids in rooms}
        return {room: id for room, id in firsts.items() if id is not None}

    def _tidy(self, tenant: str, room: str) -> None:
        """Forget rooms and tenants without jobs, and all virtual times if nothing waits."""
        rooms = self._waiting[tenant]
        if not rooms[room]:
            del rooms[room]
        if not rooms:
            del self._waiting[tenant]
            del self._rooms[tenant]
        # With nobody waiting there is nothing to be fair about.
        if not self._waiting:
            self._tenants = Shares()
