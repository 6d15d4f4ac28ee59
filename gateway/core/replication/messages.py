"""Messages between the authority of a room and its replicas.

Owns: their types, how they are encoded, and the log that `Decided` messages make. Must not know:
how they travel.

The **feed** goes from the authority to all replicas of a room, in order. `Decided` is kept in the
room's log before it is sent, and comes without holes. The other messages may be lost; each has a
``number``, so that a loss is noticed. The **inbox** goes from the replicas to the authority, in the
order of each gateway. ``term`` is the name of one authority: another has another one, even in the
same gateway.

Rules of evolution: gateways of two releases work together while a fleet is updated.

- New fields come last and have a default. An older gateway ignores them.
- A new message of the feed that no log keeps, or a new event in `Told`, needs no more: an older
  gateway does without it (`Unknown`).
- Everything else needs another `VERSION`: a gateway does not join a fleet of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import msgspec

from gateway.auth.permissions import Role
from gateway.core.base.validation import AUTO
from gateway.core.history.event_log import Durable, EventLog, LogEntry
from gateway.core.room.abstract_room import Request
from gateway.limits import Limits
from gateway.protocol import frames
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta, ServerMessage, View
from gateway.protocol.notices import Degraded

VERSION = "1"
"""Version of the messages, see the rules of evolution."""


class Frames(msgspec.Struct, frozen=True, array_like=True):
    """An event as the frames that readers are sent, each with its head.

    So an event is encoded once for each codec, however many gateways pass it on.

    ``json``    the frame of `Codec.JSON`, which gateways read the event from
    ``others``  the frames of other codecs with readers, by sub-protocol
    """

    json: bytes
    others: dict[str, bytes] = {}

    @classmethod
    def of(cls, envelope: Envelope, codecs: Iterable[Codec] = ()) -> Frames:
        """Return the frames of an event for codecs with readers; one that does not show the event
        is left out.
        """
        json = envelope.wire(Codec.JSON)
        assert json is not None, "JSON shows all events"
        others = {}
        for codec in codecs:
            # Encoded here once, or each gateway would do it again for its readers.
            if codec is not Codec.JSON and (wire := envelope.wire(codec)) is not None:
                others[codec.value] = wire
        return cls(json, others)

    @property
    def payload(self) -> memoryview:
        """The event as JSON."""
        return memoryview(self.json)[frames.offset(self.json) :]

    def envelope(self, event: ServerMessage) -> Envelope:
        """Return the event, which need not be encoded again."""
        others: dict[Codec, bytes | None] | None = None
        if self.others:
            others = {Codec(name): wire for name, wire in self.others.items()}
        return Envelope(event, Codec.JSON, self.json, others)


class _FeedMessage(msgspec.Struct, frozen=True, array_like=True):
    """Base of the messages of an authority that no log keeps."""

    number: int


class Decided(msgspec.Struct, frozen=True, array_like=True, dict=True, tag="decided"):
    """A durable event. It is also the entry of the room's log.

    ``lang``    language whose readers it concerns; None for everybody
    ``epoch``   epoch of the log, and ``began`` its begin, in seconds since 1970
    ``at``      seconds between the begin of the log and the event
    ``member``  the member whose request it answers, with its ``ref``, under the language ``tag``
    ``author``  the session that has said it, if it is a ``source``
    """

    frames: Frames
    lang: str | None
    epoch: str
    began: float
    at: float
    member: str | None = None
    ref: str | None = None
    tag: str | None = None
    author: str | None = None

    @cached_property
    def event(self) -> Durable:
        """The event."""
        return _durable(self.frames.payload)


class Grown(_FeedMessage, frozen=True, array_like=True, dict=True, tag="grown"):
    """More text of a caption."""

    frames: Frames

    @classmethod
    def of(cls, number: int, delta: Delta, codecs: Iterable[Codec]) -> Grown:
        """Return the message of an authority. The replica beside it need not decode the text."""
        grown = cls(number, Frames.of(Envelope(delta), codecs))
        grown.__dict__["delta"] = delta
        return grown

    @cached_property
    def delta(self) -> Delta:
        """The text."""
        return _delta(self.frames.payload)


class Told(_FeedMessage, frozen=True, array_like=True, tag="told"):
    """An event that is not kept, for everybody in the room."""

    frames: Frames

    @property
    def event(self) -> ServerMessage | None:
        """The event, or None if it is of a type that this release does not have."""
        try:
            return _event(self.frames.payload)
        except msgspec.ValidationError:
            return None


class Addressed(_FeedMessage, frozen=True, array_like=True, tag="addressed"):
    """An event for one member."""

    member: str
    event: ServerMessage


class Answered(_FeedMessage, frozen=True, array_like=True, tag="answered"):
    """All that the requests of a member up to number ``asked`` led to was sent before.

    ``inflight`` are the utterances of the member that have not ended.
    """

    member: str
    asked: int
    inflight: tuple[str, ...]


class Greeted(_FeedMessage, frozen=True, array_like=True, tag="greeted"):
    """The present state of the room, for the replica in one gateway: the answer to `Present`.

    ``growing`` are the unfinished captions. ``inflight`` are the utterances in flight of each
    member of the gateway that has any.
    """

    gateway: str
    term: str
    epoch: str
    began: float
    growing: tuple[Delta, ...]
    inflight: dict[str, tuple[str, ...]]
    introduction: int
    degraded: Degraded | None = None


class Unheard(_FeedMessage, frozen=True, array_like=True, tag="unheard"):
    """A request to send `Present` again, to a gateway that was held for dead."""

    gateway: str


class Replaced(_FeedMessage, frozen=True, array_like=True, tag="replaced"):
    """The notice that a session of ``gateway`` has connected again by another gateway."""

    gateway: str
    member: str


class Ended(_FeedMessage, frozen=True, array_like=True, tag="ended"):
    """The end of the room: its log is deleted."""


class Unknown(_FeedMessage, frozen=True, array_like=True, tag="unknown"):
    """A message of a newer release that this one does not have."""


FeedMessage = (
    Decided | Grown | Told | Addressed | Answered | Greeted | Unheard | Replaced | Ended | Unknown
)


class _InboxMessage(msgspec.Struct, frozen=True, array_like=True):
    """Base of the messages of a replica. ``gateway`` is that of the replica."""

    room: str
    gateway: str
    term: str


class MemberState(msgspec.Struct, frozen=True, array_like=True):
    """A member as its replica has it. ``asked`` is the number of its last request."""

    id: str
    role: Role
    speaker: str | None
    langs: tuple[str, ...]
    view: View
    asked: int = 0
    tenant: str = ""
    codec: Codec = Codec.JSON
    spoken: str = AUTO


class Present(_InboxMessage, frozen=True, array_like=True, tag="present"):
    """All members of a replica: the first message to an authority, whose ``term`` it does not know
    yet. ``introduction`` is a number that `Greeted` repeats.
    """

    members: tuple[MemberState, ...]
    introduction: int


class Joined(_InboxMessage, frozen=True, array_like=True, tag="joined"):
    """A new member, which reads nothing yet."""

    member: MemberState


class Left(_InboxMessage, frozen=True, array_like=True, tag="left"):
    """The end of a member's socket. If it was ``lost``, the member may come back."""

    member: str
    lost: bool


