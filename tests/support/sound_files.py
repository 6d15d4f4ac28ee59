"""Files of sound for tests."""

from __future__ import annotations

import io
import wave

import numpy as np


def wav(pcm: bytes, rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    """Return PCM as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(pcm)
    return file.getvalue()


def encoded(pcm: bytes, format: str, codec: str, rate: int = 48_000) -> bytes:
    """Return PCM of one channel as a file that FFmpeg writes.

    :param format: FFmpeg's name of the format of the file
    :param codec: FFmpeg's name of the codec
    """
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=format) as out:
        stream = out.add_stream(codec, rate=rate)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        samples = np.frombuffer(pcm, "<i2")
        frame = av.AudioFrame.from_ndarray(samples[None, :], "s16", "mono")
        frame.sample_rate, frame.pts = rate, 0
        for packet in (*stream.encode(frame), *stream.encode(None)):
            out.mux(packet)
    return file.getvalue()


def silent_film() -> bytes:
    """Return a film of one frame without sound."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as out:
        stream = out.add_stream("mpeg4", rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width = stream.height = 64
        frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")
        for packet in (*stream.encode(frame), *stream.encode(None)):
            out.mux(packet)
    return file.getvalue()
