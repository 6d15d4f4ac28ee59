"""vLLM inside this process: the engine for GPUs.

Owns: the life of one engine, which jobs it has, and from vLLM's text to chunks. Must not know:
clients, rooms, who builds the next engine when this one dies; how vLLM is asked (`loaded`) and what
differs from one version of it to the next (`api`). vLLM is imported by `start` and nowhere else: it
takes seconds and need not be installed.

The model itself runs in a child process, EngineCore. ``docs/design/vllm.md`` has the reasons for
what is done here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.engine import Aborted, Health, PushEngine, Sink, refuse
from gateway.engines.profiles import Profile
from gateway.engines.vllm.compat import EngineStats, VllmApi
from gateway.engines.vllm.model import LoadedModel
from gateway.errors import EngineFault, EngineGone, GatewayError, Overloaded
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

DRAIN = 10
"""Seconds EngineCore goes on with what is running when it is told to end.

A service manager tells it together with the gateway, and with 0 it would drop every sentence on
the spot. A sentence takes a second or two.
"""

WAITING = 1
"""Jobs that may wait for each one that can run, unless ``admission`` says otherwise."""

UNASKED = ("abort", "error")
"""How vLLM says that it has given up a request. To its consumer this looks like a normal end."""


class VllmSink:
    """One job in the engine: makes chunks of what vLLM says, for the job's sink."""

    __slots__ = ("_engine", "_ids", "_silent", "_tokens", "ended", "job_id", "name", "sink")

    def __init__(
        self, engine: VllmEngine, job_id: str, name: str, sink: Sink, silent: frozenset[int]
    ) -> None:
        self.job_id = job_id
        self.name = name
        self.ended = False
        self.sink = sink
        self._engine = engine
        self._silent = silent
        self._tokens = 0  # of outputs without text, which go with the next
        self._ids: list[int] = []

    def forced(self, ids: list[int]) -> None:
        self._ids += ids

    def take(self, text: str, ids: Sequence[int]) -> None:
        if self.ended:
            return
        if text and len(ids) == 1 and not (self._tokens or self._ids):  # nearly always
            kept = () if ids[0] in self._silent else (ids[0],)
            self.sink.chunk(Chunk(text, 1, False, (), kept))
            return
        self._tokens += len(ids)
        for id in ids:
            if id not in self._silent:
                self._ids.append(id)
        if text:
            chunk = Chunk(text, self._tokens, ids=tuple(self._ids))
            self._tokens = 0
            self._ids.clear()
            self.sink.chunk(chunk)

    def over(self, reason: str | None) -> None:
        if not self.ended:
            self._engine.finish(self, gave_up=reason in UNASKED)

    def failed(self, exc: Exception) -> None:
        if not self.ended:
            self._engine.fail(self, exc)


