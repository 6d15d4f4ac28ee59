"""Recognisers around recognisers: one comes back after it broke, one is replaced meanwhile.

Owns: passing jobs to the current recogniser. Must not know: any particular recogniser; when one
counts as broken, how it comes back, and when another one replaces it (`gateway.engines.wrappers`).
"""

from __future__ import annotations

from gateway.engines.base.engine import Aborted, is_engine_failure, log_repeat
from gateway.engines.base.service import Health
from gateway.engines.recognition.base import Recogniser
from gateway.engines.wrappers.fallback import Fallback
from gateway.engines.wrappers.supervised import Supervision
from gateway.errors import EngineFault
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob
from gateway.text import languages


class SupervisedRecogniser(Supervision[Recogniser]):
    """A `Recogniser` around the current one of a series of recognisers."""

    probe = "recognise a second"

    @property
    def languages(self) -> tuple[str, ...]:
        return self.engine.languages

    async def recognise(self, job: RecognitionJob) -> Recognised:
        refusal = self.refusal()
        if refusal is not None:
            try:
                raise refusal
            finally:
                del refusal  # it refers to this frame
        self.note_begin()
        recogniser = self.engine
        end: EngineFault | None = Aborted(job.id)  # if the task is cancelled
        try:
            result = await recogniser.recognise(job)
            end = None
        except EngineFault as fault:
            end = fault
            raise
        finally:
            self.note_end(recogniser, end)
            del end  # it refers to this frame
        return result

    async def _work(self, engine: Recogniser) -> None:
        # Nearly silent, so that the model has to work but finds no words.
        await engine.recognise(RecognitionJob(id="probe", audio=b"\x01\x00" * SAMPLE_RATE))


class FallbackRecogniser(Fallback[Recogniser]):
    """A `Recogniser` around ``primary`` and ``secondary``, with the primary's languages."""

    @property
    def languages(self) -> tuple[str, ...]:
        return self.primary.languages

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self.update_substitute()
        if self.engine is self.secondary:
            return await self.secondary.recognise(job)
        try:
            return await self.primary.recognise(job)
        except EngineFault as fault:
            if not (is_engine_failure(fault) and self._can_take_over(job)):
                raise
            log_repeat(job, self.secondary.name, fault)
        self.takeovers += 1
        return await self.secondary.recognise(job)

    def _can_take_over(self, job: RecognitionJob) -> bool:
        """Tell whether the secondary is ready and knows a language of the job."""
        able = self.secondary.languages
        knows = not (job.langs and able) or any(languages.match(lang, able) for lang in job.langs)
        return self.secondary.health is Health.READY and knows
