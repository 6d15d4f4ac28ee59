"""The vocabulary of the core's tests: meetings without sockets, clocks and models.

A `Meeting` is a room in front of an engine that the test works by hand. A `Peer` is a client that
sends frames and reads events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from gateway.core.base.model import Model
from gateway.core.base.validation import Detect
from gateway.core.captions.captioner import CaptionSink
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room, RoomOptions
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.session.audio_stream import SpeechService
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.context import SessionContext
from gateway.core.session.log_reader import LogReader
from gateway.core.session.session import Session
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import StabilityRules
from gateway.engines.profiles import Profile
from gateway.errors import ErrorCode
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Edited,
    Final,
    ServerMessage,
    Source,
    Welcome,
)
from gateway.protocol.notices import Error
from tests.support.screen import Screen

E = TypeVar("E")

NOW = 1000.0
"""Time at which every test begins, in seconds."""

EAGER = StreamingOptions(
    pace=PartialTiming(interval=0.0, words=1, first=1, step=1, repeats=1),
    stability=StabilityRules(hold=1, mask=0, agree=2),
)
"""Options under which every partial is translated at once, and its translation shown whole."""

_from_json = msgspec.json.Decoder(ServerMessage).decode
_from_msgpack = msgspec.msgpack.Decoder(ServerMessage).decode


def read(frame: str | bytes) -> ServerMessage:
    """Return the message in a server's frame."""
    event: ServerMessage = _from_json(frame) if isinstance(frame, str) else _from_msgpack(frame)
    return event


class Peer:
    """A client of one session. ``screen`` shows the events that it has read."""

    def __init__(self, meeting: Meeting, session: Session, codec: Codec) -> None:
        self.meeting = meeting
        self.session = session
        self.codec = codec
        self.screen = Screen()

    def send(self, type: str, **fields: object) -> list[ServerMessage]:
        """Send a message, and return the events since the last call."""
        message = {"type": type, **fields}
        if self.codec is Codec.MSGPACK:
            return self.frame(msgspec.msgpack.encode(message))
        return self.frame(msgspec.json.encode(message).decode())

    def say(self, text: str, **fields: object) -> list[ServerMessage]:
        return self.send("say", text=text, **fields)

    def frame(self, frame: str | bytes) -> list[ServerMessage]:
        """Send a frame as it stands, and return the events since the last call."""
        self.session.receive(frame, self.meeting.now)
        self.meeting.act()
        return self.events()

    def events(self) -> list[ServerMessage]:
        """Read and return the events since the last call."""
        events = [read(frame) for frame in self.session.outbox.take()]
        self.meeting.act()
        while frames := self.session.outbox.take():  # the rest of a long replay
            events += map(read, frames)
            self.meeting.act()
        for event in events:
            self.screen.show(event)
        return events

    def close(self) -> None:
        """Leave the meeting."""
        self.session.close(self.meeting.now)
        self.meeting.act()

    def cut(self) -> None:
        """Lose the socket; the client may come back, see `Meeting.back`."""
        self.session.close(self.meeting.now, lost=True)
        self.meeting.act()


