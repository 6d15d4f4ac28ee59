"""A recogniser around a recogniser: notices that it no longer works, and builds a new one.

Owns: passing jobs to the current recogniser. Must not know: any particular recogniser; when one
counts as broken and how it comes back (`gateway.engines.wrappers.supervised`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.engines.base.engine import Aborted
from gateway.engines.recognition.base import Recogniser
from gateway.engines.wrappers.supervised import Supervision
from gateway.errors import EngineFault
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob


class SupervisedRecogniser(Supervision[Recogniser]):
    """A `Recogniser` around the current one of a series of recognisers."""

    @property
    def languages(self) -> tuple[str, ...]:
        return self._engine.languages

    @property
    def capacity(self) -> int:
        return self._engine.capacity

    @property
    def unfinished(self) -> int:
        return self._engine.unfinished

    def stats(self) -> Mapping[str, float]:
        return {**self._engine.stats(), "restarts": self.restarts, "hangs": self.hangs}

    async def recognise(self, job: RecognitionJob) -> Recognised:
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        self.note_begin()
        recogniser = self._engine
        end: EngineFault | None = Aborted(job.id)  # if the task is cancelled
        try:
            result = await recogniser.recognise(job)
            end = None
        except EngineFault as fault:
            end = fault
            raise
        finally:
            self.note_end(recogniser, end)
        return result

    async def _probe(self, engine: Recogniser) -> None:
        # Nearly silent, so that the model has to work but finds no words.
        job = RecognitionJob(id="probe", audio=b"\x01\x00" * SAMPLE_RATE)
        work = asyncio.create_task(engine.recognise(job))
        ended = asyncio.Event()
        work.add_done_callback(lambda _: ended.set())
        try:
            await self._wait(self.hang, ended)
            if not work.done():
                raise EngineFault(f"It did not recognise a second within {self.hang:g} s.")
            work.result()
        finally:
            work.cancel()
