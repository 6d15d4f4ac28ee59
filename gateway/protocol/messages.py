"""Wire protocol, version 1: every message as a frozen struct.

Owns: names, types and shapes of all frames (``docs/protocol.md`` is checked against this file).
Must not know: encodings, sockets, what any message causes.

Rules of evolution: a new field has a default; an unknown field is ignored; a field never changes
its type or meaning; a removed name is never used again.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

VERSION = 1

PRIVATE = "~"
"""Begins the name of a room that was made for one socket: nobody else can name it."""

Id = Annotated[
    str, Meta(min_length=1, max_length=64, description="Chosen by the client, unique in its room.")
]
Part = Annotated[
    str,
    Meta(min_length=1, max_length=80, description="An utterance, or a part of a long one: `u1.2`."),
]
Rev = Annotated[int, Meta(ge=1, le=2**53 - 1, description="Revision, rising.")]
Ref = Annotated[str, Meta(max_length=128, description="Echoed in the answer to this frame.")]
Tag = Annotated[str, Meta(max_length=64, description="BCP 47 language tag.")]
Seconds = Annotated[float, Meta(ge=0, le=1e9, description="Seconds of the speaker's clock.")]
Name = Annotated[str, Meta(max_length=128, description="Display name.")]
Term = Annotated[str, Meta(min_length=1, max_length=200)]
Terms = Annotated[dict[Term, Term], Meta(max_length=500)]
Context = Annotated[str, Meta(max_length=4000)]

View = Literal["live", "stable", "final"]
Was = Literal["queued", "running", "done", "none"]
By = Literal["mt", "human", "same", "cache"]


# --- client to server -------------------------------------------------------------------------


class _Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    ref: Ref | None = None


class Say(_Request, frozen=True, kw_only=True, tag="say"):
    """A new utterance, or a newer revision of one: the whole text so far."""

    text: str
    id: Id | None = None
    rev: Rev | None = None
    final: bool = True
    lang: Tag | None = None
    speaker: Name | None = None
    t0: Seconds | None = None
    t1: Seconds | None = None


class Cancel(_Request, frozen=True, kw_only=True, tag="cancel"):
    """Stop work on an utterance now. Always answered by ``cancelled``."""

    id: Part
    langs: tuple[Tag, ...] | None = None


class Want(_Request, frozen=True, kw_only=True, tag="want"):
    """What this socket reads from now on.

    ``backfill`` is how many utterances that have ended it is shown in languages that are new to it;
    the server has a number of its own.
    """

    langs: tuple[Tag, ...]
    view: View | None = None
    backfill: Annotated[int, Meta(ge=0, le=1000)] | None = None


class Set(_Request, frozen=True, kw_only=True, tag="set"):
    """Change settings of the room or of this speaker. Answered by ``settings``."""

    context: Context | None = None
    glossary: Terms | None = None
    from_: Tag | None = field(name="from", default=None)
    speaker: Name | None = None
    style: Annotated[str, Meta(max_length=32)] | None = None


class Edit(_Request, frozen=True, kw_only=True, tag="edit"):
    """Correct a caption; or, in the language it was said in, the original, which is then translated
    anew. Answered by ``edited``, or by ``final`` where the caption was still being made."""

    id: Part
    lang: Tag
    text: str


class Retract(_Request, frozen=True, kw_only=True, tag="retract"):
    """Take an utterance back, in all languages. Answered by ``retracted``."""

    id: Part


class Get(_Request, frozen=True, kw_only=True, tag="get"):
    """Ask for the full snapshot of one utterance. Answered by ``snapshot``."""

    id: Part


class Sync(_Request, frozen=True, kw_only=True, tag="sync"):
    """Tell again what this room decided after ``seq``. Answered by ``synced``."""

    epoch: Annotated[str, Meta(max_length=64)]
    seq: Annotated[int, Meta(ge=0, le=2**53 - 1)]


class Auth(_Request, frozen=True, kw_only=True, tag="auth"):
    """Show another key or token before the one this socket has expires.

    Answered by ``authenticated``, or by ``error``: then the old one goes on to hold.
    """

    token: Annotated[str, Meta(max_length=8192)]


class AskStats(_Request, frozen=True, kw_only=True, tag="stats"):
    """Ask for the counters of this socket. Answered by ``stats``."""


class AskHelp(_Request, frozen=True, kw_only=True, tag="help"):
    """Ask for the list of message types, one line each. Answered by ``help``."""


class Bye(_Request, frozen=True, kw_only=True, tag="bye"):
    """Finish what is in flight, send ``stats``, close 1000."""


ClientMessage = (
    Say | Cancel | Want | Set | Edit | Retract | Get | Sync | Auth | AskStats | AskHelp | Bye
)
REQUESTS: tuple[type[ClientMessage], ...] = (
    Say,
    Cancel,
    Want,
    Set,
    Edit,
    Retract,
    Get,
    Sync,
    Auth,
    AskStats,
    AskHelp,
    Bye,
)


# --- server to client -------------------------------------------------------------------------


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    pass


class _Durable(_Event, frozen=True, kw_only=True):
    """Kept in the room's log. ``seq`` rises by one per room, without holes."""

    seq: int


class LimitsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What this socket may send: bytes, characters, utterances, languages, frames a second."""

    frame: int
    text: int
    inflight: int
    targets: int
    rate: float


class Resumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a socket goes on where another ended.

    ``replayed`` durable events follow. Where the log does not reach back, ``from`` is the first
    that is left of it, and ``transcript`` the path at which more may be found.
    """

    ok: bool
    replayed: int
    from_: int | None = field(name="from", default=None)
    transcript: str | None = None


class Welcome(_Event, frozen=True, kw_only=True, tag="welcome"):
    """First frame of every socket. ``resume`` is a token with which another can take its place;
    ``resumed`` is there where the client said how far it had come."""

    v: int
    session: str
    room: str
    epoch: str
    seq: int
    resume: str | None
    engine: str
    languages: tuple[str, ...]
    limits: LimitsInfo
    resumed: Resumed | None = None
    hint: str | None = None


class Ack(_Event, frozen=True, kw_only=True, tag="ack"):
    """The utterance was accepted; ``ord`` is its position in the room."""

    id: str
    rev: int
    ord: int
    ref: str | None = None


class Source(_Durable, frozen=True, kw_only=True, tag="source"):
    """The finished original."""

    id: str
    rev: int
    ord: int
    lang: str
    text: str
    speaker: str | None = None
    t0: float | None = None
    t1: float | None = None


class Delta(_Event, frozen=True, kw_only=True, tag="delta", gc=False):
    """More of a caption. A caption is its stable text followed by its draft.

    ``add`` is appended to the stable text; ``draft``, where present, replaces the unstable tail;
    ``reset`` empties the stable text first; ``n`` is the length of the stable text in code points.
    """

    id: str
    rev: int
    lang: str
    add: str = ""
    draft: str | None = None
    reset: bool = False
    n: int


