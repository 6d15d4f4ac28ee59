"""Events of a log as a reader is sent them.

Owns: which events a late reader is sent, and under which language tags. Must not know: outboxes,
sockets, when they are sent (`gateway.core.session.log_reader`).
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.history.event_log import Durable, EventLog
from gateway.core.members.subscribers import Subscribers
from gateway.protocol.codec import Envelope


class LogView:
    """The log of one room as its readers see it. Every method only reads."""

    def __init__(self, log: EventLog, subscribers: Subscribers) -> None:
        self._log = log
        self._subscribers = subscribers

    def recent(self, tags: Iterable[str], most: int) -> list[Envelope]:
        """Return the events of the last ``most`` utterances, for a member that comes now.

        Events of a language stand once under each of ``tags`` that it serves. A newcomer is told
        how things stand, not how they came about, so retracted utterances are left out.
        """
        under = self._by_language(tags)
        return [
            envelope for event in self._log.last(most) for envelope in self._tagged(event, under)
        ]

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
        under = self._by_language(tags)
        missed = []
        for event in events:
            assert event.seq is not None, "an event of a log has a number"
            missed.append((event.seq, self._tagged(event, under)))
        return missed

    def count(self, tags: Iterable[str], seq: int) -> int:
        """Return how many events `missed` has after ``seq`` in all."""
        counts = (self._log.count(lang, seq) for _, lang in self._subscribers.serving(tags))
        return self._log.count(None, seq) + sum(counts)

    def _by_language(self, tags: Iterable[str]) -> dict[str, list[str]]:
        """Return the tags that each language serves."""
        under: dict[str, list[str]] = {}
        for tag, lang in self._subscribers.serving(tags):
            under.setdefault(lang, []).append(tag)
        return under

    def _tagged(self, event: Durable, under: dict[str, list[str]]) -> list[Envelope]:
        """Return an event under each tag of its language, or as it is if it has none."""
        envelope = Envelope(event)
        lang = self._log.concerns(event)
        if lang is None:
            return [envelope]
        return [envelope.for_language(tag) for tag in under.get(lang, ())]
