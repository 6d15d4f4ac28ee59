"""The live state of one process: rooms, sessions, and the jobs of the engine.

Owns: rooms and sessions by name, the clock, and what happens to rooms over time. Must not know:
Starlette, the contents of frames, any particular engine, how a job runs
(`gateway.server.runtime.job_runner`).

All changes of state are synchronous: a frame is read, the core decides, and `Hub.act` starts and
aborts jobs before the event loop turns. Only then does anything wait.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.auth.permissions import Permissions
from gateway.auth.tokens import Signer
from gateway.core.base.transitions import next_state
from gateway.core.base.validation import AUTO, speakable
from gateway.core.delivery.outbox import Outbox
from gateway.core.delivery.waiting_frames import DeliveryCounters
from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.replication.authority import Authority
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.core.scheduling.overload import OverloadMonitor
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.session.catch_up import LogReader
from gateway.core.session.connect_request import ConnectRequest, ResumePlace, recognise
from gateway.core.session.context import SessionContext
from gateway.core.session.quota import TenantUsage
from gateway.core.session.session import Session
from gateway.core.session.state import SessionState
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.limits import Limits
from gateway.protocol.messages import PRIVATE, ClientMessage, ServerMessage
from gateway.protocol.notices import Degraded
from gateway.server.runtime.drain import Drain
from gateway.server.runtime.job_runner import JobRunner
from gateway.server.runtime.language_detection import Detector
from gateway.server.runtime.phase import HUB_TRANSITIONS, HubEvent, HubPhase
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.runtime.revocation import apply_changed_keys, close_expired
from gateway.server.runtime.room_authority import FleetRooms
from gateway.server.runtime.room_loading import RoomLocks
from gateway.server.runtime.room_space import RoomSpace
from gateway.storage.base import Store

log = logging.getLogger("gateway.hub")

HOUSEKEEPING_S = 1.0
"""Seconds between two checks for overdue jobs and for rooms that have been empty too long."""
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


def session_ids(session: Session) -> dict[str, str]:
    """Return the ids of a session and its room, for the ``extra`` of a logger's call."""
    return {"session": session.id, "room": session.room.name}


