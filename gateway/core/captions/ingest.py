"""The utterances of a room as they are spoken.

Owns: which revision is accepted, when a growing text is translated, where it is cut, and when an
utterance has ended. Must not know: readers, the log.
"""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from gateway.core.base.translation_context import TranslationContext
from gateway.core.captions.captioner import Captioner
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.members.member import Member
from gateway.core.members.subscribers import Subscribers
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.scheduling.timer import RoomTimer
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.speech import Speech
from gateway.core.utterances.utterance import Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.fields import Statement, stated
from gateway.protocol.messages import Ack, Say
from gateway.text import languages


class Ingest(msgspec.Struct, eq=False, kw_only=True):
    """The speech of the members of one room."""

    room: str
    utterances: Utterances
    subscribers: Subscribers
    captioner: Captioner
    outcomes: CaptionOutcomes
    scheduler: Scheduler
    context: TranslationContext
    timer: RoomTimer

    def say(self, member: Member, say: Say, now: float) -> None:
        """Accept a new utterance or a revision of one, whose text and language are normalised.
        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``); then nothing has changed.
        """
        text, lang = say.text, say.lang
        assert lang is not None, "its language was found before"
        speech = self.utterances.speeches.get(say.id or "")
        # A person who types lines into wscat does not count revisions.
        rev = say.rev if say.rev is not None else (speech.rev + 1 if speech else 1)
        # Every check comes before the first change, so that a refusal changes nothing.
        if speech is None:
            known = self.utterances.by_id.get(say.id or "")
            if known is not None:
                self._repeat_restored(known, member, say, now)
                return
        elif speech.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN, f"Utterance {speech.id!r} belongs to another speaker."
            )
        # A client that got no answer repeats its request, and nothing happens twice.
        elif rev == speech.rev and (text, say.final) == (speech.text, speech.final):
            _acknowledge(member, speech.open, speech.id, say, now)
            return
        else:
            _check_revision(speech, rev)
        # Jobs that wait are given the new text, so only the others wait in the queue.
        queued = [c for c in speech.open.active if c.state is CaptionState.QUEUED] if speech else ()
        wanted = self.subscribers.wanted
        pairs = [(lang, tag) for tag in wanted if tag != lang and not languages.same(tag, lang)]
        jobs = len(pairs) - len(queued)
        if speech is None:
            tenant = self.captioner.builder.tenant
            # A text that nobody reads takes no job, so it is never refused.
            wait = self.scheduler.admit(self.room, tenant, jobs, now, pairs) if jobs else 0
            if wait:
                raise ClientFault(
                    ErrorCode.BUSY,
                    "The engine has more to do than it can; say it again in a moment.",
                    retry_ms=math.ceil(wait * 1000),
                )
            member.charge(now)
            speech = self.utterances.begin(say.id, member.id, now)
            member.in_flight.utterances.add(speech.id)
        # A revision is not counted against the seat of its room: it has one already.
        elif not self.scheduler.admits(jobs, pairs=pairs):
            raise ClientFault(
                ErrorCode.BUSY, "The engine's queue is full; say it again in a moment."
            )
        speech.rev, speech.text, speech.final = rev, text, say.final
        if say.speaker is not None:
            self.context.add_speaker(say.speaker)
        part = speech.parts[-1]
        _copy_details(speech, part, say, lang)
        ack = Ack(id=speech.id, rev=rev, ord=part.ord, ref=say.ref)
        member.outbox.send(ack, now)
        if not say.final:
            self._grow(member, speech, lang, say, now)
            return
        text = speech.remainder(lang)
        # Before the end, after which no earlier text is known.
        changed = not speech.continues(text, lang)
        speech.forget_parts()
        if text:
            self._end(part, text, now, changed=changed, admitted=True)
        else:  # all of the text belongs to the parts before
            self.captioner.cancel(part, None, now)

    def translate_due(self, speech: Speech, now: float) -> None:
        """Translate the agreed part of a growing text, if it is time to."""
        part, policy = speech.open, speech.policy
        due = policy.due(now)
        if due is not None and due > now:
            self.timer.at(due)
        elif due is not None:
            # Translations of words that have changed must not stay on the screen.
            if policy.diverged:
                self.captioner.invalidate(part)
            part.text = policy.admit(now)
            part.text_number += 1
        self.captioner.translate(part, self.subscribers.wanted, now)

    # --- inside ---------------------------------------------------------------------------------

    def _repeat_restored(self, known: Utterance, member: Member, say: Say, now: float) -> None:
        """Acknowledge a repetition of an utterance that an earlier process accepted.

        A client that got no answer says its utterance again. Older releases have kept no authors.
        Raises `ClientFault` (``stale``) if it is no repetition, since the id is in use.
        """
        if (
            known.author in ("", member.id)
            and say.rev in (None, known.rev)
            and (say.text, say.final) == (known.text, known.final)
        ):
            _acknowledge(member, known, known.id, say, now)
            return
        what = f"Utterance {known.id!r} is over."
        if known.id != known.root:
            what = f"{known.id!r} is a part of {known.root!r}, which is said under that id."
        raise ClientFault(ErrorCode.STALE, what, "Say the new text under a new id.")

    def _grow(self, member: Member, speech: Speech, lang: str, say: Say, now: float) -> None:
        """Accept a text that will go on: end its complete parts, translate what is agreed."""
        speech.offer(lang, now if say.t1 is None else say.t1, now)
        changed = speech.policy.diverged
        while (head := speech.cut(lang)) is not None:
            part = speech.open
            member.in_flight.utterances.add(self.utterances.add_part(speech, now).id)
            _copy_details(speech, speech.open, say, lang)
            self._end(part, head, now, changed=changed)
            changed = False  # the change was in the first part
        rest = speech.remainder(lang)
        self.captioner.echo(speech.open, rest, self.subscribers.wanted, now)
        self.translate_due(speech, now)

    def _end(
        self, part: Utterance, text: str, now: float, *, changed: bool, admitted: bool = False
    ) -> None:
        """End an utterance, or one part of a long one.

        :param changed: whether words have changed that were translated already
        :param admitted: whether the scheduler has been asked for its jobs
        """
        if changed:
            self.captioner.invalidate(part)
        self.outcomes.end_speech(part, text, now)
        self.captioner.translate(part, self.subscribers.wanted, now, admitted=admitted)
        self.outcomes.settle(part, now)


