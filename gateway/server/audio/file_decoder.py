"""The program that decodes one file of sound: bytes of the file in, PCM of 16 kHz out.

Owns: the formats that are read, and the limits of the process. Must not know: the gateway.

FFmpeg parses the bytes of strangers, so it runs in a process of its own. A file that makes it crash
or take too much time or memory costs this process alone. Only the formats and codecs of the lists
are opened: a playlist would make FFmpeg read other files and addresses.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

FORMATS = "wav,ogg,matroska,webm,mp3,flac,mov,mp4,aac"
"""Formats of files that are read, by FFmpeg's names."""
CODECS = (
    "opus,libopus,vorbis,mp3,mp3float,aac,flac,alac,pcm_alaw,pcm_mulaw,"
    "pcm_u8,pcm_s16le,pcm_s24le,pcm_s32le,pcm_f32le,pcm_f64le"
)
"""Codecs of sound that are read, by FFmpeg's names."""
CPU_S = 120
"""Seconds of a core for one file. An hour of AAC takes about ten."""
MEMORY_BYTES = 1_073_741_824
"""Address space of the process. The libraries take a third of it."""
UNREADABLE = 3
"""Exit status if the file has no sound that can be read."""


def decoded(file: io.BytesIO) -> Iterator[bytes]:
    """Yield PCM of 16 kHz. Broken packets are left out.

    Raises `av.FFmpegError` if the format is not read, `IndexError` if the file has no sound.
    """
    import av

    from gateway.server.audio.decoding import Resampler

    options = {"format_whitelist": FORMATS, "codec_whitelist": CODECS, "protocol_whitelist": ""}
    with av.open(file, "r", options=options) as container:
        sound = container.streams.audio[0]
        sound.codec_context.thread_count = 1
        resampler: Resampler | None = None
        shape: tuple[Any, ...] = ()
        for packet in container.demux(sound):
            frames: list[Any] = []
            with contextlib.suppress(av.FFmpegError):
                frames = packet.decode()
            for frame in frames:
                # A rate may change within a file, and that of AAC is known by its first frame.
                before, shape = shape, (frame.format.name, frame.layout.name, frame.sample_rate)
                if resampler is None or shape != before:
                    if resampler is not None:
                        yield resampler.resample(None)
                    resampler = Resampler(*shape)
                frame.pts = None
                yield resampler.resample(frame)
        if resampler is not None:
            yield resampler.resample(None)


def main() -> int:
    """Decode the standard input to the standard output, and return the exit status."""
    _limit()
    import av

    heard = False
    # A file that is cut off has a beginning that can be heard.
    with contextlib.suppress(av.FFmpegError, IndexError):
        for pcm in decoded(io.BytesIO(sys.stdin.buffer.read())):
            heard = heard or bool(pcm)
            sys.stdout.buffer.write(pcm)
    return 0 if heard else UNREADABLE


def _limit() -> None:
    """Bound the time and the memory of this process, where the system can."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(5)  # translation goes first
    bounds = (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    )
    for bound, most in bounds:
        with contextlib.suppress(OSError, ValueError):  # macOS does not bound the address space
            resource.setrlimit(bound, (most, most))


if __name__ == "__main__":
    sys.exit(main())