class VllmEngine(PushEngine):
    """An `Engine` around one `AsyncLLMEngine`.

    The defaults are for a few busy meetings, not for the most that a GPU can do: what decodes
    together waits for each other, so each slot above the real load costs every stream.

    :param model: a directory or a hub id
    :param profile: None: found by name and ``config.json``
    :param dtype: of the weights; ``auto`` is the checkpoint's own
    :param max_num_seqs: jobs decoded together, and `capacity`
    :param max_num_batched_tokens: most tokens of one step. A step of this many is the longest
        time for which prompts that come in can hold up the streams
    :param gpu_memory_utilization: share of the device's memory for weights, activations and KV
        cache. Sixteen sentences need little cache; what is left over is for a neighbour, and for
        starting again while the memory of an engine that died is still being freed
    :param max_model_len: most tokens of prompt and output; at most the model's own. None: what the
        profile uses, since a cache for the 128k tokens that many models allow may not even fit
    :param admission: jobs held at once, running or waiting; the next is refused as `Overloaded`.
        None: twice ``max_num_seqs``. vLLM's own limits exist from 0.32 on only
    :param enforce_eager: no compiling, no CUDA graphs: starts sooner, translates slower
    :param load_format: ``dummy`` invents weights, to measure without a model
    :param cache_dir: where a float16 copy of int8 weights is kept, see `conversion.widened`. None:
        ``gateway`` in the user's cache
    :param feed: take the text where vLLM's output task finds it, which needs a fraction of the
        CPU, as far as this vLLM can be fed from (see `feed`); False: as any caller of vLLM does
    :param name: what the model is called. None: as its directory or hub id is
    :param extra: more arguments of vLLM's ``AsyncEngineArgs``, over all of the above
    """

    def __init__(
        self,
        model: str | Path,
        profile: Profile | None = None,
        *,
        dtype: str = "auto",
        max_num_seqs: int = 16,
        max_num_batched_tokens: int = 8192,
        gpu_memory_utilization: float = 0.85,
        max_model_len: int | None = None,
        admission: int | None = None,
        enforce_eager: bool = False,
        load_format: str = "auto",
        cache_dir: Path | None = None,
        feed: bool = True,
        name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = str(model)
        self._name = f"vllm:{name or Path(model).name}"
        self._cache = cache_dir or model_files.user_cache()
        self._profile = profile or _matched(Path(model))
        self._feed = feed
        self._max_model_len = max_model_len or self._profile.max_input
        self._options: dict[str, Any] = {
            "dtype": dtype,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "gpu_memory_utilization": gpu_memory_utilization,
            "enforce_eager": enforce_eager,
            "load_format": load_format,
            "scheduling_policy": "priority",  # a final that has to wait overtakes partials
            "shutdown_timeout": DRAIN,
            "disable_log_stats": True,  # no lines in the log; metrics are kept all the same
            **(extra or {}),
        }
        self._capacity = int(self._options["max_num_seqs"])
        self._admission = admission or (1 + WAITING) * self._capacity
        self._health = Health.STARTING
        self._gauges = EngineStats()
        self._serial = count(1)
        self._runs: dict[str, VllmSink] = {}  # by their names; bounded by `admission`
        self._loaded: LoadedModel | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def health(self) -> Health:
        # A thread of vLLM's watches EngineCore, so its death shows also while there are no jobs.
        if self._health is Health.READY and self._loaded is not None and self._loaded.dead:
            self._become(Health.DEAD)
        return self._health

    @property
    def unfinished(self) -> int:
        return 0 if self._loaded is None else self._loaded.unfinished

    def stats(self) -> Mapping[str, float]:
        """Gauges and counters of vLLM's scheduler, as of the model's last step."""
        return self._gauges.values

    async def start(self) -> None:
        self._require(Health.STARTING)
        try:
            await asyncio.to_thread(self._load)
            assert self._loaded is not None, "warmed up before it was loaded"
            await self._loaded.warm()
            self._require(Health.STARTING)  # `aclose` may have come meanwhile
        except Exception as exc:
            if self._health is Health.CLOSED:
                raise EngineGone(f"{self.name} was closed while it started.") from exc
            self._become(Health.DEAD)
            if isinstance(exc, GatewayError):
                raise
            raise EngineFault(f"vLLM could not load {self._model}: {exc}") from exc
        self._become(Health.READY)

    def submit(self, job: Job, sink: Sink) -> None:
        try:
            self._require(Health.READY)
            if len(self._runs) >= self._admission:
                raise Overloaded(f"{self.name} has {len(self._runs)} jobs already.")
        except EngineFault as fault:
            refuse(sink, fault)
            return
        loaded = self._loaded
        assert loaded is not None, "ready without an engine"
        # The second attempt of a job has its id too.
        run = VllmSink(self, job.id, f"{job.id}/{next(self._serial)}", sink, loaded.silent)
        self._runs[run.name] = run
        loaded.begin(job, run)

    def abort(self, job_id: str) -> None:
        for run in [run for run in self._runs.values() if run.job_id == job_id]:
            self._stop(run, Aborted(job_id))

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._become(Health.CLOSED)
        if self._loaded is None:
            return  # `_load`, if it is at work, will close what it has built
        for run in list(self._runs.values()):
            self._stop(run, EngineGone(f"{self.name} was closed."))
        loaded, self._loaded = self._loaded, None
        await loaded.aclose()

    def finish(self, run: VllmSink, *, gave_up: bool) -> None:
        """vLLM is through with a job."""
        run.ended = True
        del self._runs[run.name]
        fault = None
        if gave_up:
            fault = EngineGone(f"{self.name} gave up job {run.job_id}; nobody asked it to.")
        run.sink.end(fault)

    def fail(self, run: VllmSink, exc: Exception) -> None:
        """End a job for which vLLM, or what asks it, raised ``exc``."""
        loaded = self._loaded
        assert loaded is not None, "closed with a job that had not ended"
        self._stop(run, loaded.api.fault(exc, self.name))

    def _stop(self, run: VllmSink, fault: EngineFault) -> None:
        """End a job with ``fault``, and inside vLLM before this returns."""
        run.ended = True  # what vLLM says of it from now on is its answer to us
        del self._runs[run.name]
        if self._loaded is not None:
            self._loaded.halt(run.name)
        run.sink.end(fault)

    def _require(self, health: Health) -> None:
        if self.health is not health:
            raise EngineGone(f"{self.name} is {self._health.value}, not {health.value}.")

    def _become(self, health: Health) -> None:
        logger.debug("%s is %s", self.name, health.value)
        self._health = health

    def _load(self) -> None:
        """Build the engine. Blocks for up to minutes, so it runs in a thread."""
        # A fork of a process that has threads can hang, and knows no `orphan.watch`.
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        api = VllmApi()
        # No local name for the engine: exceptions kept inside vLLM keep this frame alive, and an
        # engine that outlives the interpreter's modules fails noisily in its `__del__`.
        config = self._configure(api)
        self._loaded = LoadedModel(
            api,
            api.build(config, self._gauges),
            self._model,
            self._profile,
            feed=self._feed,
        )
        if self._health is Health.CLOSED:  # and `aclose` may not have seen the engine
            self._loaded.engine.shutdown()
            self._loaded = None
            self._require(Health.STARTING)

    def _configure(self, api: VllmApi) -> Any:
        """vLLM's own configuration. Tests change how processes are started after this."""
        model = self._model
        if (Path(model) / "config.json").is_file():
            model = str(model_files.widened(Path(model), self._cache))
        return api.configure({"model": model} | self._options, self._max_model_len)


def _matched(model: Path) -> Profile:
    """The profile that fits a directory or hub id. Raises `EngineFault`."""
    config = model / "config.json"
    try:
        if config.is_file():
            return profiles.match(model.resolve().name, json.loads(config.read_bytes()))
        return profiles.match(str(model))
    except (profiles.UnknownProfile, ValueError) as exc:
        raise EngineFault(f"No profile was found for {model}: {exc}") from exc
