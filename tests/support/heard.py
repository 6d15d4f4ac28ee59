"""A recogniser for the core's tests that the test works by hand."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.recognition.speech_timing import FRAME_BYTES, frames
from gateway.core.session.audio_stream import AudioStream
from gateway.errors import ClientFault, ErrorCode
from gateway.job import Recognised, RecognitionJob, Word
from gateway.protocol.audio import AudioInfo
from tests.support.meeting import Meeting, Peer

WORD_S = 0.4
"""Seconds of voice for a word."""


class HandWorker:
    """The pipeline of one stream. ``late`` is set while frames wait to be decoded."""

    def __init__(self, service: HandService, stream: AudioStream) -> None:
        self.id = f"a{len(service.workers) + 1}"
        self.stream = stream
        self.meeting = service.meeting
        self.frames: list[bytes] = []
        self.waiting, self.held = 0.0, 0
        self.late = False
        self.job: RecognitionJob | None = None
        self.aborted = 0
        self.measured: list[tuple[int, float]] = []
        self.lost = 0.0
        self.closed = self.finishing = False

    @property
    def busy(self) -> bool:
        return self.job is not None or self.waiting > 0

    def add_frame(self, frame: bytes, seconds: float) -> None:
        self.frames.append(frame)
        if self.late:
            self.waiting += seconds

    def finish(self) -> None:
        self.finishing = True
        if not self.late:
            self.drain()

    def drain(self) -> None:
        self.waiting = 0.0
        self.stream.drained(self.meeting.now)

    def recognise(self, job: RecognitionJob) -> None:
        assert self.job is None or not self.job.final, "only intermediate jobs are replaced"
        self.job = job

    def abort(self) -> None:
        self.aborted += self.job is not None
        self.job = None

    def measure(self, words: int, delay: float) -> None:
        self.measured.append((words, delay))

    def lose(self, seconds: float) -> None:
        self.lost += seconds

    def close(self) -> None:
        self.closed = True
        self.job = None

    def speak(self, seconds: float, voice: float = 1.0) -> None:
        """Decode voice of so many seconds."""
        count = frames(seconds)
        self.meeting.now += seconds
        self.stream.decoded(bytes(FRAME_BYTES * count), [voice] * count, self.meeting.now)

    def hush(self, seconds: float = 1.0) -> None:
        self.speak(seconds, 0.0)

    def answer(self, text: str, lang: str = "en") -> None:
        """Answer the job with words that were spoken one after the other."""
        assert self.job is not None
        self.job = None
        words = tuple(
            Word(f" {word}", n * WORD_S, (n + 1) * WORD_S) for n, word in enumerate(text.split())
        )
        self.stream.answered(Recognised(words=words, lang=lang), self.meeting.now)

    def fail(self) -> None:
        self.job = None
        self.stream.answered(None, self.meeting.now)

    def utter(self, text: str, lang: str = "en") -> None:
        """Speak a whole utterance, and answer all jobs about it with the same text."""
        self.speak(len(text.split()) * WORD_S)
        self.hush()
        while self.job is not None:
            self.answer(text, lang)


class HandService:
    """A recogniser of a meeting; ``ready`` is False while it cannot be used."""

    def __init__(self, meeting: Meeting, languages: Sequence[str] = ("en", "de")) -> None:
        self.meeting = meeting
        self.languages = tuple(languages)
        self.ready = True
        self.workers: list[HandWorker] = []

    def info(self) -> AudioInfo:
        return AudioInfo(
            codecs=("pcm_s16le", "opus"),
            rates=(8_000, 48_000),
            languages=self.languages,
            recogniser="by hand",
            rate=self.meeting.limits.audio_rate,
            burst=self.meeting.limits.audio_burst,
            window=50.0,
        )

    def open(self, stream: AudioStream) -> HandWorker:
        if not self.ready:
            raise ClientFault(ErrorCode.ENGINE_UNAVAILABLE, "The recogniser is starting.")
        self.workers.append(HandWorker(self, stream))
        return self.workers[-1]


def speaking(meeting: Meeting, *langs: str, **audio: object) -> tuple[Peer, HandWorker]:
    """Return a client that has begun to send audio, and the worker of its stream."""
    service = meeting.speech
    if service is None:
        service = meeting.speech = HandService(meeting)
    assert isinstance(service, HandService)
    peer = meeting.enter(*langs)
    peer.send("audio", **{"codec": "pcm_s16le", **audio})
    return peer, service.workers[-1]
