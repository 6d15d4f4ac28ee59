"""The ways in which captions and utterances end.

Owns: the rule that each (utterance, language) asked for ends in exactly one of ``final``,
``failed`` and ``cancelled``, and what is published then. Must not know: jobs, the engine, who may
end what.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.core.history.publisher import Publisher
from gateway.core.members.attendance import Attendance
from gateway.core.members.member import Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import By, Cancelled, Was


class CaptionOutcomes(msgspec.Struct, eq=False):
    """The ends of one room's captions, for the members who make, speak and correct them."""

    publisher: Publisher
    subscribers: Subscribers
    attendance: Attendance

    def end_speech(self, utterance: Utterance, text: str, now: float) -> None:
        """End the speaking of an utterance: ``text`` is the original that is published."""
        utterance.text = text
        utterance.text_number += 1
        utterance.final = True
        # Earlier translations of the same speech are context only while they are fresh.
        utterance.at = now
        self.publisher.source(utterance, now)

    def finish(
        self,
        utterance: Utterance,
        caption: Caption,
        text: str,
        by: By,
        now: float,
        reply: Reply | None = None,
    ) -> None:
        """End a caption with its complete ``text``."""
        # A reader must not see stable text turn into another without a reset.
        delta = caption.correct(text)
        if delta is not None:
            self.subscribers.show(delta, now)
        timing = caption.finish(text, by, now)
        self.publisher.final(utterance, caption, timing, now, reply)

    def revise(self, utterance: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """Replace the text of an ended caption whose original was corrected."""
        caption.edit(text, by)
        self.publisher.edited(utterance, caption, now)

    def fail(
        self, utterance: Utterance, caption: Caption, why: ErrorCode | ClientFault, now: float
    ) -> None:
        """End a caption without a text."""
        caption.fail()
        code, msg = (why.code, str(why)) if isinstance(why, ClientFault) else (why, None)
        self.publisher.failed(utterance, caption.lang, code, now, msg)

    def unfinished(self, utterance: Utterance, tag: str | None) -> list[Caption]:
        """Return the captions of a language that have not ended; of all languages with None."""
        lang = None if tag is None else self.subscribers.served_by(tag)
        return [caption for caption in utterance.active if lang in (None, caption.lang)]

    def cancel(
        self,
        utterance: Utterance,
        captions: Sequence[Caption],
        tag: str | None,
        stage: Was | None,
        now: float,
        reply: Reply | None,
    ) -> None:
        """End captions whose jobs were taken back, or the whole utterance.

        :param tag: a language as the client named it; None for all of them
        :param stage: the furthest stage that one of the jobs had reached; None if there were none
        """
        lang = None if tag is None else self.subscribers.served_by(tag)
        was: Was = stage or "none"
        # A language without a caption has nothing to end, an utterance ends as a whole.
        if captions or (lang is None and not utterance.ended):
            for caption in captions:
                caption.cancel()
            utterance.cancelled = utterance.cancelled or lang is None
            self.publisher.cancelled(utterance, lang, was, now, reply)
            return
        # Nothing ends here, so only the client that asked hears of it.
        assert reply is not None, "only a client cancels what has ended"
        if lang is None or lang in utterance.captions:
            was = "done"
        answer = Cancelled(id=utterance.id, rev=utterance.rev, lang=tag, was=was, ref=reply.ref)
        reply.member.outbox.send(answer, now)

    def settle(self, utterance: Utterance, now: float) -> None:
        """Tell the speaker if all of the utterance has ended."""
        if not utterance.ended:
            return
        author = self.attendance.find(utterance.author)
        if author is not None and utterance.id in author.in_flight.utterances:
            author.in_flight.utterances.discard(utterance.id)
            author.ended(now)
            if not author.in_flight:
                self.attendance.release(author.id)  # it has nothing to come back for
