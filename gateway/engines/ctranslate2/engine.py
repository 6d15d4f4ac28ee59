"""The embedded engine: translation models on the CPU, in this process, through CTranslate2.

Owns: the life of the model, the threads its decodes run in, streaming and cancelling. Must not
know: clients, rooms, how a model is read or prompted (`gateway.engines.ctranslate2.model`).

A decode blocks the thread that asks for it, so each runs in one of ``inter_threads`` threads of the
engine's own. A free thread takes what waits as one batch; nothing waits for a batch to fill.
CTranslate2 calls back for every token of every job; the callback leaves its text for the event
loop, which is told once for all that has come by then, and answers whether to go on. That answer is
the only way to stop a job: an aborted one ends at its next token, and is unfinished until then.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakMethod

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.engine import Aborted, Health, PushEngine, Sink, refuse
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, GatewayError, JobFault, Overloaded, redacted
from gateway.job import Chunk, Job

if TYPE_CHECKING:
    from gateway.engines.ctranslate2.model import TranslationModel

logger = logging.getLogger(__name__)

BATCH = 16
"""Jobs decoded together, at most, unless told otherwise. Twice as many give a third more captions a
second, and hold up one that comes meanwhile for half as long again; ``docs/design/embedded.md``."""

APART = 80
"""By how much jobs in one batch may differ in `size`. Of a decoder's prompts, CTranslate2 reads at
once only as much as the shortest has; the rest of each costs as much as output."""

WAITING = 256
"""Jobs beyond `capacity` that may wait; one more is refused with `Overloaded`. The dispatcher gives
no more than `capacity`, so only a caller without one ever sees this."""

CLOSING = 10.0
"""Seconds `aclose` waits for the running decodes to reach their next token."""

LOST = ("memory", "bad_alloc", "cuda", "cublas", "cudnn")
"""Words in errors after which only a new engine, with its memory freed, is of use: CTranslate2 has
no types of its own for them. Any other error may be of one text: it is a failure, and several in a
row are the supervisor's business."""