class Wanted(_InboxMessage, frozen=True, array_like=True, tag="wanted"):
    """The languages and the view of a member from now on, see `Room.want`.

    ``welcomed`` is False if this belongs to the beginning of its session.
    """

    member: str
    langs: tuple[str, ...]
    view: View | None
    most: int | None
    welcomed: bool


class Asked(_InboxMessage, frozen=True, array_like=True, tag="asked"):
    """A request of a member. ``asked`` numbers the requests of one member.

    ``langs`` are the languages that the member may read; None for all.
    """

    member: str
    asked: int
    request: Request
    langs: tuple[str, ...] | None = None


class Dismissed(_InboxMessage, frozen=True, array_like=True, tag="dismissed"):
    """A request to end the room and to delete all its data."""


InboxMessage = Present | Joined | Left | Wanted | Asked | Dismissed

_delta: Callable[[memoryview], Delta] = msgspec.json.Decoder(Delta).decode
_durable: Callable[[memoryview], Durable] = msgspec.json.Decoder(Durable).decode
_event: Callable[[memoryview], ServerMessage] = msgspec.json.Decoder(ServerMessage).decode

encode = msgspec.msgpack.Encoder().encode
_decode_feed = msgspec.msgpack.Decoder(FeedMessage).decode
_TAGS = {kind.__struct_config__.tag for kind in FeedMessage.__args__}


def decode_feed(payload: bytes) -> FeedMessage:
    """Return a message of the feed. Raises `msgspec.MsgspecError` if it cannot be read."""
    try:
        message: FeedMessage = _decode_feed(payload)
    except msgspec.ValidationError:
        match msgspec.msgpack.decode(payload):
            case [str(tag), int(number), *_] if tag not in _TAGS:
                return Unknown(number)
        raise
    return message


decode_inbox = msgspec.msgpack.Decoder(InboxMessage).decode
decode_decided = msgspec.msgpack.Decoder(Decided).decode


def as_written(log: EventLog, entries: Iterable[LogEntry], began: float) -> list[Decided]:
    """Return entries of a log that began at a time (seconds since 1970) as they are written."""
    return [
        Decided(
            Frames.of(Envelope(event)),
            log.concerns(event),
            log.epoch,
            began,
            at,
            author=log.authors.get(event.seq or 0),
        )
        for event, at in entries
    ]


def restored_log(entries: Sequence[Decided], limits: Limits, now: float, wall: float) -> EventLog:
    """Return the log of some entries at a time, as logs are told it (``now``) and since 1970
    (``wall``).

    A log has no gaps and one epoch. So it begins behind the newest entry that does not fit. Without
    entries it has no epoch yet.
    """
    if not entries:
        return EventLog("", limits, began=now)
    last = entries[-1]
    kept: list[LogEntry] = []
    authors: dict[int, str] = {}
    for entry in reversed(entries):
        if entry.epoch != last.epoch or entry.event.seq != (last.event.seq or 0) - len(kept):
            break
        kept.append(LogEntry(entry.event, entry.at))
        if entry.author is not None:
            authors[entry.event.seq or 0] = entry.author
    # The clocks of two machines may differ, and no event is in the future.
    log = EventLog(last.epoch, limits, began=now - max(wall - last.began, last.at))
    log.restore(reversed(kept), authors)
    return log