class Meeting:
    """A room, a dispatcher and an engine worked by hand.

    ``jobs`` are those the engine works on, by id. Unless ``lazy``, the engine begins a job and
    gives up an aborted one at once; a lazy one leaves that to `begin` and `reap`.
    """

    def __init__(
        self,
        *languages: str,
        limits: Limits | None = None,
        capacity: int = 8,
        model: Model | None = None,
        options: StreamingOptions = EAGER,
        lazy: bool = False,
        log: EventLog | None = None,
        observe: Callable[[ServerMessage, float], None] | None = None,
    ) -> None:
        languages = languages or ("en", "de", "fr", "es")
        self.now = NOW
        self.limits = limits if limits is not None else Limits()
        self.model = model or Profile(name="test", kind="raw", languages=languages)
        self.scheduler = Scheduler(capacity=capacity, depth=self.limits.queue)
        self.log: list[ServerMessage] = []
        self.timer: float | None = None
        self.options = options
        self.room = self.open_room(
            log if log is not None else EventLog("epoch", self.limits, began=NOW),
            observe or self.observe,
        )
        self.speech: SpeechService | None = None
        self.peers: list[Peer] = []
        self.behind: list[LogReader] = []
        self.lazy = lazy
        self.given: dict[str, Job] = {}
        self.jobs: dict[str, Job] = {}
        self.stopping: dict[str, Job] = {}
        self.lines: dict[str, CaptionSink | None] = {}
        self.aborted: list[str] = []
        self.prepared: list[tuple[str, str]] = []
        self.room.pairs.prepare = lambda *pair: self.prepared.append(pair)

    def open_room(self, log: EventLog, observe: Callable[[ServerMessage, float], None]) -> Room:
        return Room("meeting", log, self.room_options(observe))

    def room_options(self, observe: Callable[[ServerMessage, float], None]) -> RoomOptions:
        """Return the options that every room of this meeting is made with."""
        return RoomOptions(
            scheduler=self.scheduler,
            model=self.model,
            limits=self.limits,
            streaming=self.options,
            observe=observe,
            set_timer=self.set_timer,
        )

    def place(self) -> AbstractRoom:
        """Return the room that the next client enters."""
        return self.room

    def observe(self, event: ServerMessage, now: float) -> None:
        self.log.append(event)

    def set_timer(self, when: float) -> None:
        """Set the one timer that the room has."""
        self.timer = when

    def enter(
        self,
        *langs: str,
        lang: str = "en",
        id: str | None = None,
        since: StreamPosition | None = None,
        token: str | None = None,
        detect: Detect | None = None,
        greeted: bool = True,
        **request: Any,
    ) -> Peer:
        """Return a new client that reads ``langs`` and has read its welcome if ``greeted``.

        :param lang: the language that it speaks
        :param since: how far it has come in the log of an earlier session
        :param token: the token with which it can resume
        :param request: other fields of its `ConnectRequest`
        """
        asked = ConnectRequest(**request)
        codec = asked.codec
        session = Session(
            id or f"s{len(self.peers) + 1}",
            asked,
            room=self.place(),
            outbox=Outbox(codec, self.limits),
            lang=lang,
            context=SessionContext(
                self.model, "by hand", self.limits, self.behind.append, detect, self.speech
            ),
            now=self.now,
        )
        peer = Peer(self, session, codec)
        self.peers.append(peer)
        session.open(langs, self.now, since=since, token=token)
        self.act()
        if greeted and codec is not Codec.PLAIN:
            assert isinstance(peer.events()[0], Welcome)
        return peer

    def back(self, peer: Peer, seq: int | None = None, **request: Any) -> Peer:
        """Return the client of a socket that was cut, on another one. It has read up to ``seq``, by
        default all that it was sent.
        """
        since = StreamPosition(self.room.log.epoch, peer.screen.seq if seq is None else seq)
        session = peer.session
        request = {
            "view": session.member.view,
            "role": session.member.role,
            "codec": peer.codec,
            **request,
        }
        return self.enter(
            *session.member.langs, id=session.id, since=since, greeted=False, **request
        )

    def wait(self, seconds: float) -> None:
        """Let time pass, and call the room's timer whenever it is due."""
        until = self.now + seconds
        while self.timer is not None and self.timer <= until:
            self.now, self.timer = max(self.now, self.timer), None
            self.room.on_timer(self.now)
            self.act()
        self.now = until

    # --- the engine -----------------------------------------------------------------------------

    def act(self) -> None:
        """Carry out all actions of the scheduler, and send a page to each reader that is behind."""
        behind = list(self.behind)
        self.behind.clear()  # sessions append to this very list
        for reader in behind:
            reader.advance(self.now)
        while actions := self.scheduler.actions():
            for action in actions:
                if isinstance(action, Job):
                    self.given[action.id] = action
                    continue
                self.aborted.append(action)
                for jobs in (self.given, self.jobs):
                    if action in jobs:
                        self.stopping[action] = jobs.pop(action)
            if not self.lazy:
                for job in list(self.stopping.values()):
                    self.reap(job)
                for job in list(self.given.values()):
                    self.begin(job)

    def begin(self, job: Job) -> None:
        """Begin a job in the engine."""
        self.jobs[job.id] = self.given.pop(job.id)
        self.lines[job.id] = self.room.captioner.started(job.id, self.now)

    def reap(self, job: Job) -> None:
        """End an aborted job."""
        del self.stopping[job.id]
        self.scheduler.done(job.id)

    def job(self, lang: str, text: str | None = None) -> Job:
        """Return the one job in the engine for a language (and a text)."""
        (job,) = (
            job for job in self.jobs.values() if job.target == lang and text in (None, job.text)
        )
        return job

    def feed(self, job: Job, *pieces: str, reset: bool = False, flags: Sequence[str] = ()) -> None:
        """Produce text in the engine. ``reset`` holds for the first piece."""
        for piece in pieces:
            self.hear(job, Chunk(piece, reset=reset, flags=tuple(flags)))
            reset = False

    def hear(self, job: Job, chunk: Chunk) -> None:
        """Send a chunk of a job from the engine to the room."""
        line = self.lines.get(job.id)
        if line is not None:
            line.add_output(chunk, self.now)

    def finish(self, job: Job, *pieces: str) -> None:
        """Produce the rest of the text, and end the job."""
        self.feed(job, *pieces)
        del self.jobs[job.id]
        self.room.captioner.finished(job.id, self.now)
        self.scheduler.done(job.id)
        self.act()

    def fail(self, job: Job, code: ErrorCode = ErrorCode.ENGINE_UNAVAILABLE) -> None:
        """Fail a job in the engine."""
        del self.jobs[job.id]
        self.room.captioner.failed(job.id, code, self.now)
        self.scheduler.done(job.id)
        self.act()

    def finish_all(self) -> None:
        """Finish all jobs in the engine."""
        while self.stopping or self.given or self.jobs:
            for job in list(self.stopping.values()):
                self.reap(job)
            for job in list(self.given.values()):
                self.begin(job)
            for job in list(self.jobs.values()):
                if job.id in self.jobs:
                    self.finish(job, f"[{job.target}] ", job.text)
            self.act()


