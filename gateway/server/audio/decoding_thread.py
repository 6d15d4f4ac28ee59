"""The thread that decodes audio and detects voice in it, and whose audio is next.

Owns: the audio of each stream that is not decoded, and its decoder. Must not know: what is heard,
frames of sockets, recognisers.

The tenants share the thread by work, then the rooms of a tenant, and then their streams in turn.
Its priority is lower than that of the rest, so that translation is not delayed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from gateway.core.recognition.speech_timing import FRAME_BYTES
from gateway.core.scheduling.turns import JobTurns
from gateway.io.tasks import yield_to_others
from gateway.server.audio.decoding import AudioDecoder, silence

BATCH_S = 1.0
"""Work of one stream that is done at once, as seconds of audio: then others have their turn."""
FRAME_WORK_S = 0.01
"""Work that a frame takes beside its audio, as seconds of audio: it was measured."""
FRAME_MEMORY = 128
"""Bytes that a frame takes beside its audio."""
AHEAD = 2
"""Batches that the thread is given: it need not wait for the event loop between two of them."""

Batch = list[tuple[bytes, float]]
"""Frames, each with the seconds that it takes."""


class Voice(Protocol):
    """A detector of voice in one stream, see `gateway.engines.recognition.voice`."""

    def probabilities(self, pcm: bytes) -> list[float]:
        """Return the probability of voice in each frame of ``pcm``, which has whole frames."""


class Decoded(NamedTuple):
    """Decoded audio of one stream."""

    pcm: bytes
    """PCM in whole frames of the detection of voice."""
    voice: list[float]
    """Probability of voice in each of them."""
    broken: int
    """Number of frames that were no audio."""
    last: bool
    """True if the stream has ended."""


class UndecodedAudio:
    """The frames of one stream that wait, and their decoder. ``done`` is called with each batch, or
    with the fault of the decoder.
    """

    def __init__(
        self,
        thread: DecodingThread,
        decoder: AudioDecoder,
        voice: Voice,
        done: Callable[[Decoded | BaseException], None],
        *,
        id: str,
        room: str,
        tenant: str,
    ) -> None:
        self.id, self.room, self.tenant = id, room, tenant
        self.waiting = 0.0
        """Seconds of audio that are not decoded."""
        self.held = 0
        """Memory of the frames that are not decoded."""
        self._thread = thread
        self._decoder = decoder
        self._voice = voice
        self._done: Callable[[Decoded | BaseException], None] | None = done
        self._frames: deque[tuple[bytes, float]] = deque()
        self._rest = b""  # of a frame of the detection of voice
        self._finishing = False
        self._busy = False  # it waits for its turn, or has it

    def add_frame(self, frame: bytes, seconds: float) -> None:
        """Decode a frame that takes ``seconds``."""
        if self._done is None:
            return
        self.waiting += seconds
        self.held += len(frame) + FRAME_MEMORY
        self._frames.append((frame, seconds))
        self._wait()

    def finish(self) -> None:
        """Report a last batch after the last frame."""
        self._finishing = True
        self._wait()

    def close(self) -> None:
        """Forget the audio, and report nothing more. Idempotent."""
        self._thread.remove(self)
        self._done = None  # it refers to the stream, which refers to this object
        self._frames.clear()
        self.waiting, self.held = 0.0, 0

    def batch(self) -> Batch:
        """Remove and return the frames that are decoded at once."""
        taken: Batch = []
        work = 0.0
        while self._frames and work < BATCH_S:
            taken.append(self._frames.popleft())
            work += taken[-1][1] + FRAME_WORK_S
        return taken

    @property
    def work(self) -> int:
        """Work of the next batch, in milliseconds of audio."""
        work = self.waiting + FRAME_WORK_S * len(self._frames)
        return round(1000 * min(BATCH_S, work))

    @property
    def last(self) -> bool:
        """True if no frame will come after the waiting ones."""
        return self._finishing and not self._frames

    def decode(self, batch: Batch, last: bool) -> Decoded:
        """Decode frames. It runs in the thread."""
        pcm, broken = [self._rest], 0
        for frame, seconds in batch:
            decoded = self._decoder.decode(frame)
            if decoded is None:
                broken += 1
                decoded = silence(seconds)
            pcm.append(decoded)
        if last:
            pcm.append(self._decoder.finish())
        whole = b"".join(pcm)
        if last:
            whole += bytes(-len(whole) % FRAME_BYTES)
        end = len(whole) - len(whole) % FRAME_BYTES
        self._rest = whole[end:]
        return Decoded(whole[:end], self._voice.probabilities(whole[:end]), broken, last)

    def decoded(self, batch: Batch, result: Decoded | BaseException) -> None:
        """Report a batch, and wait for the next turn."""
        self._busy = False
        if self._done is None:
            return
        self.waiting = max(0.0, self.waiting - sum(taken for _, taken in batch))
        self.held -= sum(len(frame) + FRAME_MEMORY for frame, _ in batch)
        if not self._frames:
            self.waiting = 0.0  # sums of fractions are not exact
        self._done(result)
        if not isinstance(result, BaseException) and not result.last:
            self._wait()

    def _wait(self) -> None:
        """Wait for a turn, if there is anything to do."""
        if not self._busy and self._done is not None and (self._frames or self._finishing):
            self._busy = True
            self._thread.add(self)


class DecodingThread:
    """The thread, and the streams that wait for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "audio", initializer=yield_to_others)
        self._waiting: dict[str, UndecodedAudio] = {}
        self._turns = JobTurns()
        self._given = 0  # batches that are not done

    def add(self, audio: UndecodedAudio) -> None:
        """Let a stream wait for its turn."""
        self._waiting[audio.id] = audio
        self._turns.add(audio)
        self._start()

    def remove(self, audio: UndecodedAudio) -> None:
        """Take a stream out of the queue, if it waits."""
        if self._waiting.pop(audio.id, None) is not None:
            self._turns.remove(audio)

    def close(self) -> None:
        """End the thread after its present batch."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        while self._given < AHEAD:
            id = self._turns.next(lambda id: self._waiting[id].work)
            if id is None:
                return
            audio = self._waiting.pop(id)
            batch = audio.batch()
            self._given += 1
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._pool, audio.decode, batch, audio.last)
            work.add_done_callback(partial(self._ended, audio, batch))

    def _ended(self, audio: UndecodedAudio, batch: Batch, work: asyncio.Future[Decoded]) -> None:
        self._given -= 1
        if work.cancelled():
            return  # the gateway ends
        self._start()
        audio.decoded(batch, work.exception() or work.result())
