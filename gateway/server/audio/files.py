"""Files of sound, decoded: plain WAV here, everything else by a process for each file.

Owns: which files need no decoder, the processes, the faults of a file. Must not know: HTTP, how
other formats are decoded (`gateway.server.audio.file_decoder`), what becomes of the sound.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import wave
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

import numpy as np

from gateway.errors import ClientFault, ErrorCode
from gateway.io.tasks import running
from gateway.job import SAMPLE_RATE
from gateway.protocol.audio import OPUS
from gateway.server.audio.decoding import SAMPLE_BYTES, codecs, rates
from gateway.server.audio.file_decoder import UNREADABLE

DECODER = (sys.executable, "-m", "gateway.server.audio.file_decoder")
ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables that a decoder is given. The others may hold keys, which it has no use for."""
PIECE_S = 0.5
"""Seconds of sound in a piece."""
WRITE_BYTES = 262_144
"""Bytes of a file that are given to a decoder at once."""


class Sound(NamedTuple):
    """The sound of a file: its samples in a second, and PCM of 16 bit, little endian, mono."""

    rate: int
    pieces: AsyncGenerator[bytes]


@asynccontextmanager
async def opened(file: bytes) -> AsyncGenerator[Sound]:
    """Yield the sound of a file until the block ends.

    Raises `ClientFault` (``audio_unsupported``), at once or instead of a piece.
    """
    plain = _plain(file)
    if plain is not None:
        yield plain
    elif OPUS in codecs():
        async with _decoder(file) as sound:
            yield sound
    else:
        raise ClientFault(
            ErrorCode.AUDIO_UNSUPPORTED,
            f"This gateway reads WAV of 16 bit and {SAMPLE_RATE} samples per second only.",
            "For other files, install it with: pip install 'caption-gateway[speech]'.",
        )


def _plain(file: bytes) -> Sound | None:
    """Return the sound of a WAV file that needs no decoder; None if the file needs one."""
    try:
        source = wave.open(io.BytesIO(file))  # it has nothing to close
    except (wave.Error, EOFError):
        return None
    rate, channels = source.getframerate(), source.getnchannels()
    low, high = rates()
    if source.getsampwidth() != SAMPLE_BYTES or channels > 2 or not low <= rate <= high:
        return None

    async def pieces() -> AsyncGenerator[bytes]:
        while frames := source.readframes(int(PIECE_S * rate)):
            whole = len(frames) // (SAMPLE_BYTES * channels) * channels  # it may be cut off
            samples = np.frombuffer(frames, "<i2", whole).reshape(-1, channels)
            yield samples.mean(axis=1).astype("<i2").tobytes()

    return Sound(rate, pieces())


@asynccontextmanager
async def _decoder(file: bytes) -> AsyncGenerator[Sound]:
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *DECODER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**kept, "OPENBLAS_NUM_THREADS": "1"},  # a thread takes address space
        start_new_session=True,  # Ctrl-C in a terminal lets captions in flight end
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with running(_give(file, process.stdin)):
            yield Sound(SAMPLE_RATE, _pieces(process, process.stdout))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # Before Python 3.12 `wait` alone returns only after the end of the output, which a full
        # buffer keeps from being read.
        await process.communicate()


async def _give(file: bytes, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):  # it has ended without reading all
        for at in range(0, len(file), WRITE_BYTES):
            to.write(file[at : at + WRITE_BYTES])
            await to.drain()
        to.close()


async def _pieces(
    process: asyncio.subprocess.Process, sound: asyncio.StreamReader
) -> AsyncGenerator[bytes]:
    size = int(PIECE_S * SAMPLE_RATE) * SAMPLE_BYTES
    while True:
        try:
            piece = await sound.readexactly(size)
        except asyncio.IncompleteReadError as end:
            if end.partial:
                yield end.partial
            break
        yield piece
    status = await process.wait()
    if status:
        raise ClientFault(
            ErrorCode.AUDIO_UNSUPPORTED,
            "The file has no sound that can be read."
            if status == UNREADABLE
            else "The file could not be decoded: it takes too much time or memory, or is broken.",
            "Send wav, mp3, m4a, mp4, flac, ogg, opus, aac or webm.",
        )
