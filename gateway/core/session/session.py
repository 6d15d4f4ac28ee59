"""The conversation of one socket with the gateway.

Owns: the meaning of a client's frames, the limits of a socket, and the answers to a client's
mistakes. Must not know: sockets, tasks, clocks, engines. Frames come in through `Session.receive`,
events go out through the outbox, and work for the engine goes to the scheduler.

Invariant (``tests/core/session/test_session.py``): any sequence of frames leads to events or to a
named ``error``, never to an exception, and everything that was accepted comes to an end.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.auth.permissions import Permissions, Role
from gateway.core.base import validation
from gateway.core.base.faults import closing, error
from gateway.core.base.transitions import next_state
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import StreamPosition
from gateway.core.members.member import Member
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.session.audio import AudioInput
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.context import SessionContext
from gateway.core.session.log_reader import LogReader
from gateway.core.session.quota import Account
from gateway.core.session.state import SESSION_TRANSITIONS, SessionEvent, SessionState
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.limits import TokenBucket
from gateway.protocol import messages
from gateway.protocol.audio import NONE, Audio, AudioChunk
from gateway.protocol.codec import HELP, Codec, decode, reference
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.notices import Authenticated, Help, Stats, Tick
from gateway.text import languages

log = logging.getLogger("gateway.session")

WEIGHT = 4_096
"""Characters of a frame, or bytes of a binary one, that count as one more frame. Only a glossary or
a context is that long, and to accept one costs as much as that many utterances."""

NO_LANGUAGE = (
    "This socket reads no language yet: connect with ?to=de,fr "
    'or send {"type":"want","langs":["de","fr"]}.'
)
"""Hint in the ``welcome`` of a socket that reads nothing."""


class Session:
    """A member of one room, driven by the frames of one socket.

    :param lang: tag of the language that the member speaks, several with commas, or `AUTO`
    """

    __slots__ = (
        *("_bad", "_bucket", "_bye", "_context", "_opened", "_released", "account", "attempt"),
        *("audio", "errors", "frames_in", "id", "member", "outbox", "permissions", "reader"),
        *("renew", "room", "sayings", "spoken", "state"),
    )

    def __init__(
        self,
        id: str,
        request: ConnectRequest,
        *,
        room: AbstractRoom,
        outbox: Outbox,
        lang: str,
        context: SessionContext,
        now: float,
    ) -> None:
        self.id = id
        self.room = room
        self.outbox = outbox
        self.member = Member(id, request.role, outbox, self)
        self.member.speaker = validation.clean(request.speaker or "") or None
        self.member.view, self.member.spoken = request.view, lang
        self.reader = LogReader(self.member, room, context.limits, context.defer)
        self.permissions = request.permissions
        self.renew = request.renew
        self.account: Account | None = None
        """Usage of its tenant, if that is counted."""
        self.attempt = 0
        """Number of the client's attempt to come back that opened the socket."""
        self.spoken = validation.SpokenLanguage(lang, context.model, context.detect)
        self.state = SessionState.OPEN
        self.sayings = self.errors = self.frames_in = 0
        self._context = context
        self._bucket = TokenBucket(context.limits.rate, context.limits.burst, now)
        self._bad = 0  # unreadable frames in a row
        self._bye: messages.Bye | None = None
        self.audio: AudioInput | None = None  # once the client has asked for it
        self._released = False
        self._opened = now

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.state.value} in {self.room.name}, {self.outbox!r}>"

    # --- life -------------------------------------------------------------------------------------

    def open(
        self,
        langs: tuple[str, ...],
        now: float,
        *,
        since: StreamPosition | None = None,
        token: str | None = None,
    ) -> messages.Resumed | None:
        """Join the room and send ``welcome``, and the events ``since`` the client was here. Unknown
        languages are named in an ``error``.
        """
        try:
            known, refused = self._readable(langs)
        except ClientFault as fault:
            known, refused = (), fault.with_traceback(None)  # it refers to this frame
        # Before the log is read, so that no event falls between the two.
        self.room.join(self.member, now)
        seq, resumed, recent = self.reader.start(known, since)
        context, model = self._context, self._context.model
        may_change = self.member.role is not Role.VIEW
        welcome = messages.Welcome(
            v=messages.VERSION,
            session=self.id,
            room=self.room.name,
            epoch=self.room.log.epoch,
            seq=seq,
            resume=token,
            engine=context.engine,
            languages=model.targets,
            impossible=validation.impossible(model) or None,
            glossary=model.glossary,
            limits=msgspec.convert(context.limits, LimitsInfo, from_attributes=True),
            settings=self.room.translation_context.settings() if may_change else None,
            audio=None if context.speech is None else context.speech.info(),
            resumed=resumed,
            hint=None if langs else NO_LANGUAGE,
        )
        self.outbox.send(welcome, now)
        if self.room.degraded is not None:
            self.outbox.send(self.room.degraded, now)
        for envelope in recent:
            self.outbox.push(envelope, now)
        if known:
            self.room.want(self.member, messages.Want(langs=known), now)
        self.member.welcomed = True
        self.reader.advance(now)
        # It follows the events, so that the client first has all that it may read.
        if refused is not None:
            self.report(refused, now)
        return resumed

    def close(self, now: float, *, lost: bool = False) -> None:
        """Leave the room, because the socket is gone. Idempotent. The work in flight is cancelled:
        at once, or if the socket was ``lost``, after a time in which the client may come back.
        """
        if self.state is not SessionState.CLOSED:
            # A client that said `bye` does not come back, however its socket was lost.
            lost = lost and self._bye is None
            if self.audio is not None:
                self.audio.close(now, lost=lost)
                self.audio = None
            self._move(SessionEvent.CLOSE)
            if lost:
                self.room.disconnect(self.member, now)
            else:
                self.room.leave(self.member, now)
            self.member.listener = None  # a cycle would wait for the garbage collector
            self.member.catch_up = None
            self.outbox.refill = None
            self.outbox.discard()

    def drain(self) -> None:
        """Accept nothing new: the server is about to stop. The socket is closed with its room."""
        self._move(SessionEvent.DRAIN)
        if self.audio is not None:
            self.audio.finish()

    def dismiss(self) -> None:
        """Change the room no more: it was released and may continue in another process."""
        self._released = True
        self._move(SessionEvent.DISMISS)
        self.outbox.wake()  # a reader without a socket has nothing to wait for

    def charge(self, now: float) -> None:
        """Count a new utterance. Raises `ClientFault` (``busy``) over the tenant's quota."""
        if self.account is not None:
            self.account.begin(self.permissions.quota, now)

    def ended(self, now: float) -> None:
        """Close the socket after ``bye`` once nothing is in flight and the member is up to date."""
        leaving = self.state is SessionState.LEAVING
        if leaving and not self.member.in_flight and self.member.catch_up is None:
            self.outbox.send(self.stats(now, None if self._bye is None else self._bye.ref), now)
            self.outbox.close(CloseCode.DONE)

    def refuse(self, fault: ClientFault, code: CloseCode, now: float) -> None:
        """Send a fatal ``error``, and close the socket: its permissions have ended."""
        self.report(fault, now, fatal=True)
        self.outbox.close(code, str(fault))

    def tick(self, now: float) -> None:
        """Send a heartbeat with the number of the last event that the member was sent."""
        catch_up = self.member.catch_up
        seq = self.room.log.seq if catch_up is None else catch_up.cursor
        self.outbox.send(Tick(seq=seq), now)

    # --- frames -----------------------------------------------------------------------------------

    def receive(self, frame: str | bytes, now: float) -> None:
        """Do everything that one frame asks for."""
        if self.state is SessionState.CLOSED or self.outbox.closing is not None:
            return
        limits = self._context.limits
        self.frames_in += 1
        # Frames of MessagePack are binary too, so audio is inside of messages there.
        audio = None if self.outbox.codec is Codec.MSGPACK else self.audio
        if audio is not None and isinstance(frame, bytes):
            audio.receive(frame, now)
            return
        # Charged before the frame is read: an unreadable one costs as much.
        wait = self._bucket.take(now)
        if wait:
            why = f"More than {limits.rate:g} frames a second; it was not read."
            self.report(ClientFault(ErrorCode.RATE, why, retry_ms=math.ceil(wait * 1000)), now)
            return
        if len(frame) >= WEIGHT:
            self._bucket.spend(len(frame) // WEIGHT)
        try:
            message = decode(frame)
        except ClientFault as fault:
            ref, id = reference(frame)
            # Unknown types are no sign of a broken client: it may speak a newer protocol.
            self._bad = self._bad + 1 if fault.code is ErrorCode.BAD_FRAME else 0
            fatal = self._bad >= limits.bad_frames
            self.report(fault, now, ref=ref, id=id, fatal=fatal)
            if fatal:
                self.outbox.close(
                    CloseCode.PROTOCOL_ERROR, f"{self._bad} unreadable frames in a row."
                )
            return
        self._bad = 0
        try:
            _ACTIONS[type(message)](self, message, now)
        except ClientFault as fault:
            self.report(fault, now, ref=message.ref, id=getattr(message, "id", None))

    def perform(self, message: messages.ClientMessage, now: float) -> None:
        """Carry out a message, at any rate. Raises `ClientFault`."""
        _ACTIONS[type(message)](self, message, now)

    @property
    def _leaving(self) -> bool:
        return self.state is not SessionState.OPEN or self._bye is not None

    @property
    def hearing(self) -> bool:
        """True while audio of this socket is not recognised to its end."""
        return self.audio is not None and not self.audio.idle

    def _leave(self, bye: messages.Bye, now: float) -> None:
        # The first one is answered, with its `ref`.
        self._bye = self._bye or bye
        if self.audio is not None:
            self.audio.finish()
        self.audio_ended(now)

    def audio_ended(self, now: float) -> None:
        """Go on with `bye` once everything that was said before it is recognised."""
        if self._bye is not None and not self.hearing:
            self._move(SessionEvent.BYE)
            self.room.finish_speaking(self.member, now)
            self.ended(now)

    def say(self, message: messages.Say, now: float, *, heard: bool = False) -> None:
        """Say a text, which may have been ``heard`` in the audio of this socket. Raises
        `ClientFault`.
        """
        self._check_change("say")
        # An utterance that was accepted may be completed; only new ones are refused.
        if self._leaving and not heard and not self.room.knows(self.member, message.id):
            raise closing()
        message = validation.cleaned(message, self._context.limits.text)
        lang = self.spoken.of(message.text, message.lang)
        # A relay names the speaker of each text, everybody else names themselves once.
        speaker = message.speaker or self.member.speaker
        self.room.say(self.member, replace(message, speaker=speaker, lang=lang), now)
        self.sayings += 1

    def _cancel(self, message: messages.Cancel, now: float) -> None:
        langs = message.langs
        if langs is not None:
            # Unknown tags too, because a client may clean up blindly.
            langs = validation.named(langs, self._context.limits.targets)
        # Of spoken text, one language is stopped and the speech goes on.
        if self.audio is not None and not langs:
            self.audio.cancel(message.id)
        self.room.cancel(self.member, replace(message, langs=langs), now)

    def _edit(self, message: messages.Edit, now: float) -> None:
        self._check_change("edit")
        lang = languages.normalise(message.lang)
        message = validation.cleaned(message, self._context.limits.text)
        self.room.edit(self.member, replace(message, lang=lang), now)

    def _retract(self, message: messages.Retract, now: float) -> None:
        self._check_change("retract")
        self.room.retract(self.member, message, now)

    def _get(self, message: messages.Get, now: float) -> None:
        self.room.get(self.member, message, now, self.permissions.langs)

    def _sync(self, message: messages.Sync, now: float) -> None:
        # A client that asks for the whole log again and again reaches its rate.
        self._bucket.spend(self.reader.sync(message, now))

    def _ask_stats(self, message: messages.AskStats, now: float) -> None:
        self.outbox.send(self.stats(now, message.ref), now)

    def _ask_help(self, message: messages.AskHelp, now: float) -> None:
        self.outbox.send(Help(types=HELP, ref=message.ref), now)

    def _listen(self, message: Audio | AudioChunk, now: float) -> None:
        if self.audio is None:
            self.audio = AudioInput(self, self._context.speech, self._context.limits, now)
        self._check_role("send audio")
        if isinstance(message, AudioChunk):
            self._bucket.spend(-1 - len(message.data) // WEIGHT)  # audio has limits of its own
            self.audio.receive(message.data, now)
        elif self._leaving and message.codec != NONE:
            raise closing()
        else:
            self.audio.change(message, now)

    def _want(self, want: messages.Want, now: float) -> None:
        self._check_change()
        langs, fault = self._readable(want.langs)
        # A request whose languages are all unknown leaves the present ones as they are.
        if fault is None or langs:
            self.room.want(self.member, replace(want, langs=langs), now)
        if fault is not None:
            self.report(fault, now, ref=want.ref)

    def _readable(self, tags: Sequence[str]) -> tuple[tuple[str, ...], ClientFault | None]:
        context = self._context
        return validation.readable(tags, context.model, context.limits.targets, self.permissions)

    def _authenticate(self, auth: messages.Auth, now: float) -> None:
        """Replace the permissions of this socket. Raises `ClientFault`; then the old ones stay."""
        if self.renew is not None:  # else the gateway needs no keys
            permissions = self.renew(auth.token)
            # Usage is counted for the tenant that the socket was opened with.
            if permissions.tenant != self.permissions.tenant:
                raise ClientFault(
                    ErrorCode.FORBIDDEN, "This key is of another tenant.", "Open a new socket."
                )
            self.confirm(permissions)
            self.permissions = permissions
        name, until = self.permissions.name or None, self.permissions.until
        self.outbox.send(Authenticated(name=name, until=until, ref=auth.ref), now)

    def confirm(self, permissions: Permissions) -> None:
        """Check that ``permissions`` allows this socket. Raises `ClientFault` (``forbidden``)."""
        permissions.check_role(self.member.role)
        permissions.check_room(self.room.name)
        permissions.check_languages(self.member.langs)

    def _set(self, change: messages.Set, now: float) -> None:
        self._check_change("set")
        if change.from_ is not None:
            self.spoken.stated = self.member.spoken = self.spoken.normalised(change.from_)
            change = replace(change, from_=self.spoken.stated)
        change = validation.cleaned(change, self._context.limits.text)
        self.room.change_settings(self.member, change, now)

    # --- answers ----------------------------------------------------------------------------------

    def stats(self, now: float, ref: str | None = None) -> Stats:
        """Return the counters of this socket."""
        return Stats(
            said=self.sayings,
            finals=self.member.finals,
            failed=self.member.failed,
            cancelled=self.member.cancelled,
            errors=self.errors,
            frames_in=self.frames_in,
            frames_out=self.outbox.frames,
            bytes_out=self.outbox.sent,
            merged=self.outbox.merged,
            inflight=len(self.member.in_flight),
            seconds=round(now - self._opened, 3),
            ref=ref,
        )

    def report(self, fault: ClientFault, now: float, **fields: Any) -> None:
        """Send an ``error``. ``fields`` are further fields of it."""
        self.errors += 1
        self.outbox.send(error(fault, **fields), now)

    # --- checks -----------------------------------------------------------------------------------

    def _check_change(self, what: str | None = None) -> None:
        # Reading and leaving are still possible, since they change nothing in the room.
        if self._released:
            raise ClientFault(
                ErrorCode.BUSY, "This room goes on in another process.", "Open the next socket."
            )
        if what is not None and self.member.role is Role.VIEW:
            self._check_role(what)

    def _check_role(self, what: str) -> None:
        if self.member.role is Role.VIEW:
            why = f"A socket with role=view only reads; it cannot {what}."
            raise ClientFault(ErrorCode.FORBIDDEN, why, "Connect with role=speak.")

    def _move(self, event: SessionEvent) -> None:
        state = next_state(SESSION_TRANSITIONS, self.state, event)
        if state is not self.state:
            ids = {"session": self.id, "room": self.room.name}
            log.debug("%s %s -> %s", self.id, self.state.value, state.value, extra=ids)
            self.state = state


_ACTIONS: dict[type[messages.ClientMessage], Callable[[Session, Any, float], None]] = {
    messages.Say: Session.say,
    Audio: Session._listen,
    AudioChunk: Session._listen,
    messages.Cancel: Session._cancel,
    messages.Want: Session._want,
    messages.Set: Session._set,
    messages.Edit: Session._edit,
    messages.Retract: Session._retract,
    messages.Get: Session._get,
    messages.Sync: Session._sync,
    messages.Auth: Session._authenticate,
    messages.AskStats: Session._ask_stats,
    messages.AskHelp: Session._ask_help,
    messages.Bye: Session._leave,
}
"""Methods by the type of message; a message is matched here and nowhere else."""
