"""The minutes of a meeting: what was decided becomes an event that stays.

Owns: the number of a durable event, its place in the log, and that everybody it concerns gets it.
Must not know: why it was decided.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gateway.core.event_log import Durable, EventLog
from gateway.core.member import Member
from gateway.core.subscribers import Subscribers
from gateway.core.utterance import Caption, Utterance
from gateway.errors import ErrorCode
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import (
    By,
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


class Publisher:
    """Every method logs one event and sends it to those it concerns.

    Where it answers a member, ``to`` gets it in any case, with its ``ref`` and under the ``tag`` of
    the language that it used.
    """

    def __init__(
        self, log: EventLog, audience: Subscribers, observe: Callable[[ServerMessage], None]
    ) -> None:
        self._log = log
        self._audience = audience
        self._observe = observe

    def source(self, u: Utterance, now: float) -> None:
        """It was said to its end: this is the original."""
        event = Source(
            seq=self._log.next(),
            id=u.id,
            rev=u.rev,
            ord=u.ord,
            lang=u.lang,
            text=u.text,
            speaker=u.speaker,
            t0=u.t0,
            t1=u.t1,
        )
        u.seq = u.seq or event.seq
        self._keep(event, None, now)

    def final(
        self,
        u: Utterance,
        caption: Caption,
        ms: Timing,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
        tag: str | None = None,
    ) -> None:
        """A caption is complete."""
        assert caption.by is not None, "it has been finished"
        event = Final(
            seq=self._log.next(),
            id=u.id,
            rev=u.rev,
            ord=u.ord,
            lang=caption.lang,
            text=caption.stable,
            by=caption.by,
            ms=ms,
            flags=caption.flags,
        )
        self._keep(event, caption.lang, now, to=to, ref=ref, tag=tag)

    def failed(self, u: Utterance, lang: str, code: ErrorCode, now: float) -> None:
        """There will be no caption."""
        event = Failed(
            seq=self._log.next(),
            id=u.id,
            rev=u.rev,
            ord=u.ord,
            lang=lang,
            code=code.value,
            retry=code.retry,
        )
        self._keep(event, lang, now)

    def cancelled(
        self,
        u: Utterance,
        lang: str | None,
        was: Was,
        now: float,
        *,
        to: Member | None,
        ref: str | None,
        tag: str | None,
    ) -> None:
        """The work on a language of it, or on all of it, was stopped."""
        event = Cancelled(seq=self._log.next(), id=u.id, rev=u.rev, lang=lang, was=was)
        u.seq = u.seq or self._log.seq
        self._keep(event, lang, now, to=to, ref=ref, tag=tag)

    def original(self, u: Utterance, now: float, *, to: Member, ref: str | None) -> None:
        """The original was corrected: that is for everybody."""
        event = self._edited(u, u.lang, u.text, "human")
        self._log.originals.add(event.seq)
        self._keep(event, None, now, to=to, ref=ref)

    def edited(
        self,
        u: Utterance,
        caption: Caption,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
        tag: str | None = None,
    ) -> None:
        """A caption that had ended has another text."""
        assert caption.by is not None, "it has been edited"
        event = self._edited(u, caption.lang, caption.stable, caption.by)
        self._keep(event, caption.lang, now, to=to, ref=ref, tag=tag)

    def retracted(self, u: Utterance, now: float, *, to: Member, ref: str | None) -> None:
        """It was taken back; what was said of it is not kept."""
        self._log.erase(u.ord)
        event = Retracted(seq=self._log.next(), id=u.id, ord=u.ord)
        self._keep(event, None, now, to=to, ref=ref)

    def settings(self, change: Set, version: int, now: float, *, to: Member) -> None:
        """The room's settings, or those of a speaker, were changed."""
        event = Settings(
            seq=self._log.next(),
            version=version,
            context=change.context,
            glossary=change.glossary,
            style=change.style,
            from_=change.from_,
            speaker=change.speaker,
            session=to.id,
        )
        self._keep(event, None, now, to=to, ref=change.ref)

    def _edited(self, u: Utterance, lang: str, text: str, by: By) -> Edited:
        return Edited(
            seq=self._log.next(), id=u.id, rev=u.rev, ord=u.ord, lang=lang, text=text, by=by
        )

    def _keep(
        self,
        event: Durable,
        lang: str | None,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
        tag: str | None = None,
    ) -> None:
        """Log it, and send it to the readers of a language, or to all."""
        self._log.append(event, now)
        self._observe(event)
        envelope = Envelope(event)
        self._audience.tell(envelope, lang, now, but=to, tag=tag)
        if to is not None:
            if tag is not None:
                envelope = envelope.for_language(tag)
            if ref is not None:
                envelope = Envelope(replace(envelope.message, ref=ref))
            to.answer(envelope, now)
