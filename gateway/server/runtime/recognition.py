"""The recognition of speech for all sockets: streams of audio, jobs of the recogniser, their turns.

Owns: the order of jobs, and the counters. Must not know: what is heard in a room, frames of
sockets, how audio is decoded, any particular recogniser.

Every stream has at most one job, so a late recogniser leaves out old audio. Jobs at the end of an
utterance come before the others; within one kind the tenants share the recogniser by seconds of
audio, and then the rooms of a tenant.

Bounds: one job of each stream; `Recogniser.capacity` jobs at once; `Limits.job_s` for a job. What
is not decoded is bounded by `gateway.core.session.audio`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from gateway.core.scheduling.turns import JobTurns
from gateway.core.session.audio_stream import WINDOW_S, AudioStream
from gateway.engines.base.service import Health
from gateway.engines.recognition.base import Recogniser
from gateway.errors import ClientFault, EngineFault, ErrorCode, redacted
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob
from gateway.protocol.audio import AudioInfo
from gateway.server.audio.decoding import SAMPLE_BYTES, codecs, decoder, rates
from gateway.server.audio.decoding_thread import Decoded, DecodingThread, UndecodedAudio, Voice
from gateway.server.runtime.room_host import RoomHost
from gateway.text import languages

log = logging.getLogger("gateway.recognition")

DELAYS_S = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Buckets for the time from the end of speech to its final text, in seconds."""


class SpeechModels(NamedTuple):
    """The models that hear speech."""

    recogniser: Recogniser
    voice: Callable[[], Voice]


class RecognitionRunner:
    """The recogniser of a gateway, and all streams of audio, each with a detector of voice that
    ``voice`` returns.
    """

    def __init__(self, host: RoomHost, recogniser: Recogniser, voice: Callable[[], Voice]) -> None:
        self.recogniser = recogniser
        self.streams: dict[str, RecognitionPipeline] = {}
        self.running: dict[str, asyncio.Task[None]] = {}  # tasks of jobs by the id of the job
        self.jobs: Counter[str] = Counter()
        """Jobs that have ended, by outcome: ``done``, ``cancelled`` or the code of a fault."""
        self.audio_s = 0.0  # seconds of audio that were accepted
        self.recognised_s = 0.0  # seconds of audio of the jobs that were done
        self.busy_s = 0.0  # seconds that these jobs took
        self.lost_s = 0.0  # seconds of speech that were not recognised
        self.words = 0  # words of final texts
        self.delays = [0] * (len(DELAYS_S) + 1)
        """Final texts by the time since the end of the speech."""
        self.delay_s = 0.0  # sum of these times in seconds
        self.host = host
        self.voice = voice
        self._loaded = False
        self.decoding = DecodingThread()
        self._waiting: dict[str, tuple[RecognitionJob, RecognitionPipeline]] = {}
        self._turns = {True: JobTurns(), False: JobTurns()}  # by `RecognitionJob.final`

    @property
    def starting(self) -> bool:
        """True until the recogniser is loaded for the first time. It may start again later."""
        self._loaded = self._loaded or self.recogniser.health is not Health.STARTING
        return not self._loaded

    @property
    def queued(self) -> int:
        """Number of jobs that wait for the recogniser."""
        return len(self._waiting)

    @property
    def undecoded_s(self) -> float:
        """Seconds of audio that are not decoded."""
        return sum(pipeline.waiting for pipeline in list(self.streams.values()))

    @property
    def undecoded_bytes(self) -> int:
        """Memory of the audio that is not decoded."""
        return sum(pipeline.held for pipeline in list(self.streams.values()))

    def info(self) -> AudioInfo:
        """Return the codecs, languages and limits that a client is told."""
        limits, sources = self.host.limits, self.host.engine.profile.sources
        return AudioInfo(
            codecs=codecs(),
            rates=rates(),
            languages=_common(self.recogniser.languages, tuple(sources)),
            recogniser=self.recogniser.name,
            rate=limits.audio_rate,
            burst=limits.audio_burst,
            window=WINDOW_S,
        )

    def open(self, stream: AudioStream) -> RecognitionPipeline:
        """Return the pipeline of a new stream. Raises `ClientFault` (``engine_unavailable``)."""
        health = self.recogniser.health
        if health is not Health.READY:
            raise ClientFault(
                ErrorCode.ENGINE_UNAVAILABLE,
                f"The recogniser {self.recogniser.name} is {health.value}.",
                "Try again in a few seconds, or send text.",
            )
        pipeline = RecognitionPipeline(self, stream, secrets.token_hex(6))
        self.streams[pipeline.id] = pipeline
        return pipeline

    # --- jobs -------------------------------------------------------------------------------------

    def submit(self, job: RecognitionJob, pipeline: RecognitionPipeline) -> None:
        """Queue a job."""
        self._waiting[job.id] = (job, pipeline)
        self._turns[job.final].add(job)
        self._start_jobs()

    def abort(self, job: RecognitionJob) -> None:
        """Take a job back; its pipeline hears no more of it."""
        if job.id in self._waiting:
            del self._waiting[job.id]
            self._turns[job.final].remove(job)
        elif job.id in self.running:
            self.running[job.id].cancel()

    def sweep(self) -> None:
        """Do the regular work of each second: say texts again for which a room had no time."""
        for pipeline in list(self.streams.values()):
            pipeline.retry()

    async def aclose(self) -> None:
        """Stop all streams, jobs and threads, and close the recogniser."""
        for pipeline in list(self.streams.values()):
            pipeline.close()
        if self.running:
            await asyncio.wait(self.running.values())
        self.decoding.close()
        await self.recogniser.aclose()

    def _start_jobs(self) -> None:
        while len(self.running) < self.recogniser.capacity:
            id = self._turns[True].next(self._work) or self._turns[False].next(self._work)
            if id is None:
                return
            job, pipeline = self._waiting.pop(id)
            task = asyncio.create_task(self._run(job, pipeline), name=f"recognise {id}")
            self.running[id] = task
            task.add_done_callback(partial(self._ended, id))

    def _work(self, id: str) -> int:
        return len(self._waiting[id][0].audio)

    async def _run(self, job: RecognitionJob, pipeline: RecognitionPipeline) -> None:
        """Have a job recognised, and tell its pipeline."""
        clock = asyncio.get_running_loop().time
        begun, result, outcome, extra = clock(), None, "done", {"room": job.room}
        try:
            async with asyncio.timeout(self.host.limits.job_s):
                result = await self.recogniser.recognise(job)
            self.recognised_s += len(job.audio) / (SAMPLE_BYTES * SAMPLE_RATE)
            self.busy_s += clock() - begun
        except (EngineFault, TimeoutError) as fault:
            code = fault.code if isinstance(fault, EngineFault) else ErrorCode.TIMEOUT
            outcome = code.value
            log.warning("recognition %s failed: %s", job.id, outcome, extra=extra)
        except Exception as exc:
            outcome = ErrorCode.INTERNAL.value
            log.error("recognition %s failed", job.id, exc_info=redacted(exc), extra=extra)
        self.jobs[outcome] += 1
        pipeline.answered(job, result)

    def _ended(self, id: str, task: asyncio.Task[None]) -> None:
        del self.running[id]
        if task.cancelled():
            self.jobs["cancelled"] += 1
        self._start_jobs()