def meeting(*langs: str, options: StreamingOptions = EAGER, **limits: Any) -> tuple[Meeting, Peer]:
    """Return a meeting and its first member, who speaks English and reads ``langs``."""
    made = Meeting(options=options, limits=Limits(**limits))
    return made, made.enter(*langs)


def blank(event: ServerMessage) -> ServerMessage:
    """Return an event as the log has it after a retraction."""
    assert isinstance(event, Source | Final | Edited)
    return msgspec.structs.replace(event, text="")


def only(kind: type[E], events: Sequence[object]) -> list[E]:
    """Return the events of one type."""
    return [event for event in events if isinstance(event, kind)]


def one(kind: type[E], events: Sequence[object]) -> E:
    """Return the one event of a type among them."""
    found = only(kind, events)
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {events}"
    return found[0]


def names(events: Sequence[ServerMessage]) -> list[str]:
    """Return the types of the events, as they are called on the wire."""
    return [str(event.__struct_config__.tag) for event in events]


def assert_error(events: Sequence[ServerMessage], code: ErrorCode) -> Error:
    """Check that the only event is an ``error`` with this code and a sentence; return it."""
    assert names(events) == ["error"], names(events)
    error = one(Error, events)
    assert error.code == code, error
    assert error.retry is code.retry
    assert error.msg.endswith((".", ")")), "a message is a sentence"
    return error


def client(*langs: str, **limits: Any) -> Peer:
    """Return a client that speaks English and reads ``langs``."""
    return Meeting(limits=Limits(**limits)).enter(*langs)


def names_and_langs(envelopes: list[Envelope]) -> list[tuple[str, str | None]]:
    """Return type and language of each event."""
    messages: list[ServerMessage] = [envelope.message for envelope in envelopes]
    langs = [getattr(message, "lang", None) for message in messages]
    return list(zip(names(messages), langs, strict=True))


def three_utterances() -> Meeting:
    """Return a meeting with three utterances, captioned in ``de`` and ``fr``."""
    room = Meeting()
    peer = room.enter("de", "fr")
    for text in ("one", "two", "three"):
        peer.say(text)
        room.finish_all()
    return room
