"""Durable events: numbered, logged and sent to the members they concern.

Owns: the number of a durable event, its place in the log, and its recipients. Must not know: why
the event happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gateway.core.history.event_log import Durable, EventLog
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ErrorCode
from gateway.protocol.codec import Envelope
from gateway.protocol.fields import stated
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Set,
    Settings,
    Source,
    Timing,
    Was,
)

Event = TypeVar("Event", Failed, Edited)


class Publisher(msgspec.Struct, eq=False):
    """The durable events of one room. Every method logs one, and sends it.

    If the event answers a request, ``reply`` is sent it in any case, with its ``ref`` and under the
    language tag that the request used.
    """

    log: EventLog
    subscribers: Subscribers
    observe: Callable[[ServerMessage, float], None]

    def source(self, utterance: Utterance, now: float) -> None:
        """Publish the original of a complete utterance."""
        event = Source(
            seq=self.log.seq + 1,
            id=utterance.id,
            rev=utterance.rev,
            ord=utterance.ord,
            lang=utterance.lang,
            text=utterance.text,
            **stated(utterance.statement, Source),
        )
        utterance.seq = utterance.seq or event.seq
        self.log.authors[event.seq] = utterance.author
        self._publish(event, None, now)

    def final(
        self,
        utterance: Utterance,
        caption: Caption,
        ms: Timing,
        now: float,
        reply: Reply | None = None,
    ) -> None:
        """Publish a complete caption."""
        assert caption.by is not None, "it has been finished"
        event = Final(
            seq=self.log.seq + 1,
            id=utterance.id,
            rev=utterance.rev,
            ord=utterance.ord,
            lang=caption.lang,
            text=caption.stable,
            by=caption.by,
            ms=ms,
            flags=caption.flags,
            p=round(caption.p, 2) if caption.p < 1 else None,
            **stated(utterance.statement, Final),
        )
        self._publish(event, caption.lang, now, reply)

    def failed(
        self, utterance: Utterance, lang: str, code: ErrorCode, now: float, msg: str | None = None
    ) -> None:
        """Publish that there will be no caption."""
        event = self._event(
            Failed, utterance, lang=lang, code=code.value, retry=code.retry, msg=msg
        )
        self._publish(event, lang, now)

    def cancelled(
        self, utterance: Utterance, lang: str | None, was: Was, now: float, reply: Reply | None
    ) -> None:
        """Publish that the work on one language, or on the whole utterance, was stopped."""
        seq = self.log.seq + 1
        event = Cancelled(seq=seq, id=utterance.id, rev=utterance.rev, lang=lang, was=was)
        utterance.seq = utterance.seq or seq
        self._publish(event, lang, now, reply)

    def original(self, utterance: Utterance, now: float, reply: Reply) -> None:
        """Publish a corrected original to everybody."""
        lang, text = utterance.lang, utterance.text
        event = self._event(Edited, utterance, lang=lang, text=text, by="human")
        self.log.originals.add(event.seq)
        self._publish(event, None, now, reply)

    def edited(
        self, utterance: Utterance, caption: Caption, now: float, reply: Reply | None = None
    ) -> None:
        """Publish the new text of a caption that had ended."""
        lang, text, by = caption.lang, caption.stable, caption.by
        event = self._event(Edited, utterance, lang=lang, text=text, by=by)
        self._publish(event, lang, now, reply)

    def retracted(self, utterance: Utterance, now: float, reply: Reply) -> None:
        """Publish that an utterance was retracted, and erase its texts from the log."""
        # First, so that nobody who reads the log after the event still finds the text.
        self.log.erase(utterance.ord)
        event = Retracted(seq=self.log.seq + 1, id=utterance.id, ord=utterance.ord)
        self._publish(event, None, now, reply)

    def settings(self, change: Set, version: int, now: float, member: Member) -> None:
        """Publish a member's change of the room's settings, or of its own."""
        event = Settings(
            seq=self.log.seq + 1,
            version=version,
            context=change.context,
            glossary=change.glossary,
            style=change.style,
            from_=change.from_,
            speaker=change.speaker,
            session=member.id,
        )
        self._publish(event, None, now, Reply(member, change.ref))

    def _event(self, kind: type[Event], utterance: Utterance, **fields: Any) -> Event:
        """Return the next event about a caption, which is rare; the usual ones cost less."""
        id, rev, ord = utterance.id, utterance.rev, utterance.ord
        return kind(seq=self.log.seq + 1, id=id, rev=rev, ord=ord, **fields)

    def _publish(
        self, event: Durable, lang: str | None, now: float, reply: Reply | None = None
    ) -> None:
        """Log an event, and send it to the readers of a language, or to everybody with None."""
        # Before it is sent: a reader that asks for the past now must find it.
        self.log.append(event, now)
        self.subscribers.publish(Envelope(event), lang, now, reply)
        self.observe(event, now)
