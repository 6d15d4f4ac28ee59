"""One meeting: its members, its utterances, and what was decided of them.

Owns: who reads what, which jobs an utterance needs, and the rule that every
(utterance, language) asked for ends in exactly one of ``final``, ``failed``, ``cancelled``.
Must not know: frames, sockets, tasks, clocks. Work for the engine goes to `Dispatch`, events go
into the members' outboxes; both are carried out by somebody else.

Bound: `Limits.utterances` are remembered; the oldest that has ended goes first, and those in flight
are bounded per member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gateway import languages
from gateway.codec import Envelope
from gateway.dispatch import Dispatch, Stage
from gateway.errors import ClientFault, ErrorCode
from gateway.glossary import Glossary
from gateway.job import Chunk, Job, Priority
from gateway.limits import Limits
from gateway.log import Durable, Log
from gateway.member import Member, Role
from gateway.messages import (
    Ack,
    By,
    Cancelled,
    Delta,
    Failed,
    Final,
    Line,
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
from gateway.utterance import Caption, State, Utterance


class Room:
    """State of one meeting. Every method takes the time and returns at once."""

    def __init__(
        self,
        name: str,
        *,
        epoch: str,
        dispatch: Dispatch,
        profile: Profile,
        limits: Limits,
        observe: Callable[[ServerMessage], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.log = Log(epoch, limits)
        self.members: dict[str, Member] = {}
        self._readers: dict[str, list[Member]] = {}
        self.empty_since: float | None = None
        self.context = ""
        self.glossary = Glossary()
        self.style: str | None = None
        self.version = 0
        self._dispatch = dispatch
        self._profile = profile
        self._limits = limits
        self._observe = observe
        self._utterances: dict[str, Utterance] = {}
        self._ords = 0
        self._jobs: dict[str, tuple[Utterance, Caption]] = {}
        self._job_count = 0

    def __repr__(self) -> str:
        return (
            f"<Room {self.name} seq {self.log.seq}, {len(self.members)} members, "
            f"{len(self._utterances)} utterances, {len(self._jobs)} jobs>"
        )

    # --- members ------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """From now on the member receives what its languages and view ask for."""
        self.members[member.id] = member
        self.empty_since = None
        self._index()

    def leave(self, member: Member, now: float) -> None:
        """The member's socket is gone: its work is aborted, and what only it read too."""
        del self.members[member.id]
        self._index()
        for utterance in self._open(member):
            self._cancel(utterance, None, now)
        member.inflight.clear()
        self._prune(member.langs, now)
        if not self.members:
            self.empty_since = now

    def hush(self, member: Member, now: float) -> None:
        """The member will say no more: what it has not said to its end is cancelled."""
        for utterance in self._open(member):
            if not utterance.final:
                self._cancel(utterance, None, now)

    def want(self, member: Member, langs: tuple[str, ...], view: View | None, now: float) -> None:
        """Change what the member reads.

        Utterances in flight are made in new languages too; where one is being made already, the
        member is told what it missed.
        """
        dropped = set(member.langs) - set(langs)
        new = set(langs) - set(member.langs)
        if view is not None and view != member.view:
            member.view = view
            new = set(langs)
        member.langs = langs
        self._index()
        for utterance in self._open(*self.members.values()):
            for caption in utterance.active:
                delta = caption.whole() if caption.lang in new else None
                if delta is not None:
                    self._show(delta, now, (member,))
            self._translate(utterance, now)
        self._prune(dropped, now)  # last: what loses its only language may have got a new one

    @property
    def wanted(self) -> set[str]:
        """The languages somebody reads."""
        return set(self._readers)

    # --- what members ask for -------------------------------------------------------------------

    def say(self, member: Member, say: Say, text: str, lang: str, now: float) -> None:
        """Take a new utterance or revision. ``text`` and ``lang`` are normalised.

        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``) with nothing changed.
        """
        known = self._utterances.get(say.id) if say.id is not None else None
        rev = say.rev if say.rev is not None else (known.rev + 1 if known else 1)
        if known is not None:
            if known.author != member.id:
                raise ClientFault(
                    ErrorCode.FORBIDDEN, f"Utterance {known.id!r} belongs to another speaker."
                )
            if rev == known.rev and (text, say.final) == (known.text, known.final):
                self._acknowledge(member, known, say, now)
                return
            if rev <= known.rev:
                raise ClientFault(
                    ErrorCode.STALE,
                    f"Revision {rev} of {known.id!r} is not newer than {known.rev}, said before.",
                    "Let rev rise with every revision of the same id.",
                )
            if known.final or known.id not in member.inflight:
                raise ClientFault(
                    ErrorCode.STALE,
                    f"Utterance {known.id!r} has ended with revision {known.rev}.",
                    "Say the new text under a new id.",
                )
        queued = [c for c in known.active if c.state is State.QUEUED] if known is not None else ()
        if not self._dispatch.admits(len(self.wanted) - len(queued)):
            raise ClientFault(
                ErrorCode.BUSY, "The engine's queue is full; say it again in a moment."
            )
        utterance = known if known is not None else self._new(say.id, member)
        utterance.rev = rev
        utterance.text = text
        utterance.terms = self.glossary.find(text)
        utterance.lang = lang
        utterance.final = say.final
        utterance.speaker = say.speaker or utterance.speaker
        utterance.t0 = utterance.t0 if say.t0 is None else say.t0
        utterance.t1 = say.t1
        self._acknowledge(member, utterance, say, now)
        if say.final:
            self._publish(
                Source(
                    seq=self.log.next(),
                    id=utterance.id,
                    rev=rev,
                    ord=utterance.ord,
                    lang=lang,
                    text=text,
                    speaker=utterance.speaker,
                    t0=utterance.t0,
                    t1=utterance.t1,
                ),
                now,
            )
        self._translate(utterance, now)
        self._settle(utterance, now)

    def cancel(
        self, member: Member, id: str, langs: tuple[str, ...] | None, ref: str | None, now: float
    ) -> None:
        """Stop the work on an utterance. Always answered by ``cancelled``.

        Raises `ClientFault` (``forbidden``) where the utterance belongs to somebody else.
        """
        utterance = self._utterances.get(id)
        if utterance is None:
            for lang in langs or (None,):
                answer = Cancelled(id=id, rev=0, lang=lang, was="none", ref=ref)
                member.outbox.send(answer, now)
            return
        if member.role is not Role.MODERATE and utterance.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Utterance {id!r} belongs to another speaker.",
                "Only its speaker and moderators can cancel it.",
            )
        self._cancel(utterance, langs or None, now, to=member, ref=ref)

    def change(self, member: Member, change: Set, now: float) -> None:
        """Change the room's settings; everybody is told the new version."""
        if change.context is not None:
            self.context = change.context
        if change.glossary is not None:
            self.glossary = Glossary(change.glossary)
        if change.style is not None:
            self.style = change.style or None
        self.version += 1
        self._publish(
            Settings(
                seq=self.log.next(),
                version=self.version,
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

    def snapshot(self, id: str, ref: str | None = None) -> Snapshot:
        """One utterance as it stands. Raises `ClientFault` (``not_found``)."""
        utterance = self._utterances.get(id)
        if utterance is None:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"There is no utterance {id!r} in room {self.name!r}.",
                f"The room remembers the last {self._limits.utterances}.",
            )
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
                for caption in utterance.captions.values()
            ),
            ref=ref,
        )

    # --- what the engine did --------------------------------------------------------------------
    # A job that was taken back is no longer in _jobs: whatever it still says is not heard.

    def started(self, job_id: str, now: float) -> None:
        """The job was given to the engine."""
        if job_id in self._jobs:
            self._jobs[job_id][1].start(now)

    def fed(self, job_id: str, chunk: Chunk, now: float) -> None:
        """The engine produced more text."""
        entry = self._jobs.get(job_id)
        if entry is not None:
            delta = entry[1].feed(chunk, now)
            if delta is not None:
                self._show(delta, now)

    def finished(self, job_id: str, now: float) -> None:
        """The engine finished the job."""
        entry = self._jobs.pop(job_id, None)
        if entry is None:
            return
        utterance, caption = entry
        if caption.partial:
            delta = caption.rest()
            if delta is not None:
                self._show(delta, now)
            self._translate(utterance, now)  # the newest revision has waited for this
        else:
            self._finish(utterance, caption, caption.text, "mt", now)
        self._settle(utterance, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        """The engine could not do it. A partial only waits for the next revision."""
        entry = self._jobs.pop(job_id, None)
        if entry is None:
            return
        utterance, caption = entry
        if caption.partial:
            delta = caption.lose()
            if delta is not None:
                self._show(delta, now)
            self._translate(utterance, now)  # a newer revision may have waited
        else:
            self._fail(utterance, caption, code, now)
        self._settle(utterance, now)

    # --- inside ---------------------------------------------------------------------------------

    def _new(self, id: str | None, member: Member) -> Utterance:
        self._ords += 1
        number = self._ords
        while id is None or id in self._utterances:
            id = f"u{number}"
            number += 1
        utterance = self._utterances[id] = Utterance(id, self._ords, member.id)
        member.inflight.add(id)
        self._forget()
        return utterance

    def _open(self, *members: Member) -> list[Utterance]:
        """What these members have said that has not ended, oldest first."""
        utterances = [self._utterances[id] for member in members for id in member.inflight]
        return sorted(utterances, key=lambda utterance: utterance.ord)

    def _forget(self) -> None:
        if len(self._utterances) > self._limits.utterances:
            for id, utterance in self._utterances.items():
                if utterance.ended:
                    del self._utterances[id]
                    return

    def _acknowledge(self, member: Member, utterance: Utterance, say: Say, now: float) -> None:
        ack = Ack(id=utterance.id, rev=utterance.rev, ord=utterance.ord, ref=say.ref)
        member.outbox.send(ack, now)

    def _translate(self, utterance: Utterance, now: float) -> None:
        """Bring every wanted language of the utterance to its newest revision."""
        for lang in sorted(self.wanted | utterance.captions.keys()):
            caption = utterance.captions.get(lang)
            if caption is None:
                caption = utterance.captions[lang] = Caption(utterance.id, lang)
            if not caption.state.ended and caption.rev != utterance.rev:
                self._advance(utterance, caption, now)

    def _advance(self, utterance: Utterance, caption: Caption, now: float) -> None:
        if caption.job_id is not None:
            grows = utterance.text.startswith(caption.job_text)
            if caption.state is State.RUNNING and grows and not utterance.final:
                return  # it ends first, then the newest revision starts: something is always shown
            self._retract(caption)
        if languages.same(caption.lang, utterance.lang):
            self._echo(utterance, caption, now)
            return
        source = languages.match(utterance.lang, self._profile.sources)
        target = languages.match(caption.lang, self._profile.targets)
        if source is None or target is None or not self._profile.supports(source, target):
            self._pass(utterance, caption, ErrorCode.PAIR_UNSUPPORTED, now)
            return
        if not self._dispatch.admits(1):  # `say` has asked; `want` and a late revision have not
            self._pass(utterance, caption, ErrorCode.BUSY, now)
            return
        self._job_count += 1
        job = Job(
            id=f"{self.name}.{self._job_count}",
            room=self.name,
            text=utterance.text,
            source=source,
            target=target,
            partial=not utterance.final,
            topic=self.context,
            glossary=utterance.terms,
            style=self.style,
            priority=Priority.FINAL if utterance.final else Priority.PARTIAL,
        )
        caption.queue(job.id, utterance.rev, job.text, partial=job.partial, now=now)
        self._jobs[job.id] = (utterance, caption)
        self._dispatch.submit(job, now)

    def _pass(self, utterance: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
        """This revision cannot be translated: a partial waits for the next one."""
        if utterance.final:
            self._fail(utterance, caption, code, now)

    def _echo(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """A reader of the speaker's own language costs no engine time."""
        partial = not utterance.final
        caption.queue("", utterance.rev, utterance.text, partial=partial, now=now)
        caption.start(now)
        if partial:
            for delta in (caption.feed(Chunk(utterance.text, 0), now), caption.rest()):
                if delta is not None:
                    self._show(delta, now)
        else:
            self._finish(utterance, caption, utterance.text, "same", now)

    def _retract(self, caption: Caption) -> Stage:
        """Take a caption's job back; it will be heard no more."""
        assert caption.job_id is not None, repr(caption)
        stage = self._dispatch.abort(caption.job_id)
        assert stage is not None, f"{caption!r} has a job that is not dispatched"
        del self._jobs[caption.job_id]
        caption.withdraw()
        return stage

    def _cancel(
        self,
        utterance: Utterance,
        langs: tuple[str, ...] | None,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
    ) -> None:
        for lang in langs if langs is not None else (None,):
            captions = [c for c in utterance.active if lang is None or c.lang == lang]
            stages = {self._retract(c) for c in captions if c.job_id is not None}
            decides = bool(captions) or (lang is None and not utterance.ended)
            was: Was = "none"
            if stages:
                was = "running" if Stage.RUNNING in stages else "queued"
            elif not decides and (lang is None or lang in utterance.captions):
                was = "done"
            for caption in captions:
                caption.cancel()
            if lang is None:
                utterance.cancelled = True
            if decides:
                seq = self.log.next()
                event = Cancelled(seq=seq, id=utterance.id, rev=utterance.rev, lang=lang, was=was)
                self._publish(event, now, to=to, ref=ref)
            else:
                assert to is not None, "only a client cancels what has ended"
                answer = Cancelled(id=utterance.id, rev=utterance.rev, lang=lang, was=was, ref=ref)
                to.outbox.send(answer, now)
        self._settle(utterance, now)

    def _prune(self, langs: Iterable[str], now: float) -> None:
        """Abort what nobody reads any more."""
        unread = set(langs) - self.wanted
        if unread:
            for utterance in self._open(*self.members.values()):
                lost = tuple(c.lang for c in utterance.active if c.lang in unread)
                if lost:
                    self._cancel(utterance, lost, now)

    def _finish(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
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
        )

    def _fail(self, u: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
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

    def _settle(self, utterance: Utterance, now: float) -> None:
        author = self.members.get(utterance.author)
        if utterance.ended and author is not None and utterance.id in author.inflight:
            author.inflight.discard(utterance.id)
            author.ended(now)

    def _publish(
        self,
        event: Durable,
        now: float,
        *,
        to: Member | None = None,
        ref: str | None = None,
    ) -> None:
        """Log a durable event and send it to everybody it concerns, and to ``to`` with ``ref``."""
        self.log.append(event)
        self._observe(event)
        envelope = Envelope(event)
        lang = None if isinstance(event, Source | Settings) else event.lang
        readers = self.members.values() if lang is None else self._readers.get(lang, ())
        for member in readers:
            if member is not to:
                member.hear(envelope, now)
        if to is not None:
            assert isinstance(event, Cancelled | Settings)
            to.hear(envelope if ref is None else Envelope(replace(event, ref=ref)), now)

    def _index(self) -> None:
        self._readers = {}
        for member in self.members.values():
            for lang in member.langs:
                self._readers.setdefault(lang, []).append(member)

    def _show(self, delta: Delta, now: float, to: Iterable[Member] | None = None) -> None:
        """Send an ephemeral delta to those (of ``to``) who read this language as it grows."""
        live = Envelope(delta)
        stable: Envelope | None = None
        for member in self._readers.get(delta.lang, ()) if to is None else to:
            if member.view == "final":
                continue
            if member.view == "live" or delta.draft is None:
                member.outbox.push(live, now)
            elif delta.add or delta.reset:
                if stable is None:
                    stable = Envelope(
                        Delta(
                            id=delta.id,
                            rev=delta.rev,
                            lang=delta.lang,
                            add=delta.add,
                            reset=delta.reset,
                            n=delta.n,
                        )
                    )
                member.outbox.push(stable, now)
