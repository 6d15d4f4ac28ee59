"""A recogniser around two: the secondary recognises while the primary cannot.

Owns: the choice for each job, and repeating a job at which the primary failed. Must not know: any
particular recogniser, how one comes back (`gateway.engines.recognition.supervised`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from gateway.engines.base.engine import Health, is_engine_failure
from gateway.engines.recognition.base import Recogniser
from gateway.errors import EngineFault
from gateway.job import Recognised, RecognitionJob
from gateway.text import languages

logger = logging.getLogger(__name__)


class FallbackRecogniser:
    """A `Recogniser` around ``primary`` and ``secondary``, which both go on trying to start."""

    def __init__(self, primary: Recogniser, secondary: Recogniser) -> None:
        self.primary = primary
        self.secondary = secondary
        self.takeovers = 0
        """Jobs that the secondary repeated because the primary had failed at them."""

    @property
    def name(self) -> str:
        return self.primary.name

    @property
    def languages(self) -> tuple[str, ...]:
        return self.primary.languages

    @property
    def capacity(self) -> int:
        return self._recogniser.capacity

    @property
    def health(self) -> Health:
        return self._recogniser.health

    @property
    def unfinished(self) -> int:
        return self.primary.unfinished + self.secondary.unfinished

    @property
    def substitute(self) -> str | None:
        """Name of the secondary while it recognises; None while the primary does."""
        return self.secondary.name if self._recogniser is self.secondary else None

    @property
    def _recogniser(self) -> Recogniser:
        """Recogniser for the next job. If none is ready, the primary gets it and says why."""
        if self.primary.health is not Health.READY and self.secondary.health is Health.READY:
            return self.secondary
        return self.primary

    def stats(self) -> Mapping[str, float]:
        return {**self.primary.stats(), "taken_over": self.takeovers}

    async def start(self) -> None:
        await asyncio.gather(self.primary.start(), self.secondary.start())

    async def recognise(self, job: RecognitionJob) -> Recognised:
        if self._recogniser is self.secondary:
            return await self.secondary.recognise(job)
        try:
            return await self.primary.recognise(job)
        except EngineFault as fault:
            if not (is_engine_failure(fault) and self._can_take_over(job)):
                raise
            logger.info(
                "recognition job %s is repeated by %s: %s",
                job.id,
                self.secondary.name,
                fault.summary,
                extra={"job": job.id, "room": job.room},
            )
        self.takeovers += 1
        return await self.secondary.recognise(job)

    async def aclose(self) -> None:
        try:
            await self.primary.aclose()
        finally:
            await self.secondary.aclose()

    def _can_take_over(self, job: RecognitionJob) -> bool:
        """Tell whether the secondary is ready and knows a language of the job."""
        able = self.secondary.languages
        knows = not (job.langs and able) or any(languages.match(lang, able) for lang in job.langs)
        return self.secondary.health is Health.READY and knows
