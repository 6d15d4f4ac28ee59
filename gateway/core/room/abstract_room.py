"""A room as its sessions see it, in whichever gateway its decisions are made.

Owns: the state that every room has, which events of its log a late reader is sent, and the names of
all that members may ask for. Must not know: who decides (`gateway.core.room.room`,
`gateway.core.replication.replica`).

Texts and languages of requests are normalised by the session. Every method takes the time in
seconds and returns at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from gateway.core.base.translation_context import TranslationContext
from gateway.core.history.event_log import Durable, EventLog
from gateway.core.members.member import Member
from gateway.core.members.subscribers import Subscribers
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Bye, Cancel, Edit, Get, Retract, Say, Set, View, Want
from gateway.protocol.notices import Degraded


class LogView(msgspec.Struct, eq=False):
    """The log of one room as its readers see it. Every method only reads."""

    log: EventLog
    subscribers: Subscribers

    def recent(self, tags: Iterable[str], most: int) -> list[Envelope]:
        """Return the events of the last ``most`` utterances, for a member that comes now.

        Events of a language stand once under each of ``tags`` that it serves. A newcomer is told
        how things stand, not how they came about, so retracted utterances are left out.
        """
        under = self._by_language(tags)
        return [
            envelope for event in self.log.last(most) for envelope in self._tagged(event, under)
        ]

    def missed(
        self, tags: Iterable[str], seq: int, most: int
    ) -> list[tuple[int, list[Envelope]]] | None:
        """Return ``most`` events after ``seq``, each with its number, as a reader was sent them.

        Nothing is left out except the texts of what was retracted since. Returns None if the log
        does not reach back as far as ``seq``.
        """
        events = self.log.since(seq, most)
        if events is None:
            return None
        under = self._by_language(tags)
        missed = []
        for event in events:
            assert event.seq is not None, "an event of a log has a number"
            missed.append((event.seq, self._tagged(event, under)))
        return missed

    def count(self, tags: Iterable[str], seq: int) -> int:
        """Return how many events `missed` has after ``seq`` in all."""
        counts = (self.log.count(lang, seq) for _, lang in self.subscribers.serving(tags))
        return self.log.count(None, seq) + sum(counts)

    def _by_language(self, tags: Iterable[str]) -> dict[str, list[str]]:
        """Return the tags that each language serves."""
        under: dict[str, list[str]] = {}
        for tag, lang in self.subscribers.serving(tags):
            under.setdefault(lang, []).append(tag)
        return under

    def _tagged(self, event: Durable, under: dict[str, list[str]]) -> list[Envelope]:
        """Return an event under each tag of its language, or as it is if it has none."""
        envelope = Envelope(event)
        lang = self.log.concerns(event)
        if lang is None:
            return [envelope]
        return [envelope.for_language(tag) for tag in under.get(lang, ())]


Request = Say | Cancel | Edit | Retract | Set | Get | Bye
"""Messages of clients that concern the utterances and settings of a room."""


class AbstractRoom(Protocol):
    """A room with its members and its log."""

    name: str
    log: EventLog
    subscribers: Subscribers
    log_view: LogView
    translation_context: TranslationContext
    """Settings of the room."""
    empty_since: float | None = None
    temporary: bool = False
    """True if nobody will come back to the room."""

    def __init__(self, name: str, log: EventLog, subscribers: Subscribers) -> None:
        self.name = name
        self.log = log
        self.subscribers = subscribers
        self.log_view = LogView(log, subscribers)
        self.translation_context = TranslationContext()

    @property
    def degraded(self) -> Degraded | None:
        """State of the service for people who join now; None if it works as usual."""

    @property
    def settled(self) -> bool:
        """True if nothing is in flight, so that another process can continue with the log."""

    @property
    def bytes(self) -> int:
        """Memory of events and utterances."""

    # --- members ------------------------------------------------------------------------------

    def use_tenant(self, tenant: str) -> str:
        """Use a tenant's share of the engine, unless somebody is in the room; return which."""

    def join(self, member: Member, now: float) -> None:
        """Add a member, which is sent the events that its languages and view ask for."""

    def leave(self, member: Member, now: float) -> None:
        """Let a member go, and cancel its work."""

    def disconnect(self, member: Member, now: float) -> None:
        """Let a member go whose socket was lost, and which may come back."""

    def want(self, member: Member, message: Want, now: float) -> None:
        """Change the languages and the view of a member, and show it the past in new ones."""

    def in_flight(self, tags: Sequence[str], view: View) -> list[Envelope]:
        """Return the unfinished captions in ``tags``, for a member that has caught up."""

    def shed(self, size: int) -> None:
        """Forget the oldest events, to free ``size`` bytes of the log."""

    # --- requests of members --------------------------------------------------------------------
    # Each raises `ClientFault` and then has changed nothing.

    def knows(self, member: Member, id: str | None) -> bool:
        """Tell whether a member may go on with an utterance of this id."""

    def say(self, member: Member, message: Say, now: float) -> None:
        """Accept a new utterance or a revision of one, whose language was found before."""

    def cancel(self, member: Member, message: Cancel, now: float) -> None:
        """Stop the work on an utterance and all its parts. The answer is always ``cancelled``."""

    def edit(self, member: Member, message: Edit, now: float) -> None:
        """Replace a caption, or the original, which is then translated anew."""

    def retract(self, member: Member, message: Retract, now: float) -> None:
        """Erase an utterance and all its parts, in all languages."""

    def change_settings(self, member: Member, message: Set, now: float) -> None:
        """Change the room's settings, and send everybody the new version."""

    def get(
        self, member: Member, message: Get, now: float, langs: tuple[str, ...] | None = None
    ) -> None:
        """Send a snapshot of an utterance in ``langs``, which the member may read; None for all."""

    def finish_speaking(self, member: Member, now: float) -> None:
        """Cancel the member's utterances that still grow: it will say no more."""
