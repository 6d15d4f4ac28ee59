"""The embedded engine: translation models on the CPU, in this process, through CTranslate2.

Owns: the life of the model, the threads of its decodes, streaming and cancelling. Must not know:
clients, rooms, how a model is read or prompted (`gateway.engines.ctranslate2.model`).

A decode blocks its thread, so each decode runs in one of ``inter_threads`` threads of the engine. A
free thread takes the waiting jobs as one batch; no job waits for a batch to fill. CTranslate2 calls
back for every token of every job. The callback stores the text for the event loop, schedules at
most one call there, and returns whether the job is to stop. This return value is the only way to
stop a job, so an aborted job ends at its next token and is unfinished until then. A beam search has
no callback: its output arrives at once, and an aborted one ends by itself.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import json
import logging
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakMethod

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.engine import Aborted, ModelEngine, Sink
from gateway.engines.base.service import Health
from gateway.engines.guards.complete_output import Guard
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, GatewayError, JobFault, redacted
from gateway.job import Chunk, Job, merged

if TYPE_CHECKING:
    from gateway.engines.ctranslate2.model import TranslationModel

logger = logging.getLogger(__name__)

BATCH = 16
"""Default for the most jobs decoded together. Twice as many give a third more captions a second,
but delay a job that arrives during a decode by half as much again: ``docs/design/embedded.md``."""

SIZE_SPREAD = 80
"""Largest difference in `prompt_size` within a batch, in bytes. CTranslate2 reads the prompts of a
batch in parallel only up to the length of the shortest; the rest of each costs as much as
output."""

BEAM_JOBS = 2
"""Most jobs for each thread with which the engine has time for a beam search. It takes 1.5 times
the CPU of a greedy decode: ``docs/design/embedded.md``."""

BEAM_DRAFTED = 40
"""Bytes of the longest text with a draft that is searched. A search cannot use the draft, so that a
final takes nearly twice as long as with it: ``docs/design/embedded.md``."""

WAITING_LIMIT = 256
"""Jobs beyond `capacity` that may wait; a further one ends in `Overloaded`. The scheduler submits
no more than `capacity`, so only other callers reach this limit."""

CLOSE_TIMEOUT = 10.0
"""Seconds that `aclose` waits for the running decodes to reach their next token."""

FATAL_WORDS = ("memory", "bad_alloc", "cuda", "cublas", "cudnn")
"""Words in errors after which only a new engine can work, because memory must be freed. CTranslate2
has no exception types for them. Any other error may concern one text; if several follow each other,
the supervisor replaces the engine."""


class LoopMailbox:
    """A queue from the decode threads to the event loop.

    While a call in the event loop is scheduled, no other one is: notifications share it. Like a
    `DecodeStream`, the mailbox must not hold a strong reference to the engine.
    """

    def __init__(self, deliver: WeakMethod[Callable[[list[DecodeStream]], None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._streams: deque[DecodeStream] = deque()
        self._scheduled = False

    def notify(self, stream: DecodeStream) -> None:
        """Have ``stream`` delivered to the event loop. Called in a decode thread."""
        self._streams.append(stream)
        if not self._scheduled or self._loop.is_closed():
            self._scheduled = True  # set first, because the call may run before the next line
            if not self.call(self._deliver_waiting):
                stream.stopped = True  # no one can read the output

    def call(self, function: Callable[[], None]) -> bool:
        """Call ``function`` in the event loop; return False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _deliver_waiting(self) -> None:
        self._scheduled = False  # reset first, or a stream added during this call would be lost
        streams = [self._streams.popleft() for _ in range(len(self._streams))]
        deliver = self._deliver()
        if deliver is not None:
            deliver(list(dict.fromkeys(streams)))


class DecodeStream:
    """The output of one job, on its way from a decode thread to the event loop.

    It is a `gateway.engines.ctranslate2.decode_job.DecodeSink`, so it must not hold a reference to
    the engine. The decode thread calls `add` and `end`, the event loop uses everything else. The
    job's length limit bounds the waiting tokens.
    """

    def __init__(self, job: Job, mailbox: LoopMailbox) -> None:
        self.job = job
        self.mailbox = mailbox
        self.steps: deque[Chunk] = deque()
        self.stopped = False
        self.ended = False
        self.fault: GatewayError | None = None
        self._withheld = Chunk("", 0)  # tokens without text so far; the next chunk counts them

    def add(self, chunk: Chunk) -> bool:
        self.steps.append(chunk)
        self.mailbox.notify(self)
        return self.stopped

    def end(
        self,
        rest: str = "",
        fault: GatewayError | None = None,
        *,
        unsure: bool = False,
        p: float = 1.0,
    ) -> None:
        if not self.ended:
            self.steps.append(Chunk(rest, 0, flags=(Guard.UNSURE,) if unsure else (), p=p))
            self.fault = fault
            self.ended = True  # set last: the event loop then takes the others as final
            self.mailbox.notify(self)

    def take_chunk(self) -> Chunk | None:
        """Return the waiting output as one chunk; None if it has neither text nor a judgement."""
        chunk = self._withheld
        # A fixed number, because the decode thread may add steps during the loop.
        for _ in range(len(self.steps)):
            chunk = merged(chunk, self.steps.popleft())
        if chunk.text or chunk.flags or chunk.p < 1:
            self._withheld = Chunk("", 0)
            return chunk
        self._withheld = chunk
        return None


