"""The gateway's sessions, and its life from the start to the end of a drain.

Owns: sessions by name, readiness, phases, which sockets are closed when their keys expire or
change, and what happens to rooms over time. Must not know: keys themselves, Starlette, the contents
of frames, any particular engine, how rooms are made and act (`gateway.server.runtime.room_host`),
who decides for a room (`gateway.server.runtime.fleet`).

All changes of state are synchronous: a frame is read, the core decides, and `RoomHost.act` starts
and aborts jobs before the event loop turns. Only then does anything wait.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import secrets
from collections import Counter
from collections.abc import Callable

from gateway.auth.permissions import Permissions
from gateway.auth.signed_tokens import Signer
from gateway.core.base.validation import AUTO, speakable
from gateway.core.delivery.outbox import Outbox
from gateway.core.delivery.waiting_frames import DeliveryCounters
from gateway.core.room.room import Room
from gateway.core.session.connect_request import ConnectRequest, ResumePoint, recognise
from gateway.core.session.context import SessionContext
from gateway.core.session.log_reader import LogReader
from gateway.core.session.session import Session
from gateway.core.session.state import SessionState
from gateway.engines.base.service import Health
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.protocol.messages import PRIVATE, ClientMessage
from gateway.server.runtime.drain import Drain
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.runtime.room_host import RoomHost


class HubPhase(enum.Enum):
    """Phase of the gateway's life."""

    OPEN = "open"
    DRAINING = "draining"  # nothing new is accepted, rooms are released as they settle
    CLOSED = "closed"


log = logging.getLogger("gateway.hub")

HOUSEKEEPING_S = 1.0
"""Seconds between two checks for overdue jobs and for rooms that have been empty too long."""

CLOSE = {
    ErrorCode.BUSY: CloseCode.TOO_MANY,
    ErrorCode.UNAUTHENTICATED: CloseCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN,
    ErrorCode.NOT_FOUND: CloseCode.NO_SUCH_ROOM,
}
"""Close code of a socket that must not stay open, by the error code it is sent before."""


def session_ids(session: Session) -> dict[str, str]:
    """Return the ids of a session and its room, for the ``extra`` of a logger's call."""
    return {"session": session.id, "room": session.room.name}


