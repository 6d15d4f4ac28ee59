"""An engine that costs next to nothing and has the rhythm of continuous batching.

Owns: one timer that wakes every running stream at once, each for one token, and the counts of a
round (CPU time of the process, tokens). Must not know: what reads the streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping

import msgspec

from gateway.engines.base import Aborted, Health
from gateway.job import Chunk, Job
from gateway.profiles import Profile

SOURCE = (
    "Good morning everybody, and welcome to our meeting: today we would like to talk about how long"
    " a listener has to wait for the translation of what was said."
)
"""What a client says: 156 bytes of text."""

TARGET = (
    "Guten Morgen zusammen und herz lich willkommen zu unserer Besprechung: heute möchten wir uns"
    " darüber unter halten, wie lange Zu hörer auf die Über setzung von dem warten, was am"
    " anderen Ende des Tisches gesagt worden ist, und was wir dagegen tun können, ohne dass die"
    " Güte darunter leidet."
)
PIECES = tuple(" " + word for word in TARGET.split())
TOKENS = len(PIECES) + 1
"""Tokens of a whole stream: the first is the time at which the engine had it."""
STAMP = "{:015d}"
_CHUNKS = tuple(Chunk(piece) for piece in PIECES)
_PROFILE = Profile(name="stepper", kind="raw", languages=("en", "de"))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the next round looks like: streams at once, seconds between steps."""

    streams: int = 1
    step_s: float = 0.02


class Tally(msgspec.Struct, kw_only=True):
    """What a round took. CPU times are nanoseconds of this process.

    ``steady`` covers only whole steps in which all streams of the plan were running: from the
    engine's output to the sockets, without the beginning and the end of any utterance. ``stolen``
    is the longest time that a step came late although this process did not use the CPU: others did.
    """

    cpu: int = 0
    tokens: int = 0
    steady_cpu: int = 0
    steady_tokens: int = 0
    stolen: int = 0
    aborted: int = 0
    unfinished: int = 0


class Stepper:
    """An `Engine` whose streams all advance at the same time."""

    name = "stepper"
    profile = _PROFILE
    capacity = 10_000

    def __init__(self) -> None:
        self.health = Health.STARTING
        self._plan = Plan()
        self._tally = Tally()
        self._running: dict[str, asyncio.Future[int]] = {}
        self._at: float | None = None  # time of the next step, while there are streams
        self._last = 0  # CPU time at the last step
        self._full = False  # whether all streams of the plan were running then
        self._begun = 0

    @property
    def unfinished(self) -> int:
        return len(self._running)

    def begin(self, plan: Plan) -> None:
        """Start counting, for a round of this kind."""
        self._plan = plan
        self._tally = Tally()
        self._full = False
        self._begun = self._last = time.process_time_ns()

    def end(self) -> Tally:
        """Stop counting."""
        self._tally.cpu = time.process_time_ns() - self._begun
        self._tally.unfinished = self.unfinished
        return self._tally

    def stats(self) -> Mapping[str, float]:
        return {}

    async def start(self) -> None:
        self.health = Health.READY

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        loop = asyncio.get_running_loop()
        running = self._running
        try:
            future = running[job.id] = loop.create_future()
            if self._at is None:
                self._last = time.process_time_ns()
                self._at = loop.time() + self._plan.step_s
                loop.call_at(self._at, self._step)
            yield Chunk(STAMP.format(await future))
            for chunk in _CHUNKS:
                if job.id not in running:
                    raise Aborted(job.id)
                future = running[job.id] = loop.create_future()
                await future
                yield chunk
        finally:
            running.pop(job.id, None)

    def abort(self, job_id: str) -> None:
        future = self._running.pop(job_id, None)
        if future is not None:
            self._tally.aborted += 1
            if not future.done():
                future.set_exception(Aborted(job_id))

    async def aclose(self) -> None:
        self.health = Health.CLOSED

    def _step(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._at is not None
        late = int(1e9 * (loop.time() - self._at))
        used = time.process_time_ns() - self._last
        self._last += used
        self._tally.stolen = max(self._tally.stolen, late - used)
        streams = len(self._running)
        full = streams == self._plan.streams
        if full and self._full:
            self._tally.steady_cpu += used
            self._tally.steady_tokens += streams
        self._full = full
        if not streams:
            self._at = None
            return
        now = time.monotonic_ns()
        for future in self._running.values():
            if not future.done():  # else its reader is still busy with the last token
                future.set_result(now)
                self._tally.tokens += 1
        self._at = max(self._at + self._plan.step_s, loop.time())
        loop.call_at(self._at, self._step)
