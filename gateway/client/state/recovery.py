"""What a client has to know to come back after its connection broke.

Owns: how far it has come, what of that which it asked may be lost, and when to try again. Must not
know: sockets, clocks, chance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from gateway.protocol.messages import (
    DURABLE,
    Ack,
    Cancelled,
    ClientMessage,
    Edit,
    Edited,
    Error,
    Final,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Source,
    Welcome,
)

BASE_S = 0.25
"""Most seconds before the first attempt; the bound doubles with each."""
CAP_S = 15.0
"""Most seconds before any attempt."""
STABLE_S = 5.0
"""Seconds that a connection has to last for the next attempt to count as the first again."""
MOST = 1000
"""Requests remembered; a gateway has far fewer in flight. The oldest is forgotten."""


class Backoff:
    """Exponential, with full jitter: clients that lost one gateway do not come back as one.

    (AWS Architecture Blog 2015, "Exponential Backoff And Jitter".)

    :param chance: evenly from 0 to 1
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._tries = 0

    def wait(self) -> float:
        """Seconds before the next attempt."""
        bound = min(CAP_S, BASE_S * 2.0 ** min(self._tries, 64))
        self._tries += 1
        return self._chance() * bound

    def reset(self) -> None:
        """There was a connection that lasted."""
        self._tries = 0


class ResumePosition:
    """How far a client has come in its room: the history, and the last number that it was told.

    Of one number there is an event for each tag under which the client reads its language.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.epoch = welcome.epoch
        self.seq = welcome.seq
        self._under: set[str | None] = set()  # the tags of the last number; empty: all of them

    def since(self, *, several: bool) -> int:
        """The number to go on from. Who reads ``several`` tags asks for the last one again: there
        may be more of it."""
        return self.seq - 1 if several and self._under else self.seq

    def fresh(self, event: ServerMessage) -> bool:
        """Whether it was not told before; then it is now. What has no number is always fresh."""
        if not isinstance(event, DURABLE) or event.seq is None:
            return True
        lang = getattr(event, "lang", None)
        if event.seq > self.seq:
            self._under = set()
        elif event.seq < self.seq or not self._under or lang in self._under:
            return False
        self.seq = event.seq
        self._under.add(lang)
        return True

    def go_on(self, welcome: Welcome) -> bool:
        """Another socket was opened; whether nothing is lost between the two."""
        whole = goes_on(welcome)
        if not whole and welcome.epoch != self.epoch:
            self.seq = welcome.seq
            self._under = set()
        self.epoch = welcome.epoch
        return whole


def goes_on(welcome: Welcome) -> bool:
    """Whether a socket goes on where another ended, with nothing lost."""
    return welcome.resumed is not None and welcome.resumed.ok


class _PendingEntry:
    """A request, in one frame or more. ``ord``: of what was said, once it was accepted."""

    __slots__ = ("closed", "frames", "heard", "ord")

    def __init__(self, frames: tuple[ClientMessage, ...]) -> None:
        self.frames = frames
        self.ord: int | None = None
        self.heard = 0  # the last position whose original came, of this id
        self.closed: set[str] = set()  # its parts whose original came

    @property
    def said(self) -> Say | None:
        first = self.frames[0]
        return first if isinstance(first, Say) else None

    @property
    def done(self) -> bool:
        """Whether the room has all that was said."""
        say = self.said
        return say is not None and say.final and self.ord is not None and self.heard >= self.ord


class PendingRequests:
    """Requests that may be lost with the connection, in the order in which they were made.

    A request is here until it is answered. What was said stays until the room has decided it:
    until its ``source`` comes, it is cancelled, or its next revision is accepted.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _PendingEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, ref: str, *frames: ClientMessage) -> None:
        """Something is asked now."""
        self._entries[ref] = _PendingEntry(frames)
        if len(self._entries) > MOST:
            del self._entries[next(iter(self._entries))]

    def drop(self, ref: str) -> None:
        """Nobody waits for the answer any more. What was accepted has been said all the same."""
        entry = self._entries.get(ref)
        if entry is not None and entry.ord is None:
            del self._entries[ref]

    def says(self, id: str) -> bool:
        """Whether something said under ``id`` would be said again."""
        return any(e.said is not None and e.said.id == id for e in self._entries.values())

    def growing(self, id: str | None) -> bool:
        """Whether something was accepted under ``id``, and not said to its end."""
        return any(
            say.id == id and not say.final and entry.ord is not None
            for entry in self._entries.values()
            if (say := entry.said) is not None
        )

    def repeat(self) -> list[tuple[ClientMessage, ...]]:
        """All there is, to be sent again on another connection."""
        return [entry.frames for entry in self._entries.values()]

    def frames(self, ref: str) -> tuple[ClientMessage, ...]:
        """A request that is still here."""
        entry = self._entries.get(ref)
        return entry.frames if entry is not None else ()

    def answered(self, ref: str, event: ServerMessage) -> ServerMessage | None:
        """What an answer means to who asked; None where it was answered before."""
        entry = self._entries.get(ref)
        say = entry.said if entry is not None else None
        if entry is None or say is None:
            self._entries.pop(ref, None)
            return event
        again = entry.ord is not None
        if isinstance(event, Ack):
            entry.ord = event.ord
            self._supersede(say.id, ref)
            if entry.done:
                del self._entries[ref]
            return None if again else event
        if isinstance(event, Error) and event.retry and again:
            return None  # the gateway forgot it, and has no place for it now
        del self._entries[ref]
        if isinstance(event, Error) and not again and entry.heard:
            # It was said again after its answer was lost, and has ended meanwhile.
            assert say.id is not None and say.rev is not None
            return Ack(id=say.id, rev=say.rev, ord=entry.heard, ref=ref)
        return None if again else event

    def heard(self, event: ServerMessage) -> None:
        """Take note of what the room decided."""
        if not isinstance(event, Source | Cancelled | Retracted):
            return
        for ref, entry in list(self._entries.items()):
            say = entry.said
            if say is None or not _of(event.id, say.id):
                continue
            if isinstance(event, Source):
                entry.heard = max(entry.heard, event.ord)
                entry.closed.add(event.id)
                over = entry.done
            else:
                ends = isinstance(event, Retracted) or (event.seq and event.lang is None)
                over = bool(ends) and entry.ord is not None and event.id not in entry.closed
            if over:
                del self._entries[ref]

    def replayed(self, event: ServerMessage) -> str | None:
        """The request that an event of before answers, where its own answer was lost."""
        for ref, entry in self._entries.items():
            asked = entry.frames[0]
            if isinstance(asked, Retract) and isinstance(event, Retracted):
                found = asked.id == event.id
            elif isinstance(asked, Edit) and isinstance(event, Edited | Final):
                whole = (event.id, event.lang, event.text)
                found = event.by == "human" and (asked.id, asked.lang, asked.text) == whole
            else:
                continue
            if found:
                return ref
        return None

    def _supersede(self, id: str | None, ref: str) -> None:
        """A revision was accepted: those before it are no more needed."""
        for other in list(takewhile(lambda one: one != ref, self._entries)):
            entry = self._entries[other]
            say = entry.said
            if say is not None and say.id == id and entry.ord is not None:
                del self._entries[other]


def _of(id: str, root: str | None) -> bool:
    """Whether an id is that of an utterance or of a part of it."""
    return root is not None and (id == root or id.startswith(f"{root}."))