class Hub:
    """All rooms of one process, in front of one engine.

    :param store: where logs are kept; None: rooms end with this process
    :param observe: called with a room's name, an event that it decided, and the time of that
    :param signer: signer of resume tokens; default: one with a new key
    :param clock: seconds, monotonic
    :param wall: seconds since the epoch, for what expires
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        text: TextOptions = TextOptions(),  # it is frozen
        store: Store | None = None,
        observe: Callable[[str, ServerMessage, float], None] = lambda *_: None,
        signer: Signer | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.phase = HubPhase.OPEN
        self.rooms: dict[str, Room] = {}
        self.replicas: dict[str, Replica] = {}  # of shared rooms; `rooms` has the authorities
        self.sessions: dict[str, Session] = {}
        self.tenants = TenantUsage()
        self.load = OverloadMonitor(limits.stretch, limits.soon_s)
        self._started = False  # whether the engine was ready once; it may start again later
        self.scheduler = Scheduler(
            capacity=self._capacity(),
            depth=limits.queue,
            load=self.load,
            slots=engine.slots,
        )
        self.detect = text.detect
        detected = "en" if text.detect is None else AUTO
        self.lang = text.lang or detected
        self.flow = text.flow or StreamingOptions()
        self._length_ratios = LengthRatios(self.flow.stability)
        self.store = store
        self.signer = signer or Signer(secrets.token_bytes(32))
        self.counters = DeliveryCounters()
        self.resumed: Counter[bool] = Counter()
        """Sockets that resumed, by whether the log still had all that they missed."""
        self.now = clock
        self.wall = wall
        self.fleet: FleetRooms | None = None  # the rooms shared with other gateways
        self.recognition: RecognitionRunner | None = None  # speech, if a recogniser was chosen
        self._observe = observe
        self.jobs = JobRunner(
            engine,
            self.scheduler,
            self.rooms.__getitem__,
            patience=limits.job_s,
            longest=text.coalesce_s,
            clock=clock,
        )
        self._alarms: dict[str, asyncio.TimerHandle] = {}  # by the name of the room
        self._room_locks = RoomLocks()
        self.degraded = NOT_DEGRADED
        engine.changed = self.refresh_capacity
        self.shutdown = Drain(self.places, self.sessions, store, self.act, clock)
        self.space = RoomSpace(self.rooms, self.replicas, limits, self._evict)

    def __repr__(self) -> str:
        return f"<Hub {self.phase.value}, {len(self.sessions)} sessions, {self.scheduler!r}>"

    @property
    def ready(self) -> bool:
        """Readiness to translate a new utterance, if not in every room."""
        # A recogniser that fails later refuses audio only, and text is still translated.
        deaf = self.recognition is not None and self.recognition.starting
        foreign = self.fleet is not None and not self.fleet.link.compatible
        ready = self.engine.health is Health.READY and not (deaf or foreign)
        return self.phase is HubPhase.OPEN and ready

    @property
    def ready_for_rooms(self) -> bool:
        """Readiness to translate a new utterance in any room, also in shared ones."""
        return self.ready and (self.fleet is None or self.fleet.link.connected)

    def stopping(self) -> bool:
        """Tell whether the end has begun. No property, because it changes during an ``await``."""
        return self.phase is not HubPhase.OPEN

    def places(self) -> dict[str, AbstractRoom]:
        """Return the rooms of all sessions, by name."""
        return {**self.rooms, **self.replicas}  # a replica instead of its authority

    # --- sessions -------------------------------------------------------------------------------

    def open(self, request: ConnectRequest) -> Session:
        """Connect a client to its room; ``welcome`` is in its outbox on return.

        Raises `ClientFault`: ``lang_unsupported`` for the source language, ``forbidden`` for what
        the permissions do not allow, ``busy`` if the gateway is full or draining or a later attempt
        was faster, ``not_found`` for a private room that is gone.
        """
        request.check()
        if self.phase is HubPhase.CLOSED or (self.stopping() and not request.once):
            raise ClientFault(ErrorCode.BUSY, "This gateway is shutting down; connect again.")
        # An open socket of the same session id is closed, and this one replaces it. Clients may
        # number their attempts, because attempts need not be read in the order in which they were
        # made: then an earlier attempt does not replace a later one.
        before = self.sessions.get(request.session or "")
        if before is not None and request.numbered and request.attempt < before.attempt:
            raise ClientFault(ErrorCode.BUSY, "A later attempt of this client has its place.")
        if before is None and len(self.sessions) >= self.limits.sessions:
            raise ClientFault(
                ErrorCode.BUSY, f"This gateway is full: {len(self.sessions)} sockets are open."
            )
        self.tenants.check(
            request.permissions,
            instead=None if before is None else before.member,
            resumes=request.session is not None,
        )
        profile = self.engine.profile
        source = self.lang if request.source is None else request.source
        lang = speakable(source, profile, self.detect)
        room = self._room(request.room)
        self.scheduler.expect(room.use_tenant(request.permissions.tenant), self.now())
        room.temporary = request.once
        if before is not None:
            before.close(self.now(), lost=True)
            before.outbox.close(CloseCode.REPLACED, "This session has another socket now.")
        session = Session(
            request.session or secrets.token_hex(8),
            request,
            room=room,
            outbox=Outbox(request.codec, self.limits, self.counters),
            lang=lang,
            context=SessionContext(
                profile, self.engine.name, self.limits, self._defer, self.detect, self.recognition
            ),
            now=self.now(),
        )
        session.attempt = request.attempt
        self.sessions[session.id] = session
        session.account = self.tenants.enter(session.member, request.permissions)
        token = None
        if not request.once:
            until = self.wall() + self.limits.resume_s
            token = request.token(self.signer, session.id, room.name, self.limits.targets, until)
        resumed = session.open(request.targets, self.now(), since=request.since, token=token)
        if resumed is not None:
            self.resumed[resumed.ok] += 1
        self.act()
        return session

    def recognise(self, token: str | None, room: str | None) -> ResumePlace | None:
        """Return the place that a resume token states; see `connect_request.recognise`."""
        return recognise(self.signer, token, room, self.wall())

    def _defer(self, reader: LogReader) -> None:
        """Continue a long replay in the next turn of the loop, so that others have theirs."""
        asyncio.get_running_loop().call_soon(lambda: reader.advance(self.now()))

    async def fetch(self, name: str | None, since: StreamPosition | None = None) -> None:
        """Load a room that is shared or kept in the store, before `open` is called.

        Returns early if the gateway begins to end, so that `open` can refuse the client. Raises
        `ClientFault` (``busy``) if another process has not released the room, or if no further room
        is allowed. ``since`` is how far the client has come.
        """
        if name is None or name.startswith(PRIVATE):
            return
        if self.fleet is not None and not self.stopping():
            await self.fleet.fetch(name, since)
        while self.store is not None and name not in self.rooms and not self.stopping():
            await self._room_locks.wait(self._fetch(self.store, name))  # it may go again

    async def _fetch(self, store: Store, name: str) -> None:
        async with self._room_locks.of(name):
            if name in self.rooms:  # another socket was faster
                return
            history = await store.claim(name)
            if self.stopping():  # the claim took too long, and the next process needs the room
                store.release(name)
                return
            try:
                self.space.require()
            except ClientFault:
                store.release(name)
                raise
            history.log.before = history.before
            history.log.settings = history.settings
            room = self._open(name, history.log)
            room.empty_since = self.now()

    async def forget(self, name: str) -> bool:
        """End a room now and delete all its data; return whether there was any.

        Raises `gateway.storage.base.StoreFault` if data remains in the store.
        """
        if self.fleet is not None:
            return await self.fleet.forget(name)
        async with self._room_locks.of(name):
            if (room := self.rooms.get(name)) is not None:
                for session in [s for s in self.sessions.values() if s.room is room]:
                    session.outbox.close(CloseCode.ROOM_ENDED, "The room has ended.")
                    self.leave(session)
                self._drop(room)
                self.act()
            kept = self.store is not None and await self.store.forget(name)
            return kept or room is not None

    def receive(self, session: Session, frame: str | bytes) -> None:
        """Handle a frame from a client. All its effects are done or under way on return."""
        session.receive(frame, self.now())
        self.act()

    def perform(self, session: Session, message: ClientMessage) -> None:
        """Carry out a message of the gateway's own. Raises `ClientFault`; has no rate."""
        try:
            session.perform(message, self.now())
        finally:
            self.act()

    def leave(self, session: Session, *, lost: bool = False) -> None:
        """Take a client out of its room, and abort its jobs before this returns. Idempotent.

        :param lost: the client may come back, so its jobs continue for the grace period
        """
        if session.state is SessionState.CLOSED:
            return
        room = session.room
        if lost and self.stopping() and isinstance(room, Room):
            room.finish_speaking(session.member, self.now())  # it comes back to the next process
        session.close(self.now(), lost=lost)
        if room.empty_since is not None and room.name.startswith(PRIVATE):
            if room.temporary or not lost or not room.log.seq:
                self._drop(self.rooms[room.name])
        self.act()

    def close(self, session: Session) -> None:
        """Forget a client whose socket is closed. Idempotent."""
        self.leave(session)
        if session.account is not None:
            session.account.leave(session.member, self.now())
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]

    def _room(self, name: str | None) -> AbstractRoom:
        if self.fleet is not None and name is not None and not name.startswith(PRIVATE):
            return self.fleet.replica(name)
        room = self.rooms.get(name or "")
        if room is None:
            if name is None:
                name = PRIVATE + secrets.token_hex(8)
            elif name.startswith(PRIVATE):
                raise ClientFault(
                    ErrorCode.NOT_FOUND,
                    "This socket's own room is gone.",
                    "Connect without resume.",
                )
            self.space.require()
            return self._open(name, EventLog(secrets.token_hex(4), self.limits, began=self.now()))
        return room

    def _open(self, name: str, log: EventLog) -> Room:
        room = self.rooms[name] = Room(name, log=log, **self.room_options(name))
        self.inform(room)
        return room

    def room_options(self, name: str) -> dict[str, Any]:
        """Return the arguments that every room of this gateway is made with."""
        return {
            "scheduler": self.scheduler,
            "model": self.engine.profile,
            "limits": self.limits,
            "options": self.flow,
            "observe": partial(self._observe, name),
            "set_timer": partial(self._set_alarm, name),
        }

    def inform(self, room: Room) -> None:
        """Count a new room; tell it how long translations are, and how the service is."""
        self.space.watch(room.log)
        room.captioner.length_ratios = self._length_ratios
        room.captioner.instead = self.detect and self.detect.instead
        if self.degraded != NOT_DEGRADED:
            room.degrade(self.degraded, self.now())

    def _set_alarm(self, name: str, when: float) -> None:
        """Wake a room at a time; an earlier setting no longer counts."""
        if name in self._alarms:
            self._alarms[name].cancel()
        delay = max(0.0, when - self.now())
        self._alarms[name] = asyncio.get_running_loop().call_later(delay, self._wake, name)

    def _wake(self, name: str) -> None:
        del self._alarms[name]
        if (room := self.rooms.get(name)) is not None:  # else it has ended since it set the alarm
            room.on_timer(self.now())
            self.act()

    def _evict(self, room: Room) -> None:
        """Drop a room from memory that has not ended: it can be loaded again if it is kept."""
        if self.store is not None:
            self.store.release(room.name)
        self._drop(room)

    def _drop(self, room: Room) -> None:
        """End a room. Only the store may keep anything of it."""
        if isinstance(room, Authority) and self.fleet is not None:
            self.fleet.end(room)
        else:
            self.discard(room)

    def discard(self, room: Room) -> None:
        """End a room in this process; another one may have it from now on."""
        room.end()
        if self.rooms.get(room.name) is room:
            del self.rooms[room.name]
            if (alarm := self._alarms.pop(room.name, None)) is not None:
                alarm.cancel()  # it would keep the room until it rings
            self.load.vacate(room.name)
            self.engine.forget_room(room.name)
            if self.store is not None:
                self.store.end(room.name)

    def act(self) -> None:
        """Carry out the scheduler's decisions now."""
        if self.load.overloaded != (self.degraded.partials == "off"):
            self.refresh_capacity()
        if not self._started:
            self.scheduler.capacity = self._capacity()
        self.jobs.act()

    # --- life -----------------------------------------------------------------------------------

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

    async def keep(self) -> None:
        """Do the housekeeping until cancelled."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            try:
                self.sweep()
            except Exception as exc:
                again = "housekeeping failed; next try in %g s"
                log.error(again, HOUSEKEEPING_S, exc_info=redacted(exc))

    def sweep(self) -> None:
        """Fail jobs that waited too long, end rooms that stayed empty, close expired sockets."""
        now = self.now()
        self.jobs.measure()
        self.refresh_capacity()
        late = ErrorCode.TIMEOUT if self._started else ErrorCode.ENGINE_UNAVAILABLE
        for job in self.scheduler.overdue(now, self.limits.job_s):
            self.rooms[job.room].captioner.failed(job.id, late, now)
        for room in [r for r in self.rooms.values() if r.empty_since is not None]:
            if now - (room.empty_since or now) > self.limits.room_s:
                self._drop(room)
        self.space.shed()
        if self.fleet is not None:
            self.fleet.sweep()
        if self.recognition is not None:
            self.recognition.sweep()
        close_expired(list(self.sessions.values()), self.wall(), now)
        self.tenants.sweep(now)
        self.act()

    def review(self, confirm: Callable[[Permissions], Permissions]) -> None:
        """Close the sockets that changed keys no longer admit. See `apply_changed_keys`."""
        apply_changed_keys(list(self.sessions.values()), confirm, self.now())
        self.act()

    async def drain(self, seconds: float) -> None:
        """Take no new text, let captions in flight end within ``seconds``, then cancel the rest."""
        if self.stopping():
            return
        self._move(HubEvent.DRAIN)
        log.info("draining: %d sockets, %d jobs", len(self.sessions), len(self.jobs.runs))
        shared = [] if self.fleet is None else [self.fleet.drain(seconds)]
        await asyncio.gather(self._room_locks.end(), self.shutdown.run(seconds), *shared)
        self.jobs.fail_all()
        self._move(HubEvent.END)

    def _move(self, event: HubEvent) -> None:
        """Change the phase. Raises `IllegalTransition`."""
        self.phase = next_state(HUB_TRANSITIONS, self.phase, event)

    def hurry(self) -> None:
        """Cut the drain short, after a second signal."""
        self.shutdown.hurry()
