"""Events of a log as a reader is sent them.

Owns: which events a late reader is sent, and under which language tags. Must not know: outboxes,
sockets, when they are sent (`gateway.core.session.catch_up`).
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.history.event_log import EventLog
from gateway.core.members.subscribers import Subscribers
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Retracted, Settings


class LogView:
    """The log of one room as its readers see it. Every method only reads."""

    def __init__(self, log: EventLog, subscribers: Subscribers) -> None:
        self._log = log
        self._subscribers = subscribers

    def recent(self, tags: Iterable[str], most: int) -> list[Envelope]:
        """Return the events of the last ``most`` utterances, for a member that comes now.

        Events of a language stand once under each of ``tags`` that it serves. Utterances that were
        retracted are left out.
        """
        tagged = self._served(tags)
        events = self._log.last(most)
        retracted = {event.id for event in events if isinstance(event, Retracted)}
        found = []
        for event in events:
            # A newcomer is told how things stand, not how they came about.
            if isinstance(event, Retracted | Settings) or event.id in retracted:
                continue
            lang = self._log.concerns(event)
            envelope = Envelope(event)
            if lang is None:
                found.append(envelope)
            else:
                found += [envelope.for_language(tag) for tag, served in tagged if served == lang]
        return found

    def missed(
        self, tags: Iterable[str], seq: int, most: int
    ) -> list[tuple[int, list[Envelope]]] | None:
        """Return ``most`` events after ``seq``, each with its number, as a reader was sent them.

        Nothing is left out except the texts of what was retracted since. Returns None if the log
        does not reach back as far as ``seq``.
        """
        events = self._log.since(seq, most)
        if events is None:
            return None
        under: dict[str, list[str]] = {}
        for tag, served in self._served(tags):
            under.setdefault(served, []).append(tag)
        found = []
        for event in events:
            lang = self._log.concerns(event)
            envelope = Envelope(event)
            envelopes = (
                [envelope]
                if lang is None
                else [envelope.for_language(tag) for tag in under.get(lang, ())]
            )
            assert event.seq is not None, "an event of a log has a number"
            found.append((event.seq, envelopes))
        return found

    def count(self, tags: Iterable[str], seq: int) -> int:
        """Return how many events `missed` has after ``seq`` in all."""
        counts = (self._log.count(served, seq) for _, served in self._served(tags))
        return self._log.count(None, seq) + sum(counts)

    def _served(self, tags: Iterable[str]) -> list[tuple[str, str]]:
        """Return each tag with the language that serves it."""
        return [(tag, self._subscribers.served_by(tag)) for tag in tags]
