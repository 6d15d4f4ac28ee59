"""A running gateway that recognises speech, and audio for it that needs no model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import numpy as np

from gateway.core.recognition.speech_timing import FRAME, FRAME_BYTES
from gateway.engines.recognition.base import Recogniser
from gateway.engines.scripted import ScriptedRecogniser
from gateway.job import SAMPLE_RATE
from gateway.server.audio.decoding_thread import Voice
from gateway.server.runtime.recognition import RecognitionRunner
from tests.support.live import Live

LOUD = 500
"""Mean amplitude from which a frame is voice."""


class Loudness:
    """A detector of voice that takes every loud sound for voice."""

    def __init__(self) -> None:
        self._rest = b""

    def probabilities(self, pcm: bytes) -> list[float]:
        pcm = self._rest + pcm
        whole = len(pcm) // FRAME_BYTES * FRAME_BYTES
        self._rest = pcm[whole:]
        frames = np.frombuffer(pcm[:whole], "<i2").reshape(-1, FRAME).astype(np.int32)
        return [float(np.abs(frame).mean() > LOUD) for frame in frames]


@contextlib.asynccontextmanager
async def hearing(
    live: Live, recogniser: Recogniser | None = None, detector: Callable[[], Voice] | None = None
) -> AsyncIterator[RecognitionRunner]:
    """Let a gateway recognise speech until the block ends, by default by a scripted recogniser.

    :param detector: returns the detector of voice of a stream; default: `Loudness`
    """
    recogniser = recogniser or ScriptedRecogniser()
    runner = live.hub.recognition = RecognitionRunner(
        live.hub.host, recogniser, detector or Loudness
    )
    await recogniser.start()
    try:
        yield runner
    finally:
        await runner.aclose()


def tone(seconds: float, rate: int = SAMPLE_RATE) -> bytes:
    """Return a loud tone as PCM."""
    at = np.arange(int(seconds * rate)) / rate
    return (8_000 * np.sin(2 * np.pi * 220 * at)).astype("<i2").tobytes()


def pieces(pcm: bytes, seconds: float = 0.1, rate: int = SAMPLE_RATE) -> Iterator[bytes]:
    """Yield PCM in frames of a length."""
    size = 2 * int(seconds * rate)
    return (pcm[at : at + size] for at in range(0, len(pcm), size))


def packets(pcm: bytes, rate: int = 48_000) -> list[bytes]:
    """Return PCM of one channel as packets of Opus of 20 ms."""
    import av

    codec = av.AudioCodecContext.create("libopus", "w")
    codec.sample_rate, codec.layout, codec.format = rate, "mono", "s16"
    samples, size, made = np.frombuffer(pcm, "<i2"), rate // 50, []
    for at in range(0, len(samples) - size + 1, size):
        frame = av.AudioFrame.from_ndarray(samples[None, at : at + size], "s16", "mono")
        frame.sample_rate, frame.pts = rate, at
        made += [bytes(packet) for packet in codec.encode(frame)]
    return made + [bytes(packet) for packet in codec.encode(None)]
