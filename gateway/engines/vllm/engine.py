"""The engine for GPUs: vLLM inside this process.

Owns: the life of one engine, its jobs, and chunks made of vLLM's output. Must not know: clients,
rooms, who builds the next engine when this one dies, how requests to vLLM are made
(`gateway.engines.vllm.model`), differences between versions of vLLM
(`gateway.engines.vllm.compat`). Only `start` imports vLLM, because that takes seconds and vLLM need
not be installed.

The model itself runs in a child process, EngineCore. ``docs/design/vllm.md`` has the reasons for
the design.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.engine import Aborted, ModelEngine, Sink, refuse
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.engines.vllm.compat import EngineStats, VllmApi
from gateway.engines.vllm.devices import alone_on
from gateway.engines.vllm.model import LoadedModel
from gateway.errors import EngineFault, EngineGone, GatewayError, Overloaded
from gateway.job import Chunk, Job

DRAIN_S = 10
"""Seconds for which EngineCore finishes running requests after it is told to end. A service manager
signals it together with the gateway. With 0 it would drop every sentence at once. A sentence takes
a second or two."""

WAITING_PER_SLOT = 1
"""Default number of jobs that may wait for each job that can run."""

GAVE_UP_REASONS = ("abort", "error")
"""Finish reasons of requests that vLLM gave up. vLLM reports them as normal ends."""


class VllmOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of vLLM that the gateway sets, most by settings of the same names.

    The defaults suit a few busy meetings, not the highest throughput of a GPU. Jobs that are
    decoded together wait for each other, so each slot above the real load slows every stream. A
    step of ``max_num_batched_tokens`` is the longest time for which new prompts can delay the
    streams. Sixteen sentences need little of the memory. The rest of it is left for other
    processes, and for a restart while the memory of an engine that died is still being freed.

    ``extra``  more arguments of vLLM's ``AsyncEngineArgs``; they win
    """

    dtype: str = "auto"
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 8192
    gpu_memory_utilization: float = 0.85
    max_model_len: int | None = None
    enforce_eager: bool = False
    load_format: str = "auto"
    extra: Mapping[str, Any] = {}

    def engine_args(self) -> dict[str, Any]:
        """Return arguments of vLLM's ``AsyncEngineArgs``, except the model and its length."""
        args = msgspec.structs.asdict(self)
        del args["max_model_len"], args["extra"]
        return args | {
            "scheduling_policy": "priority",  # a final that has to wait overtakes partials
            # The model in a process beside EngineCore, also on one GPU: a step's Python takes as
            # long as its kernels, and so both go on at once (docs/figures/engines.md#on-a-gpu).
            "distributed_executor_backend": "mp",
            "shutdown_timeout": DRAIN_S,
            "disable_log_stats": True,  # no lines in the log; the statistics are kept all the same
            **self.extra,
        }


@dataclass(slots=True, eq=False)
class VllmSink:
    """A `gateway.engines.vllm.model.VllmRequest` of one job, which makes chunks for its sink.

    :param hidden_ids: ids that no chunk has, because they are no text
    """

    engine: VllmEngine
    job_id: str
    request_id: str
    sink: Sink
    hidden_ids: frozenset[int]
    ended: bool = False
    tokens: int = 0  # of outputs without text; the next chunk counts them
    ids: list[int] = field(default_factory=list)  # of the forced prefix and of those outputs
    needed: int = 0
    """Characters that are still needed, see `Job.needed`; 0: all."""

    def on_prompt(self, prefix_ids: list[int]) -> None:
        self.ids += prefix_ids

    def on_output(self, text: str, ids: Sequence[int]) -> None:
        if self.ended:
            return
        withheld = self.tokens or self.ids or self.needed
        if text and len(ids) == 1 and not withheld:  # the usual case
            kept = () if ids[0] in self.hidden_ids else (ids[0],)
            self.sink.chunk(Chunk(text, 1, False, (), kept))
            return
        self.tokens += len(ids)
        self.ids += [id for id in ids if id not in self.hidden_ids]
        if text:
            chunk = Chunk(text, self.tokens, ids=tuple(self.ids))
            self.tokens = 0
            self.ids.clear()
            self.sink.chunk(chunk)
            if 0 < self.needed <= len(text) and not self.ended:
                self.engine.stop(self)
            self.needed -= min(self.needed, len(text))

    def on_end(self, reason: str | None) -> None:
        if not self.ended:
            fault = None
            if reason in GAVE_UP_REASONS:
                fault = EngineGone(f"{self.engine.name} gave up job {self.job_id} by itself.")
            self.engine.end(self, fault)

    def on_failure(self, exc: Exception) -> None:
        if not self.ended:
            self.engine.fail(self, exc)


