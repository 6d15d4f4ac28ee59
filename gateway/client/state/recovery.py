"""State that a client needs to resume after its connection broke.

Owns: the position in the room's events, and the requests that may be lost. Must not know: sockets,
clocks, when it connects again (`gateway.client.state.backoff`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from msgspec.structs import replace

from gateway.protocol import messages
from gateway.protocol.messages import ClientMessage, ServerMessage, Welcome
from gateway.protocol.notices import Error

MAX_PENDING = 1000
"""Number of requests that are kept, far more than a gateway has in flight. Beyond it the oldest is
forgotten."""


class ResumePosition:
    """Position of a client in the events of its room: the epoch and the last number received.

    If a client reads a language under several tags, there is an event of the same number for each
    tag.
    """

    def __init__(self, welcome: Welcome) -> None:
        self.epoch = welcome.epoch
        self.seq = welcome.seq
        # Tags received for the last number. Empty means that no further one is expected.
        self._tags: set[str | None] = set()

    def since(self, *, several: bool) -> int:
        """Return the number after which the gateway should continue.

        A client that reads ``several`` tags asks for the last number again, because events of it
        may be missing.
        """
        return self.seq - 1 if several and self._tags else self.seq

    def fresh(self, event: ServerMessage) -> bool:
        """Tell whether an event is new, as one without a number is, and advance the position."""
        if not isinstance(event, messages.DURABLE) or event.seq is None:
            return True
        lang = getattr(event, "lang", None)
        if event.seq > self.seq:
            self._tags = set()
        elif event.seq < self.seq or not self._tags or lang in self._tags:
            return False
        self.seq = event.seq
        self._tags.add(lang)
        return True

    def reconnected(self, welcome: Welcome) -> bool:
        """Continue with another socket. Return whether no event is missing in between."""
        whole = is_resumed(welcome)
        # Another epoch numbers its events anew. Within an epoch the old number stays valid, even
        # if the log no longer reaches back to it.
        if not whole and welcome.epoch != self.epoch:
            self.seq = welcome.seq
            self._tags = set()
        self.epoch = welcome.epoch
        return whole


def is_resumed(welcome: Welcome) -> bool:
    """Tell whether a socket continues an earlier one without missing events."""
    return welcome.resumed is not None and welcome.resumed.ok


@dataclass(slots=True)
class _PendingEntry:
    """A request of one or more frames."""

    frames: tuple[ClientMessage, ...]
    ord: int | None = None  # position of an accepted utterance
    heard: int = 0  # highest position of a received `source` of this utterance
    closed: set[str] = field(default_factory=set)  # ids of the parts whose `source` was received

    @property
    def said(self) -> messages.Say | None:
        """The ``say`` of the request, if it is one."""
        first = self.frames[0]
        return first if isinstance(first, messages.Say) else None

    @property
    def done(self) -> bool:
        """True if the room has the whole utterance."""
        say = self.said
        return say is not None and say.final and self.ord is not None and self.heard >= self.ord


class PendingRequests:
    """Requests that may be lost with the connection, in order.

    A request is pending until it is answered. An utterance is pending until its ``source`` arrives,
    it is cancelled or withdrawn, or its next revision is accepted.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _PendingEntry] = {}

    def add(self, ref: str, *frames: ClientMessage) -> None:
        """Add a request that is about to be sent."""
        self._entries[ref] = _PendingEntry(frames)
        if len(self._entries) > MAX_PENDING:
            del self._entries[next(iter(self._entries))]

    def drop(self, ref: str) -> None:
        """Forget a request whose answer is no longer waited for, unless it was accepted."""
        entry = self._entries.get(ref)
        if entry is not None and entry.ord is None:
            del self._entries[ref]

    def will_repeat(self, id: str) -> bool:
        """Tell whether an utterance ``id`` would be sent again."""
        return any(e.said is not None and e.said.id == id for e in self._entries.values())

    def is_growing(self, id: str | None) -> bool:
        """Tell whether an utterance ``id`` was accepted and is not final."""
        return any(
            say.id == id and not say.final and entry.ord is not None
            for entry in self._entries.values()
            if (say := entry.said) is not None
        )

    def all_frames(self) -> list[tuple[ClientMessage, ...]]:
        """Return the frames of all requests, to be sent again on another socket."""
        return [entry.frames for entry in self._entries.values()]

    def frames(self, ref: str) -> tuple[ClientMessage, ...]:
        """Return the frames of a request, none if it is no longer pending."""
        entry = self._entries.get(ref)
        return entry.frames if entry is not None else ()

    def answered(self, ref: str, event: ServerMessage) -> ServerMessage | None:
        """Process an answer. Return the event for the caller, None if it had an answer before."""
        entry = self._entries.get(ref)
        say = entry.said if entry is not None else None
        # Only utterances stay pending after their answer.
        if entry is None or say is None:
            self._entries.pop(ref, None)
            return event
        again = entry.ord is not None
        if isinstance(event, messages.Ack):
            entry.ord = event.ord
            self._supersede(say.id, ref)
            if entry.done:
                del self._entries[ref]
            return None if again else event
        if isinstance(event, Error) and event.retry and again:
            return None  # the gateway lost the utterance and is too busy to accept it again now
        del self._entries[ref]
        if isinstance(event, Error) and not again and entry.heard:
            # The utterance was sent again because its answer was lost, and has ended meanwhile.
            assert say.id is not None and say.rev is not None
            return messages.Ack(id=say.id, rev=say.rev, ord=entry.heard, ref=ref)
        return None if again else event

    def record(self, event: ServerMessage) -> None:
        """Remove utterances that an event of the room has settled."""
        if not isinstance(event, messages.Source | messages.Cancelled | messages.Retracted):
            return
        for ref, entry in list(self._entries.items()):
            say = entry.said
            if say is None or not _of(event.id, say.id):
                continue
            if isinstance(event, messages.Source):
                entry.heard = max(entry.heard, event.ord)
                entry.closed.add(event.id)
                over = entry.done
            else:
                # A `cancelled` without a number ended nothing, and one with a language only that.
                ends = isinstance(event, messages.Retracted) or (event.seq and event.lang is None)
                over = bool(ends) and entry.ord is not None and event.id not in entry.closed
            if over:
                del self._entries[ref]

    def answered_by(self, event: ServerMessage) -> str | None:
        """Return the ref of a request whose lost answer is implied by a replayed event, or None."""
        match event:
            case messages.Retracted(id=id):
                implied: ClientMessage = messages.Retract(id=id)
            case messages.Edited(by="human") | messages.Final(by="human"):
                implied = messages.Edit(id=event.id, lang=event.lang, text=event.text)
            case _:
                return None
        for ref, entry in self._entries.items():
            if replace(entry.frames[0], ref=None) == implied:
                return ref
        return None

    def _supersede(self, id: str | None, ref: str) -> None:
        """Remove earlier revisions of an utterance after a later one was accepted."""
        for other in list(takewhile(lambda earlier: earlier != ref, self._entries)):
            entry = self._entries[other]
            say = entry.said
            if say is not None and say.id == id and entry.ord is not None:
                del self._entries[other]


def _of(id: str, root: str | None) -> bool:
    """Tell whether ``id`` is the id of the utterance ``root`` or of a part of it."""
    return root is not None and (id == root or id.startswith(f"{root}."))
