"""An engine with almost no cost of its own and the rhythm of continuous batching.

Owns: one timer that gives every running stream one token at once, or some of them in turn, and the
counts of a round (CPU time of the process, tokens, the times of the steps). Must not know: the
readers of the streams.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import islice

import msgspec

from gateway.engines.base.engine import Aborted, Engine, Sink
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault
from gateway.job import Chunk, Job

SOURCE = (
    "Good morning everybody, and welcome to our meeting: today we would like to talk about how long"
    " a listener has to wait for the translation of what was said."
)
"""Text of a client's utterance: 156 bytes."""

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
    """The form of the next round.

    ``streams`` at once, and ``step_s`` seconds between steps, or 0 for steps on demand. Every step
    gives a token to all of them, or to ``batch`` of them, those that have waited longest. With
    ``hold`` streams stand still when the round ends, and go on in the next one.
    """

    streams: int = 1
    step_s: float = 0.02
    batch: int | None = None
    hold: bool = False


class Tally(msgspec.Struct, kw_only=True):
    """The counts of a round. CPU times are nanoseconds of this process.

    ``steady`` covers only whole steps in which all streams of the plan were running: from the
    engine's output to the sockets, without the beginning and the end of any utterance; ``user`` is
    the part of that outside the kernel, by the kernel's ticks. ``steps`` are the times of all
    steps. ``stolen`` is the longest delay of a step while this process did not use the CPU: other
    processes did.
    """

    cpu: int = 0
    tokens: int = 0
    steady_cpu: int = 0
    steady_user: int = 0
    steady_tokens: int = 0
    steps: list[int] = []
    stolen: int = 0
    aborted: int = 0
    unfinished: int = 0


class Stream:
    """One running job: its tokens so far, and their sink."""

    __slots__ = ("end", "job_id", "n", "token")

    def __init__(
        self,
        job_id: str,
        token: Callable[[Chunk], object],
        end: Callable[[EngineFault | None], object],
    ) -> None:
        self.job_id = job_id
        self.n = 0
        self.token = token
        self.end = end


class Stepper(Engine):
    """An engine whose streams advance at the same time.

    It can be pushed and pulled, each in the cheapest way: a gateway has sinks, a minimal handler
    pulls.
    """

    name = "stepper"
    profile = _PROFILE
    capacity = 10_000
    health = Health.STARTING

    def __init__(self) -> None:
        self._plan = Plan()
        self._tally = Tally()
        self._running: OrderedDict[str, Stream] = OrderedDict()
        self._at: float | None = None  # time of the next step, while there are streams
        self._timer: asyncio.TimerHandle | None = None
        self._held = False
        self._last = self._last_user = 0  # CPU time at the last step
        self._full = False  # whether all streams of the plan were running then
        self._given = 0  # tokens of the last step
        self._begun = 0

    @property
    def unfinished(self) -> int:
        return len(self._running)

    def begin(self, plan: Plan) -> None:
        """Start counting, for a round of this kind."""
        self._plan = plan
        self._tally = Tally()
        self._full = False
        self._held = False
        self._begun = self._last = time.process_time_ns()
        self._last_user = _user()
        self._go()

    def end(self) -> Tally:
        """Stop counting."""
        if self._plan.hold:
            self._held = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = self._at = None
        self._tally.cpu = time.process_time_ns() - self._begun
        self._tally.unfinished = self.unfinished
        return self._tally

    def stats(self) -> Mapping[str, float]:
        return {}

    async def start(self) -> None:
        self.health = Health.READY

    def submit(self, job: Job, sink: Sink) -> None:
        self._begin(Stream(job.id, sink.chunk, sink.end))

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Chunk] = loop.create_future()
        late: deque[Chunk] = deque()  # while its reader is still busy with the last one

        def token(chunk: Chunk) -> None:
            if future.done():
                late.append(chunk)
            else:
                future.set_result(chunk)

        def end(fault: EngineFault | None) -> None:
            if fault is not None and not future.done():
                future.set_exception(fault)

        stream = Stream(job.id, token, end)
        self._begin(stream)
        try:
            for _ in range(TOKENS - 1):
                chunk = await future
                future = loop.create_future()
                if late:
                    future.set_result(late.popleft())
                yield chunk
            yield await future
        finally:
            if self._running.get(job.id) is stream:
                del self._running[job.id]

    def abort(self, job_id: str) -> None:
        stream = self._running.pop(job_id, None)
        if stream is not None:
            self._tally.aborted += 1
            stream.end(Aborted(job_id))

    async def aclose(self) -> None:
        self.health = Health.CLOSED

    def _begin(self, stream: Stream) -> None:
        self._running[stream.job_id] = stream
        self._go()

    def _go(self) -> None:
        if self._running and self._at is None and self._plan.step_s and not self._held:
            loop = asyncio.get_running_loop()
            self._last = time.process_time_ns()
            self._last_user = _user()
            self._at = loop.time() + self._plan.step_s
            self._timer = loop.call_at(self._at, self._step)

    def _step(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._at is not None
        late = int(1e9 * (loop.time() - self._at))
        cpu, user = time.process_time_ns(), _user()
        used = cpu - self._last
        self._tally.stolen = max(self._tally.stolen, late - used)
        full = len(self._running) == self._plan.streams
        if full and self._full:
            self._tally.steady_cpu += used
            self._tally.steady_user += user - self._last_user
            self._tally.steady_tokens += self._given
        self._last, self._last_user = cpu, user
        self._full = full
        if not self._running:
            self._timer = self._at = None
            return
        self._at = max(self._at + self._plan.step_s, loop.time())
        self._timer = loop.call_at(self._at, self._step)
        self.step()

    @property
    def running(self) -> list[Stream]:
        """Return the streams, beginning with the one that has waited longest."""
        return list(self._running.values())

    def step(self, due: Sequence[Stream] | None = None) -> None:
        """Give a token to the streams whose turn it is, or to these."""
        turn = due is None and self._plan.batch is not None
        if due is None:
            due = list(islice(self._running.values(), self._plan.batch))
        self._given = len(due)
        self._tally.tokens += len(due)
        now = time.monotonic_ns()
        self._tally.steps.append(now)
        for stream in due:
            n = stream.n
            stream.n += 1
            if stream.n == TOKENS:
                del self._running[stream.job_id]
            elif turn:  # to the end of the line
                self._running.move_to_end(stream.job_id)
            stream.token(_CHUNKS[n - 1] if n else Chunk(STAMP.format(now)))
            if stream.n == TOKENS:
                stream.end(None)


def _user() -> int:
    return int(1e9 * resource.getrusage(resource.RUSAGE_SELF).ru_utime)
