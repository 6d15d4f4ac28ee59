"""The contract between the gateway and its recognisers, and a base class for them.

Owns: the `Recogniser` protocol. Must not know: any particular recogniser, who speaks.

Contract (``tests/engines/recognition/test_contract.py`` runs it against every recogniser):

1. ``recognise`` returns the words of one job in the order in which they were spoken. Their times
   lie within the audio, and none begins before the one before it. Digital silence gives no words,
   and is no fault.
2. The language of the result is one of `RecognitionJob.langs`, if the recogniser can be held to
   several. It is empty if the recogniser does not know it.
3. ``recognise`` raises `EngineFault` if it cannot do the job: `JobFault` if only this job is at
   fault, `Overloaded` if the recogniser is full, `EngineGone` if it is not ready or is closed
   meanwhile.
4. To cancel the task that awaits ``recognise`` stops the work: a job that waits is not begun, and a
   model stops after its present step. ``unfinished`` falls accordingly.
5. No method blocks the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.engines.base.engine import Backend, Health
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob

SAMPLE_BYTES = 2
LONGEST = 30.0
"""Seconds of audio of a job at most: the window of Whisper."""


class Recogniser(Protocol):
    """A recogniser of speech. One instance serves the whole process."""

    @property
    def name(self) -> str:
        """Short name of recogniser and model for people, for example ``whisper:tiny.en``."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Canonical tags of the languages that it recognises. Empty: it does not say."""

    @property
    def capacity(self) -> int:
        """Number of jobs to give it at once. More jobs would only slow each other down."""

    @property
    def health(self) -> Health:
        """Current state, from local knowledge: reading it makes no request."""

    @property
    def unfinished(self) -> int:
        """Number of jobs that it is still working on."""

    def stats(self) -> Mapping[str, float]:
        """Return gauges that only this recogniser has, by name. Reads local values."""

    async def start(self) -> None:
        """Load the model off the event loop.

        Raises `EngineFault`, with a sentence for the operator, if it cannot be loaded.
        """

    async def recognise(self, job: RecognitionJob) -> Recognised:
        """Return the words of ``job``. Raises `EngineFault` if it fails."""

    async def aclose(self) -> None:
        """End all jobs and free the model. Idempotent."""


class BaseRecogniser(Backend):
    """A base of recognisers, with the properties of the contract.

    :param name: value of `Recogniser.name`
    :param languages: value of `Recogniser.languages`
    :param capacity: value of `Recogniser.capacity`
    """

    def __init__(self, name: str, languages: tuple[str, ...], capacity: int) -> None:
        super().__init__(name, capacity)
        self._languages = languages
        self._unfinished = 0

    @property
    def languages(self) -> tuple[str, ...]:
        return self._languages

    @property
    def unfinished(self) -> int:
        return self._unfinished


def duration(job: RecognitionJob) -> float:
    """Return the seconds of audio of a job."""
    return len(job.audio) / (SAMPLE_BYTES * SAMPLE_RATE)