class RecognitionPipeline(UndecodedAudio):
    """The decoding and the recognition of one stream."""

    def __init__(self, runner: RecognitionRunner, stream: AudioStream, id: str) -> None:
        super().__init__(
            runner.decoding,
            decoder(stream.format),
            runner.voice(),
            self._tell_decoded,
            id=id,
            room=stream.room,
            tenant=stream.tenant,
        )
        self._stream: AudioStream | None = stream  # None: it is closed
        self._runner = runner
        self._job: RecognitionJob | None = None

    @property
    def busy(self) -> bool:
        """True while audio is decoded or recognised."""
        return self._job is not None or self.waiting > 0

    def add_frame(self, frame: bytes, seconds: float) -> None:
        """Decode a frame that takes ``seconds``."""
        self._runner.audio_s += seconds
        super().add_frame(frame, seconds)

    def recognise(self, job: RecognitionJob) -> None:
        """Give a job to the recogniser, in place of the one before."""
        self.abort()
        self._job = job
        self._runner.submit(job, self)

    def abort(self) -> None:
        """Stop the job, if there is one."""
        job, self._job = self._job, None
        if job is not None:
            self._runner.abort(job)

    def measure(self, words: int, delay: float) -> None:
        """Count a final text, whose last word arrived ``delay`` seconds before."""
        runner = self._runner
        runner.words += words
        runner.delays[bisect_left(DELAYS_S, delay)] += 1
        runner.delay_s += delay

    def lose(self, seconds: float) -> None:
        """Count speech that was not recognised."""
        self._runner.lost_s += seconds

    def close(self) -> None:
        """Stop all work, and let go of the stream and of its decoder. Idempotent."""
        self._stream = None
        super().close()
        self.abort()
        self._runner.streams.pop(self.id, None)

    def retry(self) -> None:
        """Say the texts again that the room had no time for."""
        if self._stream is not None:
            self._tell(self._stream.retry)

    def answered(self, job: RecognitionJob, result: Recognised | None) -> None:
        """Note the end of a job; None: it has failed."""
        if job is not self._job or self._stream is None:
            return
        self._job = None
        self._tell(self._stream.answered, result)

    def _tell_decoded(self, result: Decoded | BaseException) -> None:
        stream = self._stream
        if stream is None:
            return
        if isinstance(result, BaseException):
            log.error("stream %s cannot be decoded", self.id, exc_info=redacted(result))
            stream.abandon(self._runner.host.now())
            return
        # A stream that is over takes no notice of what is left.
        if result.broken:
            self._tell(stream.broken)
        if result.pcm:
            self._tell(stream.decoded, result.pcm, result.voice)
        if result.last:
            self._tell(stream.drained)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        """Tell the stream something, and carry out the decisions of the room. Never raises."""
        try:
            call(*arguments, self._runner.host.now())
            self._runner.host.act()
        except Exception as exc:
            log.error("stream %s ended by a fault", self.id, exc_info=redacted(exc))
            if self._stream is not None:
                self._stream.abandon(self._runner.host.now())


@lru_cache(maxsize=4)  # of the few models that a process has at a time; each socket asks
def _common(recognised: tuple[str, ...], sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the languages that can be recognised and translated."""
    return tuple(lang for lang in recognised if languages.match(lang, sources) is not None)
