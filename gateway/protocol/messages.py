"""Wire protocol, version 1: every message as a frozen struct.

Owns: names, types and shapes of all frames, with `gateway.protocol.audio`. The documents of the
protocol are checked against them. Must not know: encodings, sockets, the effects of a message.

Rules of evolution: A new field has a default. An unknown field is ignored. A field never changes
its type or its meaning. The name of a removed field is never used again. A field with text says in
its type whether a person wrote it: `Personal` or `Code`.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, field

from gateway.protocol.audio import Audio, AudioChunk, AudioInfo, AudioState, HeardSpeech
from gateway.protocol.fields import (
    Code,
    Context,
    EventStruct,
    Id,
    LimitsInfo,
    Name,
    Part,
    Personal,
    RequestStruct,
    Rev,
    RoomSettings,
    Seconds,
    Tag,
    Tags,
    Terms,
    Translations,
)
from gateway.protocol.notices import Answer, Notice, Presence

VERSION = 1
PRIVATE = "~"
"""Prefix of the name of a private room, which is made for one socket. No client can ask for a room
with such a name."""

# The names of these types are published in the JSON Schema.
View = Literal["live", "stable", "final"]
Was = Literal["queued", "running", "done", "none"]
By = Literal["mt", "human", "same", "cache"]


# --- client to server -------------------------------------------------------------------------


class Say(RequestStruct, frozen=True, kw_only=True, tag="say"):
    """A new utterance, or a newer revision of one. ``text`` is the whole text so far."""

    text: Personal
    id: Id | None = None
    rev: Rev | None = None
    final: bool = True
    lang: Tag | None = None
    speaker: Name | None = None
    t0: Seconds | None = None
    t1: Seconds | None = None


class Cancel(RequestStruct, frozen=True, kw_only=True, tag="cancel"):
    """A request to stop work on an utterance now. Always answered by ``cancelled``."""

    id: Part
    langs: tuple[Tag, ...] | None = None


class Want(RequestStruct, frozen=True, kw_only=True, tag="want"):
    """The languages and the view that this socket reads from now on.

    ``backfill`` is the number of ended utterances that are shown in languages that this socket did
    not read before. Without it the number is the server's setting.
    """

    langs: tuple[Tag, ...]
    view: View | None = None
    backfill: Annotated[int, Meta(ge=0, le=1000)] | None = None


class Set(RequestStruct, frozen=True, kw_only=True, tag="set"):
    """A change of settings of the room or of this speaker. Answered by ``settings``."""

    context: Context | None = None
    glossary: Terms | None = None
    from_: Tags | None = field(name="from", default=None)
    speaker: Name | None = None
    style: Annotated[Personal, Meta(max_length=32)] | None = None


class Edit(RequestStruct, frozen=True, kw_only=True, tag="edit"):
    """A correction of a caption, or of the original if ``lang`` is the language of the utterance;
    the original is then translated again. Answered by ``edited``, or by ``final`` if the caption
    was still being made.
    """

    id: Part
    lang: Tag
    text: Personal


class Retract(RequestStruct, frozen=True, kw_only=True, tag="retract"):
    """A request to withdraw an utterance in all languages. Answered by ``retracted``."""

    id: Part


class Get(RequestStruct, frozen=True, kw_only=True, tag="get"):
    """A request for the full snapshot of one utterance. Answered by ``snapshot``."""

    id: Part


class Sync(RequestStruct, frozen=True, kw_only=True, tag="sync"):
    """A request to send the room's durable events after ``seq`` again. Answered by ``synced``."""

    epoch: Annotated[Code, Meta(max_length=64)]
    seq: Annotated[int, Meta(ge=0, le=2**53 - 1)]


class Auth(RequestStruct, frozen=True, kw_only=True, tag="auth"):
    """A new key or token, sent before the one of this socket expires.

    Answered by ``authenticated``, or by ``error``. After an error the old one stays valid.
    """

    token: Annotated[Code, Meta(max_length=8192)]


class AskStats(RequestStruct, frozen=True, kw_only=True, tag="stats"):
    """A request for the counters of this socket. Answered by ``stats``."""


class AskHelp(RequestStruct, frozen=True, kw_only=True, tag="help"):
    """A request for the list of message types, one line each. Answered by ``help``."""


class Bye(RequestStruct, frozen=True, kw_only=True, tag="bye"):
    """A request to finish the utterances in flight, send ``stats`` and close with 1000."""


_RoomRequest = Say | Audio | AudioChunk | Cancel | Want | Set | Edit | Retract | Get | Sync
ClientMessage = _RoomRequest | Auth | AskStats | AskHelp | Bye
REQUESTS: tuple[type[ClientMessage], ...] = get_args(ClientMessage)
"""All messages of clients, in the order of the documents."""


# --- server to client -------------------------------------------------------------------------


class _Durable(EventStruct, frozen=True, kw_only=True):
    """Base of the events in a room's log. ``seq`` rises by one per room, without gaps."""

    seq: int


class Resumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of resuming: ``ok`` if this socket continues where an earlier one ended.

    ``replayed`` durable events follow. If the log no longer reaches back far enough, ``from`` is
    the number of its first event, and ``transcript`` is a path where more may be found.
    """

    ok: bool
    replayed: int
    from_: int | None = field(name="from", default=None)
    transcript: Code | None = None


class Welcome(EventStruct, frozen=True, kw_only=True, tag="welcome"):
    """The first frame of every socket. ``resume`` is a token with which a new socket can take the
    place of this one. ``resumed`` is present if the client sent ``epoch`` and ``seq``.
    ``impossible`` lists by source the targets into which it cannot be translated; it is absent if
    there are none, and if there are too many languages to say. ``glossary`` is false if the model
    is not told the terms of the room: then captions are only checked for them. ``settings`` is for
    those who may change them, if any was set. ``audio`` is absent if this gateway does not
    recognise speech.
    """

    v: int
    session: Code
    room: Code
    epoch: Code
    seq: int
    resume: Code | None
    engine: Code
    languages: tuple[Code, ...]
    impossible: dict[Code, tuple[Code, ...]] | None = None
    glossary: bool = True
    limits: LimitsInfo
    settings: RoomSettings | None = None
    audio: AudioInfo | None = None
    resumed: Resumed | None = None
    hint: Personal | None = None


class Ack(EventStruct, frozen=True, kw_only=True, tag="ack"):
    """The acceptance of an utterance. ``ord`` is its position in the room."""

    id: Code
    rev: int
    ord: int
    ref: Code | None = None


class Source(_Durable, frozen=True, kw_only=True, tag="source"):
    """The finished original."""

    id: Code
    rev: int
    ord: int
    lang: Code
    text: Personal
    speaker: Personal | None = None
    t0: float | None = None
    t1: float | None = None


class Delta(EventStruct, frozen=True, kw_only=True, tag="delta", gc=False):
    """More text of a caption. A caption is its stable text followed by its draft.

    ``add`` is appended to the stable text. ``draft``, if present, replaces the unstable tail.
    ``reset`` empties the stable text first. ``n`` is the length of the stable text afterwards, in
    code points. ``speaker`` is named until the caption has stable text, and with each ``reset``.
    """

    id: Code
    rev: int
    lang: Code
    add: Personal = ""
    draft: Personal | None = None
    reset: bool = False
    n: int
    speaker: Personal | None = None


class Timing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Milliseconds from the utterance to the start of work, the first text, and the end."""

    queue: int
    first: int
    total: int


class Final(_Durable, frozen=True, kw_only=True, tag="final"):
    """The finished caption with its whole text. A client may ignore every ``delta``."""

    id: Code
    rev: int
    ord: int
    lang: Code
    text: Personal
    by: By
    ms: Timing
    flags: tuple[Code, ...] = ()
    p: float | None = None
    t0: float | None = None
    t1: float | None = None
    ref: Code | None = None


class Failed(_Durable, frozen=True, kw_only=True, tag="failed"):
    """The failure of a caption, and ``msg``, a sentence about it that quotes nobody. The reader is
    shown the original, marked as such.
    """

    id: Code
    rev: int
    ord: int
    lang: Code
    code: Code
    retry: bool
    msg: Code | None = None


class Cancelled(EventStruct, frozen=True, kw_only=True, tag="cancelled"):
    """A barrier: no event of ``id`` with this ``rev`` or an older one follows.

    Without ``lang`` it covers every language that had not ended. It carries a ``seq`` only if it
    ended something. The answer for an utterance that had ended or never existed has none.
    """

    seq: int | None = None
    id: Code
    rev: int
    lang: Code | None = None
    was: Was
    ref: Code | None = None


class Edited(_Durable, frozen=True, kw_only=True, tag="edited"):
    """The new text of a caption that had ended.

    ``by`` is ``human`` for the correction itself, and ``mt`` for the new translation of a corrected
    original.
    """

    id: Code
    rev: int
    ord: int
    lang: Code
    text: Personal
    by: By
    ref: Code | None = None


class Retracted(_Durable, frozen=True, kw_only=True, tag="retracted"):
    """The withdrawal of an utterance. Clients remove it from the screen in all languages."""

    id: Code
    ord: int
    ref: Code | None = None


class Settings(_Durable, frozen=True, kw_only=True, tag="settings"):
    """The changed settings of the room, and the version of the settings after the change."""

    version: int
    context: Personal | None = None
    glossary: Translations | None = None
    style: Personal | None = None
    from_: Code | None = field(name="from", default=None)
    speaker: Personal | None = None
    session: Code | None = None
    ref: Code | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One language of a snapshot: ``state`` and stable ``text`` of the caption."""

    lang: Code
    state: Code
    text: Personal
    draft: Personal | None = None
    by: By | None = None


class Snapshot(EventStruct, frozen=True, kw_only=True, tag="snapshot"):
    """One utterance in its present state. Answer to ``get``."""

    id: Code
    rev: int
    ord: int
    lang: Code
    text: Personal
    final: bool
    lines: tuple[Line, ...]
    speaker: Personal | None = None
    ref: Code | None = None


class Synced(EventStruct, frozen=True, kw_only=True, tag="synced"):
    """The answer to ``sync``: the fields of ``resumed``, and the epoch and number from which the
    events continue.
    """

    epoch: Code
    seq: int
    ok: bool
    replayed: int
    from_: int | None = field(name="from", default=None)
    transcript: Code | None = None
    ref: Code | None = None


_RoomEvent = Source | Delta | Final | Failed | Cancelled | Edited | Retracted | Settings | Presence
ServerMessage = (
    Welcome | Ack | AudioState | HeardSpeech | _RoomEvent | Snapshot | Synced | Answer | Notice
)
EVENTS: tuple[type[ServerMessage], ...] = get_args(ServerMessage)
"""All messages of the server, in the order of the documents."""

DURABLE = (Source, Final, Failed, Cancelled, Edited, Retracted, Settings)
"""Events that carry a ``seq`` and are kept in the room's log."""
