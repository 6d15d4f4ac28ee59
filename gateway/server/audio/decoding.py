"""Decoders from the codecs of clients to 16-bit PCM of 16 kHz, by PyAV (FFmpeg).

Owns: which codecs this installation has, and resampling. Must not know: sockets, speech.

A decoder belongs to one stream and is called in worker threads, never in two at a time. PyAV comes
with the extra ``speech``; without it only PCM of 16 kHz is read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import cache
from typing import Any, Protocol

import numpy as np

from gateway.core.session.audio_format import OPUS_RATE, RATES, AudioFormat
from gateway.job import SAMPLE_RATE
from gateway.protocol.audio import OPUS, PCM

SAMPLE_BYTES = 2


class AudioDecoder(Protocol):
    """A decoder of one stream."""

    def decode(self, frame: bytes) -> bytes | None:
        """Return the next PCM; None if the frame is no audio, which then counts as silence."""

    def finish(self) -> bytes:
        """Return the PCM that was held back."""


@cache
def codecs() -> tuple[str, ...]:
    """Return the codecs of this installation."""
    return (PCM, OPUS) if _has_pyav() else (PCM,)


@cache
def rates() -> tuple[int, int]:
    """Return the lowest and the highest rate of PCM that this installation reads."""
    return RATES if _has_pyav() else (SAMPLE_RATE, SAMPLE_RATE)


def decoder(format: AudioFormat) -> AudioDecoder:
    """Return a decoder of audio in a format of `codecs` and `rates`."""
    if format.codec == OPUS:
        return OpusDecoder()
    return PlainDecoder() if format.rate == SAMPLE_RATE else PcmDecoder(format.rate)


class PlainDecoder:
    """A decoder of audio that needs no decoding."""

    def decode(self, frame: bytes) -> bytes:
        return frame

    def finish(self) -> bytes:
        return b""


class PcmDecoder:
    """A decoder of PCM of any rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._resampler = _resampler()

    def decode(self, frame: bytes) -> bytes:
        if not frame:
            return b""
        from av import AudioFrame

        samples = np.frombuffer(frame, "<i2").astype(np.int16, copy=False)
        audio = AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        audio.sample_rate = self._rate
        return _pcm(self._resampler.resample(audio))

    def finish(self) -> bytes:
        return _pcm(self._resampler.resample(None))


class OpusDecoder:
    """A decoder of packets of Opus."""

    def __init__(self) -> None:
        self._codec, self._resampler = _opus(), _resampler()

    def decode(self, frame: bytes) -> bytes | None:
        from av import FFmpegError, Packet

        try:
            audio = self._codec.decode(Packet(frame))
            return b"".join(_pcm(self._resampler.resample(one)) for one in audio)
        except FFmpegError:
            # A decoder that has failed may accept nothing more.
            self._codec, self._resampler = _opus(), _resampler()
            return None

    def finish(self) -> bytes:
        return _pcm(self._resampler.resample(None))


def silence(seconds: float) -> bytes:
    """Return silence of a length, in whole samples."""
    return bytes(SAMPLE_BYTES * round(seconds * SAMPLE_RATE))


def _has_pyav() -> bool:
    return importlib.util.find_spec("av") is not None


def _resampler() -> Any:
    from av import AudioResampler

    return AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)


def _opus() -> Any:
    from av import AudioCodecContext

    codec = AudioCodecContext.create("opus", "r")
    codec.sample_rate = OPUS_RATE
    codec.layout = "stereo"  # the decoder makes two channels of one, never one of two
    return codec


def _pcm(frames: Iterable[Any]) -> bytes:
    return b"".join(frame.to_ndarray().astype("<i2", copy=False).tobytes() for frame in frames)
