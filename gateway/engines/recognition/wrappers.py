"""Recognisers around recognisers: one comes back after it broke, one is replaced meanwhile.

Owns: passing jobs to the current recogniser. Must not know: any particular recogniser; when one
counts as broken, and how it comes back (`gateway.engines.wrappers.supervised`).
"""

from __future__ import annotations

import asyncio
import logging

from gateway.engines.base.engine import Aborted, is_engine_failure, log_repeat
from gateway.engines.base.service import Health, ServiceWrapper
from gateway.engines.recognition.base import Recogniser
from gateway.engines.wrappers.supervised import Supervision
from gateway.errors import EngineFault
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob
from gateway.text import languages

logger = logging.getLogger(__name__)


class SupervisedRecogniser(Supervision[Recogniser]):
    """A `Recogniser` around the current one of a series of recognisers."""

    probe = "recognise a second"

    @property
    def languages(self) -> tuple[str, ...]:
        return self.engine.languages

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self.require_ready()
        self.note_begin()
        recogniser = self.engine
        try:
            result = await recogniser.recognise(job)
        except EngineFault as fault:
            self.note_end(recogniser, fault)
            raise
        except BaseException:  # the task is cancelled
            self.note_end(recogniser, Aborted(job.id))
            raise
        self.note_end(recogniser, None)
        return result

    async def _work(self, engine: Recogniser) -> None:
        # Nearly silent, so that the model has to work but finds no words.
        await engine.recognise(RecognitionJob(id="probe", audio=b"\x01\x00" * SAMPLE_RATE))


class FallbackRecogniser(ServiceWrapper[Recogniser]):
    """A `Recogniser` with the name and languages of ``primary``, which ``secondary`` replaces. Both
    are supervised, and go on trying to start by themselves; `start` returns when one is ready. The
    builder has `report` called when the health of either changes.
    """

    def __init__(self, primary: Recogniser, secondary: Recogniser) -> None:
        self.primary = primary
        self.secondary = secondary
        self._replaced = False  # as last reported
        self._starts: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        return self.primary.name

    @property
    def languages(self) -> tuple[str, ...]:
        return self.primary.languages

    @property
    def engine(self) -> Recogniser:  # type: ignore[override]  # nobody sets it
        """Recogniser for the next job. If neither is ready, the primary gets it and says why."""
        if self.primary.health is not Health.READY and self.secondary.health is Health.READY:
            return self.secondary
        return self.primary

    @property
    def unfinished(self) -> int:
        return self.primary.unfinished + self.secondary.unfinished

    def report(self) -> None:
        """Log that the secondary has begun to work, or the primary works again."""
        replaced = self.engine is self.secondary
        closed = Health.CLOSED in (self.primary.health, self.secondary.health)
        if replaced is self._replaced or closed:
            return
        self._replaced = replaced
        if replaced:
            logger.warning("%s works instead of %s", self.secondary.name, self.name)
        else:
            logger.info("%s works again", self.name)

    async def start(self) -> None:
        self._starts = [
            asyncio.create_task(one.start(), name=f"start {one.name}")
            for one in (self.primary, self.secondary)
        ]
        waiting = set(self._starts)
        while waiting and self.health is not Health.READY:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await asyncio.gather(self.primary.aclose(), self.secondary.aclose())

    async def recognise(self, job: RecognitionJob) -> Recognised:
        if self.engine is self.primary:
            try:
                return await self.primary.recognise(job)
            except EngineFault as fault:
                if not (is_engine_failure(fault) and self._can_take_over(job)):
                    raise
                log_repeat(job, self.secondary.name, fault)
        return await self.secondary.recognise(job)

    def _can_take_over(self, job: RecognitionJob) -> bool:
        """Tell whether the secondary is ready and knows a language of the job."""
        able = self.secondary.languages
        knows = not (job.langs and able) or any(languages.match(lang, able) for lang in job.langs)
        return self.secondary.health is Health.READY and knows
