"""A recogniser around a recogniser, which comes back after it broke.

Owns: passing jobs to the current recogniser. Must not know: any particular recogniser; when one
counts as broken, and how it comes back (`gateway.engines.wrappers.supervised`).
"""

from __future__ import annotations

from gateway.engines.base.engine import Aborted
from gateway.engines.recognition.base import Recogniser
from gateway.engines.wrappers.supervised import Supervision
from gateway.errors import EngineFault
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob


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