class LoopMailbox:
    """What the decodes have for the event loop. ``deliver`` is called there with the streams that
    have something; not for every token of a batch: while a call is on its way, none is made.

    Like a `DecodeStream` it must not lead to the engine, but by a weak reference.
    """

    def __init__(self, deliver: WeakMethod[Callable[[list[DecodeStream]], None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._streams: deque[DecodeStream] = deque()
        self._told = False

    def post(self, stream: DecodeStream) -> None:
        """Called by a decode: it has something in ``stream``."""
        self._streams.append(stream)
        if not self._told or self._loop.is_closed():
            self._told = True  # before telling: the loop may be faster than what follows
            if not self.call(self._open):
                stream.stopped = True  # nobody reads on

    def call(self, function: Callable[[], None]) -> bool:
        """Have the event loop call ``function``; whether it can."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # it was closed
            return False
        return True

    def _open(self) -> None:
        self._told = False  # before looking, or what comes meanwhile would be lost
        streams = [self._streams.popleft() for _ in range(len(self._streams))]
        deliver = self._deliver()
        if deliver is not None:
            deliver(list(dict.fromkeys(streams)))


class DecodeStream:
    """What one job's decode and the event loop share.

    A `gateway.engines.ctranslate2.model.Sink`: `step` and `end` are called by the decode, the rest
    is the event loop's. Tokens wait here until the loop comes to them, no more than the length
    limit.

    It must not lead to the engine. A thread of CTranslate2 drops the last reference to it, and a
    model that is freed in a thread of its own ends the process.
    """

    def __init__(self, job: Job, mail: LoopMailbox) -> None:
        self.job = job
        self.mail = mail
        self.steps: deque[tuple[str, Sequence[int]]] = deque()
        self.rest = ""
        self.stopped = False
        self.ended = False
        self.fault: GatewayError | None = None
        self._tokens = 0  # without text so far; they go with the next that has some
        self._ids: list[int] = []  # of those

    def step(self, text: str, ids: Sequence[int]) -> bool:
        self.steps.append((text, ids))
        self.mail.post(self)
        return self.stopped

    def end(self, rest: str = "", fault: GatewayError | None = None) -> None:
        if not self.ended:
            self.rest = rest
            self.fault = fault
            self.ended = True  # the last, for whoever sees it takes the others as final
            self.mail.post(self)

    def take(self, rest: str = "") -> Chunk | None:
        """All that has come, and ``rest``, as one chunk; None while a character is incomplete."""
        text = []
        for _ in range(len(self.steps)):  # not until it is empty: tokens come in while we count
            piece, ids = self.steps.popleft()
            text.append(piece)
            self._tokens += 1
            self._ids += ids
        if not (whole := "".join(text) + rest):
            return None
        chunk = Chunk(whole, self._tokens, ids=tuple(self._ids))
        self._tokens, self._ids = 0, []
        return chunk


class CTranslate2Engine(PushEngine):
    """An `Engine` around one CTranslate2 model.

    :param model: a directory; `gateway.engines.ctranslate2.model` lists the known layouts
    :param profile: None: found by the directory's name and ``config.json``
    :param compute_type: as in CTranslate2
    :param inter_threads: decodes at once, each of up to ``batch`` jobs. None: one for each CPU
    :param batch: jobs decoded together, at most
    :param intra_threads: threads inside one decode. 1 is fastest for models of the embedded one's
        size, where handing work out costs more than the work; ``docs/design/embedded.md``
    :param cache_dir: where converted models are kept. None: ``gateway`` in the user's cache
    :param name: what the model is called. None: as its directory is
    """

    def __init__(
        self,
        model: Path,
        profile: Profile | None = None,
        *,
        compute_type: str = "int8",
        inter_threads: int | None = None,
        batch: int = BATCH,
        intra_threads: int = 1,
        cache_dir: Path | None = None,
        name: str | None = None,
    ) -> None:
        self._path = model
        self._name = f"ctranslate2:{name or model.resolve().name}"  # once: it asks the disk
        self._profile = profile or _matched(model)
        self._width = inter_threads or _cpus()
        self._batch = batch
        self._options = {
            "compute_type": compute_type,
            "inter_threads": self._width,
            "intra_threads": intra_threads,
        }
        self._cache = cache_dir or model_files.user_cache()
        self._health = Health.STARTING
        self._lost = False  # set by a thread, at a fault that only another engine gets over
        self._model: TranslationModel | None = None
        self._threads = ThreadPoolExecutor(self._width, "ctranslate2")
        self._sinks: dict[DecodeStream, Sink] = {}  # of the jobs that have not ended
        self._waiting: list[DecodeStream] = []  # for a thread, in the order of arrival
        self._batches: dict[Future[None], list[DecodeStream]] = {}  # in a thread

    @property
    def name(self) -> str:
        return self._name

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def capacity(self) -> int:
        return self._width * self._batch

    @property
    def health(self) -> Health:
        return Health.DEAD if self._lost and self._health is Health.READY else self._health

    @property
    def unfinished(self) -> int:
        batches = self._batches.values()
        return len(self._waiting) + sum(not stream.ended for batch in batches for stream in batch)

    def stats(self) -> Mapping[str, float]:
        return {}

    async def start(self) -> None:
        self._require(Health.STARTING)
        loop = asyncio.get_running_loop()
        try:
            model = await loop.run_in_executor(self._threads, self._load)
        except EngineFault:
            self._become(Health.DEAD)
            raise
        self._require(Health.STARTING)  # `aclose` may have come meanwhile
        self._model = model
        self._mail = LoopMailbox(WeakMethod(self._deliver))
        atexit.register(self._free)  # for a process that ends without `aclose`
        self._become(Health.READY)

    def submit(self, job: Job, sink: Sink) -> None:
        if self.health is not Health.READY:
            refuse(sink, EngineGone(f"{self.name} is {self.health.value}, not ready."))
        elif self.unfinished >= self.capacity + WAITING:
            refuse(sink, Overloaded(f"{self.name} has {WAITING} jobs waiting already."))
        else:
            stream = DecodeStream(job, self._mail)
            self._sinks[stream] = sink
            self._waiting.append(stream)
            # In the loop's next turn, so that jobs that come in one turn go into one batch.
            asyncio.get_running_loop().call_soon(self._assign)

    def abort(self, job_id: str) -> None:
        for stream in list(self._sinks):
            if stream.job.id == job_id:
                self._stop(stream, Aborted(job_id))

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._become(Health.CLOSED)
        for stream in list(self._sinks):
            self._stop(stream, EngineGone(f"{self.name} was closed."))
        try:
            async with asyncio.timeout(CLOSING):
                await asyncio.to_thread(self._free)
            self._batches.clear()  # those whose event loop was closed could not say it
        except TimeoutError:
            logger.warning("%s still decodes after %g s; not waiting for it", self.name, CLOSING)

    def _stop(self, stream: DecodeStream, fault: EngineFault) -> None:
        """End a job: with ``fault`` for its sink now, for the model at its next token."""
        stream.stopped = True
        if stream in self._waiting:
            self._waiting.remove(stream)
        self._end(stream, fault)

    def _deliver(self, streams: list[DecodeStream]) -> None:
        """Pass on what the decodes have said."""
        for stream in streams:
            sink = self._sinks.get(stream)
            if sink is None:  # it was stopped
                continue
            ended = stream.ended  # before taking, or what comes between the two would be lost
            fault = stream.fault
            if fault is None and (chunk := stream.take(stream.rest if ended else "")) is not None:
                sink.chunk(chunk)
            if ended:
                if fault is not None and not isinstance(fault, EngineFault):
                    fault = JobFault(str(fault), fault.code, fault.hint)
                self._end(stream, fault)

    def _end(self, stream: DecodeStream, fault: EngineFault | None) -> None:
        sink = self._sinks.pop(stream, None)
        if sink is not None:
            sink.end(fault)

    def _assign(self) -> None:
        """Give what waits to the threads that are free, an equal share to each."""
        while self._waiting and (free := self._width - len(self._batches)):
            self._begin(self._take(min(self._batch, ceil(len(self._waiting) / free))))

    def _take(self, most: int) -> list[DecodeStream]:
        """The most urgent of those that wait, and those next to it in size of the others."""
        first, *rest = sorted(self._waiting, key=lambda stream: stream.job.priority)
        others = [stream for stream in rest if self._akin(first.job, stream.job)]
        others.sort(key=lambda stream: abs(size(stream.job) - size(first.job)))
        batch = [first, *others[: most - 1]]
        self._waiting = [stream for stream in self._waiting if stream not in batch]
        return batch

    def _akin(self, one: Job, other: Job) -> bool:
        """Whether two jobs may go into one batch.

        Finals are not slowed down by partials. And what may not be repeated is, in a batch of a
        decoder, also the prompt beyond the shortest, so those jobs get the decode they would have
        had alone; among the others, the sampling is equal.
        """
        return (
            one.priority == other.priority
            and one.attempt == other.attempt == 1
            and self._profile.sampling(one).repetition_penalty == 1
            and abs(size(one) - size(other)) <= APART
        )

    def _begin(self, batch: list[DecodeStream]) -> None:
        decode = self._threads.submit(self._decode, batch)
        self._batches[decode] = batch
        decode.add_done_callback(lambda _: self._mail.call(lambda: self._ended(decode)))

    def _ended(self, decode: Future[None]) -> None:
        self._batches.pop(decode, None)
        self._assign()

    def _require(self, health: Health) -> None:
        if self.health is not health:
            raise EngineGone(f"{self.name} is {self.health.value}, not {health.value}.")

    def _become(self, health: Health) -> None:
        logger.debug("%s is %s", self.name, health.value)
        self._health = health

    # What follows runs in threads.

    def _load(self) -> TranslationModel:
        from gateway.engines.ctranslate2 import model as checkpoint

        try:
            return checkpoint.load(self._path, self._cache, self._options)
        except OSError as exc:
            # A write to a full disk names no file: the model is read, and the cache is written.
            why = f"{exc.filename or self._cache}: {exc.strerror or exc}."
            hint = (
                "This user has to be able to read the model, and to write its converted copy to"
                f" {self._cache}, which --cache-dir changes."
            )
            if exc.errno == errno.ENOSPC:
                hint = "Make room there, or choose another --cache-dir."
            raise EngineFault(
                f"The model {self._path} could not be loaded: {why}", hint=hint
            ) from exc

    def _decode(self, batch: list[DecodeStream]) -> None:
        assert self._model is not None, "there are no streams before the model"
        fault = EngineFault("CTranslate2 ended without a word.")
        try:
            # The others were stopped before a thread came to them.
            self._model.decode([each for each in batch if not each.stopped], self._profile)
        except Exception as exc:
            kind = type(exc).__name__
            words = [word for word in LOST if word in str(exc).lower()]
            if isinstance(exc, MemoryError) or words:
                self._lost = True  # before the jobs end: whoever sees one end looks at the health
                fault = EngineGone(f"CTranslate2 failed ({', '.join([kind, *words])}).")
            else:
                fault = EngineFault(f"CTranslate2 failed ({kind}).")
            # The fault is in our own words, since the text may be in those of the library.
            bare = redacted(exc)
            logger.error("%s: a batch of %d. %s", self.name, len(batch), fault, exc_info=bare)
        for stream in batch:
            stream.end(fault=fault)

    def _free(self) -> None:
        """Wait for the decodes, then for CTranslate2's own threads.

        They must be gone before the interpreter is: a callback into a finalising interpreter
        crashes it.
        """
        self._threads.shutdown(cancel_futures=True)
        self._model = None
        atexit.unregister(self._free)


def size(job: Job) -> int:
    """Length of a prompt, but for what all have: about four to a token, in any script."""
    return len(job.text.encode()) + len(job.prefix.encode())


def _matched(model: Path) -> Profile:
    """The profile that fits ``model``. Raises `EngineFault`."""
    try:
        config = json.loads((model / "config.json").read_bytes())
        return profiles.match(model.resolve().name, config)
    except FileNotFoundError as exc:
        raise EngineFault(f"There is no model in {model}: it has no config.json.") from exc
    except profiles.UnknownProfile as exc:
        raise EngineFault(str(exc)) from exc
    except ValueError as exc:
        raise EngineFault(f"The config.json of {model} is of no use: {exc}") from exc


def _cpus() -> int:
    """CPUs this process may run on, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
