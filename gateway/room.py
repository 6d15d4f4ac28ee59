"""One meeting: its members, its utterances, and what was decided of them.

Owns: who may do what, who gets what, and the rule that every (utterance, language) asked for ends
in exactly one of ``final``, ``failed``, ``cancelled``. Must not know: frames, sockets, tasks,
clocks. How captions are made is the `Booth`'s business; what people read goes into their outboxes.

Bound: `Limits.utterances` are remembered; the oldest that has ended goes first, and those in flight
are bounded per member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from msgspec.structs import replace

from gateway import history, languages
from gateway.audience import Audience
from gateway.booth import Booth, Pairs
from gateway.codec import Envelope
from gateway.dispatch import Dispatch, Stage
from gateway.errors import ClientFault, ErrorCode
from gateway.flow import Flow
from gateway.glossary import Glossary
from gateway.job import Chunk
from gateway.limits import Limits
from gateway.log import Durable, Log
from gateway.member import Member, Role
from gateway.memory import Memory
from gateway.messages import (
    Ack,
    By,
    Cancelled,
    Delta,
    Edit,
    Edited,
    Failed,
    Final,
    Line,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    Source,
    View,
    Was,
)
from gateway.profiles import Profile
from gateway.speech import Speech
from gateway.utterance import Caption, State, Utterance


class Room:
    """State of one meeting. Every method takes the time and returns at once.

    :param log: empty, or what an earlier process decided
    :param settings: what the room's settings came to, where the log no longer has them all
    :param flow: how text that still grows is treated
    :param alarm: called with the time at which `wake` has something to do; the newest one holds
    """

    def __init__(
        self,
        name: str,
        *,
        log: Log,
        dispatch: Dispatch,
        profile: Profile,
        limits: Limits,
        settings: Settings | None = None,
        flow: Flow | None = None,
        observe: Callable[[ServerMessage], None] = lambda _: None,
        alarm: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.log = log
        self.audience = Audience(profile.targets, limits.linger_s)
        self._flow = flow or Flow()
        self.booth = Booth(self, name, dispatch, profile, self._flow.stability)
        self.empty_since: float | None = None
        self._dispatch = dispatch
        self._limits = limits
        self._observe = observe
        self._alarm = alarm
        self._awake_at: float | None = None
        self._announced = False
        self._announce_at: float | None = None
        self.memory = Memory(name, self._flow, limits.utterances)
        for utterance in history.utterances(log, self._flow):
            self.memory.restore(utterance)
        history.brief(log, self.booth.brief, settings)

    def __repr__(self) -> str:
        return (
            f"<Room {self.name} seq {self.log.seq}, {len(self.members)} members, "
            f"{len(self.memory.utterances)} utterances, {len(self.booth.jobs)} jobs>"
        )

    @property
    def members(self) -> dict[str, Member]:
        return self.audience.members

    @property
    def wanted(self) -> set[str]:
        """The languages that captions are made in."""
        return self.audience.wanted

    # --- members ------------------------------------------------------------------------------

    def join(self, member: Member, now: float) -> None:
        """From now on the member receives what its languages and view ask for."""
        self.audience.join(member)
        self.empty_since = None
        if member.speaker is not None:
            self.booth.brief.meet(member.speaker)
        self._announce(now)

    def leave(self, member: Member, now: float) -> None:
        """The member's socket is gone: its work is aborted, and in time what only it read too."""
        self.audience.leave(member, now)
        for utterance in self._open(member):
            self._cancel(utterance, None, now)
        member.inflight.clear()
        if not self.members:
            self.empty_since = now
        self._expire(now)
        self._announce(now)

    def end(self) -> None:
        """The room is given up: what is still being made in it is stopped."""
        self.booth.clear()

    def hush(self, member: Member, now: float) -> None:
        """The member will say no more: what it has not said to its end is cancelled."""
        for utterance in self._open(member):
            if not utterance.final:
                self._cancel(utterance, None, now)

    def recall(self, tags: Iterable[str], most: int | None = None) -> list[Envelope]:
        """What was decided of the last utterances, for somebody who comes now."""
        tagged = [(tag, self.audience.key(tag)) for tag in tags]
        events = self.log.last(self._backfill(most))
        retracted = {event.id for event in events if isinstance(event, Retracted)}
        spoken = {event.id: event.lang for event in events if isinstance(event, Source)}
        recalled = []
        for event in events:
            if isinstance(event, Retracted | Settings) or event.id in retracted:
                continue
            lang = None if isinstance(event, Source) else event.lang
            if isinstance(event, Edited) and event.by == "human" and lang == spoken[event.id]:
                lang = None  # the original was corrected: that is for everybody
            envelope = Envelope(event)
            if lang is None:
                recalled.append(envelope)
            else:
                recalled += [envelope.tagged(tag) for tag, key in tagged if key == lang]
        return recalled

    def want(
        self,
        member: Member,
        langs: tuple[str, ...],
        view: View | None,
        now: float,
        *,
        most: int | None = None,
    ) -> None:
        """Change what the member reads.

        Utterances in flight are made in new languages too; where one is being made already, the
        member is told what it missed. Those that have ended it is shown, if it has not been, and a
        language that is new to the room gets them when the engine has time: ``most`` at most.
        """
        new = {tag: self.audience.key(tag) for tag in langs if tag not in member.langs}
        unmade = set(new.values()) - self.wanted
        again = view is not None and view != member.view
        if again and view is not None:
            member.view = view
        self.audience.change(member, langs, now)
        if member.recalled:
            self._remind(member, new, most, now)
        shown = {tag: self.audience.key(tag) for tag in langs} if again else new
        for tag, key in shown.items():
            for delta in self._under_way(key):
                self.audience.catch_up(member, tag, delta, now)
        for utterance in self._open(*self.members.values()):
            self.booth.translate(utterance, self.wanted, now)
        for utterance in self.memory.last(self._backfill(most)):
            for lang in sorted(unmade - utterance.captions.keys()):
                self.booth.backfill(utterance, lang, now)
        self._expire(now)
        self._announce(now)

    def growing(self, id: str | None) -> bool:
        """Whether something was said under ``id``, and not to its end."""
        return self.memory.growing(id)

    # --- what members ask for -------------------------------------------------------------------

    def say(self, member: Member, say: Say, text: str, lang: str, now: float) -> None:
        """Take a new utterance or revision. ``text`` and ``lang`` are normalised.

        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``) with nothing changed.
        """
        speech = self.memory.speeches.get(say.id or "")
        rev = say.rev if say.rev is not None else (speech.rev + 1 if speech else 1)
        if speech is not None:
            if speech.author != member.id:
                raise ClientFault(
                    ErrorCode.FORBIDDEN, f"Utterance {speech.id!r} belongs to another speaker."
                )
            if rev == speech.rev and (text, say.final) == (speech.text, speech.final):
                self._acknowledge(member, speech, say, now)
                return
            if rev <= speech.rev:
                raise ClientFault(
                    ErrorCode.STALE,
                    f"Revision {rev} of {speech.id!r} is not newer than {speech.rev}, said before.",
                    "Let rev rise with every revision of the same id.",
                )
            if not self.memory.growing(speech.id):
                raise ClientFault(
                    ErrorCode.STALE,
                    f"Utterance {speech.id!r} has ended with revision {speech.rev}.",
                    "Say the new text under a new id.",
                )
        elif say.id is not None and say.id in self.memory.utterances:
            root = self.memory.utterances[say.id].root
            raise ClientFault(
                ErrorCode.STALE,
                f"Utterance {say.id!r} is over."
                if say.id == root
                else f"{say.id!r} is a part of {root!r}, which is said under that id.",
                "Say the new text under a new id.",
            )
        queued = [c for c in speech.open.active if c.state is State.QUEUED] if speech else ()
        if not self._dispatch.admits(len(self.wanted) - len(queued)):
            raise ClientFault(
                ErrorCode.BUSY, "The engine's queue is full; say it again in a moment."
            )
        if speech is None:
            speech = self.memory.begin(say.id, member.id, now)
            member.inflight.add(speech.id)
        speech.rev, speech.text, speech.final = rev, text, say.final
        if say.speaker is not None:
            self.booth.brief.meet(say.speaker)
        self._inform(speech, say, lang)
        self._acknowledge(member, speech, say, now)
        if say.final:
            self._end(speech, lang, now)
        else:
            self._grow(speech, lang, say, now)

    def cancel(
        self, member: Member, id: str, langs: tuple[str, ...] | None, ref: str | None, now: float
    ) -> None:
        """Stop the work on an utterance, all parts of it. Always answered by ``cancelled``.

        Raises `ClientFault` (``forbidden``) where the utterance belongs to somebody else.
        """
        parts = self.memory.parts(id)
        if not parts:
            for lang in langs or (None,):
                answer = Cancelled(id=id, rev=0, lang=lang, was="none", ref=ref)
                member.outbox.send(answer, now)
            return
        self._may(member, parts[0], "cancel")
        for part in parts:
            if part is parts[0] or not part.ended:
                self._cancel(part, langs or None, now, to=member, ref=ref)

    def edit(self, member: Member, edit: Edit, text: str, lang: str, now: float) -> None:
        """Put ``text`` in the place of a caption, or of the original, which is translated anew.

        Raises `ClientFault` (``not_found``, ``forbidden``, ``stale``).
        """
        utterance = self.memory.known(edit.id)
        self._may(member, utterance, "correct")
        if not utterance.final:
            raise ClientFault(
                ErrorCode.STALE,
                f"Utterance {edit.id!r} was not said to its end.",
                "Correct it when it has been; its speaker says the right text as next revision.",
            )
        if languages.same(lang, utterance.lang):
            utterance.text = text
            utterance.turn += 1
            self._publish(
                self._edited(utterance, utterance.lang, text, "human"),
                now,
                to=member,
                ref=edit.ref,
                all=True,
            )
            self.booth.revise(utterance, now)
            self.settle(utterance, now)
            return
        caption = utterance.captions.get(self.audience.key(lang))
        if caption is None:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"Utterance {edit.id!r} has no caption in {lang!r}.",
                "Correct it in a language that somebody reads.",
            )
        self.booth.withdraw(caption)
        if caption.state.ended:
            caption.edit(text, "human")
            event = self._edited(utterance, caption.lang, text, "human")
            self._publish(event, now, to=member, ref=edit.ref, tag=lang)
        else:
            self._complete(utterance, caption, text, "human", now, to=member, tag=lang)
            self.settle(utterance, now)

    def retract(self, member: Member, retract: Retract, now: float) -> None:
        """Take an utterance back, all parts of it, in all languages.

        Raises `ClientFault` (``not_found``, ``forbidden``).
        """
        self._may(member, self.memory.known(retract.id), "retract")
        speech = self.memory.speeches.get(retract.id)
        if speech is not None:
            speech.erase()
        for part in self.memory.parts(retract.id):
            if part.retracted:
                continue
            if not part.ended:
                self._cancel(part, None, now)
            for caption in part.captions.values():
                self.booth.withdraw(caption)
            part.erase()
            self.log.erase(part.ord)
            event = Retracted(seq=self.log.next(), id=part.id, ord=part.ord)
            self._publish(event, now, to=member, ref=retract.ref)

    def change(self, member: Member, change: Set, now: float) -> None:
        """Change the room's settings; everybody is told the new version."""
        brief = self.booth.brief
        if change.context is not None:
            brief.topic = change.context
        if change.glossary is not None:
            brief.glossary = Glossary(change.glossary)
        if change.style is not None:
            brief.style = change.style or None
        if change.speaker:
            self.booth.brief.meet(change.speaker)
            self._announce(now)
        brief.version += 1
        self._publish(
            Settings(
                seq=self.log.next(),
                version=brief.version,
                context=change.context,
                glossary=change.glossary,
                style=change.style,
                from_=change.from_,
                speaker=change.speaker,
                session=member.id,
            ),
            now,
            to=member,
            ref=change.ref,
        )

    def snapshot(
        self, id: str, ref: str | None = None, langs: Collection[str] | None = None
    ) -> Snapshot:
        """One utterance as it stands, in these languages. Raises `ClientFault` (``not_found``)."""
        utterance = self.memory.known(id)
        return Snapshot(
            id=utterance.id,
            rev=utterance.rev,
            ord=utterance.ord,
            lang=utterance.lang,
            text=utterance.text,
            final=utterance.final,
            speaker=utterance.speaker,
            lines=tuple(
                Line(
                    lang=caption.lang,
                    state=caption.state.value,
                    text=caption.stable,
                    draft=caption.draft or None,
                    by=caption.by,
                )
                for lang, caption in sorted(utterance.captions.items())
                if langs is None or lang in langs
            ),
            ref=ref,
        )

    # --- the engine and the clock ---------------------------------------------------------------

    def started(self, job_id: str, now: float) -> None:
        """The job was given to the engine."""
        self.booth.started(job_id, now)

    def fed(self, job_id: str, chunk: Chunk, now: float) -> None:
        """The engine produced more text."""
        self.booth.fed(job_id, chunk, now)

    def finished(self, job_id: str, now: float) -> None:
        """The engine finished the job."""
        self.booth.finished(job_id, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        """The engine could not do it. A partial only waits for the next revision."""
        self.booth.failed(job_id, code, now)

    def wake(self, now: float) -> None:
        """Do what was put off until now: growing text, languages without readers, presence."""
        self._awake_at = None
        for utterance in self._open(*self.members.values()):
            if not utterance.final:
                self._admit(self.memory.speeches[utterance.root], now)
        self._expire(now)
        if self._announce_at is not None:
            if self._announce_at <= now:
                self._announce_at = None
                self.audience.tell(Envelope(self.audience.presence()), None, now)
            else:
                self._at(self._announce_at)

    # --- what the booth made ----------------------------------------------------------------------

    def show(self, delta: Delta, now: float) -> None:
        """A growing caption changed on the screen."""
        self.audience.show(delta, now)

    def finish(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A caption is complete."""
        self._complete(u, caption, text, by, now)

    def revise(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A corrected original has this translation."""
        caption.edit(text, by)
        self._publish(self._edited(u, caption.lang, text, by), now)

    def fail(self, u: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
        """There will be no caption."""
        caption.fail()
        self._publish(
            Failed(
                seq=self.log.next(),
                id=u.id,
                rev=u.rev,
                ord=u.ord,
                lang=caption.lang,
                code=code.value,
                retry=code.retry,
            ),
            now,
        )

    def settle(self, u: Utterance, now: float) -> None:
        """Something of the utterance ended; if that was all of it, its speaker is told."""
        author = self.members.get(u.author)
        if u.ended and author is not None and u.id in author.inflight:
            author.inflight.discard(u.id)
            author.ended(now)

    def context(self, u: Utterance, lang: str) -> Pairs:
        """What was said shortly before it in its language, with the translations, oldest first."""
        pairs: list[tuple[str, str]] = []
        for earlier in self.memory.before(u):
            caption = earlier.captions.get(lang)
            if len(pairs) == self._limits.context or u.began - earlier.at > self._limits.context_s:
                break
            if (
                caption is not None
                and caption.state is State.FINAL
                and languages.same(earlier.lang, u.lang)
            ):
                pairs.append((earlier.text, caption.stable))
        return tuple(reversed(pairs))

    # --- growing ----------------------------------------------------------------------------------

    def _grow(self, speech: Speech, lang: str, say: Say, now: float) -> None:
        """Take a text that will go on: cut what is complete of it, translate what is agreed."""
        speech.offer(lang, now if say.t1 is None else say.t1, now)
        changed = speech.gate.diverged
        while (head := speech.cut(lang)) is not None:
            part = speech.open
            self.members[speech.author].inflight.add(self.memory.part(speech, now).id)
            self._inform(speech, say, lang)
            self._close(part, head, now, changed=changed)
            changed = False
        self.booth.echo(speech.open, speech.remainder(lang), self.wanted, now)
        self._admit(speech, now)

    def _admit(self, speech: Speech, now: float) -> None:
        """Translate what is agreed of a growing text, if it is time to."""
        part, gate = speech.open, speech.gate
        due = gate.due(now)
        if due is not None and due > now:
            self._at(due)
        elif due is not None:
            if gate.diverged:
                self.booth.doubt(part)
            part.text = gate.take(now)
            part.turn += 1
        self.booth.translate(part, self.wanted, now)

    def _end(self, speech: Speech, lang: str, now: float) -> None:
        """The rest of what was said under an id is known."""
        part, text = speech.open, speech.remainder(lang)
        changed = not speech.gate.continues(text, lang)
        speech.end()
        if text:
            self._close(part, text, now, changed=changed)
        else:  # all of it belongs to the parts before
            self._cancel(part, None, now)

    def _close(self, part: Utterance, text: str, now: float, *, changed: bool) -> None:
        """An utterance, or a part of a long one, has been said to its end."""
        if changed:
            self.booth.doubt(part)
        part.text = text
        part.turn += 1
        part.final = True
        part.at = now
        self._publish(
            Source(
                seq=self.log.next(),
                id=part.id,
                rev=part.rev,
                ord=part.ord,
                lang=part.lang,
                text=text,
                speaker=part.speaker,
                t0=part.t0,
                t1=part.t1,
            ),
            now,
        )
        self.booth.translate(part, self.wanted, now)
        self.settle(part, now)

    # --- inside -----------------------------------------------------------------------------------

    def _inform(self, speech: Speech, say: Say, lang: str) -> None:
        part = speech.open
        part.grown = part.grown or not say.final
        part.rev = speech.rev
        part.lang = lang
        part.speaker = say.speaker or part.speaker
        if part.t0 is None:
            part.t0 = say.t0 if len(speech.parts) == 1 else speech.parts[-2].t1
        part.t1 = say.t1

    def _may(self, member: Member, utterance: Utterance, what: str) -> None:
        if member.role is not Role.MODERATE and utterance.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Utterance {utterance.root!r} belongs to another speaker.",
                f"Only its speaker and moderators can {what} it.",
            )

    def _open(self, *members: Member) -> list[Utterance]:
        """What these members have said that has not ended, oldest first."""
        utterances = [self.memory.utterances[id] for member in members for id in member.inflight]
        return sorted(utterances, key=lambda utterance: utterance.ord)

    def _under_way(self, lang: str) -> list[Delta]:
        """What is shown in a language of captions that have not ended, oldest first."""
        made = (u for u, _ in self.booth.jobs.values())  # of utterances that have ended, too
        utterances = {*self._open(*self.members.values()), *made}
        captions = (
            utterance.captions.get(lang) for utterance in sorted(utterances, key=lambda u: u.ord)
        )
        deltas = (c.whole() for c in captions if c is not None and not c.state.ended)
        return [delta for delta in deltas if delta is not None]

    def _backfill(self, most: int | None) -> int:
        return self._limits.backfill if most is None else min(most, self._limits.backfill)

    def _remind(self, member: Member, new: dict[str, str], most: int | None, now: float) -> None:
        """Show what has ended in languages that a member who is here already begins to read."""
        for utterance in reversed(self.memory.last(self._backfill(most))):
            for tag, key in new.items():
                caption = utterance.captions.get(key)
                if caption is not None and caption.state is State.FINAL:
                    shot = self.snapshot(utterance.id, langs=(key,))
                    lines = tuple(replace(line, lang=tag) for line in shot.lines)
                    member.outbox.send(replace(shot, lines=lines), now)

    def _acknowledge(self, member: Member, speech: Speech, say: Say, now: float) -> None:
        ack = Ack(id=speech.id, rev=speech.rev, ord=speech.open.ord, ref=say.ref)
        member.outbox.send(ack, now)

    def _cancel(
        self,
        utterance: Utterance,
        tags: tuple[str, ...] | None,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
    ) -> None:
        for tag in tags if tags is not None else (None,):
            lang = None if tag is None else self.audience.key(tag)
            captions = [c for c in utterance.active if lang is None or c.lang == lang]
            stages = {self.booth.withdraw(c) for c in captions} - {None}
            decides = bool(captions) or (lang is None and not utterance.ended)
            was: Was = "none"
            if stages:
                was = "running" if Stage.RUNNING in stages else "queued"
            elif not decides and (lang is None or lang in utterance.captions):
                was = "done"
            for caption in captions:
                caption.cancel()
            if decides:
                utterance.cancelled = utterance.cancelled or lang is None
                seq = self.log.next()
                event = Cancelled(seq=seq, id=utterance.id, rev=utterance.rev, lang=lang, was=was)
                self._publish(event, now, to=to, ref=ref, tag=tag)
            else:
                assert to is not None, "only a client cancels what has ended"
                answer = Cancelled(id=utterance.id, rev=utterance.rev, lang=tag, was=was, ref=ref)
                to.outbox.send(answer, now)
        self.settle(utterance, now)

    def _expire(self, now: float) -> None:
        """Abort what nobody reads any more."""
        unread = self.audience.expire(now if self.members else math.inf)
        if unread:
            lost: dict[Utterance, dict[str, None]] = {}
            waiting = ((u, c) for u in self._open(*self.members.values()) for c in u.active)
            for utterance, caption in (*waiting, *self.booth.unread(unread)):
                if caption.lang in unread:
                    lost.setdefault(utterance, {})[caption.lang] = None
            for utterance, langs in lost.items():
                self._cancel(utterance, tuple(langs), now)
        if (due := self.audience.due) is not None:
            self._at(due)

    def _announce(self, now: float) -> None:
        """Tell everybody who is here, soon: many may come at once."""
        if len(self.members) > 1 or self._announced:
            self._announced = len(self.members) > 1
            if self._announce_at is None:
                self._announce_at = now + self._limits.presence_s
                self._at(self._announce_at)

    def _at(self, when: float) -> None:
        """Be woken then, or before."""
        if self._awake_at is None or when < self._awake_at:
            self._awake_at = when
            self._alarm(when)

    def _edited(self, u: Utterance, lang: str, text: str, by: By) -> Edited:
        return Edited(
            seq=self.log.next(), id=u.id, rev=u.rev, ord=u.ord, lang=lang, text=text, by=by
        )

    def _complete(
        self,
        u: Utterance,
        caption: Caption,
        text: str,
        by: By,
        now: float,
        *,
        to: Member | None = None,
        tag: str | None = None,
    ) -> None:
        delta = caption.correct(text)
        if delta is not None:
            self.show(delta, now)
        timing = caption.finish(text, by, now)
        self._publish(
            Final(
                seq=self.log.next(),
                id=u.id,
                rev=u.rev,
                ord=u.ord,
                lang=caption.lang,
                text=text,
                by=by,
                ms=timing,
                flags=caption.flags,
            ),
            now,
            to=to,
            tag=tag,
        )

    def _publish(
        self,
        event: Durable,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
        tag: str | None = None,
        all: bool = False,
    ) -> None:
        """Log a durable event and send it to everybody it concerns.

        ``to`` gets it in any case, with its ``ref`` and under the ``tag`` it used.
        """
        self.log.append(event, now)
        self._observe(event)
        envelope = Envelope(event)
        lang = None if all or isinstance(event, Source) else getattr(event, "lang", None)
        self.audience.tell(envelope, lang, now, but=to, tag=tag)
        if to is not None:
            if tag is not None:
                envelope = envelope.tagged(tag)
            if ref is not None:
                envelope = Envelope(replace(envelope.message, ref=ref))
            to.hear(envelope, now)