class VllmEngine(ModelEngine):
    """An `Engine` around one `AsyncLLMEngine`.

    :param model: a directory or a hub id
    :param profile: None: found by name and ``config.json``
    :param options: arguments of vLLM. None: the defaults
    :param admission: most jobs at once, running or waiting; a further job ends in `Overloaded`.
        None: twice the capacity. vLLM has limits of its own only since 0.32
    :param cache_dir: directory for float16 copies of int8 weights, see
        `gateway.engines.base.model_files.widened`. None: ``gateway`` in the user's cache
    :param feed: whether to take outputs directly from vLLM's output task, which needs a fraction of
        the CPU, if `gateway.engines.vllm.outputs` supports this version of vLLM
    :param name: name of the model for people. None: as of its directory or hub id
    """

    def __init__(
        self,
        model: str | Path,
        profile: Profile | None = None,
        options: VllmOptions | None = None,
        *,
        admission: int | None = None,
        cache_dir: Path | None = None,
        feed: bool = True,
        name: str | None = None,
    ) -> None:
        options = options or VllmOptions()
        self._engine_args = args = options.engine_args()
        self._gpus: tuple[int, ...] = tuple(args.pop("device_ids", None) or ())
        if "data_parallel_size" in args:
            raise EngineFault("vLLM's data_parallel_size: give each copy an [[engine]] and `gpus`.")
        super().__init__(
            f"vllm:{name or Path(model).name}",
            profile or _find_profile(Path(model)),
            capacity=int(args["max_num_seqs"]),  # `extra` may override it
        )
        self._model = str(model)
        self._cache = cache_dir or model_files.user_cache()
        self._feed = feed
        self._max_model_len = options.max_model_len or self._profile.max_input
        self._admission = admission or (1 + WAITING_PER_SLOT) * self._capacity
        self._stats = EngineStats()
        self._serial = count(1)
        self._requests: dict[str, VllmSink] = {}  # by request id; bounded by `admission`
        self._loaded: LoadedModel | None = None

    @property
    def health(self) -> Health:
        # A thread of vLLM watches EngineCore, so its death is seen also while there are no jobs.
        if self._health is Health.READY and self._loaded is not None and self._loaded.dead:
            self._set_health(Health.DEAD)
        return self._health

    @property
    def unfinished(self) -> int:
        return 0 if self._loaded is None else self._loaded.unfinished

    def stats(self) -> Mapping[str, float]:
        """Return gauges and counters of vLLM's scheduler, as of the model's last step."""
        return self._stats.values

    async def start(self) -> None:
        self._require_health(Health.STARTING)
        try:
            async with alone_on(self._gpus):
                self._require_health(Health.STARTING)  # `aclose` may have come meanwhile
                await asyncio.to_thread(self._load)
                assert self._loaded is not None, "_load sets it or raises"
                await self._loaded.warm_up()
            self._require_health(Health.STARTING)  # `aclose` may have come meanwhile
        except Exception as exc:
            # The load fails if `aclose` comes meanwhile, which is no fault of vLLM.
            if self._health is Health.CLOSED:
                raise EngineGone(f"{self.name} was closed while it started.") from exc
            self._set_health(Health.DEAD)
            if isinstance(exc, GatewayError):
                raise
            raise EngineFault(f"vLLM could not load {self._model}: {exc}") from exc
        self._set_health(Health.READY)

    def submit(self, job: Job, sink: Sink) -> None:
        if not self._admit(sink):
            return
        if len(self._requests) >= self._admission:
            refuse(sink, Overloaded(f"{self.name} has {len(self._requests)} jobs already."))
            return
        loaded = self._loaded
        assert loaded is not None, "ready without an engine"
        # A serial number makes the request id unique: a second attempt has the same job id.
        request_id = f"{job.id}/{next(self._serial)}"
        request = VllmSink(self, job.id, request_id, sink, loaded.hidden_ids, needed=job.needed)
        self._requests[request.request_id] = request
        loaded.start_request(job, request)

    def abort(self, job_id: str) -> None:
        for request in [request for request in self._requests.values() if request.job_id == job_id]:
            self.stop(request, Aborted(job_id))

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._set_health(Health.CLOSED)
        if self._loaded is None:
            return  # if `_load` is running, it closes what it has built
        for request in list(self._requests.values()):
            self.stop(request, EngineGone(f"{self.name} was closed."))
        loaded, self._loaded = self._loaded, None
        await loaded.aclose()

    def end(self, request: VllmSink, fault: EngineFault | None) -> None:
        """End the job of a request that vLLM has ended."""
        request.ended = True
        del self._requests[request.request_id]
        request.sink.end(fault)

    def fail(self, request: VllmSink, exc: Exception) -> None:
        """End the job of a request for which ``exc`` was raised, by vLLM or while asking it."""
        loaded = self._loaded
        assert loaded is not None, "closed with a job that had not ended"
        self.stop(request, loaded.api.fault(exc, self.name))

    def stop(self, request: VllmSink, fault: EngineFault | None = None) -> None:
        """End a job. Its request is aborted inside vLLM before this returns.

        :param fault: None if the output has all that is needed
        """
        request.ended = True  # vLLM's report of the abort is ignored
        del self._requests[request.request_id]
        if self._loaded is not None:
            self._loaded.abort(request.request_id)
        request.sink.end(fault)

    def _load(self) -> None:
        """Build the engine. Blocks for up to minutes, so it runs in a thread."""
        # A fork of a process with threads can hang, and does not load the plugin `parent_watch`.
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        api = VllmApi()
        # The engine has no local name here: exceptions kept inside vLLM keep this frame alive, and
        # an engine that outlives the interpreter's modules prints errors from its `__del__`.
        config = self._configure(api)
        self._loaded = LoadedModel(
            api, api.build(config, self._stats), self._model, self._profile, feed=self._feed
        )
        if self._health is Health.CLOSED:  # closed during the load, so `aclose` saw no engine
            self._loaded.engine.shutdown()
            self._loaded = None
            self._require_health(Health.STARTING)

    def _configure(self, api: VllmApi) -> Any:
        """Return vLLM's configuration. Tests override how processes are started afterwards."""
        model = self._model
        if (Path(model) / "config.json").is_file():
            model = str(model_files.widened(Path(model), self._cache))
        return api.configure({"model": model} | self._engine_args, self._max_model_len)


def _find_profile(model: Path) -> Profile:
    """Return the profile for a directory or hub id. Raises `EngineFault` if none fits."""
    config = model / "config.json"
    try:
        if config.is_file():
            return profiles.match(model.resolve().name, json.loads(config.read_bytes()))
        return profiles.match(str(model))
    except (profiles.UnknownProfile, ValueError) as exc:
        raise EngineFault(f"No profile was found for {model}: {exc}") from exc
