"""The owner of everything that lives: rooms, sessions, and the jobs that the engine has.

Owns: the maps, the clock, and what happens to rooms in time. Must not know: Starlette, frames'
contents, any particular engine, what becomes of a job (`gateway.server.runtime.job_runner`).

Everything that changes state is synchronous: a frame is read, the core decides, and `Hub.act`
starts and aborts jobs before the event loop turns. Only then does anything wait.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from gateway.auth.permissions import Permissions
from gateway.auth.signing import Signer
from gateway.core.catchup import Reader
from gateway.core.connect import ConnectRequest, ResumePlace, recognise
from gateway.core.event_log import EventLog
from gateway.core.outbox import DeliveryCounters, Outbox
from gateway.core.overload import OverloadMonitor
from gateway.core.quota import TenantUsage
from gateway.core.room import Room
from gateway.core.scheduler import Scheduler
from gateway.core.session import Session, SessionState
from gateway.core.streaming.options import StreamingOptions
from gateway.core.validation import AUTO, speakable
from gateway.engines.base.engine import Engine, Health, SubstitutableEngine
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE, Degraded, ServerMessage, Settings
from gateway.server.runtime.detection import Detector
from gateway.server.runtime.drain import Drain
from gateway.server.runtime.job_runner import JobRunner
from gateway.server.runtime.room_loading import RoomLocks
from gateway.storage.base import Store

log = logging.getLogger("gateway.hub")

CLOSE = {
    ErrorCode.BUSY: CloseCode.TOO_MANY,
    ErrorCode.UNAUTHENTICATED: CloseCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN,
    ErrorCode.NOT_FOUND: CloseCode.NO_SUCH_ROOM,
}
"""How a socket is closed that may not stay, by what it is told."""

HOUSEKEEPING_S = 1.0
"""Seconds between looks for overdue jobs and rooms that have been empty for too long."""

AS_USUAL = Degraded(partials="on")
"""What nobody needs to be told."""


class HubPhase(enum.Enum):
    """Life of the gateway as a whole."""

    OPEN = "open"
    DRAINING = "draining"  # nothing new is taken, what is in flight ends, rooms are let go
    CLOSED = "closed"


class Hub:
    """All rooms of one process, in front of one engine.

    :param coalesce_s: seconds that text may wait for more of itself under load; 0: it never does
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        lang: str | None = None,
        detect: Detector | None = None,
        flow: StreamingOptions | None = None,
        store: Store | None = None,
        observe: Callable[[ServerMessage], None] = lambda _: None,
        signer: Signer | None = None,
        coalesce_s: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.phase = HubPhase.OPEN
        self.rooms: dict[str, Room] = {}
        self.sessions: dict[str, Session] = {}
        self.ledger = TenantUsage()
        self.load = OverloadMonitor(limits.stretch, limits.soon_s)
        self._begun = False  # the engine was ready once
        self.dispatch = Scheduler(capacity=self._capacity(), depth=limits.queue, load=self.load)
        self.lang = lang if lang is not None else (AUTO if detect is not None else "en")
        self.detect = detect
        self.flow = flow
        self.store = store
        self.signer = signer or Signer(secrets.token_bytes(32))
        self.tally = DeliveryCounters()
        self.resumed: Counter[bool] = Counter()
        """Sockets that said how far they had come, by whether the log reached back."""
        self.owns: Callable[[str], bool] = lambda _: True
        """Whether a room may be in this process: there may be others, see
        `gateway.server.cluster.placement`."""
        self.now = clock
        self.wall = wall
        self._observe = observe
        self.jobs = JobRunner(
            engine,
            self.dispatch,
            self.rooms.__getitem__,
            patience=limits.job_s,
            longest=coalesce_s,
            clock=clock,
        )
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._doors = RoomLocks()
        self.degraded = AS_USUAL
        if isinstance(engine, SubstitutableEngine):
            engine.changed = self.heed
        self._drain = Drain(self.rooms, self.sessions, store, self.act, clock)

    def __repr__(self) -> str:
        return f"<Hub {self.phase.value}, {len(self.sessions)} sessions, {self.dispatch!r}>"

    @property
    def ready(self) -> bool:
        """Whether a new utterance would be translated."""
        return self.phase is HubPhase.OPEN and self.engine.health is Health.READY

    def stopping(self) -> bool:
        """Whether the end has begun. No property: it changes while one waits."""
        return self.phase is not HubPhase.OPEN

    @property
    def log_bytes(self) -> int:
        """Bytes of durable events in memory."""
        return sum(room.log.bytes for room in list(self.rooms.values()))  # asked in a thread too

    # --- sessions -------------------------------------------------------------------------------

    def open(self, seat: ConnectRequest) -> Session:
        """Seat a client in its room; ``welcome`` lies in its outbox.

        A socket that is still there under the same id is closed: this one takes its place, unless
        its client numbers its attempts and a later one has the place. Attempts need not be read in
        the order in which they were made.

        Raises `ClientFault`: ``lang_unsupported`` for ``source``, ``forbidden`` for what the grant
        does not reach, ``busy`` where the gateway is full or draining or a later attempt was
        faster, ``not_found`` for a private room that is gone.
        """
        seat.check()
        if self.stopping():
            raise ClientFault(ErrorCode.BUSY, "This gateway is shutting down; connect again.")
        before = self.sessions.get(seat.session or "")
        if before is not None and seat.numbered and seat.attempt < before.attempt:
            raise ClientFault(ErrorCode.BUSY, "A later attempt of this client has its place.")
        if before is None and len(self.sessions) >= self.limits.sessions:
            raise ClientFault(
                ErrorCode.BUSY, f"This gateway is full: {len(self.sessions)} sockets are open."
            )
        self.ledger.check(seat.grant, instead=before)
        profile = self.engine.profile
        lang = speakable(self.lang if seat.source is None else seat.source, profile, self.detect)
        room = self._room(seat.room)
        if not (room.members or room.away):  # else jobs of another tenant may wait
            room.tenant = seat.grant.tenant
        room.fleeting = seat.once
        self.dispatch.expect(room.tenant, self.now())
        if before is not None:
            before.close(self.now(), lost=True)
            before.outbox.close(CloseCode.REPLACED, "This session has another socket now.")
        session = Session(
            seat.session or secrets.token_hex(8),
            role=seat.role,
            room=room,
            outbox=Outbox(seat.codec, self.limits, self.tally),
            profile=profile,
            engine=self.engine.name,
            limits=self.limits,
            lang=lang,
            now=self.now(),
            defer=self._defer,
            speaker=seat.speaker,
            view=seat.view,
            detect=self.detect,
            grant=seat.grant,
            renew=seat.renew,
        )
        session.attempt = seat.attempt
        self.sessions[session.id] = session
        session.account = self.ledger.enter(session, seat.grant)
        token = None
        if not seat.once:
            until = self.wall() + self.limits.resume_s
            token = seat.token(self.signer, session.id, room.name, self.limits.targets, until)
        resumed = session.open(seat.targets, self.now(), since=seat.since, token=token)
        if resumed is not None:
            self.resumed[resumed.ok] += 1
        self.act()
        return session

    def recognise(self, token: str | None, room: str | None) -> ResumePlace | None:
        """The place that a resume token states, unless it is in another room than ``room``.

        Raises `ClientFault` (``unauthenticated``) where the token is not good, and without it
        nobody knows which room is meant.
        """
        return recognise(self.signer, token, room, self.wall())

    def _defer(self, reader: Reader) -> None:
        """A long replay lets others have their turn between two pages."""
        asyncio.get_running_loop().call_soon(self._catch_up, reader)

    def _catch_up(self, reader: Reader) -> None:
        reader.catch_up(self.now())

    async def fetch(self, name: str | None) -> None:
        """Before somebody is seated in a room: let it go on where an earlier process ended.

        Who waits for that when the gateway ends waits no longer, so that `open` can tell them.
        Raises `ClientFault` (``busy``) where another process has not let go of it, or where there
        is no place for one more.
        """
        if self.store is None or name is None or name.startswith(PRIVATE):
            return
        while name not in self.rooms and not self.stopping():  # empty, it may have gone again
            self._check_owner(name)
            await self._doors.wait(self._fetch(self.store, name))

    async def _fetch(self, store: Store, name: str) -> None:
        async with self._doors.of(name):
            if name in self.rooms:  # somebody was faster
                return
            history = await store.claim(name)
            if self.stopping():  # it waited for too long: the next process has it
                store.release(name)
                return
            try:
                if len(self.rooms) >= self.limits.rooms:
                    self._make_room()
            except ClientFault:
                store.release(name)
                raise
            history.log.before = history.before
            room = self._open(name, history.log, history.settings)
            room.empty_since = self.now()

    async def forget(self, name: str) -> bool:
        """End a room now and delete all there is of it; whether there was any.

        Raises `gateway.storage.base.StoreFault` where traces are left.
        """
        async with self._doors.of(name):
            room = self.rooms.get(name)
            if room is not None:
                for session in [s for s in self.sessions.values() if s.room is room]:
                    session.outbox.close(CloseCode.ROOM_ENDED, "The room has ended.")
                    self.leave(session)
                self._drop(room)
                self.act()
            kept = self.store is not None and await self.store.forget(name)
            return kept or room is not None

    def receive(self, session: Session, frame: str | bytes) -> None:
        """One frame from a client: everything it causes is done or under way on return."""
        session.receive(frame, self.now())
        if self.load.overloaded != (self.degraded.partials == "off"):
            self.heed()
        self.act()

    def leave(self, session: Session, *, lost: bool = False) -> None:
        """The client is gone or going; its work in the engine is aborted before this returns.

        ``lost``: it may come back, and its work goes on for the time of grace. Idempotent.
        """
        if session.state is SessionState.CLOSED:
            return
        if lost and self.stopping():  # it comes back to the next process
            session.room.hush(session, self.now())
        session.close(self.now(), lost=lost)
        room = session.room
        if room.empty_since is not None and room.name.startswith(PRIVATE):
            if room.fleeting or not lost or not room.log.seq:
                self._drop(room)
        self.act()

    def close(self, session: Session) -> None:
        """The client's socket is closed: forget it. Idempotent."""
        self.leave(session)
        if session.account is not None:
            session.account.leave(session, self.now())
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]

    def _room(self, name: str | None) -> Room:
        room = self.rooms.get(name or "")
        if room is None:
            if name is None:
                name = self._private()
            elif name.startswith(PRIVATE):
                raise ClientFault(
                    ErrorCode.NOT_FOUND,
                    "This socket's own room is gone.",
                    "Connect without resume.",
                )
            self._check_owner(name)
            if len(self.rooms) >= self.limits.rooms:
                self._make_room()
            room = self._open(name, EventLog(secrets.token_hex(4), self.limits, began=self.now()))
        return room

    def _private(self) -> str:
        """A name for a socket's own room by which it is found here again: a throw of dice or two
        for each process there is."""
        while True:
            name = PRIVATE + secrets.token_hex(8)
            if self.owns(name):
                return name

    def _check_owner(self, name: str) -> None:
        """Raises `ClientFault` (``busy``): two rooms of one name would be worse than none."""
        if not self.owns(name):
            raise ClientFault(
                ErrorCode.BUSY, "This room is in another process of this gateway; connect again."
            )

    def _open(self, name: str, log: EventLog, settings: Settings | None = None) -> Room:
        room = self.rooms[name] = Room(
            name,
            log=log,
            settings=settings,
            dispatch=self.dispatch,
            profile=self.engine.profile,
            limits=self.limits,
            flow=self.flow,
            observe=self._observe,
            alarm=partial(self._alarm, name),
        )
        if self.degraded != AS_USUAL:
            room.degrade(self.degraded, self.now())
        return room

    def _alarm(self, name: str, when: float) -> None:
        """Wake a room at a time, and not at the one it named before; it may be gone by then."""
        if name in self._alarms:
            self._alarms[name].cancel()
        delay = max(0.0, when - self.now())
        self._alarms[name] = asyncio.get_running_loop().call_later(delay, self._wake, name)

    def _wake(self, name: str) -> None:
        del self._alarms[name]
        room = self.rooms.get(name)
        if room is not None:
            room.wake(self.now())
            self.act()

    def _make_room(self) -> None:
        """Raises `ClientFault` (``busy``) where there is somebody in every room."""
        if not self._give_up():
            raise ClientFault(
                ErrorCode.BUSY, f"This gateway is full: {len(self.rooms)} rooms are open."
            )

    def _give_up(self) -> bool:
        """Give up an empty room, if there is one: people come before memories.

        It is the one that has been empty for longest; a private one before those with a name. It
        has not ended: where there is a store it can be fetched again.
        """
        empty = [
            (not room.name.startswith(PRIVATE), room.empty_since, room.name)
            for room in self.rooms.values()
            if room.empty_since is not None
        ]
        if not empty:
            return False
        _, _, name = min(empty)
        if self.store is not None:
            self.store.release(name)
        self._drop(self.rooms[name])
        return True

    def _shed(self) -> None:
        """Keep all logs together within `Limits.memory_bytes`."""
        while (over := self.log_bytes - self.limits.memory_bytes) > 0:
            if not self._give_up():  # there is somebody everywhere
                longest = max(self.rooms.values(), key=lambda room: room.log.bytes)
                longest.shed(min(over, longest.log.bytes // 2 + 1))

    def _drop(self, room: Room) -> None:
        """The room has ended: nothing of it is kept, but by the store if it was told to."""
        room.end()
        if self.rooms.get(room.name) is room:
            del self.rooms[room.name]
            self.load.vacate(room.name)
            if self.store is not None:
                self.store.end(room.name)

    def act(self) -> None:
        """Carry out what the dispatcher decided, now."""
        if not self._begun:
            self.dispatch.capacity = self._capacity()
        self.jobs.act()

    # --- life -----------------------------------------------------------------------------------

    def heed(self) -> None:
        """Follow the engine: what it can do, and what readers are told of it."""
        now = self.now()
        self.dispatch.capacity = self._capacity()
        substitute = (
            self.engine.substitute if isinstance(self.engine, SubstitutableEngine) else None
        )
        if substitute != self.degraded.engine:
            self.load.renew()
        for job in self.dispatch.look(now):
            self.rooms[job.room].failed(job.id, ErrorCode.BUSY, now)
        if self.dispatch.queued:  # it may do more at once than it did
            asyncio.get_running_loop().call_soon(self.act)
        how = Degraded(partials="off" if self.load.overloaded else "on", engine=substitute)
        if how != self.degraded:
            self.degraded = how
            log.warning("degraded: partials %s, fallback %s", how.partials, substitute)
            for room in self.rooms.values():
                room.degrade(how, now)

    def _capacity(self) -> int:
        """Jobs that the engine is given at once: none while it starts for the first time. What is
        said meanwhile waits for it, as long as anything may wait; nothing of that would succeed."""
        self._begun = self._begun or self.engine.health is not Health.STARTING
        return self.engine.capacity if self._begun else 0

    async def keep(self) -> None:
        """Housekeeping, for as long as the gateway lives."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            try:
                self.sweep()
            except Exception as exc:
                bare = redacted(exc)
                log.error("housekeeping failed; it goes on in %g s", HOUSEKEEPING_S, exc_info=bare)

    def sweep(self) -> None:
        """Fail jobs nobody started in time, drop rooms that stayed empty, follow the engine."""
        now = self.now()
        self.jobs.measure()
        self.heed()
        late = ErrorCode.TIMEOUT if self._begun else ErrorCode.ENGINE_UNAVAILABLE
        for job in self.dispatch.overdue(now, self.limits.job_s):
            self.rooms[job.room].failed(job.id, late, now)
        for room in [r for r in self.rooms.values() if r.empty_since is not None]:
            if now - (room.empty_since or now) > self.limits.room_s:
                self._drop(room)
        self._shed()
        self._expire(now)
        self.ledger.sweep(now)
        self.act()

    def _expire(self, now: float) -> None:
        """Close the sockets whose key or token was good until now."""
        wall = self.wall()
        for session in list(self.sessions.values()):
            until = session.grant.until
            if until is not None and until <= wall and session.outbox.closing is None:
                fault = ClientFault(
                    ErrorCode.UNAUTHENTICATED,
                    "The key of this socket has expired.",
                    "Connect with another one; send `auth` before the next one expires.",
                )
                session.refuse(fault, CloseCode.UNAUTHENTICATED, now)

    def review(self, confirm: Callable[[Permissions], Permissions]) -> None:
        """Keys have changed: close the sockets that would not be let in any more.

        :param confirm: what is left of a grant; raises `ClientFault` (``unauthenticated``)
        """
        now = self.now()
        for session in list(self.sessions.values()):
            if session.outbox.closing is None:
                try:
                    grant = confirm(session.grant)
                    session.confirm(grant)
                except ClientFault as fault:
                    session.refuse(fault, CLOSE[fault.code], now)
                else:
                    session.grant = grant
        self.act()

    async def drain(self, seconds: float) -> None:
        """Take nothing new, let what is in flight end within ``seconds``, end the rest visibly."""
        if self.stopping():
            return
        self.phase = HubPhase.DRAINING
        log.info("draining: %d sockets, %d jobs", len(self.sessions), len(self.jobs.runs))
        await asyncio.gather(self._doors.end(), self._drain.run(seconds))
        self.jobs.clear()
        self.phase = HubPhase.CLOSED

    def hurry(self) -> None:
        """Cut a drain short: somebody asked twice."""
        self._drain.hurry()