class Timing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Milliseconds since the utterance was said: work began, first text, finished."""

    queue: int
    first: int
    total: int


class Final(_Durable, frozen=True, kw_only=True, tag="final"):
    """The finished caption, whole: a client may ignore every ``delta``."""

    id: str
    rev: int
    ord: int
    lang: str
    text: str
    by: By
    ms: Timing
    flags: tuple[str, ...] = ()
    ref: str | None = None


class Failed(_Durable, frozen=True, kw_only=True, tag="failed"):
    """There is no caption. The reader sees the original, marked."""

    id: str
    rev: int
    ord: int
    lang: str
    code: str
    retry: bool


class Cancelled(_Event, frozen=True, kw_only=True, tag="cancelled"):
    """A barrier: after it nothing of (``id``, ``rev`` or older) comes.

    Without ``lang`` it covers every language that had not ended. It carries a ``seq`` only where it
    ended something: the answer for an utterance that had ended, or never was, decides nothing.
    """

    seq: int | None = None
    id: str
    rev: int
    lang: str | None = None
    was: Was
    ref: str | None = None


class Edited(_Durable, frozen=True, kw_only=True, tag="edited"):
    """A caption that had ended has another text now.

    ``by`` is ``human`` for the correction itself, and ``mt`` for what a corrected original became
    in other languages.
    """

    id: str
    rev: int
    ord: int
    lang: str
    text: str
    by: By
    ref: str | None = None


class Retracted(_Durable, frozen=True, kw_only=True, tag="retracted"):
    """The utterance is taken back: to be removed from the screen in all languages."""

    id: str
    ord: int
    ref: str | None = None


class Settings(_Durable, frozen=True, kw_only=True, tag="settings"):
    """What changed in the room's settings, and their version after it."""

    version: int
    context: str | None = None
    glossary: dict[str, str] | None = None
    style: str | None = None
    from_: str | None = field(name="from", default=None)
    speaker: str | None = None
    session: str | None = None
    ref: str | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One language of a snapshot; ``state`` is that of the caption, ``text`` its stable text."""

    lang: str
    state: str
    text: str
    draft: str | None = None
    by: By | None = None


class Snapshot(_Event, frozen=True, kw_only=True, tag="snapshot"):
    """One utterance as it stands now. Answer to ``get``."""

    id: str
    rev: int
    ord: int
    lang: str
    text: str
    final: bool
    lines: tuple[Line, ...]
    speaker: str | None = None
    ref: str | None = None


class Synced(_Event, frozen=True, kw_only=True, tag="synced"):
    """Answer to ``sync``: as ``resumed``, with the epoch and number that it goes on from."""

    epoch: str
    seq: int
    ok: bool
    replayed: int
    from_: int | None = field(name="from", default=None)
    transcript: str | None = None
    ref: str | None = None


class Authenticated(_Event, frozen=True, kw_only=True, tag="authenticated"):
    """Answer to ``auth``. ``until`` is when this one expires, in seconds of the Unix clock."""

    name: str | None = None
    until: float | None = None
    ref: str | None = None


class Stats(_Event, frozen=True, kw_only=True, tag="stats"):
    """Counters of this socket since it was opened."""

    said: int
    finals: int
    failed: int
    cancelled: int
    errors: int
    frames_in: int
    frames_out: int
    bytes_out: int
    merged: int
    inflight: int
    seconds: float
    ref: str | None = None


class Help(_Event, frozen=True, kw_only=True, tag="help"):
    """One line for each message a client can send."""

    types: dict[str, str]
    ref: str | None = None


class Presence(_Event, frozen=True, kw_only=True, tag="presence"):
    """Who is here: readers of each language, sockets in all, and the names of those who speak."""

    readers: dict[str, int]
    members: int
    speakers: tuple[str, ...] = ()


class Tick(_Event, frozen=True, kw_only=True, tag="tick"):
    """Heartbeat for clients that cannot see pings (``hb=`` in the query)."""

    seq: int


class Degraded(_Event, frozen=True, kw_only=True, tag="degraded"):
    """How captions are made from now on, where that is less well than usual, or is so no longer.

    ``partials`` are ``off`` while the engine has more to do than it can: captions come once the
    utterance is final. ``engine`` is there while that engine does the work of the one in
    ``welcome``. All is as usual again with ``partials`` ``on`` and no ``engine``.
    """

    partials: Literal["on", "off"]
    engine: str | None = None


class Lag(_Event, frozen=True, kw_only=True, tag="lag"):
    """This socket reads too slowly: ``dropped`` deltas and drafts were left out.

    ``ms`` is how long the oldest frame of what follows has waited, in milliseconds.
    """

    dropped: int
    ms: int


class Goaway(_Event, frozen=True, kw_only=True, tag="goaway"):
    """A planned close is coming: open the next socket, then leave."""

    in_ms: int
    why: str


class Error(_Event, frozen=True, kw_only=True, tag="error"):
    """A request that was not done. ``fatal`` means that a close follows."""

    code: str
    fatal: bool
    retry: bool
    retry_ms: int | None = None
    id: str | None = None
    ref: str | None = None
    msg: str
    hint: str | None = None


ServerMessage = (
    Welcome
    | Ack
    | Source
    | Delta
    | Final
    | Failed
    | Cancelled
    | Edited
    | Retracted
    | Settings
    | Presence
    | Snapshot
    | Synced
    | Authenticated
    | Stats
    | Help
    | Tick
    | Degraded
    | Lag
    | Goaway
    | Error
)
EVENTS: tuple[type[ServerMessage], ...] = (
    Welcome,
    Ack,
    Source,
    Delta,
    Final,
    Failed,
    Cancelled,
    Edited,
    Retracted,
    Settings,
    Presence,
    Snapshot,
    Synced,
    Authenticated,
    Stats,
    Help,
    Tick,
    Degraded,
    Lag,
    Goaway,
    Error,
)

DURABLE = (Source, Final, Failed, Cancelled, Edited, Retracted, Settings)

HELP: dict[str, str] = {
    "say": '{"type":"say","text":"good morning"}  say a line (or just type it, without JSON)',
    "cancel": '{"type":"cancel","id":"u1"}  stop the work on it now',
    "want": '{"type":"want","langs":["de","fr"],"view":"live"}  what this socket reads',
    "set": '{"type":"set","from":"en","glossary":{"standup":"Standup"}}  room and speaker settings',
    "edit": '{"type":"edit","id":"u1","lang":"de","text":"Guten Morgen."}  correct a caption',
    "retract": '{"type":"retract","id":"u1"}  take an utterance back in all languages',
    "get": '{"type":"get","id":"u1"}  one utterance as it stands',
    "sync": '{"type":"sync","epoch":"9a41c07e","seq":41}  what was decided after a number',
    "auth": '{"type":"auth","token":"..."}  show another key before the old one expires',
    "stats": '{"type":"stats"}  counters of this socket',
    "help": '{"type":"help"}  this list',
    "bye": '{"type":"bye"}  finish what is in flight, then close',
}
