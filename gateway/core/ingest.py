"""The floor of a room: what is being said, as the interpreters' booth hears it.

Owns: which revision is taken, when a growing text is translated, where it is cut, and when it has
been said to its end. Must not know: readers, the log. What it decides its `SpeechListener` makes
known."""

from __future__ import annotations

import math
from typing import Protocol

from gateway.core.captioner import Captioner
from gateway.core.member import Member
from gateway.core.scheduler import Scheduler
from gateway.core.speech import Speech
from gateway.core.utterance import CaptionState, Utterance
from gateway.core.utterances import Utterances
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Ack, Say
from gateway.text import languages


class SpeechListener(Protocol):
    """Who listens to a floor."""

    @property
    def wanted(self) -> set[str]:
        """The languages that captions are made in."""

    def said(self, u: Utterance, now: float) -> None:
        """It was said to its end: this is the original."""

    def settle(self, u: Utterance, now: float) -> None:
        """Something of it ended; maybe all of it."""

    def drop(self, u: Utterance, now: float) -> None:
        """It turned out to be nothing."""

    def at(self, when: float) -> None:
        """`Ingest.admit` has something to do then."""


class Ingest:
    """What the members of one room say."""

    def __init__(
        self,
        room: SpeechListener,
        name: str,
        memory: Utterances,
        booth: Captioner,
        dispatch: Scheduler,
    ) -> None:
        self._room = room
        self._name = name
        self._memory = memory
        self._booth = booth
        self._dispatch = dispatch

    def say(self, member: Member, say: Say, text: str, lang: str, now: float) -> None:
        """Take a new utterance or revision. ``text`` and ``lang`` are normalised.

        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``) with nothing changed.
        """
        speech = self._memory.speeches.get(say.id or "")
        rev = say.rev if say.rev is not None else (speech.rev + 1 if speech else 1)
        if speech is None:
            if self._heard(member, say, text, now):
                return
            self._unused(say.id)
        elif speech.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN, f"Utterance {speech.id!r} belongs to another speaker."
            )
        elif rev == speech.rev and (text, say.final) == (speech.text, speech.final):
            _acknowledge(member, speech, say, now)
            return
        else:
            _goes_on(speech, rev)
        queued = [c for c in speech.open.active if c.state is CaptionState.QUEUED] if speech else ()
        jobs = sum(not languages.same(tag, lang) for tag in self._room.wanted) - len(queued)
        if speech is None:
            wait = self._dispatch.admit(self._name, self._booth.tenant, jobs, now) if jobs else 0
            if wait:
                raise ClientFault(
                    ErrorCode.BUSY,
                    "The engine has more to do than it can; say it again in a moment.",
                    retry_ms=math.ceil(wait * 1000),
                )
            member.allow(now)
            speech = self._memory.begin(say.id, member.id, now)
            member.inflight.add(speech.id)
        elif not self._dispatch.admits(jobs):
            raise ClientFault(
                ErrorCode.BUSY, "The engine's queue is full; say it again in a moment."
            )
        speech.rev, speech.text, speech.final = rev, text, say.final
        if say.speaker is not None:
            self._booth.brief.meet(say.speaker)
        _inform(speech, say, lang)
        _acknowledge(member, speech, say, now)
        if say.final:
            self._end(speech, lang, now)
        else:
            self._grow(member, speech, lang, say, now)

    def admit(self, speech: Speech, now: float) -> None:
        """Translate what is agreed of a growing text, if it is time to."""
        part, gate = speech.open, speech.gate
        due = gate.due(now)
        if due is not None and due > now:
            self._room.at(due)
        elif due is not None:
            if gate.diverged:
                self._booth.doubt(part)
            part.text = gate.admit(now)
            part.turn += 1
        self._booth.translate(part, self._room.wanted, now)

    # --- inside ---------------------------------------------------------------------------------

    def _heard(self, member: Member, say: Say, text: str, now: float) -> bool:
        """Acknowledge what was said to an earlier process, and may be said again for want of an
        answer; whether it was. Nobody here is known to have said it."""
        said = self._memory.utterances.get(say.id or "")
        if said is None or said.author or say.rev not in (None, said.rev):
            return False
        if (text, say.final) != (said.text, said.final):
            return False
        ack = Ack(id=said.id, rev=said.rev, ord=said.ord, ref=say.ref)
        member.outbox.send(ack, now)
        return True

    def _unused(self, id: str | None) -> None:
        """Raises `ClientFault` (``stale``) where an id cannot be that of something new."""
        if id is not None and id in self._memory.utterances:
            root = self._memory.utterances[id].root
            what = f"Utterance {id!r} is over."
            if id != root:
                what = f"{id!r} is a part of {root!r}, which is said under that id."
            raise ClientFault(ErrorCode.STALE, what, "Say the new text under a new id.")

    def _grow(self, member: Member, speech: Speech, lang: str, say: Say, now: float) -> None:
        """Take a text that will go on: cut what is complete of it, translate what is agreed."""
        speech.offer(lang, now if say.t1 is None else say.t1, now)
        changed = speech.gate.diverged
        while (head := speech.cut(lang)) is not None:
            part = speech.open
            member.inflight.add(self._memory.part(speech, now).id)
            _inform(speech, say, lang)
            self._close(part, head, now, changed=changed)
            changed = False
        self._booth.echo(speech.open, speech.remainder(lang), self._room.wanted, now)
        self.admit(speech, now)

    def _end(self, speech: Speech, lang: str, now: float) -> None:
        """The rest of what was said under an id is known."""
        part, text = speech.open, speech.remainder(lang)
        changed = not speech.gate.continues(text, lang)
        speech.end()
        if text:
            self._close(part, text, now, changed=changed)
        else:  # all of it belongs to the parts before
            self._room.drop(part, now)

    def _close(self, part: Utterance, text: str, now: float, *, changed: bool) -> None:
        """An utterance, or a part of a long one, has been said to its end."""
        if changed:
            self._booth.doubt(part)
        part.text = text
        part.turn += 1
        part.final = True
        part.at = now
        self._room.said(part, now)
        self._booth.translate(part, self._room.wanted, now)
        self._room.settle(part, now)


def _goes_on(speech: Speech, rev: int) -> None:
    """Raises `ClientFault` (``stale``) where this cannot be its next revision."""
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


def _inform(speech: Speech, say: Say, lang: str) -> None:
    """Note with the open part what came with the newest revision."""
    part = speech.open
    part.grown = part.grown or not say.final
    part.rev = speech.rev
    part.lang = lang
    part.speaker = say.speaker or part.speaker
    if part.t0 is None:
        part.t0 = say.t0 if len(speech.parts) == 1 else speech.parts[-2].t1
    part.t1 = say.t1


def _acknowledge(member: Member, speech: Speech, say: Say, now: float) -> None:
    ack = Ack(id=speech.id, rev=speech.rev, ord=speech.open.ord, ref=say.ref)
    member.outbox.send(ack, now)
