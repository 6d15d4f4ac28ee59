"""One socket's conversation with the gateway.

Owns: what a client's frame means, its limits, and the answers to the client's mistakes.
Must not know: sockets, tasks, clocks, engines. Frames come in through `Session.receive`, everything
that goes out lies in the outbox, work for the engine lies in the dispatcher.

Invariant (``tests/core/test_session.py``): any sequence of any frames leads to events or to a named
``error``, never to an exception, and nothing that was accepted is left without its end.
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.core import validation
from gateway.core.catchup import PAGE, Reader
from gateway.core.event_log import StreamPosition
from gateway.core.member import CatchUp
from gateway.core.model import Model
from gateway.core.outbox import Outbox
from gateway.core.quota import Account
from gateway.core.room import Room
from gateway.core.validation import AUTO, Detect
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.limits import Limits, TokenBucket
from gateway.protocol.codec import decode, reference
from gateway.protocol.messages import (
    HELP,
    VERSION,
    AskHelp,
    AskStats,
    Auth,
    Authenticated,
    Bye,
    Cancel,
    ClientMessage,
    Edit,
    Error,
    Get,
    Help,
    LimitsInfo,
    Resumed,
    Retract,
    Say,
    Set,
    Stats,
    Sync,
    Synced,
    Tick,
    View,
    Want,
    Welcome,
)
from gateway.text import languages

log = logging.getLogger("gateway.session")

WEIGHT = 4_096
"""Characters of a frame, or bytes of a binary one, that count as one more frame. Only a glossary or
a context is as long as that; to take one in costs as much as that many utterances."""

Renew = Callable[[str], Permissions]
"""The rights that a key or a token gives. Raises `ClientFault`."""


class SessionState(enum.Enum):
    """Life of a session. Changed in `Session._enter` alone."""

    OPEN = "open"
    DRAINING = "draining"  # the server is about to stop: nothing new is taken
    DISMISSED = "dismissed"  # nothing more is decided here; the room goes on in another process
    LEAVING = "leaving"  # after `bye`: ends when nothing is in flight
    CLOSED = "closed"


class Session(Reader):
    """A member of one room, driven by the frames of one socket."""

    __slots__ = (
        "_bad",
        "_bucket",
        "_bye",
        "_detect",
        "_engine",
        "_heard",
        "_opened",
        "_profile",
        "_released",
        "account",
        "attempt",
        "errors",
        "frames_in",
        "grant",
        "lang",
        "renew",
        "sayings",
        "state",
    )

    def __init__(
        self,
        id: str,
        *,
        role: Role,
        room: Room,
        outbox: Outbox,
        profile: Model,
        engine: str,
        limits: Limits,
        lang: str,
        now: float,
        defer: Callable[[Reader], None],
        speaker: str | None = None,
        view: View = "live",
        detect: Detect | None = None,
        grant: Permissions = EVERYTHING,
        renew: Renew | None = None,
    ) -> None:
        super().__init__(id, role, outbox, room=room, limits=limits, defer=defer)
        self.grant = grant
        self.account: Account | None = None
        """What its tenant uses, where that is counted."""
        self.attempt = 0
        """Which attempt of its client to come back opened its socket."""
        self.renew = renew
        self.lang = lang
        self.speaker = validation.clean(speaker or "") or None
        self.view = view
        self.state = SessionState.OPEN
        self.sayings = self.errors = self.frames_in = 0
        self._profile = profile
        self._engine = engine
        self._detect = detect
        self._bucket = TokenBucket(limits.rate, limits.burst, now)
        self._bad = 0
        self._bye: str | None = None
        self._released = False
        self._heard = validation.usual(profile)
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
    ) -> Resumed | None:
        """Join the room and send ``welcome``; languages that do not exist are named in an error.

        :param since: how far its client has come: it is told what came after that
        :param token: with which another socket can take the place of this one
        """
        hint = None
        if not langs:
            hint = (
                "This socket reads no language yet: connect with ?to=de,fr "
                'or send {"type":"want","langs":["de","fr"]}.'
            )
        self.room.join(self, now)
        seq, resumed, recalled = self.begin(self._known(langs), since)
        self.outbox.send(
            Welcome(
                v=VERSION,
                session=self.id,
                room=self.room.name,
                epoch=self.room.log.epoch,
                seq=seq,
                resume=token,
                engine=self._engine,
                languages=self._profile.targets,
                limits=LimitsInfo(
                    frame=self._limits.frame,
                    text=self._limits.text,
                    inflight=self._limits.inflight,
                    targets=self._limits.targets,
                    rate=self._limits.rate,
                ),
                resumed=resumed,
                hint=hint,
            ),
            now,
        )
        if self.room.degraded is not None:
            self.outbox.send(self.room.degraded, now)
        for envelope in recalled:
            self.outbox.push(envelope, now)
        refused = None
        if langs:
            try:
                self._want(Want(langs=langs), now)
            except ClientFault as fault:
                refused = fault
        self.recalled = True
        self.catch_up(now)
        if refused is not None:
            self._refuse(refused, now)
        return resumed

    def close(self, now: float, *, lost: bool = False) -> None:
        """The socket is gone: leave the room, whatever was in flight is aborted; where it was
        ``lost``, only if nobody comes back for it."""
        if self.state is not SessionState.CLOSED:
            self._enter(SessionState.CLOSED)
            if lost and self._bye is None:
                self.room.part(self, now)
            else:
                self.room.leave(self, now)
            self.backlog = None
            self.outbox.refill = None
            self.outbox.discard()

    def drain(self) -> None:
        """The server is about to stop: take nothing new. The socket is closed with its room."""
        if self.state is SessionState.OPEN:
            self._enter(SessionState.DRAINING)

    def dismiss(self) -> None:
        """The room has been let go: from now on nothing changes it here, nor does who leaves."""
        self._released = True
        if self.state in (SessionState.OPEN, SessionState.DRAINING):
            self._enter(SessionState.DISMISSED)

    def allow(self, now: float) -> None:
        if self.account is not None:
            self.account.begin(self.grant.quota, now)

    def ended(self, now: float) -> None:
        if self.state is SessionState.LEAVING and not self.inflight and self.backlog is None:
            self.outbox.send(self.stats(now, self._bye or None), now)
            self.outbox.close(CloseCode.DONE)

    def refuse(self, fault: ClientFault, code: CloseCode, now: float) -> None:
        """Say what has become of its rights, and close the socket."""
        self._refuse(fault, now, fatal=True)
        self.outbox.close(code, str(fault))

    def tick(self, now: float) -> None:
        """Send a heartbeat."""
        seq = self.room.log.seq if self.backlog is None else self.backlog.cursor
        self.outbox.send(Tick(seq=seq), now)

    # --- frames -----------------------------------------------------------------------------------

    def receive(self, frame: str | bytes, now: float) -> None:
        """Do what one frame asks for, completely, now."""
        if self.state is SessionState.CLOSED or self.outbox.closing is not None:
            return
        self.frames_in += 1
        wait = self._bucket.take(now)
        if wait:
            fault = ClientFault(
                ErrorCode.RATE, f"More than {self._limits.rate:g} frames a second; it was not read."
            )
            self._refuse(fault, now, retry_ms=math.ceil(wait * 1000))
            return
        self._bucket.spend(len(frame) // WEIGHT)
        try:
            message = decode(frame)
        except ClientFault as fault:
            ref, id = reference(frame)
            self._bad = self._bad + 1 if fault.code is ErrorCode.BAD_FRAME else 0
            fatal = self._bad >= self._limits.bad_frames
            self._refuse(fault, now, ref=ref, id=id, fatal=fatal)
            if fatal:
                self.outbox.close(
                    CloseCode.PROTOCOL_ERROR, f"{self._bad} unreadable frames in a row."
                )
            return
        self._bad = 0
        try:
            self._do(message, now)
        except ClientFault as fault:
            id = getattr(message, "id", None)
            self._refuse(fault, now, ref=message.ref, id=id, retry_ms=fault.retry_ms)

    def _do(self, message: ClientMessage, now: float) -> None:
        if self._released and isinstance(message, Say | Want | Set | Edit | Retract):
            raise ClientFault(
                ErrorCode.BUSY, "This room goes on in another process.", "Open the next socket."
            )
        match message:
            case Say():
                self._say(message, now)
            case Cancel():
                langs = message.langs
                if langs is not None:
                    langs = validation.named(langs, self._limits.targets)
                self.room.cancel(self, message.id, langs, message.ref, now)
            case Want():
                self._want(message, now)
            case Set():
                self._set(message, now)
            case Edit():
                self._may_speak("edit")
                lang = languages.normalise(message.lang)
                text = validation.said(message.text, self._limits.text)
                self.room.edit(self, message, text, lang, now)
            case Retract():
                self._may_speak("retract")
                self.room.retract(self, message, now)
            case Get():
                found = self.room.snapshot(message.id, message.ref)
                lines = tuple(line for line in found.lines if self.grant.can_read(line.lang))
                self.outbox.send(replace(found, lines=lines), now)
            case Sync():
                self._sync(message, now)
            case Auth():
                self._authenticate(message, now)
            case AskStats():
                self.outbox.send(self.stats(now, message.ref), now)
            case AskHelp():
                self.outbox.send(Help(types=HELP, ref=message.ref), now)
            case Bye():  # pragma: no branch: there is no other
                if self._bye is None:
                    self._bye = message.ref or ""
                self._enter(SessionState.LEAVING)
                self.room.hush(self, now)
                self.ended(now)

    def _say(self, say: Say, now: float) -> None:
        self._may_speak("say")
        known = self.room.knows(say.id)
        if self.state is not SessionState.OPEN and not known:
            raise ClientFault(ErrorCode.BUSY, "This socket is about to close; open a new one.")
        text = validation.said(say.text, self._limits.text)
        if len(self.inflight) >= self._limits.inflight and not known:
            raise ClientFault(
                ErrorCode.BUSY,
                f"{len(self.inflight)} utterances of this socket have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        lang = self._spoken(say.lang, text)
        speaker = validation.clean(say.speaker or "") or self.speaker
        self.room.say(self, replace(say, speaker=speaker), text, lang, now)
        self.sayings += 1

    def _want(self, want: Want, now: float) -> None:
        langs, fault = self._readable(want.langs)
        if fault is None or langs:
            self.room.want(self, langs, want.view, now, most=want.backfill)
        if fault is not None:
            raise fault

    def _sync(self, sync: Sync, now: float) -> None:
        """Tell again what came after a number."""
        if self.backlog is not None:
            raise ClientFault(
                ErrorCode.BUSY, "This socket is still being told what it missed before."
            )
        seq, resumed, recalled = self.begin(
            self._known(self.langs), StreamPosition(sync.epoch, sync.seq)
        )
        assert resumed is not None, "it was asked for"
        if resumed.ok:
            self._bucket.spend((self.room.log.seq - seq) / PAGE)
        self.outbox.send(
            Synced(
                epoch=self.room.log.epoch,
                seq=seq,
                ok=resumed.ok,
                replayed=resumed.replayed,
                from_=resumed.from_,
                transcript=resumed.transcript,
                ref=sync.ref,
            ),
            now,
        )
        for envelope in recalled:
            self.outbox.push(envelope, now)
        if not resumed.ok:
            self.backlog = CatchUp(self.room.log.seq)
        self.catch_up(now)

    def _authenticate(self, auth: Auth, now: float) -> None:
        """Take over other rights for the same place. Raises `ClientFault`; then the old ones stay.

        Raises ``forbidden`` where they would not have let this socket in as it is.
        """
        if self.renew is not None:  # else nobody is asked
            grant = self.renew(auth.token)
            if grant.tenant != self.grant.tenant:
                raise ClientFault(
                    ErrorCode.FORBIDDEN, "This key is of another tenant.", "Open a new socket."
                )
            self.confirm(grant)
            self.grant = grant
        name, until = self.grant.name or None, self.grant.until
        self.outbox.send(Authenticated(name=name, until=until, ref=auth.ref), now)

    def confirm(self, grant: Permissions) -> None:
        """Raises `ClientFault` (``forbidden``) unless ``grant`` allows what this socket does."""
        grant.check_role(self.role)
        grant.check_room(self.room.name)
        grant.check_languages(self.langs)

    def _known(self, langs: Sequence[str]) -> tuple[str, ...]:
        """Those of these languages that it can read; `_want` complains of the others."""
        try:
            return self._readable(langs)[0]
        except ClientFault:
            return ()

    def _readable(self, tags: Sequence[str]) -> tuple[tuple[str, ...], ClientFault | None]:
        """What of these tags can be read here, spelt correctly, and why the rest cannot.

        Raises `ClientFault` (``too_many_targets``).
        """
        there, fault = validation.readable(tags, self._profile, self._limits.targets)
        denied = None
        langs: dict[str, None] = {}
        for tag in there:
            try:
                self.grant.check_languages([tag])
            except ClientFault as beyond:
                denied = beyond
            else:
                langs[tag] = None
        return tuple(langs), fault or denied

    def _set(self, change: Set, now: float) -> None:
        self._may_speak("set")
        if change.from_ is not None:
            self.lang = self._speakable(change.from_)
            change = replace(change, from_=self.lang)
        change = validation.cleaned(change)
        if change.speaker is not None:
            self.speaker = change.speaker or None
        self.room.change(self, change, now)

    # --- answers ----------------------------------------------------------------------------------

    def stats(self, now: float, ref: str | None = None) -> Stats:
        """The counters of this socket."""
        return Stats(
            said=self.sayings,
            finals=self.finals,
            failed=self.failed,
            cancelled=self.cancelled,
            errors=self.errors,
            frames_in=self.frames_in,
            frames_out=self.outbox.frames,
            bytes_out=self.outbox.sent,
            merged=self.outbox.merged,
            inflight=len(self.inflight),
            seconds=round(now - self._opened, 3),
            ref=ref,
        )

    def _refuse(
        self,
        fault: ClientFault,
        now: float,
        *,
        ref: str | None = None,
        id: str | None = None,
        retry_ms: int | None = None,
        fatal: bool = False,
    ) -> None:
        self.errors += 1
        self.outbox.send(
            Error(
                code=fault.code.value,
                fatal=fatal,
                retry=fault.code.retry,
                retry_ms=retry_ms,
                id=id,
                ref=ref,
                msg=str(fault),
                hint=fault.hint,
            ),
            now,
        )

    # --- checks -----------------------------------------------------------------------------------

    def _may_speak(self, what: str) -> None:
        if self.role is Role.VIEW:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"A socket with role=view only reads; it cannot {what}.",
                "Connect with role=speak.",
            )

    def _speakable(self, tag: str) -> str:
        """A language a speaker may use, normalised, or `AUTO`. Raises `ClientFault`."""
        return validation.speakable(tag, self._profile, self._detect)

    def _spoken(self, tag: str | None, text: str) -> str:
        lang = self.lang if tag is None else self._speakable(tag)
        if lang != AUTO:
            return lang
        assert self._detect is not None, "a session is auto only where there is a detector"
        self._heard = self._detect(text) or self._heard
        return self._heard

    def _enter(self, state: SessionState) -> None:
        log.debug("%s %s -> %s", self.id, self.state.value, state.value)
        self.state = state
