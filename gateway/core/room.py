"""One meeting: its members, its utterances, and what was decided of them.

Owns: who may do what, who gets what, and the rule that every (utterance, language) asked for ends
in exactly one of ``final``, ``failed``, ``cancelled``. Must not know: frames, sockets, tasks,
clocks. How captions are made is the `Captioner`'s business; what people read goes into their
outboxes.

A member whose socket was lost is *away* for `Limits.grace_s`: nothing is sent to it, and what it
has said goes on. Then its work is aborted as if it had left.

Bound: `Limits.utterances` are remembered; the oldest that has ended goes first, and those in flight
are bounded per member. Only who has something in flight is away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from weakref import proxy

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core import restore, snapshots
from gateway.core.captioner import Captioner, CaptionSink, Pairs
from gateway.core.event_log import EventLog
from gateway.core.ingest import Ingest
from gateway.core.member import Member
from gateway.core.model import Model
from gateway.core.publisher import Publisher
from gateway.core.scheduler import JobStage, Scheduler
from gateway.core.streaming.options import StreamingOptions
from gateway.core.subscribers import Subscribers
from gateway.core.utterance import Caption, CaptionState, Utterance
from gateway.core.utterances import Utterances
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import (
    By,
    Cancelled,
    Degraded,
    Edit,
    Retract,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    View,
    Was,
)
from gateway.text import languages
from gateway.text.glossary import Glossary


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
        log: EventLog,
        dispatch: Scheduler,
        profile: Model,
        limits: Limits,
        settings: Settings | None = None,
        flow: StreamingOptions | None = None,
        observe: Callable[[ServerMessage], None] = lambda _: None,
        alarm: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.log = log
        self.audience = Subscribers(profile.targets, limits.linger_s)
        self.minutes = Publisher(log, self.audience, observe)
        self._flow = flow or StreamingOptions()
        here = proxy(self)  # or a room that has ended would wait for the garbage collector
        rules, show = self._flow.stability, self.audience.show
        self.booth = Captioner(here, name, dispatch, profile, rules, show)
        self.away: dict[str, Member] = {}
        self.empty_since: float | None = None
        self.degraded: Degraded | None = None
        """What those who come are told of the engine, where it is not as usual."""
        self.fleeting = False
        """Whether nobody will come back to it."""
        self._until: dict[str, float] = {}
        self._limits = limits
        self._alarm = alarm
        self._awake_at: float | None = None
        self._announced = False
        self._announce_at: float | None = None
        self.memory = Utterances(name, self._flow, limits.utterances)
        self.floor = Ingest(here, name, self.memory, self.booth, dispatch)
        for utterance in restore.utterances(log, self._flow):
            self.memory.restore(utterance)
        self._owed = restore.open_ones(log, self.memory.utterances.values(), 2 * limits.job_s)
        restore.brief(log, self.booth.brief, settings)

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

    @property
    def tenant(self) -> str:
        """Whose share of the engine it uses."""
        return self.booth.tenant

    @tenant.setter
    def tenant(self, tenant: str) -> None:
        self.booth.tenant = tenant

    # --- members ------------------------------------------------------------------------------

    def join(self, member: Member, now: float) -> None:
        """From now on the member receives what its languages and view ask for.

        One of the same id that is away has come back: what it has in flight is its own again.
        """
        self.audience.join(member)
        self.empty_since = None
        before = self._back(member.id)
        if before is not None:
            member.inflight = before.inflight
        if member.speaker is not None:
            self.booth.brief.meet(member.speaker)
        self._announce(now)

    def leave(self, member: Member, now: float) -> None:
        """The member has left: its work is aborted, and in time what only it read too."""
        self.audience.leave(member, now)
        self._abort(member, now)
        self._vacate(now)
        if self.empty_since is not None:
            self._expire(math.inf, now)
        self._announce(now)

    def part(self, member: Member, now: float) -> None:
        """The member's socket is lost: for the time of grace its work goes on, and it may join
        again. What is made for it as a reader goes on too, even where it was the last one."""
        self.audience.leave(member, now)
        if member.inflight:
            self.away[member.id] = member
            self._until[member.id] = now + self._limits.grace_s
            self.at(self._until[member.id])
        self._vacate(now)
        self._announce(now)

    @property
    def settled(self) -> bool:
        """Whether nothing is under way: who goes on with the log elsewhere misses nothing."""
        return not self.booth.jobs and not any(one.inflight for one in self._present())

    def stop(self, now: float) -> None:
        """The server stops: what has not ended is cancelled, visibly."""
        for utterance in self._open():
            self._cancel(utterance, None, now)
        for line in list(self.booth.jobs.values()):
            if not line.caption.state.ended:  # else a corrected original keeps its old translation
                self._cancel(line.utterance, (line.caption.lang,), now)
        self.booth.clear()
        self.away.clear()
        self._until.clear()

    def end(self) -> None:
        """The room is given up: what is still being made in it is stopped."""
        self.booth.clear()
        for member in self._present():
            member.inflight.clear()  # its tenant's account counts it for as long as it is there

    def hush(self, member: Member, now: float) -> None:
        """The member will say no more: what it has not said to its end is cancelled."""
        for utterance in self._open(member):
            if not utterance.final:
                self._cancel(utterance, None, now)

    def recall(self, tags: Iterable[str], most: int | None = None) -> list[Envelope]:
        """What was decided of the last utterances, for somebody who comes now."""
        return snapshots.decided(self.log, self._tagged(tags), self._backfill(most))

    def missed(
        self, tags: Iterable[str], seq: int, most: int
    ) -> list[tuple[int, list[Envelope]]] | None:
        """What a reader of these languages was sent of the log after ``seq``; see `recall`."""
        return snapshots.missed(self.log, self._tagged(tags), seq, most)

    def count(self, tags: Iterable[str], seq: int) -> int:
        """How much that is in all."""
        return snapshots.count(self.log, self._tagged(tags), seq)

    def in_flight(self, member: Member) -> list[Envelope]:
        """The utterances that are being translated for a member, as its view shows them."""
        shots = snapshots.in_flight(self._active(), self._tagged(member.langs), member.view)
        return [Envelope(shot) for shot in shots]

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
        active = self._active()
        for tag, key in shown.items():
            for delta in snapshots.under_way(active, key):
                self.audience.catch_up(member, tag, delta, now)
        for utterance in self._open():
            self.booth.translate(utterance, self.wanted, now)
        for utterance in self.memory.last(self._backfill(most)):
            for lang in sorted(unmade - utterance.captions.keys()):
                self.booth.backfill(utterance, lang, now)
        for utterance in self._owed:  # a killed process was asked for them: each ends, some way
            for lang in sorted(unmade - utterance.captions.keys()):
                if not self.booth.backfill(utterance, lang, now):
                    self.booth.decline(utterance, lang, now)
        self._expire(now, now)
        self._announce(now)

    def knows(self, id: str | None) -> bool:
        """Whether something was said under ``id``."""
        return self.memory.knows(id)

    # --- what members ask for -------------------------------------------------------------------

    def say(self, member: Member, say: Say, text: str, lang: str, now: float) -> None:
        """Take a new utterance or revision. ``text`` and ``lang`` are normalised.

        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``) with nothing changed.
        """
        self.memory.forget(self.log.oldest)
        self.floor.say(member, say, text, lang, now)

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
            self.minutes.original(utterance, now, to=member, ref=edit.ref)
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
            self.minutes.edited(utterance, caption, now, to=member, ref=edit.ref, tag=lang)
        else:
            self._complete(
                utterance, caption, text, "human", now, to=member, ref=edit.ref, tag=lang
            )
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
            self.minutes.retracted(part, now, to=member, ref=retract.ref)

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
        self.minutes.settings(change, brief.version, now, to=member)

    def snapshot(
        self, id: str, ref: str | None = None, langs: Collection[str] | None = None
    ) -> Snapshot:
        """One utterance as it stands, in these languages. Raises `ClientFault` (``not_found``)."""
        return snapshots.snapshot(self.memory.known(id), ref, langs)

    # --- the engine and the clock ---------------------------------------------------------------

    def started(self, job_id: str, now: float) -> CaptionSink | None:
        """The job was given to the engine: where its text goes, or None if that is not wanted."""
        return self.booth.started(job_id, now)

    def finished(self, job_id: str, now: float) -> None:
        """The engine finished the job."""
        self.booth.finished(job_id, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        """The engine could not do it. A partial only waits for the next revision."""
        self.booth.failed(job_id, code, now)

    def shed(self, size: int) -> None:
        """Forget the oldest of what was decided, until so many bytes of the log are free."""
        self.log.shed(size)
        self.memory.forget(self.log.oldest)

    def degrade(self, how: Degraded, now: float) -> None:
        """The engine works less well than before, or better: tell everybody."""
        self.degraded = how if how.engine or how.partials == "off" else None
        self.audience.tell(Envelope(how), None, now)

    def wake(self, now: float) -> None:
        """Do what was put off until now: growing text, languages without readers, presence, and
        what became of those who are away."""
        self._awake_at = None
        for id in [id for id, until in self._until.items() if until <= now]:
            gone = self._back(id)
            assert gone is not None
            self._abort(gone, now)
        for utterance in self._open():
            if not utterance.final:
                self.floor.admit(self.memory.speeches[utterance.root], now)
        self._vacate(now)
        if self._until:
            self.at(min(self._until.values()))
        if self._announce_at is not None:
            if self._announce_at <= now:
                self._announce_at = None
                self.audience.tell(Envelope(self.audience.presence()), None, now)
            else:
                self.at(self._announce_at)

    # --- what the booth made ----------------------------------------------------------------------

    def finish(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A caption is complete."""
        self._complete(u, caption, text, by, now)

    def revise(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A corrected original has this translation."""
        caption.edit(text, by)
        self.minutes.edited(u, caption, now)

    def fail(self, u: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
        """There will be no caption."""
        caption.fail()
        self.minutes.failed(u, caption.lang, code, now)

    def settle(self, u: Utterance, now: float) -> None:
        """Something of the utterance ended; if that was all of it, its speaker is told."""
        author = self.members.get(u.author) or self.away.get(u.author)
        if u.ended and author is not None and u.id in author.inflight:
            author.inflight.discard(u.id)
            author.ended(now)
            if not author.inflight:
                self._back(author.id)  # there is nothing to come back for

    def context(self, u: Utterance, lang: str) -> Pairs:
        """What was said shortly before it in its language, with the translations, oldest first."""
        pairs: list[tuple[str, str]] = []
        for earlier in self.memory.before(u):
            caption = earlier.captions.get(lang)
            if len(pairs) == self._limits.context or u.began - earlier.at > self._limits.context_s:
                break
            if (
                caption is not None
                and caption.state is CaptionState.FINAL
                and languages.same(earlier.lang, u.lang)
            ):
                pairs.append((earlier.text, caption.stable))
        return tuple(reversed(pairs))

    # --- what the floor decided -------------------------------------------------------------------

    def said(self, u: Utterance, now: float) -> None:
        """It was said to its end: this is the original."""
        self.minutes.source(u, now)

    def drop(self, u: Utterance, now: float) -> None:
        """It turned out to be nothing."""
        self._cancel(u, None, now)

    def at(self, when: float) -> None:
        """Be woken then, or before."""
        if self._awake_at is None or when < self._awake_at:
            self._awake_at = when
            self._alarm(when)

    # --- inside -----------------------------------------------------------------------------------

    def _may(self, member: Member, utterance: Utterance, what: str) -> None:
        if member.role is not Role.MODERATE and utterance.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Utterance {utterance.root!r} belongs to another speaker.",
                f"Only its speaker and moderators can {what} it.",
            )

    def _open(self, *members: Member) -> list[Utterance]:
        """What these members, or all, have said that has not ended, oldest first."""
        members = members or self._present()
        utterances = [self.memory.utterances[id] for member in members for id in member.inflight]
        return sorted(utterances, key=lambda utterance: utterance.ord)

    def _present(self) -> tuple[Member, ...]:
        """Who is here, or may come back."""
        return (*self.members.values(), *self.away.values())

    def _active(self) -> set[Utterance]:
        """What captions are being made of; that may be an utterance that has ended."""
        return {*self._open(), *(line.utterance for line in self.booth.jobs.values())}

    def _tagged(self, tags: Iterable[str]) -> list[tuple[str, str]]:
        """Each tag with the language that serves it."""
        return [(tag, self.audience.key(tag)) for tag in tags]

    def _back(self, id: str) -> Member | None:
        """Whoever is away under this id is so no more."""
        self._until.pop(id, None)
        return self.away.pop(id, None)

    def _abort(self, member: Member, now: float) -> None:
        """Cancel what the member has said that has not ended."""
        for utterance in self._open(member):
            self._cancel(utterance, None, now)
        member.inflight.clear()

    def _vacate(self, now: float) -> None:
        """Somebody may have been the last one."""
        self._expire(now, now)  # with what it aborts may end what somebody was waited for
        if self.members or self.away:
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = now

    def _backfill(self, most: int | None) -> int:
        return self._limits.backfill if most is None else min(most, self._limits.backfill)

    def _remind(self, member: Member, new: dict[str, str], most: int | None, now: float) -> None:
        """Show what has ended in languages that a member who is here already begins to read, as
        far back as it can take at once."""
        told: list[Envelope] = []
        for utterance in self.memory.last(self._backfill(most)):
            for tag, key in reversed(new.items()):
                caption = utterance.captions.get(key)
                if caption is not None and caption.state is CaptionState.FINAL:
                    shot = self.snapshot(utterance.id, langs=(key,))
                    lines = tuple(replace(line, lang=tag) for line in shot.lines)
                    told.append(Envelope(replace(shot, lines=lines)))
        while told and not member.outbox.fits(told):
            del told[len(told) // 2 :]
        for envelope in reversed(told):
            member.outbox.push(envelope, now)

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
                was = "running" if JobStage.RUNNING in stages else "queued"
            elif not decides and (lang is None or lang in utterance.captions):
                was = "done"
            for caption in captions:
                caption.cancel()
            if decides:
                utterance.cancelled = utterance.cancelled or lang is None
                self.minutes.cancelled(utterance, lang, was, now, to=to, ref=ref, tag=tag)
            else:
                assert to is not None, "only a client cancels what has ended"
                answer = Cancelled(id=utterance.id, rev=utterance.rev, lang=tag, was=was, ref=ref)
                to.outbox.send(answer, now)
        self.settle(utterance, now)

    def _expire(self, until: float, now: float) -> None:
        """Abort what nobody reads any more, of the languages that linger ``until`` then."""
        unread = self.audience.expire(until)
        if unread:
            lost: dict[Utterance, dict[str, None]] = {}
            waiting = ((u, c) for u in self._open() for c in u.active)
            for utterance, caption in (*waiting, *self.booth.unread(unread)):
                if caption.lang in unread:
                    lost.setdefault(utterance, {})[caption.lang] = None
            for utterance, langs in lost.items():
                self._cancel(utterance, tuple(langs), now)
        if (due := self.audience.due) is not None:
            self.at(due)

    def _announce(self, now: float) -> None:
        """Tell everybody who is here, soon: many may come at once."""
        if len(self.members) > 1 or self._announced:
            self._announced = len(self.members) > 1
            if self._announce_at is None:
                self._announce_at = now + self._limits.presence_s
                self.at(self._announce_at)

    def _complete(
        self,
        u: Utterance,
        caption: Caption,
        text: str,
        by: By,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
        tag: str | None = None,
    ) -> None:
        delta = caption.correct(text)
        if delta is not None:
            self.audience.show(delta, now)
        ms = caption.finish(text, by, now)
        self.minutes.final(u, caption, ms, now, to=to, ref=ref, tag=tag)
