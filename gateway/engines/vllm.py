"""vLLM inside this process: the engine for GPUs.

Owns: the life of one `AsyncLLMEngine`, from jobs to its requests and back, and everything in which
vLLM 0.25 to 0.33 differ. Must not know: clients, rooms, who builds the next engine when this one
dies. vLLM is imported by `start` and nowhere else: it takes seconds and need not be installed.

The model itself runs in a child process, EngineCore. ``docs/design/vllm.md`` has the reasons for
what is done here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gateway import profiles
from gateway.engines import conversion
from gateway.engines.base import Aborted, Health, Pulled
from gateway.engines.vocabulary import FILE, Vocabulary
from gateway.errors import EngineFault, EngineGone, ErrorCode, GatewayError, Overloaded
from gateway.job import Chunk, Job
from gateway.profiles import Profile, Prompt

logger = logging.getLogger(__name__)

DRAIN = 10
"""Seconds EngineCore goes on with what is running when it is told to end.

A service manager tells it together with the gateway, and with 0 it would drop every sentence on
the spot. A sentence takes a second or two.
"""

LONG = 1_000
"""Characters from which a prompt is tokenised in a thread.

Below, that takes half a millisecond of the event loop at most; a sentence takes 30 us, less than
the way to a thread and back.
"""

WAITING = 1
"""Jobs that may wait for each one that can run, unless ``admission`` says otherwise."""

UNASKED = ("abort", "error")
"""How vLLM says that it has given up a request. To its consumer this looks like a normal end."""


@dataclass(eq=False)
class Run:
    """One job in the engine. ``fault`` is set when it is ended from this side."""

    job_id: str
    request_id: str
    fault: EngineFault | None = None

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault


class VllmEngine(Pulled):
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
        name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._model = str(model)
        self._name = f"vllm:{name or Path(model).name}"
        self._cache = cache_dir or conversion.user_cache()
        self._profile = profile or _matched(Path(model))
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
        self._gauges = Gauges()
        self._serial = count(1)
        self._runs: set[Run] = set()  # bounded by `admission`
        self._aborts: set[asyncio.Task[None]] = set()  # keeps them alive; see `begin`
        self._loaded: Loaded | None = None

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
            await self._warm()
            self._require(Health.STARTING)  # `aclose` may have come meanwhile
        except Exception as exc:
            if self._health is Health.CLOSED:
                raise EngineGone(f"{self.name} was closed while it started.") from exc
            self._become(Health.DEAD)
            if isinstance(exc, GatewayError):
                raise
            raise EngineFault(f"vLLM could not load {self._model}: {exc}") from exc
        self._become(Health.READY)

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        self._require(Health.READY)
        loaded = self._loaded
        assert loaded is not None, "ready without an engine"
        if len(self._runs) >= self._admission:
            raise Overloaded(f"{self.name} has {len(self._runs)} jobs already.")
        # The second attempt of a job has its id too.
        run = Run(job.id, f"{job.id}/{next(self._serial)}")
        self._runs.add(run)
        tokens = 0  # of outputs without text, which go with the next
        try:
            prompt, params, ids = await loaded.request(job)
            run.check()
            generate = loaded.engine.generate
            stream = generate(prompt, params, run.request_id, priority=job.priority)
            async with aclosing(stream) as outputs:
                async for output in outputs:
                    run.check()
                    (completion,) = output.outputs
                    if completion.finish_reason in UNASKED:
                        raise EngineGone(f"{self.name} gave up job {job.id}; nobody asked it to.")
                    tokens += len(completion.token_ids)
                    ids += (id for id in completion.token_ids if id not in loaded.silent)
                    if completion.text:
                        yield Chunk(completion.text, tokens, ids=tuple(ids))
                        tokens, ids = 0, []
            run.check()
        except GatewayError:
            raise
        except Exception as exc:
            raise loaded.api.fault(exc, self.name) from exc
        finally:
            self._runs.discard(run)
            # vLLM leaks a request that is cancelled while it is being added (vllm#57061). For one
            # that has ended this does nothing.
            self._halt(run)

    def abort(self, job_id: str) -> None:
        for run in self._runs:
            if run.job_id == job_id:
                self._halt(run, Aborted(job_id))
        super().abort(job_id)

    async def aclose(self) -> None:
        if self._health is Health.CLOSED:
            return
        self._become(Health.CLOSED)
        if self._loaded is None:
            return  # `_load`, if it is at work, will close what it has built
        for run in self._runs:
            self._halt(run, EngineGone(f"{self.name} was closed."))
        loaded, self._loaded = self._loaded, None
        await super().aclose()
        await loaded.aclose()

    async def _warm(self) -> None:
        """Translate nothing, once: what vLLM puts off until its first request is done then.

        That includes the task which notices the death of EngineCore.
        """
        assert self._loaded is not None, "warmed up before it was loaded"
        api = self._loaded.api
        stream = self._loaded.engine.generate(
            api.tokens_input([0]), api.params(max_tokens=1), "warm-up"
        )
        async with aclosing(stream) as outputs:
            async for _ in outputs:
                pass

    def _halt(self, run: Run, fault: EngineFault | None = None) -> None:
        """Stop a run inside vLLM before this returns, and end its consumer with ``fault``."""
        run.fault = run.fault or fault
        if self._loaded is None:
            return  # closed, and the request with it
        rest = begin(self._loaded.engine.abort(run.request_id))
        if rest is not None:
            self._aborts.add(rest)
            rest.add_done_callback(self._halted)

    def _halted(self, rest: asyncio.Task[None]) -> None:
        self._aborts.discard(rest)
        if not rest.cancelled() and (exc := rest.exception()) is not None:
            logger.warning("%s could not be told to abort a job", self.name, exc_info=exc)

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
        api = Api()
        # No local name for the engine: exceptions kept inside vLLM keep this frame alive, and an
        # engine that outlives the interpreter's modules fails noisily in its `__del__`.
        config = self._configure(api)
        self._loaded = Loaded(api, api.build(config, self._gauges), self._model, self._profile)
        if self._health is Health.CLOSED:  # and `aclose` may not have seen the engine
            self._loaded.engine.shutdown()
            self._loaded = None
            self._require(Health.STARTING)

    def _configure(self, api: Api) -> Any:
        """vLLM's own configuration. Tests change how processes are started after this."""
        model = self._model
        if (Path(model) / "config.json").is_file():
            model = str(conversion.widened(Path(model), self._cache))
        return api.configure({"model": model} | self._options, self._max_model_len)


