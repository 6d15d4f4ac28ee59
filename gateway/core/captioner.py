"""Where a room's captions are made: jobs for the engine, and what comes back of them.

Owns: which caption waits for which job, and what each job is told. Must not know: members, frames,
the log. What it makes it hands to its `CaptionListener`, which decides who gets it.

Per utterance and language there is one job at most. While it runs, newer text waits, and of that
only the newest; a job is stopped early where its source was changed, ended, or is wanted no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from msgspec.structs import replace

from gateway.core.model import Model
from gateway.core.scheduler import JobStage, Scheduler
from gateway.core.streaming.target import StabilityRules
from gateway.core.utterance import Caption, Utterance
from gateway.core.validation import printable
from gateway.errors import ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.protocol.messages import By, Delta
from gateway.text import languages
from gateway.text.glossary import Glossary, missed, named

Pairs = tuple[tuple[str, str], ...]
Show = Callable[[Delta, float], None]
"""Called where a growing caption changed on the screen."""

NAMES = 100
"""Speakers whose names are known to a room."""

MISSED = "glossary"
"""Flag of a caption that lacks the translation of a term that the room's glossary has."""


class CaptionListener(Protocol):
    """Who gets what a booth makes."""

    def finish(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A caption is complete."""

    def fail(self, u: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
        """There will be no caption."""

    def revise(self, u: Utterance, caption: Caption, text: str, by: By, now: float) -> None:
        """A corrected original has this translation."""

    def settle(self, u: Utterance, now: float) -> None:
        """Something of the utterance ended; maybe all of it."""

    def context(self, u: Utterance, lang: str) -> Pairs:
        """What was said before it, with its translations."""


class TranslationContext:
    """What the room wants its translators to know. ``version`` rises with every change."""

    def __init__(self) -> None:
        self.topic = ""
        self.glossary = Glossary()
        self.style: str | None = None
        self.version = 0
        self.names: dict[str, None] = {}
        """Who speaks here."""

    def meet(self, name: str) -> None:
        """Somebody of this name speaks here; the first of too many is forgotten."""
        if name and name not in self.names:
            self.names[name] = None
            if len(self.names) > NAMES:
                del self.names[next(iter(self.names))]

    def terms(self, text: str) -> Pairs:
        """The terms of the glossary that occur in ``text``, and the names, which stay."""
        terms = self.glossary.find(text)
        known = {term.casefold() for term, _ in terms}
        kept = ((name, name) for name in named(self.names, text) if name.casefold() not in known)
        return (*terms, *kept)


class CaptionSink:
    """One job's way into its caption, open until the job ends or the booth takes it back.

    A job that translates a corrected original anew shows nothing before its end: ``text`` is what
    it has said so far.
    """

    __slots__ = ("_booth", "_show", "anew", "caption", "open", "text", "utterance")

    def __init__(
        self, booth: Captioner, utterance: Utterance, caption: Caption, show: Show, *, anew: bool
    ) -> None:
        self._booth = booth
        self._show = show
        self.utterance = utterance
        self.caption = caption
        self.anew = anew
        self.open = True
        self.text = ""

    def fed(self, chunk: Chunk, now: float) -> None:
        """Take more of what the engine says, control characters as spaces.

        What it says of a job that was taken back is not heard.
        """
        if not self.open:
            return
        if not chunk.text.isprintable():
            chunk = replace(chunk, text=printable(chunk.text))
        if self.anew:
            self.text = ("" if chunk.reset else self.text) + chunk.text
            return
        caption = self.caption
        delta = caption.feed(chunk, now)
        if delta is not None:
            self._show(delta, now)
        elif not caption.partial and caption.contradicted:
            self._booth.redo(self.utterance, caption, now)


class Captioner:
    """The jobs of one room.

    :param show: with every token that an engine makes, so it is not asked of the room each time
    """

    def __init__(
        self,
        room: CaptionListener,
        name: str,
        dispatch: Scheduler,
        profile: Model,
        rules: StabilityRules,
        show: Show,
    ) -> None:
        self.brief = TranslationContext()
        self.tenant = ""
        """Whose turn at the engine its jobs wait for."""
        self.jobs: dict[str, CaptionSink] = {}
        self._room = room
        self._show = show
        self._name = name
        self._dispatch = dispatch
        self._profile = profile
        self._rules = rules

    # --- what is to be made ---------------------------------------------------------------------

    def translate(self, utterance: Utterance, langs: Iterable[str], now: float) -> None:
        """Bring these languages of the utterance, and those it has, to its newest text."""
        for lang in sorted({*langs, *utterance.captions}):
            caption = utterance.captions.get(lang)
            if caption is None:
                caption = utterance.captions[lang] = Caption(utterance.id, lang, self._rules)
            if not caption.state.ended and caption.turn != utterance.turn:
                self._advance(utterance, caption, now)

    def echo(self, utterance: Utterance, text: str, langs: Iterable[str], now: float) -> None:
        """Show a growing original to those who read the speaker's own language."""
        for lang in langs:
            if languages.same(lang, utterance.lang):
                caption = utterance.captions.get(lang)
                if caption is None:
                    caption = utterance.captions[lang] = Caption(utterance.id, lang, self._rules)
                if not caption.state.ended:
                    self.withdraw(caption)  # it was taken for another language
                    delta = caption.echo(text, utterance.rev)
                    if delta is not None:
                        self._show(delta, now)

    def backfill(self, utterance: Utterance, lang: str, now: float) -> bool:
        """Make a caption of an utterance that has ended, when there is nothing better to do.

        Where too much waits it is not made; whether it is.
        """
        free = languages.same(lang, utterance.lang)
        if free or self._dispatch.admits(1, Priority.BACKFILL):
            caption = utterance.captions[lang] = Caption(utterance.id, lang, self._rules)
            self._advance(utterance, caption, now, Priority.BACKFILL)
            return True
        return False

    def decline(self, utterance: Utterance, lang: str, now: float) -> None:
        """Say that a caption will not be made: there is too much to do."""
        caption = utterance.captions[lang] = Caption(utterance.id, lang, self._rules)
        self._room.fail(utterance, caption, ErrorCode.BUSY, now)

    def revise(self, utterance: Utterance, now: float) -> None:
        """The original was corrected: translate it anew, but for what people have written."""
        self.doubt(utterance)
        for caption in utterance.captions.values():
            self.withdraw(caption)
            if not caption.state.ended:
                self._advance(utterance, caption, now)
            elif caption.by == "same":
                self._room.revise(utterance, caption, utterance.text, "same", now)
            elif caption.by == "mt":
                job = self._job(utterance, caption)
                if job is not None and self._dispatch.admits(1):
                    self._submit(job, utterance, caption, now, anew=True)

    def doubt(self, utterance: Utterance) -> None:
        """The source was changed in what had been translated: that is void."""
        for caption in utterance.active:
            self.withdraw(caption)
            caption.doubt()

    def withdraw(self, caption: Caption) -> JobStage | None:
        """Take a caption's job back, if it has one; it will be heard no more."""
        if caption.state.ended:  # else none is made anew, and all jobs need not be gone through
            for job_id in [id for id, one in self.jobs.items() if one.caption is caption]:
                self._take(job_id)
        if caption.job_id is None:
            return None
        stage = self._take(caption.job_id)
        caption.withdraw()
        return stage

    def clear(self) -> None:
        """Take back every job there is."""
        for job_id in list(self.jobs):
            self._take(job_id)

    def unread(self, langs: Collection[str]) -> list[tuple[Utterance, Caption]]:
        """What is being made in these languages."""
        lines = [one for one in self.jobs.values() if not one.anew]
        return [(one.utterance, one.caption) for one in lines if one.caption.lang in langs]

    # --- what the engine did --------------------------------------------------------------------
    # A job that was taken back is no longer in `jobs`: whatever it still says is not heard.

    def started(self, job_id: str, now: float) -> CaptionSink | None:
        """The line of the job, which spares looking it up with every token; None where it was taken
        back."""
        line = self.jobs.get(job_id)
        if line is not None and not line.anew:
            line.caption.start(now)
        return line

    def finished(self, job_id: str, now: float) -> None:
        line = self._close(job_id)
        if line is None:
            return
        utterance, caption = line.utterance, line.caption
        if line.anew:
            self._room.revise(utterance, caption, line.text, "mt", now)
        elif caption.partial:
            delta = caption.rest()
            if delta is not None:
                self._show(delta, now)
            self._advance_later(utterance, caption, now)
        elif caption.broken:
            caption.withdraw()
            self._again(utterance, caption, now)
        else:
            terms = self.brief.glossary.find(utterance.text)
            if missed(terms, caption.text):
                caption.flags += (MISSED,)
            self._room.finish(utterance, caption, caption.text, "mt", now)
        self._room.settle(utterance, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        line = self._close(job_id)
        if line is None:
            return
        utterance, caption = line.utterance, line.caption
        if line.anew:
            pass  # the old translation is better than none
        elif caption.partial:
            caption.withdraw()
            self._advance_later(utterance, caption, now)
        elif caption.forced:  # some servers cannot be forced, and some beginnings not be continued
            caption.withdraw()
            self._again(utterance, caption, now, free=True)
        else:
            self._room.fail(utterance, caption, code, now)
        self._room.settle(utterance, now)

    def redo(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """A final translation does not go on from what was committed: make it once more."""
        self.withdraw(caption)
        self._again(utterance, caption, now)

    # --- inside ---------------------------------------------------------------------------------

    def _advance_later(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """The newest text has waited for the end of the job before it."""
        if caption.turn != utterance.turn:
            self._advance(utterance, caption, now)

    def _advance(
        self,
        utterance: Utterance,
        caption: Caption,
        now: float,
        priority: Priority = Priority.FINAL,
    ) -> None:
        if languages.same(caption.lang, utterance.lang):
            if utterance.final:
                self.withdraw(caption)  # it was taken for another language
                self._room.finish(utterance, caption, utterance.text, "same", now)
            return
        if caption.job_id is not None:
            if not utterance.final:
                self._renew(utterance, caption)
                return
            self.withdraw(caption)
        job = self._job(utterance, caption)
        if job is None:
            self._pass(utterance, caption, ErrorCode.PAIR_UNSUPPORTED, now)
            return
        # `say` has asked for finals; `want` and a late revision have not, and partials can wait.
        if not self._dispatch.admits(1, job.priority):
            self._pass(utterance, caption, ErrorCode.BUSY, now)
            return
        if priority is Priority.BACKFILL:
            job = replace(job, priority=priority)
        caption.queue(
            job.id,
            utterance.rev,
            utterance.turn,
            partial=job.partial,
            grown=utterance.grown,
            base=job.prefix,
            now=now,
        )
        self._submit(job, utterance, caption, now)

    def _renew(self, utterance: Utterance, caption: Caption) -> None:
        """Give a job that waits the newest text. One that has begun ends first, then the newest
        text starts: something is always shown."""
        assert caption.job_id is not None
        if self._dispatch.waits(caption.job_id):
            job = self._job(utterance, caption)
            if job is not None:
                self._dispatch.update(replace(job, id=caption.job_id))
                caption.update(utterance.rev, utterance.turn)

    def _again(
        self, utterance: Utterance, caption: Caption, now: float, *, free: bool = False
    ) -> None:
        """Make a final translation once more: forced to go on from what was committed, or free."""
        job = self._job(utterance, caption)
        assert job is not None, "what has been translated can be translated"
        if not free:
            job = replace(job, prefix=caption.committed, prefix_ids=caption.ids)
        caption.again(job.id, base=job.prefix)
        self._submit(job, utterance, caption, now)

    def _job(self, utterance: Utterance, caption: Caption) -> Job | None:
        """What is to be done for a caption now; None where the model lacks the languages."""
        source = languages.match(utterance.lang, self._profile.sources)
        target = languages.match(caption.lang, self._profile.targets)
        if source is None or target is None or not self._profile.supports(source, target):
            return None
        growing = not utterance.final
        if caption.context is None:
            caption.context = self._room.context(utterance, caption.lang)
        return Job(
            id=self._dispatch.name(self._name),
            room=self._name,
            tenant=self.tenant,
            text=utterance.text,
            source=source,
            target=target,
            partial=growing,
            prefix=caption.committed if growing else "",
            prefix_ids=caption.ids if growing else (),
            topic=self.brief.topic,
            context=caption.context,
            glossary=self.brief.terms(utterance.text),
            style=self.brief.style,
            priority=Priority.PARTIAL if growing else Priority.FINAL,
        )

    def _submit(
        self, job: Job, utterance: Utterance, caption: Caption, now: float, *, anew: bool = False
    ) -> None:
        self.jobs[job.id] = CaptionSink(self, utterance, caption, self._show, anew=anew)
        self._dispatch.submit(job, now)

    def _take(self, job_id: str) -> JobStage:
        stage = self._dispatch.abort(job_id)
        assert stage is not None, f"job {job_id} of {self._name} is not dispatched"
        self._close(job_id)
        return stage

    def _close(self, job_id: str) -> CaptionSink | None:
        """The job is heard no more; its line, if it was."""
        line = self.jobs.pop(job_id, None)
        if line is not None:
            line.open = False
        return line

    def _pass(self, utterance: Utterance, caption: Caption, code: ErrorCode, now: float) -> None:
        """This text cannot be translated: a partial waits for the next one."""
        if utterance.final:
            self._room.fail(utterance, caption, code, now)