def _check_revision(speech: Speech, rev: int) -> None:
    if rev <= speech.rev:
        raise ClientFault(
            ErrorCode.STALE,
            f"Revision {rev} of {speech.id!r} is not newer than {speech.rev}, said before.",
            "Let rev rise with every revision of the same id.",
        )
    if not speech.growing:
        raise ClientFault(
            ErrorCode.STALE,
            f"Utterance {speech.id!r} has ended with revision {speech.rev}.",
            "Say the new text under a new id.",
        )


def _copy_details(speech: Speech, part: Utterance, say: Say, lang: str) -> None:
    """Copy the language and the details of the newest revision to the open part."""
    part.grown = part.grown or not say.final
    part.rev = speech.rev
    part.lang = lang
    before = part.statement
    given = stated(say, Statement)
    if len(speech.parts) > 1 or before != Statement():
        given = {name: value for name, value in given.items() if value is not None}
    # A later part begins where the one before it ended.
    t0 = before.t0
    if t0 is None:
        t0 = say.t0 if len(speech.parts) == 1 else speech.parts[-2].statement.t1
    part.statement = replace(before, **(given | {"t0": t0, "t1": say.t1}))


def _acknowledge(member: Member, utterance: Utterance, id: str, say: Say, now: float) -> None:
    member.outbox.send(Ack(id=id, rev=utterance.rev, ord=utterance.ord, ref=say.ref), now)
