"""The captions of a room in the making: jobs for the engine, and what the engine returns.

Owns: which caption waits for which job. Must not know: members, frames, the log, what a job is told
(`gateway.core.captions.job_builder`), how captions end (`gateway.core.captions.outcomes`).

For each utterance and language there is one job at most. While it runs, newer text waits, and of
that only the newest. A job is stopped early if its source was changed, has ended, or is not wanted
any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec.structs import replace

from gateway.core.base.faults import no_source, other_language
from gateway.core.base.model import Model
from gateway.core.base.validation import printable
from gateway.core.captions.job_builder import JobBuilder
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.members.member import Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.scheduling.scheduler import JobStage, Scheduler
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.protocol.messages import Delta, Was
from gateway.text import languages
from gateway.text.glossary import missed

Show = Callable[[Delta, float], None]
"""Called with each change of a growing caption, and the time in seconds."""

Instead = Callable[[str, str], str | None]
"""Called with a text and the tag of the language stated for it. Returns the tag of the language
that it is in, if it is surely not in the stated one; else None."""

MISSED = "glossary"
"""Flag of a caption that lacks the translation of a term in the room's glossary."""


class CaptionSink:
    """The way of one job's text into its caption, open until the job ends or is taken back.

    If the job translates a corrected original (``revises``), nothing is shown before its end:
    ``text`` is what the engine has returned so far.
    """

    __slots__ = ("_captioner", "_show", "caption", "job", "open", "revises", "text", "utterance")

    def __init__(
        self,
        captioner: Captioner,
        job: Job,
        utterance: Utterance,
        caption: Caption,
        show: Show,
        *,
        revises: bool,
    ) -> None:
        self._captioner = captioner
        self._show = show
        self.job = job
        self.utterance = utterance
        self.caption = caption
        self.revises = revises
        self.open = True
        self.text = ""

    def add_output(self, chunk: Chunk, now: float) -> None:
        """Add text from the engine to the caption, with control characters as spaces.

        Text of a job that was taken back is dropped.
        """
        if not self.open:
            return
        # A model may write anything, and a lone surrogate cannot be encoded.
        if not chunk.text.isprintable():
            chunk = replace(chunk, text=printable(chunk.text))
        # Readers see the old translation until the new one is whole.
        if self.revises:
            self.text = ("" if chunk.reset else self.text) + chunk.text
            return
        caption = self.caption
        delta = caption.add_output(chunk, now)
        if delta is not None:
            self._show(delta, now)
        elif not caption.partial and caption.contradicted:
            self._captioner.restart(self.utterance, caption, now)