class Loaded:
    """The model, from the moment when there is one: what jobs are to it, and its life."""

    def __init__(self, api: Api, engine: Any, model: str, profile: Profile) -> None:
        self.api = api
        self.engine = engine
        self.profile = profile
        try:
            self.vocabulary = _vocabulary(model, engine)
        except EngineFault:
            engine.shutdown()
            raise
        self.room = min(profile.max_input, engine.vllm_config.model_config.max_model_len)
        stop = (self.vocabulary.control(token) for token in profile.stop)
        self.stop = [id for id in stop if id is not None]
        self.silent = self.vocabulary.controls.union(self.stop)

    @property
    def dead(self) -> bool:
        return bool(self.engine.errored)

    @property
    def unfinished(self) -> int:
        return int(self.engine.output_processor.get_num_unfinished_requests())

    async def request(self, job: Job) -> tuple[Any, Any, list[int]]:
        """A job as vLLM takes it: prompt, sampling parameters; and the ids of its forced prefix.

        Raises `EngineFault`.
        """
        prompt = self.profile.prompt(job)
        size = sum(len(part) for part in prompt.parts if isinstance(part, str))
        if 0 < size < LONG:
            ids, limit, prefix = self._tokenise(job, prompt)
        else:
            ids, limit, prefix = await asyncio.to_thread(self._tokenise, job, prompt)
        sampling = self.profile.sampling(job)
        params = self.api.params(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed,
            max_tokens=limit,
            stop_token_ids=self.stop,
        )
        return self.api.tokens_input(ids), params, prefix

    def _tokenise(self, job: Job, prompt: Prompt) -> tuple[list[int], int, list[int]]:
        """Ids of the prompt, how many tokens may follow, and ids of the forced prefix."""
        prefix = self.vocabulary.forced(prompt.prefix, job.prefix_ids)
        if prompt.parts:
            ids = self.vocabulary.encode(prompt, prefix_ids=prefix)
        else:
            ids = self._templated(prompt)
        room = self.room - len(ids)
        if room < 1:
            raise EngineFault(
                f"The text takes {len(ids)} tokens and the model has room for {self.room}.",
                ErrorCode.TOO_LONG,
                hint="Send it sentence by sentence.",
            )
        limit = self.profile.max_tokens(self.vocabulary.count(job.text), len(prefix))
        return ids, min(room, limit), prefix

    def _templated(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt that only the model's own chat template can write. Takes about 1 ms."""
        answered = prompt.messages[-1][0] == "assistant"  # the forced prefix, to be continued
        text = self.engine.get_tokenizer().apply_chat_template(
            [{"role": role, "content": content} for role, content in prompt.messages],
            tokenize=False,
            add_generation_prompt=not answered,
            continue_final_message=answered,
            **self.profile.server,
        )
        return self._template_tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def _template_tokenizer(self) -> Tokenizer:
        """One that takes control tokens in text for what they are: the template wrote them."""
        tokenizer = Tokenizer.from_str(self.vocabulary.tokenizer.to_str())
        tokenizer.encode_special_tokens = False
        return tokenizer

    async def aclose(self) -> None:
        """End EngineCore and free the device."""
        # The output task would take the shutdown for a crash and log it, so it goes first.
        if (outputs := self.engine.output_handler) is not None:
            outputs.cancel()
            await asyncio.wait([outputs])
        await asyncio.to_thread(self.engine.shutdown)


class Api:
    """What is used of vLLM, in any version from 0.25 to 0.33. Raises `EngineFault` without it."""

    def __init__(self) -> None:
        try:
            import vllm
            from vllm import exceptions
            from vllm.inputs import tokens_input
            from vllm.sampling_params import RequestOutputKind
            from vllm.v1.engine.exceptions import EngineDeadError
        except ImportError as exc:
            raise EngineFault(
                f"vLLM cannot be used: {exc}.", hint="pip install 'caption-gateway[vllm]'"
            ) from exc

        self.vllm = vllm
        self.tokens_input = tokens_input
        self.delta = RequestOutputKind.DELTA
        self.gone = EngineDeadError
        # Admission control came with 0.32, the refusal of a paused engine with 0.33.
        self.full = tuple(
            getattr(exceptions, name)
            for name in ("QueueOverflowError", "MaxQueuedTokensError", "RetryableRequestError")
            if hasattr(exceptions, name)
        )

    def configure(self, options: Mapping[str, Any], max_model_len: int) -> Any:
        """A configuration of vLLM, for ``max_model_len`` unless the model allows less."""
        args = self.vllm.AsyncEngineArgs
        if unknown := options.keys() - {field.name for field in fields(args)}:
            raise EngineFault(
                f"vLLM {self.vllm.__version__} has no engine argument {', '.join(sorted(unknown))}."
            )
        args = args(**options)
        if args.max_model_len is None:
            args.max_model_len = min(max_model_len, args.create_model_config().max_model_len)
        return args.create_engine_config()

    def build(self, config: Any, gauges: Gauges) -> Any:
        """An engine and its processes. Blocks."""
        return self.vllm.AsyncLLMEngine.from_vllm_config(
            config, stat_loggers=[tap(gauges)], disable_log_stats=True
        )

    def params(self, **params: Any) -> Any:
        """Sampling parameters, good for one request: nothing else may hold them."""
        return self.vllm.SamplingParams(output_kind=self.delta, skip_clone=True, **params)

    def fault(self, exc: Exception, name: str) -> EngineFault:
        """What ``exc``, raised by vLLM for a request, is to us."""
        if isinstance(exc, self.gone):
            return EngineGone(f"{name} died.")
        if isinstance(exc, self.full):
            return Overloaded(f"{name} is full.")
        return EngineFault(f"{name} failed: {exc.__cause__ or exc}", ErrorCode.INTERNAL)


class Gauges:
    """What the scheduler reports at every step of the model.

    ``running``, ``waiting`` (requests) and ``kv_cache_usage`` (0 to 1) are as of the last step;
    ``prefix_queries``, ``prefix_hits`` (tokens) and ``preemptions`` grow.
    """

    def __init__(self) -> None:
        self.values = {
            "running": 0.0,
            "waiting": 0.0,
            "kv_cache_usage": 0.0,
            "prefix_queries": 0.0,
            "prefix_hits": 0.0,
            "preemptions": 0.0,
        }

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Take a report in. Runs in the event loop: no work that grows with the requests."""
        values = self.values
        if scheduler is not None:
            values["running"] = scheduler.num_running_reqs
            values["waiting"] = scheduler.num_waiting_reqs
            values["kv_cache_usage"] = scheduler.kv_cache_usage
            values["prefix_queries"] += scheduler.prefix_cache_stats.queries
            values["prefix_hits"] += scheduler.prefix_cache_stats.hits
        if iteration is not None:
            values["preemptions"] += iteration.num_preempted_reqs


def tap(gauges: Gauges) -> Callable[..., Any]:
    """What vLLM makes its loggers of statistics with; this one fills ``gauges``."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Tap(StatLoggerBase):  # type: ignore[misc]  # of type Any where vLLM is not installed
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any
        ) -> None:
            gauges.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            pass

    return Tap


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run ``coroutine`` up to where it first waits, before returning; the rest in a task.

    None if it never waits. vLLM has no synchronous way to abort, but its abort waits only while
    the pipe to EngineCore is full. From Python 3.12 on this is ``Task(eager_start=True)``.
    """
    try:
        waiting = coroutine.send(None)
    except StopIteration:
        return None

    @types.coroutine
    def resume() -> Generator[Any, Any, None]:
        yield waiting
        yield from coroutine

    async def rest() -> None:
        await resume()

    return asyncio.get_running_loop().create_task(rest())


def _vocabulary(model: str, engine: Any) -> Vocabulary:
    """The model's tokenizer: from its directory, else as vLLM has loaded it."""
    if (Path(model) / FILE).is_file():
        return Vocabulary.load(Path(model))
    tokenizer = engine.get_tokenizer()
    backend = getattr(tokenizer, "backend_tokenizer", None) or getattr(
        tokenizer, "_tokenizer", None
    )
    if not isinstance(backend, Tokenizer):
        raise EngineFault(
            f"The model {model} has no fast tokenizer ({FILE}).",
            hint="Choose a model that has one, or serve it with `vllm serve` and --engine openai.",
        )
    return Vocabulary(Tokenizer.from_str(backend.to_str()))  # vLLM goes on using its own


def _matched(model: Path) -> Profile:
    """The profile that fits a directory or hub id. Raises `EngineFault`."""
    config = model / "config.json"
    try:
        if config.is_file():
            return profiles.match(model.resolve().name, json.loads(config.read_bytes()))
        return profiles.match(str(model))
    except (profiles.UnknownProfile, ValueError) as exc:
        raise EngineFault(f"No profile was found for {model}: {exc}") from exc