class CTranslate2Engine(ModelEngine):
    """An `Engine` around one CTranslate2 model.

    :param model: a directory; `gateway.engines.ctranslate2.model` lists the known layouts
    :param profile: None: found by the directory's name and ``config.json``
    :param compute_type: as in CTranslate2
    :param inter_threads: decodes at once, each of up to ``batch`` jobs. None: one for each CPU
    :param batch: most jobs decoded together
    :param intra_threads: threads inside one decode. 1 is fastest for models as small as the
        embedded one; see ``docs/design/embedded.md``
    :param cache_dir: directory of converted models. None: ``gateway`` in the user's cache
    :param name: name of the model for people. None: the name of its directory
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
        self._thread_count = inter_threads or _available_cpus()
        super().__init__(
            f"ctranslate2:{name or model.resolve().name}",
            profile or _find_profile(model),
            capacity=self._thread_count * batch,
        )
        self._path = model
        self._batch = batch
        self._options = {
            "compute_type": compute_type,
            "inter_threads": self._thread_count,
            "intra_threads": intra_threads,
        }
        self._cache = cache_dir or model_files.user_cache()
        self._broken = False  # set by a decode thread after a fault that needs a new engine
        self._model: TranslationModel | None = None
        self._threads = ThreadPoolExecutor(self._thread_count, "ctranslate2")
        self._sinks: dict[DecodeStream, Sink] = {}  # of jobs that have not ended
        self._waiting: list[DecodeStream] = []  # jobs without a thread, in the order of arrival
        self._batches: dict[Future[None], list[DecodeStream]] = {}  # jobs in a thread

    @property
    def health(self) -> Health:
        return Health.DEAD if self._broken and self._health is Health.READY else self._health

    @property
    def unfinished(self) -> int:
        batches = self._batches.values()
        return len(self._waiting) + sum(not stream.ended for batch in batches for stream in batch)

    async def start(self) -> None:
        self._require_health(Health.STARTING)
        loop = asyncio.get_running_loop()
        try:
            model = await loop.run_in_executor(self._threads, self._load)
        except EngineFault:
            self._set_health(Health.DEAD)
            raise
        self._require_health(Health.STARTING)  # `aclose` may have been called during the load
        self._model = model
        self._mailbox = LoopMailbox(WeakMethod(self._deliver))
        atexit.register(self._free)  # for a process that ends without `aclose`
        self._set_health(Health.READY)

    def submit(self, job: Job, sink: Sink) -> None:
        if self._admit(sink, self.capacity + WAITING_LIMIT):
            stream = DecodeStream(job, self._mailbox)
            self._sinks[stream] = sink
            self._waiting.append(stream)
            # In the next turn of the loop, so that jobs submitted in one turn share a batch.
            asyncio.get_running_loop().call_soon(self._assign)

    def abort(self, job_id: str) -> None:
        for stream in list(self._sinks):
            if stream.job.id == job_id:
                self._stop(stream, Aborted(job_id))

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._set_health(Health.CLOSED)
        for stream in list(self._sinks):
            self._stop(stream, EngineGone(f"{self.name} was closed."))
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await asyncio.to_thread(self._free)
            self._batches.clear()  # batches of a closed event loop could not report their end
        except TimeoutError:
            told = "%s still decodes after %g s; not waiting for it"
            logger.warning(told, self.name, CLOSE_TIMEOUT)

    def _stop(self, stream: DecodeStream, fault: EngineFault) -> None:
        """End a job with ``fault``: at once for its sink, at the next token for the model."""
        stream.stopped = True
        if stream in self._waiting:
            self._waiting.remove(stream)
        self._end(stream, fault)

    def _deliver(self, streams: list[DecodeStream]) -> None:
        """Pass new output and ends of jobs to their sinks."""
        for stream in streams:
            sink = self._sinks.get(stream)
            if sink is None:  # the job was stopped
                continue
            # Read first: after it is set no step follows, so that `take_chunk` gets all of them.
            ended, fault = stream.ended, stream.fault
            if fault is None and (chunk := stream.take_chunk()) is not None:
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
        """Give the waiting jobs to the free threads, in equal shares."""
        while self._waiting and (free := self._thread_count - len(self._batches)):
            batch = self._next_batch(min(self._batch, ceil(len(self._waiting) / free)))
            decode = self._threads.submit(self._decode, batch, self._beam(batch))
            self._batches[decode] = batch
            decode.add_done_callback(
                lambda ended: self._mailbox.call(lambda: self._batch_ended(ended))
            )

    def _next_batch(self, most: int) -> list[DecodeStream]:
        """Remove a batch of at most ``most`` jobs from the waiting ones."""
        # The batch has the most urgent job and the jobs that are nearest to it in size.
        first, *rest = sorted(self._waiting, key=lambda stream: stream.job.priority)
        others = [stream for stream in rest if self._may_share_batch(first.job, stream.job)]
        others.sort(key=lambda stream: abs(prompt_size(stream.job) - prompt_size(first.job)))
        batch = [first, *others[: most - 1]]
        self._waiting = [stream for stream in self._waiting if stream not in batch]
        return batch

    def _may_share_batch(self, job: Job, other: Job) -> bool:
        # Finals and partials do not, so that partials do not delay finals. Jobs with a limit on
        # repetition do not share a batch either. In the batch of a decoder, that limit would also
        # apply to the part of a prompt that is longer than the shortest one. All other jobs of one
        # profile have the same sampling.
        return (
            (job.priority, may_search(job)) == (other.priority, may_search(other))
            and job.attempt == other.attempt == 1
            and self._profile.sampling(job).repetition_penalty == 1
            and abs(prompt_size(job) - prompt_size(other)) <= SIZE_SPREAD
        )

    def _beam(self, batch: list[DecodeStream]) -> int:
        """Return the number of hypotheses for a batch; 1, greedy, if the engine has no time."""
        # The others of the batch are like the first, see `_may_share_batch`.
        busy = self.unfinished + len(batch) > BEAM_JOBS * self._thread_count
        return self._profile.beam if may_search(batch[0].job) and not busy else 1

    def _batch_ended(self, decode: Future[None]) -> None:
        self._batches.pop(decode, None)
        self._assign()

    # The methods below run in threads.

    def _load(self) -> TranslationModel:
        return self._load_from(self._path)

    def _load_from(self, path: Path) -> TranslationModel:
        """Return the model of a directory. Raises `EngineFault`."""
        from gateway.engines.ctranslate2 import model as checkpoint

        try:
            return checkpoint.load(path, self._cache, self._options)
        except OSError as exc:
            # A write to a full disk names no file. Only the cache is written, so it is named.
            why = f"{exc.filename or self._cache}: {exc.strerror or exc}."
            hint = "Make room there, or choose another --cache-dir."
            if exc.errno != errno.ENOSPC:
                need = "This user must be able to read the model and to write its converted copy to"
                hint = f"{need} {self._cache}; choose another directory with --cache-dir."
            raise EngineFault(f"The model {path} could not be loaded: {why}", hint=hint) from exc

    def _decode(self, batch: list[DecodeStream], beam: int) -> None:
        assert self._model is not None, "there are no streams before the model"
        fault = EngineFault("CTranslate2 ended without output.")
        try:
            # A job may have been stopped before its batch got a thread.
            jobs = [each for each in batch if not each.stopped]
            self._model.decode(jobs, self._profile, beam)
        except Exception as exc:
            kind = type(exc).__name__
            words = [word for word in FATAL_WORDS if word in str(exc).lower()]
            if isinstance(exc, MemoryError) or words:
                self._broken = True  # set before the jobs end, because their ends have it checked
                fault = EngineGone(f"CTranslate2 failed ({', '.join([kind, *words])}).")
            else:
                fault = EngineFault(f"CTranslate2 failed ({kind}).")
            # The fault does not quote the library, whose message may contain the text.
            told = "%s: a batch of %d. %s"
            logger.error(told, self.name, len(batch), fault, exc_info=redacted(exc))
        for stream in batch:
            stream.end(fault=fault)

    def _free(self) -> None:
        """Wait for the decodes, then for CTranslate2's own threads."""
        # These must end before the interpreter does, because a callback into a finalising
        # interpreter crashes it.
        self._threads.shutdown(cancel_futures=True)
        self._model = None
        atexit.unregister(self._free)


def may_search(job: Job) -> bool:
    """Tell whether a job is worth a search: after a draft, only a short text is."""
    short = not job.draft or prompt_size(job) <= BEAM_DRAFTED
    return job.search and job.attempt == 1 and short


def prompt_size(job: Job) -> int:
    """Return the bytes of a prompt, without the instructions that all prompts have."""
    # A token has about four bytes, in any script.
    return len(job.text.encode()) + len(job.prefix.encode())


def _find_profile(model: Path) -> Profile:
    """Return the profile for ``model``. Raises `EngineFault` if none fits."""
    try:
        config = json.loads((model / "config.json").read_bytes())
        return profiles.match(model.resolve().name, config)
    except FileNotFoundError as exc:
        raise EngineFault(f"There is no model in {model}: it has no config.json.") from exc
    except profiles.UnknownProfile as exc:
        raise EngineFault(str(exc)) from exc
    except ValueError as exc:
        raise EngineFault(f"The config.json of {model} is malformed: {exc}") from exc


def _available_cpus() -> int:
    """Return the number of CPUs for this process, which in a container may be fewer than exist."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
