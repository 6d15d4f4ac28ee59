"""The contract between the gateway and its recognisers, and a base class for them.

Owns: the `Recogniser` protocol. Must not know: any particular recogniser, who speaks.

Contract (``tests/engines/recognition/test_contract.py`` runs it against every recogniser):

1. ``recognise`` returns the words of one job in the order in which they were spoken. Their times
   lie within the audio, and none begins before the one before it. Silence gives no words.
2. The language of the result is one of `RecognitionJob.langs`, if the recogniser can be held to
   several. It is empty if the recogniser does not know it.
3. ``recognise`` raises `EngineFault` if it cannot do the job: `JobFault` if only this job is at
   fault, `Overloaded` if the recogniser is full, `EngineGone` if it is not ready or is closed.
4. To cancel the task that awaits ``recognise`` stops the work: a job that waits is not begun, and a
   model stops after its present step. ``unfinished`` falls accordingly.
5. No method blocks the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from gateway.engines.base.service import Backend, Health, ModelService
from gateway.errors import EngineFault, EngineGone
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob, Word

T = TypeVar("T")

SAMPLE_BYTES = 2
NEEDS_PACKAGE = "Speech needs faster-whisper: pip install 'caption-gateway[speech]'."
LONGEST = 30.0
"""Seconds of audio of a job at most: the window of Whisper."""


class Recogniser(ModelService, Protocol):
    """A recogniser of speech."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Canonical tags of the languages that it recognises. Empty: it does not say."""

    async def recognise(self, job: RecognitionJob) -> Recognised:
        """Return the words of ``job``. Raises `EngineFault` if it fails."""


class BaseRecogniser(Backend):
    """A base of recognisers; the parameters are properties of the contract."""

    def __init__(self, name: str, languages: tuple[str, ...], capacity: int) -> None:
        super().__init__(name, capacity)
        self.languages = languages
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def unfinished(self) -> int:
        return len(self._running)

    async def start(self) -> None:
        try:
            await self._load()
        except EngineFault:
            self._health = Health.DEAD
            raise
        self._health = Health.READY

    async def aclose(self) -> None:
        self._end(Health.CLOSED)

    async def _load(self) -> None:
        """Load the model. Raises `EngineFault` if it cannot be loaded."""

    async def _run(self, work: asyncio.Future[T]) -> T:
        """Wait for the work of one job. Raises `EngineGone` if the recogniser ends meanwhile."""
        self._running.add(work)
        try:
            # A cancelled wait leaves the future alone, so that its end tells who cancelled.
            await asyncio.wait((work,))
            if work.cancelled():
                raise EngineGone("The recogniser was closed while the job ran.")
            return work.result()
        finally:
            work.cancel()
            self._running.discard(work)

    def _end(self, health: Health) -> None:
        """End all jobs in `EngineGone`."""
        self._health = health
        for work in self._running:
            work.cancel()


def placed(words: Iterable[Word], seconds: float) -> tuple[Word, ...]:
    """Return words with times that lie within so many seconds and only grow."""
    found, least = [], 0.0
    for word in words:
        start = min(max(word.start, least), seconds)
        least = min(max(word.end, start), seconds)
        found.append(replace(word, start=start, end=least))
    return tuple(found)


def duration(job: RecognitionJob) -> float:
    """Return the seconds of audio of a job."""
    return len(job.audio) / (SAMPLE_BYTES * SAMPLE_RATE)
