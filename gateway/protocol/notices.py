"""Events about a socket, a room or the service: no text of a meeting, and nothing that a log keeps.

Owns: their names, types and shapes. Must not know: utterances, captions.
"""

from __future__ import annotations

from typing import Literal

from gateway.protocol.fields import Code, EventStruct, Personal


class Authenticated(EventStruct, frozen=True, kw_only=True, tag="authenticated"):
    """The answer to ``auth``. ``until`` is the expiry time of the new key or token, in seconds of
    the Unix clock.
    """

    name: Code | None = None
    until: float | None = None
    ref: Code | None = None


class Stats(EventStruct, frozen=True, kw_only=True, tag="stats"):
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
    ref: Code | None = None


class Help(EventStruct, frozen=True, kw_only=True, tag="help"):
    """The message types a client can send, with one line for each."""

    types: dict[Code, Code]
    ref: Code | None = None


class Presence(EventStruct, frozen=True, kw_only=True, tag="presence"):
    """The people in the room: readers of each language, number of sockets, names of speakers."""

    readers: dict[Code, int]
    members: int
    speakers: tuple[Personal, ...] = ()


class Tick(EventStruct, frozen=True, kw_only=True, tag="tick"):
    """A heartbeat for clients that cannot see pings (``hb=`` in the query)."""

    seq: int


class Degraded(EventStruct, frozen=True, kw_only=True, tag="degraded"):
    """The start, a change or the end of reduced service.

    ``partials`` is ``off`` while the engine is overloaded: captions come once the utterance is
    final. ``engine`` is present while that engine replaces the one in ``welcome``, or does only a
    part of its work under the same name. Normal service is back with ``partials`` ``on`` and no
    ``engine``.
    """

    partials: Literal["on", "off"]
    engine: Code | None = None


class Lag(EventStruct, frozen=True, kw_only=True, tag="lag"):
    """A notice that this socket reads too slowly. ``dropped`` deltas and drafts were left out.

    ``ms`` is the age of the oldest frame that follows, in milliseconds.
    """

    dropped: int
    ms: int


class Goaway(EventStruct, frozen=True, kw_only=True, tag="goaway"):
    """The notice of a planned close. A client opens the next socket, then leaves this one."""

    in_ms: int
    why: Code


class Error(EventStruct, frozen=True, kw_only=True, tag="error"):
    """The refusal of a request. ``fatal`` means that a close follows."""

    code: Code
    fatal: bool
    retry: bool
    retry_ms: int | None = None
    id: Code | None = None
    ref: Code | None = None
    msg: Personal
    hint: Personal | None = None


Answer = Authenticated | Stats | Help
Notice = Tick | Degraded | Lag | Goaway | Error
