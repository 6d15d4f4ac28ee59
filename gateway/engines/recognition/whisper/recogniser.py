"""Whisper in this process, in threads of its own.

Owns: the life of the model, the threads, and the end of jobs that nobody waits for any more. Must
not know: how speech becomes text (`gateway.engines.recognition.whisper.model`).

The threads are few and run at a lower priority than the rest of the process where the system can do
that (Linux), so that the recognition of one speaker does not delay the translation of another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gateway.engines.base.engine import Health, log_ids
from gateway.engines.recognition.base import LONGEST, NEEDS_PACKAGE, BaseRecogniser, duration
from gateway.engines.recognition.thread_priority import yield_to_others
from gateway.engines.recognition.whisper.model import WhisperModel
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.job import Recognised, RecognitionJob

logger = logging.getLogger(__name__)


class WhisperRecogniser(BaseRecogniser):
    """A `Recogniser` with a Whisper model.

    :param model: name for people
    :param load: loads the model; called in a thread
    :param workers: jobs at once, each in a thread
    """

    def __init__(self, model: str, load: Callable[[], WhisperModel], *, workers: int = 1) -> None:
        super().__init__(f"whisper:{model}", (), workers)
        self._make = load
        self._model: WhisperModel | None = None
        self._threads = ThreadPoolExecutor(workers, "recognition", initializer=yield_to_others)

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        if len(job.audio) % 2 or duration(job) > LONGEST:
            raise JobFault("The audio is no 16-bit PCM of at most 30 s.", ErrorCode.INTERNAL)
        wanted = threading.Event()
        wanted.set()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._work, job, wanted)
        try:
            return await self._run(work)
        finally:
            wanted.clear()

    async def aclose(self) -> None:
        await super().aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model = None

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._model = await loop.run_in_executor(self._threads, self._make)
        except ImportError as exc:
            raise EngineFault(NEEDS_PACKAGE) from exc
        self._languages = self._model.languages

    def _work(self, job: RecognitionJob, wanted: threading.Event) -> Recognised:
        """Recognise a job in a thread. A job that was cancelled while it waited is not begun."""
        model = self._model
        try:
            if model is None or not wanted.is_set():
                raise EngineGone("Nobody waits for the job.")
            return model.recognise(job, wanted.is_set)
        except EngineFault:
            raise
        except Exception as exc:
            ids, failed = log_ids(job), "recognition job %s failed"
            logger.error(failed, job.id, exc_info=redacted(exc), extra=ids)
            raise EngineFault("The recogniser failed.", ErrorCode.INTERNAL) from None
