"""Decoders from the codecs of clients to 16-bit PCM of 16 kHz, by PyAV (FFmpeg).

Owns: which codecs this installation has, and resampling. Must not know: sockets, speech.

A decoder belongs to one stream and is called in worker threads, never in two at a time. PyAV comes
with the extra ``speech``; without it only PCM of 16 kHz is read.
"""

from __future__ import annotations

import contextlib
import importlib.util
from functools import cache
from typing import Any, Protocol

import numpy as np

from gateway.core.session.audio_format import OPUS_RATE, RATES, AudioFormat
from gateway.job import SAMPLE_RATE
from gateway.protocol.audio import OPUS, PCM

SAMPLE_BYTES = 2
CHANNELS = "stereo"
"""Channels that Opus is decoded to: the decoder makes two channels of one, never one of two."""


class AudioDecoder(Protocol):
    """A decoder of one stream."""

    def decode(self, frame: bytes) -> bytes | None:
        """Return the next PCM; None if the frame is no audio, which then counts as silence."""

    def finish(self) -> bytes:
        """Return the PCM that was held back."""


@cache
def codecs() -> tuple[str, ...]:
    """Return the codecs of this installation."""
    return (PCM,) if importlib.util.find_spec("av") is None else (PCM, OPUS)


@cache
def rates() -> tuple[int, int]:
    """Return the lowest and the highest rate of PCM that this installation reads."""
    return RATES if OPUS in codecs() else (SAMPLE_RATE, SAMPLE_RATE)


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
        self._resampler = Resampler("s16", "mono", rate)

    def decode(self, frame: bytes) -> bytes:
        if not frame:
            return b""
        from av import AudioFrame

        samples = np.frombuffer(frame, "<i2").astype(np.int16, copy=False)
        audio = AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        audio.sample_rate = self._rate
        return self._resampler.resample(audio)

    def finish(self) -> bytes:
        return self._resampler.resample(None)


class OpusDecoder:
    """A decoder of packets of Opus."""

    def __init__(self) -> None:
        self._begin()

    def decode(self, frame: bytes) -> bytes | None:
        from av import FFmpegError, Packet

        try:
            return b"".join(
                self._resampler.resample(piece) for piece in self._codec.decode(Packet(frame))
            )
        except FFmpegError:
            # A decoder that has failed may accept nothing more.
            self._begin()
            return None

    def finish(self) -> bytes:
        return self._resampler.resample(None)

    def _begin(self) -> None:
        from av import AudioCodecContext

        self._codec = AudioCodecContext.create("opus", "r")
        self._codec.sample_rate = OPUS_RATE
        self._codec.layout = CHANNELS
        self._resampler = Resampler("fltp", CHANNELS, OPUS_RATE)


class Resampler:
    """A converter of audio to PCM of 16 kHz. The format of the samples and the layout of the
    channels are named as by FFmpeg.
    """

    # PyAV's `AudioResampler` makes such a graph too, with a thread for each core of the machine.
    def __init__(self, format: str, layout: str, rate: int) -> None:
        from av.filter import Graph

        graph = self._graph = Graph()
        graph.threads = 1  # the thread that calls
        given = {"sample_rate": f"{rate}", "sample_fmt": format, "channel_layout": layout}
        made = {"sample_rates": f"{SAMPLE_RATE}", "sample_fmts": "s16", "channel_layouts": "mono"}
        source, converter = graph.add("abuffer", **given), graph.add("aformat", **made)
        graph.link_nodes(source, converter, graph.add("abuffersink")).configure()

    def resample(self, audio: Any) -> bytes:
        """Return the PCM that a frame of PyAV completes; None ends the audio."""
        self._graph.push(audio)
        pcm = b""
        # It has no more until the next frame, or for ever.
        with contextlib.suppress(BlockingIOError, EOFError):
            while True:
                made = self._graph.pull().to_ndarray()
                pcm += made.astype("<i2", copy=False).tobytes()
        return pcm


def silence(seconds: float) -> bytes:
    """Return silence of a length, in whole samples."""
    return bytes(SAMPLE_BYTES * round(seconds * SAMPLE_RATE))