class Captioner:
    """The jobs of one room."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        builder: JobBuilder,
        subscribers: Subscribers,
        outcomes: CaptionOutcomes,
    ) -> None:
        self.builder = builder
        self.jobs: dict[str, CaptionSink] = {}
        self._model = model
        self._scheduler = scheduler
        self.instead: Instead | None = None
        """Tells texts that are not in the language stated for them."""
        self._told: tuple[str, str, str | None] = ("", "", None)  # its last text, tag and answer
        self._outcomes = outcomes
        self._show = subscribers.show

    # --- captions to make -----------------------------------------------------------------------

    def translate(
        self, utterance: Utterance, langs: Iterable[str], now: float, *, admitted: bool = False
    ) -> None:
        """Bring the utterance's captions, and new ones in ``langs``, to its newest text.

        :param admitted: whether the scheduler has been asked for the jobs
        """
        tags = sorted({*langs, *utterance.captions})
        # The pivot language comes first, so that captions made through it share its translation.
        if len(tags) > 1 and (pivot := self._model.pivot) in tags:
            tags.remove(pivot)
            tags.insert(0, pivot)
        for lang in tags:
            caption = utterance.captions.get(lang) or self._add(utterance, lang)
            # The same text needs no second translation.
            if not caption.state.ended and caption.text_number != utterance.text_number:
                self._advance(utterance, caption, now, admitted=admitted)

    def echo(self, utterance: Utterance, text: str, langs: Iterable[str], now: float) -> None:
        """Show a growing original to readers of the speaker's own language."""
        for lang in langs:
            if languages.same(lang, utterance.lang):
                caption = utterance.captions.get(lang) or self._add(utterance, lang)
                if not caption.state.ended:  # a cancelled language stays cancelled
                    self.withdraw(caption)  # the speaker was thought to use another language
                    delta = caption.echo(text, utterance.rev)
                    if delta is not None:
                        self._show(delta, now)

    def backfill(self, utterance: Utterance, lang: str, now: float) -> bool:
        """Caption an utterance that has ended, when the engine has nothing more urgent to do.

        Returns False if too many jobs wait; then there is no caption.
        """
        # The original itself needs no job.
        free = languages.same(lang, utterance.lang)
        pairs = [(utterance.lang, lang)]
        if free or self._scheduler.admits(1, Priority.BACKFILL, pairs):
            caption = self._add(utterance, lang)
            self._advance(utterance, caption, now, Priority.BACKFILL)
            return True
        return False

    def decline(self, utterance: Utterance, lang: str, now: float) -> None:
        """Fail a caption because too many jobs wait."""
        self._outcomes.fail(utterance, self._add(utterance, lang), ErrorCode.BUSY, now)

    def revise(self, utterance: Utterance, now: float) -> None:
        """Translate a corrected original anew, except for captions that people have written."""
        self.invalidate(utterance)
        for caption in utterance.captions.values():
            self.withdraw(caption)
            if not caption.state.ended:
                self._advance(utterance, caption, now)
            elif caption.by == "same":
                self._outcomes.revise(utterance, caption, utterance.text, "same", now)
            elif caption.by == "mt":  # readers keep the old translation until the new one is whole
                other = self._other_language(utterance)
                job = self.builder.job(utterance, caption) if other is None else None
                if job is not None and self._admits(job):
                    self._submit(job, utterance, caption, now, revises=True)

    def invalidate(self, utterance: Utterance) -> None:
        """Stop relying on translations of a source that was changed in the part that they were made
        of.
        """
        for caption in utterance.active:
            self.withdraw(caption)
            caption.invalidate()

    def cancel(
        self,
        utterance: Utterance,
        tags: tuple[str, ...] | None,
        now: float,
        reply: Reply | None = None,
    ) -> None:
        """Stop the work on an utterance.

        :param tags: languages to stop it in; None for the whole utterance
        :param reply: the request that asks for it, if a client does
        """
        for tag in tags if tags is not None else (None,):
            captions = self._outcomes.unfinished(utterance, tag)
            stages = {self.withdraw(caption) for caption in captions} - {None}
            was: Was | None = None
            if stages:
                was = "running" if JobStage.RUNNING in stages else "queued"
            answer = None if reply is None else reply._replace(tag=tag)
            self._outcomes.cancel(utterance, captions, tag, was, now, answer)
        self._outcomes.settle(utterance, now)

    def withdraw(self, caption: Caption) -> JobStage | None:
        """Take a caption's job back, if it has one; no more of its text is accepted.

        Returns the stage that the job had reached.
        """
        # Only an ended caption can be in revision, and only then all jobs must be searched.
        if caption.state.ended:
            for job_id in [id for id, sink in self.jobs.items() if sink.caption is caption]:
                self._abort(job_id)
        if caption.job_id is None:
            return None
        stage = self._abort(caption.job_id)
        caption.withdraw()
        return stage

    def clear(self) -> None:
        """Take back every job."""
        for job_id in list(self.jobs):
            self._abort(job_id)

    def in_progress(self, langs: Collection[str]) -> list[tuple[Utterance, Caption]]:
        """Return the captions in these languages that a job makes for the first time."""
        sinks = [sink for sink in self.jobs.values() if not sink.revises]
        return [(sink.utterance, sink.caption) for sink in sinks if sink.caption.lang in langs]

    # --- reports of the engine ------------------------------------------------------------------
    # A job that was taken back is no longer in `jobs`, so its reports are ignored.

    def started(self, job_id: str, now: float) -> CaptionSink | None:
        """Note that the engine was given a job; return its sink, or None if it was taken back."""
        sink = self.jobs.get(job_id)
        if sink is not None and not sink.revises:
            sink.caption.start(now)
        return sink

    def finished(self, job_id: str, now: float) -> None:
        """Complete the caption of a job that the engine has finished."""
        # Closed first: a chunk that the engine still sends has no caption any more.
        sink = self._close(job_id)
        if sink is None:
            return
        utterance, caption = sink.utterance, sink.caption
        if sink.revises:
            if sink.text:
                self._outcomes.revise(utterance, caption, sink.text, "mt", now)
        elif caption.partial:
            delta = caption.finish_partial()
            if delta is not None:
                self._show(delta, now)
            self._advance_later(utterance, caption, now)
        elif caption.broken:
            # It ended before the committed text did, so `restart` was not called.
            caption.withdraw()
            self._resubmit(utterance, caption, now)
        elif not caption.text:
            # The original only fills a pause, and has no words in this language.
            self._outcomes.cancel(utterance, [caption], caption.lang, "none", now, None)
        else:
            terms = self.builder.context.glossary.find(utterance.text, caption.lang)
            if missed(terms, caption.text):
                caption.flags += (MISSED,)
            job = sink.job
            self.builder.length_ratios.learn(job.source, job.target, job.text, caption.text)
            self._outcomes.finish(utterance, caption, caption.text, "mt", now)
        self._outcomes.settle(utterance, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        """Give up the caption of a job that the engine could not do.

        A partial caption waits for the next revision instead.
        """
        sink = self._close(job_id)
        if sink is None:
            return
        utterance, caption = sink.utterance, sink.caption
        if sink.revises:
            pass  # the old translation is better than none
        elif caption.partial:
            caption.withdraw()
            self._advance_later(utterance, caption, now)
        elif caption.forced:  # some engines cannot continue a given beginning
            caption.withdraw()
            self._resubmit(utterance, caption, now, free=True)
        else:
            self._outcomes.fail(utterance, caption, code, now)
        self._outcomes.settle(utterance, now)

    def restart(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """Make a final translation again, because it does not continue the committed text."""
        self.withdraw(caption)
        self._resubmit(utterance, caption, now)

    # --- inside ---------------------------------------------------------------------------------

    def _add(self, utterance: Utterance, lang: str) -> Caption:
        caption = utterance.captions[lang] = Caption(
            utterance.id, lang, self.builder.rules, utterance.statement.speaker
        )
        return caption

    def _advance_later(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """Translate the newest text if it has waited for the job that has just ended."""
        if caption.text_number != utterance.text_number:
            self._advance(utterance, caption, now)

    def _advance(
        self,
        utterance: Utterance,
        caption: Caption,
        now: float,
        priority: Priority = Priority.FINAL,
        *,
        admitted: bool = False,
    ) -> None:
        other = self._other_language(utterance)
        if other is not None:
            if utterance.final:
                self.withdraw(caption)
            self._give_up(utterance, caption, other_language(utterance.lang, other), now)
            return
        if languages.same(caption.lang, utterance.lang):
            if utterance.final:
                self.withdraw(caption)  # the speaker was thought to use another language
                self._outcomes.finish(utterance, caption, utterance.text, "same", now)
            return
        if caption.job_id is not None:
            if not utterance.final:
                self._update(utterance, caption)
                return
            self.withdraw(caption)
        job = self.builder.job(utterance, caption)
        if job is None:
            sources = self._model.sources
            unread = languages.match(utterance.lang, sources) is None
            why = no_source(utterance.lang, sources) if unread else ErrorCode.PAIR_UNSUPPORTED
            self._give_up(utterance, caption, why, now)
            return
        # New languages and late revisions have not been asked for yet, and partials can wait.
        if not (admitted or self._admits(job)):
            self._give_up(utterance, caption, ErrorCode.BUSY, now)
            return
        # `_job` has given it the priority of a final, which must not wait for old utterances.
        if priority is Priority.BACKFILL:
            job = replace(job, priority=priority)
        caption.queue(
            job.id,
            utterance.rev,
            utterance.text_number,
            partial=job.partial,
            grown=utterance.grown,
            base=job.prefix,
            needed=job.needed,
            now=now,
        )
        self._submit(job, utterance, caption, now)

    def _update(self, utterance: Utterance, caption: Caption) -> None:
        """Give a waiting job the newest text.

        A job that has started ends first, and the newest text starts after it: if every revision
        stopped the job before, readers would see nothing until the speaker pauses.
        """
        assert caption.job_id is not None
        if self._scheduler.waits(caption.job_id):
            job = self.builder.job(utterance, caption)
            if job is not None:
                self._scheduler.update(replace(job, id=caption.job_id))
                caption.update(utterance.rev, utterance.text_number, needed=job.needed)

    def _resubmit(
        self, utterance: Utterance, caption: Caption, now: float, *, free: bool = False
    ) -> None:
        """Make a final translation again: continuing what was committed, or ``free``."""
        job = self.builder.job(utterance, caption)
        assert job is not None, "what has been translated can be translated"
        if not free:
            prefix = caption.committed
            # Readers wait for the second time already, so this one streams.
            job = replace(job, prefix=prefix, draft=caption.last(prefix)[1], search=False)
        caption.requeue(job.id, base=job.prefix)
        self._submit(job, utterance, caption, now)

    def _admits(self, job: Job) -> bool:
        return self._scheduler.admits(1, job.priority, [(job.source, job.target)])

    def _submit(
        self, job: Job, utterance: Utterance, caption: Caption, now: float, *, revises: bool = False
    ) -> None:
        # Before it is submitted, so that no report about the job finds it unknown.
        self.jobs[job.id] = CaptionSink(self, job, utterance, caption, self._show, revises=revises)
        self._scheduler.submit(job, now)

    def _abort(self, job_id: str) -> JobStage:
        stage = self._scheduler.abort(job_id)
        assert stage is not None, f"job {job_id} is not scheduled"
        self._close(job_id)
        return stage

    def _close(self, job_id: str) -> CaptionSink | None:
        """Accept no more text of a job; return its sink, or None if it was closed before."""
        sink = self.jobs.pop(job_id, None)
        if sink is not None:
            sink.open = False
        return sink

    def _give_up(
        self, utterance: Utterance, caption: Caption, why: ErrorCode | ClientFault, now: float
    ) -> None:
        """Fail a caption whose text cannot be translated; a partial waits for the next text."""
        # Growing text has another chance with its next revision.
        if utterance.final:
            self._outcomes.fail(utterance, caption, why, now)

    def _other_language(self, utterance: Utterance) -> str | None:
        """Return the language that a text is in instead of the one stated for it; else None."""
        text, lang, _ = self._told
        if (text, lang) != (utterance.text, utterance.lang):  # asked for one caption after another
            text, lang = utterance.text, utterance.lang
            self._told = (text, lang, self.instead(text, lang) if self.instead else None)
        return self._told[2]
