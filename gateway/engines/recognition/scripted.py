"""A deterministic recogniser without a model, for tests and demos.

Owns: words that follow from the length of the audio, and injected faults. Must not know: speakers,
rooms, real models.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gateway.engines.base.engine import Health
from gateway.engines.recognition.base import SAMPLE_BYTES, BaseRecogniser
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob, Word

TEXT = "We meet again on Monday in the large room. Please bring your notes."
"""Default text of the speaker, again and again."""

PACE = 0.4
"""Seconds that a word takes: 150 words a minute."""

HISTORY_LIMIT = 100
"""Jobs that ``jobs`` and ``cancelled`` keep, enough for any test. A job holds up to 640 kB."""


class ScriptedRecogniser(BaseRecogniser):
    """A `Recogniser` that hears one word in every `PACE` seconds of audio that is not digital zero.

    :param text: words that it hears, again and again
    :param languages: canonical tags of its languages. The first one that a job allows is spoken
    :param delay: seconds that a job takes
    :param capacity: value of `Recogniser.capacity`; further jobs are not refused
    :param fault: called with each job; an exception that it raises ends the job
    """

    def __init__(
        self,
        text: str = TEXT,
        *,
        languages: tuple[str, ...] = ("en", "de", "es", "fr", "ja", "zh"),
        delay: float = 0.0,
        capacity: int = 4,
        fault: Callable[[RecognitionJob], None] | None = None,
    ) -> None:
        super().__init__("scripted", languages, capacity)
        self.text = text
        self.delay = delay
        self.fault = fault
        self.jobs: deque[RecognitionJob] = deque(maxlen=HISTORY_LIMIT)
        """Jobs that were begun, oldest first."""
        self.cancelled: deque[str] = deque(maxlen=HISTORY_LIMIT)
        """Ids of the jobs that were cancelled, oldest first."""
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        """Answer no job until `release`."""
        self._may_answer.clear()

    def release(self) -> None:
        """Answer the jobs that `hold` held, and further ones."""
        self._may_answer.set()

    def die(self) -> None:
        """Fail as if the process of the model had died."""
        self._end(Health.DEAD)

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        self.jobs.append(job)
        try:
            await self._run(asyncio.ensure_future(self._wait()))
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise
        if self.fault is not None:
            self.fault(job)
        return self._heard(job)

    async def _wait(self) -> None:
        await asyncio.sleep(self.delay)
        await self._may_answer.wait()

    def _heard(self, job: RecognitionJob) -> Recognised:
        """Return one word for every `PACE` seconds up to the end of the sound."""
        script = self.text.split()
        spoken = (len(job.audio.rstrip(b"\x00")) + 1) // SAMPLE_BYTES / SAMPLE_RATE
        count = int(spoken / PACE + 1e-6)
        words = tuple(
            Word(f" {script[n % len(script)]}", n * PACE, (n + 1) * PACE) for n in range(count)
        )
        lang = next((one for one in job.langs or self.languages if one in self.languages), "")
        return Recognised(words=words, lang=lang)
