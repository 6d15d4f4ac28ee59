"""The captions of a room in the making: jobs for the engine, and what the engine returns.

Owns: which caption waits for which job. Must not know: members, frames, the log, what a job is told
(`gateway.core.captions.job_builder`), how captions end (`gateway.core.captions.outcomes`).

For each utterance and language there is one job at most. While it runs, newer text waits, and of
that only the newest. A job is stopped early if its source was changed, has ended, or is not wanted
any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from gateway.core.base.faults import no_source, other_language
from gateway.core.base.model import Model
from gateway.core.base.validation import printable
from gateway.core.captions.job_builder import JobBuilder
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.members.member import Reply
from gateway.core.scheduling.scheduler import Scheduler, Stage
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.protocol.messages import Delta
from gateway.text import languages
from gateway.text.glossary import missed

Show = Callable[[Delta, float], None]
"""Called with each change of a growing caption, and the time in seconds."""

Instead = Callable[[str, str], str | None]
"""Called with a text and the tag of the language stated for it. Returns the tag of the language
that it is in, if it is surely not in the stated one; else None."""

MISSED = "glossary"
"""Flag of a caption that lacks the translation of a term in the room's glossary."""


@dataclass(slots=True, eq=False)
class CaptionSink:
    """The way of one job's text into its caption, open until the job ends or is taken back.

    If the job translates a corrected original (``revises``), nothing is shown before its end:
    ``text`` is what the engine has returned so far.
    """

    captioner: Captioner
    job: Job
    utterance: Utterance
    caption: Caption
    show: Show
    revises: bool
    open: bool = True
    text: str = ""

    def add_output(self, chunk: Chunk, now: float) -> None:
        """Add text from the engine to the caption, with control characters as spaces. Text of a job
        that was taken back is dropped.
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
            self.show(delta, now)
        elif not caption.partial and caption.contradicted:
            self.captioner.restart(self.utterance, caption, now)


class Captioner(msgspec.Struct, eq=False):
    """The jobs of one room."""

    model: Model
    scheduler: Scheduler
    builder: JobBuilder
    outcomes: CaptionOutcomes
    show: Show
    instead: Instead | None = None
    """Tells texts that are not in the language stated for them."""
    jobs: dict[str, CaptionSink] = {}
    _told: tuple[str, str, str | None] = ("", "", None)
    """The last text that `instead` was told, its tag and the answer."""

    # --- captions to make -----------------------------------------------------------------------

    def translate(
        self, utterance: Utterance, langs: Iterable[str], now: float, *, admitted: bool = False
    ) -> None:
        """Bring the utterance's captions, and new ones in ``langs``, to its newest text. Jobs that
        are ``admitted`` need not be asked for at the scheduler.
        """
        tags = sorted({*langs, *utterance.captions})
        # The pivot language comes first, so that captions made through it share its translation.
        if len(tags) > 1 and (pivot := self.model.pivot) in tags:
            tags.remove(pivot)
            tags.insert(0, pivot)
        for lang in tags:
            caption = utterance.captions.get(lang) or utterance.add_caption(
                lang, self.builder.rules
            )
            # The same text needs no second translation.
            if not caption.state.ended and caption.text_number != utterance.text_number:
                self._advance(utterance, caption, now, admitted=admitted)

    def echo(self, utterance: Utterance, text: str, langs: Iterable[str], now: float) -> None:
        """Show a growing original to readers of the speaker's own language."""
        for lang in langs:
            if languages.same(lang, utterance.lang):
                caption = utterance.captions.get(lang) or utterance.add_caption(
                    lang, self.builder.rules
                )
                if not caption.state.ended:  # a cancelled language stays cancelled
                    self.withdraw(caption)  # the speaker was thought to use another language
                    delta = caption.echo(text, utterance.rev)
                    if delta is not None:
                        self.show(delta, now)

    def backfill(self, utterance: Utterance, lang: str, now: float) -> bool:
        """Caption an utterance that has ended, when the engine has nothing more urgent to do.
        Returns False if too many jobs wait; then there is no caption.
        """
        pairs = [(utterance.lang, lang)]
        # The original itself needs no job.
        free = languages.same(lang, utterance.lang)
        if not (free or self.scheduler.admits(1, Priority.BACKFILL, pairs)):
            return False
        self._advance(
            utterance, utterance.add_caption(lang, self.builder.rules), now, backfill=True
        )
        return True

    def decline(self, utterance: Utterance, lang: str, now: float) -> None:
        """Fail a caption because too many jobs wait."""
        self.outcomes.fail(
            utterance, utterance.add_caption(lang, self.builder.rules), ErrorCode.BUSY, now
        )

    def revise(self, utterance: Utterance, now: float) -> None:
        """Translate a corrected original anew, except for captions that people have written."""
        self.invalidate(utterance)
        for caption in utterance.captions.values():
            self.withdraw(caption)
            if not caption.state.ended:
                self._advance(utterance, caption, now)
            elif caption.by == "same":
                self.outcomes.revise(utterance, caption, utterance.text, "same", now)
            elif caption.by == "mt":  # readers keep the old translation until the new one is whole
                other = self._other_language(utterance)
                job = self._job(utterance, caption) if other is None else None
                if isinstance(job, Job):
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
            captions = self.outcomes.unfinished(utterance, tag)
            stages = {self.withdraw(caption) for caption in captions} - {None}
            was = "running" if "running" in stages else next(iter(stages), None)
            answer = None if reply is None else reply._replace(tag=tag)
            self.outcomes.cancel(utterance, captions, tag, was, now, answer)
        self.outcomes.settle(utterance, now)

    def withdraw(self, caption: Caption) -> Stage | None:
        """Take a caption's job back, if it has one; no more of its text is accepted. Returns the
        stage that the job had reached.
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
                self.outcomes.revise(utterance, caption, sink.text, "mt", now)
        elif caption.partial:
            delta = caption.finish_partial()
            if delta is not None:
                self.show(delta, now)
            self._advance_later(utterance, caption, now)
        elif caption.broken:
            # It ended before the committed text did, so `restart` was not called.
            caption.withdraw()
            self._resubmit(utterance, caption, now)
        elif not caption.text:
            # The original only fills a pause, and has no words in this language.
            self.outcomes.cancel(utterance, [caption], caption.lang, "none", now, None)
        else:
            terms = self.builder.context.glossary.find(utterance.text, caption.lang)
            if missed(terms, caption.text):
                caption.flags += (MISSED,)
            job = sink.job
            self.builder.length_ratios.learn(job.source, job.target, job.text, caption.text)
            self.outcomes.finish(utterance, caption, caption.text, "mt", now)
        self.outcomes.settle(utterance, now)

    def failed(self, job_id: str, code: ErrorCode, now: float) -> None:
        """Give up the caption of a job that the engine could not do. A partial caption waits for
        the next revision instead.
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
            self.outcomes.fail(utterance, caption, code, now)
        self.outcomes.settle(utterance, now)

    def restart(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """Make a final translation again, because it does not continue the committed text."""
        self.withdraw(caption)
        self._resubmit(utterance, caption, now)

    # --- inside ---------------------------------------------------------------------------------

    def _advance_later(self, utterance: Utterance, caption: Caption, now: float) -> None:
        """Translate the newest text if it has waited for the job that has just ended."""
        if caption.text_number != utterance.text_number:
            self._advance(utterance, caption, now)

    def _advance(
        self,
        utterance: Utterance,
        caption: Caption,
        now: float,
        *,
        admitted: bool = False,
        backfill: bool = False,
    ) -> None:
        same = languages.same(caption.lang, utterance.lang)
        other = self._other_language(utterance)
        if utterance.final:
            if caption.job_id is not None:  # of an older text, maybe of one in another language
                self.withdraw(caption)
            if same and other is None:
                self.outcomes.finish(utterance, caption, utterance.text, "same", now)
                return
        elif same or other is not None:
            return
        elif caption.job_id is not None:
            self._update(utterance, caption)
            return
        job: Job | ErrorCode | ClientFault
        if other is None:
            job = self._job(utterance, caption, admitted=admitted)
        else:
            job = other_language(utterance.lang, other)
        if isinstance(job, Job):
            # The priority of a final is not for old utterances.
            if backfill:
                job = replace(job, priority=Priority.BACKFILL)
            caption.queue(job, utterance, now)
            self._submit(job, utterance, caption, now)
        # Growing text has another chance with its next revision.
        elif utterance.final:
            self.outcomes.fail(utterance, caption, job, now)

    def _job(
        self, utterance: Utterance, caption: Caption, *, admitted: bool = False
    ) -> Job | ErrorCode | ClientFault:
        """Return the job of a caption, or the reason why its text is not translated."""
        job = self.builder.job(utterance, caption)
        if job is None:
            sources = self.model.sources
            unread = languages.match(utterance.lang, sources) is None
            return no_source(utterance.lang, sources) if unread else ErrorCode.PAIR_UNSUPPORTED
        # New languages and late revisions have not been asked for yet, and partials can wait.
        pairs = [(job.source, job.target)]
        return job if admitted or self.scheduler.admits(1, job.priority, pairs) else ErrorCode.BUSY

    def _update(self, utterance: Utterance, caption: Caption) -> None:
        """Give a waiting job the newest text.

        A job that has started ends first, and the newest text starts after it: if every revision
        stopped the job before, readers would see nothing until the speaker pauses.
        """
        assert caption.job_id is not None
        if self.scheduler.waits(caption.job_id):
            job = self.builder.job(utterance, caption)
            if job is not None:
                self.scheduler.update(replace(job, id=caption.job_id))
                caption.update(job, utterance)

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
        caption.requeue(job)
        self._submit(job, utterance, caption, now)

    def _submit(
        self, job: Job, utterance: Utterance, caption: Caption, now: float, *, revises: bool = False
    ) -> None:
        # Before it is submitted, so that no report about the job finds it unknown.
        self.jobs[job.id] = CaptionSink(self, job, utterance, caption, self.show, revises=revises)
        self.scheduler.submit(job, now)

    def _abort(self, job_id: str) -> Stage:
        stage = self.scheduler.abort(job_id)
        assert stage is not None, f"job {job_id} is not scheduled"
        self._close(job_id)
        return stage

    def _close(self, job_id: str) -> CaptionSink | None:
        """Accept no more text of a job; return its sink, or None if it was closed before."""
        sink = self.jobs.pop(job_id, None)
        if sink is not None:
            sink.open = False
        return sink

    def _other_language(self, utterance: Utterance) -> str | None:
        """Return the language that a text is in instead of the one stated for it; else None."""
        text, lang = utterance.text, utterance.lang
        if self.instead is None:
            return None
        if self._told[:2] != (text, lang):  # asked for one caption after another
            self._told = (text, lang, self.instead(text, lang))
        return self._told[2]