class Hub:
    """The sessions of one process, and the rooms that they are in. By default it shares and keeps
    none, refuses audio, and signs resume tokens with a new key.
    """

    def __init__(
        self,
        host: RoomHost,
        fleet: Fleet | None = None,
        *,
        recognition: RecognitionRunner | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.host = host
        self.fleet = fleet or Fleet(host)
        self.recognition = recognition
        self.signer = signer or Signer(secrets.token_bytes(32))
        self.phase = HubPhase.OPEN
        self.sessions: dict[str, Session] = {}
        self.counters = DeliveryCounters()
        self.resumed: Counter[bool] = Counter()
        """Sockets that resumed, by whether the log still had all that they missed."""
        # Parts of the host that routes and metrics ask for.
        self.engine, self.limits, self.rooms = host.engine, host.limits, host.rooms
        self.scheduler, self.jobs, self.load = host.scheduler, host.jobs, host.load
        self.now, self.wall, self.act = host.now, host.wall, host.act
        self.detect = host.text.detect
        self.lang = host.text.lang or ("en" if self.detect is None else AUTO)
        self.fetch = self.fleet.fetch
        self.shutdown = Drain(self.fleet, self.sessions)
        self.hurry = self.shutdown.hurry

    @property
    def ready(self) -> bool:
        """Readiness to translate a new utterance, if not in every room."""
        # A recogniser that fails later refuses audio only, and text is still translated.
        deaf = self.recognition is not None and self.recognition.starting
        ready = self.engine.health is Health.READY and not deaf and self.fleet.compatible
        return self.phase is HubPhase.OPEN and ready

    @property
    def ready_for_rooms(self) -> bool:
        """Readiness to translate a new utterance in any room, also in shared ones."""
        return self.ready and self.fleet.connected

    def stopping(self) -> bool:
        """Tell whether the end has begun. No property, because it changes during an ``await``."""
        return self.phase is not HubPhase.OPEN

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
        self.host.tenants.check(
            request.permissions,
            instead=None if before is None else before.member,
            resumes=request.session is not None,
        )
        profile = self.engine.profile
        source = self.lang if request.source is None else request.source
        lang = speakable(source, profile, self.detect)
        room = self.fleet.enter(request.room)
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
        session.account = self.host.tenants.enter(session.member, request.permissions)
        token = None
        if not request.once:
            until = self.wall() + self.limits.resume_s
            token = request.token(self.signer, session.id, room.name, self.limits.targets, until)
        resumed = session.open(request.targets, self.now(), since=request.since, token=token)
        if resumed is not None:
            self.resumed[resumed.ok] += 1
        self.act()
        return session

    def recognise(self, token: str | None, room: str | None) -> ResumePoint | None:
        """Return the place that a resume token states; see `connect_request.recognise`."""
        return recognise(self.signer, token, room, self.wall())

    def _defer(self, reader: LogReader) -> None:
        """Continue a long replay in the next turn of the loop, so that others have theirs."""
        asyncio.get_running_loop().call_soon(lambda: reader.advance(self.now()))

    async def forget(self, name: str) -> bool:
        """End a room now and delete all its data; see `Fleet.forget`."""
        return await self.fleet.forget(name, self._dismiss)

    def _dismiss(self, room: Room) -> None:
        """Let all members of a room go, because it ends."""
        for session in [other for other in self.sessions.values() if other.room is room]:
            session.outbox.close(CloseCode.ROOM_ENDED, "The room has ended.")
            self.leave(session)

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
        """Take a client out of its room, and abort its jobs before this returns, or after the grace
        period if its socket was ``lost`` and it may come back. Idempotent.
        """
        if session.state is SessionState.CLOSED:
            return
        room = session.room
        if lost and self.stopping() and isinstance(room, Room):
            room.finish_speaking(session.member, self.now())  # it comes back to the next process
        session.close(self.now(), lost=lost)
        if room.empty_since is not None and room.name.startswith(PRIVATE):
            if room.temporary or not lost or not room.log.seq:
                self.fleet.end(self.rooms[room.name])
        self.act()

    def close(self, session: Session) -> None:
        """Forget a client whose socket is closed, and call it no more. Idempotent."""
        session.outbox.detach()
        self.leave(session)
        if session.account is not None:
            session.account.leave(session.member, self.now())
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]

    # --- life -----------------------------------------------------------------------------------

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
        self.host.sweep()
        for room in [r for r in self.rooms.values() if r.empty_since is not None]:
            if now - (room.empty_since or now) > self.limits.room_s:
                self.fleet.end(room)
        self.fleet.space.shed()
        self.fleet.sweep()
        if self.recognition is not None:
            self.recognition.sweep()
        self._close_expired()
        self.host.tenants.sweep(now)
        self.act()

    def review(self, confirm: Callable[[Permissions], Permissions]) -> None:
        """Restrict sockets to the permissions of changed keys, and close sockets that they do not
        admit.

        :param confirm: returns what is left of permissions; raises `ClientFault`
            (``unauthenticated``)
        """
        for session in list(self.sessions.values()):
            if session.outbox.closing is None:
                try:
                    permissions = confirm(session.permissions)
                    session.confirm(permissions)
                except ClientFault as fault:
                    session.refuse(fault, CLOSE[fault.code], self.now())
                else:
                    session.permissions = permissions
        self.act()

    def _close_expired(self) -> None:
        """Close the sockets whose key or token has expired."""
        for session in list(self.sessions.values()):
            until = session.permissions.until
            if until is not None and until <= self.wall() and session.outbox.closing is None:
                fault = ClientFault(
                    ErrorCode.UNAUTHENTICATED,
                    "The key of this socket has expired.",
                    "Connect with another one; send `auth` before the next one expires.",
                )
                session.refuse(fault, CloseCode.UNAUTHENTICATED, self.now())

    async def drain(self, seconds: float) -> None:
        """Take no new text, let captions in flight end within ``seconds``, then cancel the rest."""
        if self.stopping():
            return
        self.phase = HubPhase.DRAINING
        log.info("draining: %d sockets, %d jobs", len(self.sessions), len(self.jobs.runs))
        self.fleet.draining = True
        await asyncio.gather(self.fleet.drain(seconds), self.shutdown.run(seconds))
        self.jobs.fail_all()
        self.phase = HubPhase.CLOSED
