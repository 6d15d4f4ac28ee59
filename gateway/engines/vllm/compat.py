"""vLLM itself: every name of its that the gateway's engine uses, and what its scheduler reports.

Owns: the import of vLLM, its configuration, its exceptions as faults of ours, gauges from its
statistics, and in all that the differences from 0.25 to 0.33. Must not know: jobs, how a request is
followed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gateway.errors import ClientFault, EngineFault, EngineGone, ErrorCode, JobFault, Overloaded

SELDOM_S = 0.25
"""Seconds between two times that Prometheus is told of vLLM's steps, while there are any."""

RICH = (
    *("spec_decoding_stats", "kv_connector_stats", "ec_connector_stats", "perf_stats"),
    *("kv_cache_eviction_events", "connector_prefix_cache_stats"),
)
"""Statistics of a step for which Prometheus is told at once: of features that are off here."""


class VllmApi:
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

    def build(self, config: Any, gauges: EngineStats) -> Any:
        """An engine and its processes. Blocks."""
        engine = self.vllm.AsyncLLMEngine.from_vllm_config(
            config, stat_loggers=[tap(gauges)], disable_log_stats=True
        )
        loggers = getattr(engine.logger_manager, "stat_loggers", [])
        for number, logger in enumerate(loggers):
            if type(logger).__name__ == "PrometheusStatLogger":
                loggers[number] = ThrottledStatLogger(logger)
        return engine

    def params(self, **params: Any) -> Any:
        """Sampling parameters, good for one request: nothing else may hold them."""
        return self.vllm.SamplingParams(output_kind=self.delta, skip_clone=True, **params)

    def fault(self, exc: Exception, name: str) -> EngineFault:
        """Make a fault of ours of ``exc``, raised for a request, without its words."""
        if isinstance(exc, EngineFault):
            return exc
        if isinstance(exc, self.gone):
            return EngineGone(f"{name} died.")
        if isinstance(exc, self.full):
            return Overloaded(f"{name} is full.")
        if isinstance(exc, ClientFault):
            return JobFault(str(exc), exc.code, exc.hint)
        kind = type(exc.__cause__ or exc).__name__
        if isinstance(exc, ValueError):  # how vLLM refuses one request
            return JobFault(f"{name} refused the job ({kind}).", ErrorCode.INTERNAL)
        return EngineFault(f"{name} failed ({kind}).", ErrorCode.INTERNAL)


class EngineStats:
    """What vLLM reports at every step of the model.

    ``running``, ``waiting`` (requests) and ``kv_cache_usage`` (0 to 1) are as of the last step. The
    others grow: ``steps`` and the ``tokens`` they made, ``prefix_queries`` and ``prefix_hits``
    (tokens), ``preemptions``; and of requests that were ``finished``, not aborted, how long they
    waited in vLLM (``queue_seconds``), until their first token (``prefill_seconds``) and from there
    to their last (``decode_seconds``).
    """

    def __init__(self) -> None:
        self.values = dict.fromkeys(
            (
                *("running", "waiting", "kv_cache_usage", "prefix_queries", "prefix_hits"),
                *("preemptions", "steps", "tokens", "finished"),
                *("queue_seconds", "prefill_seconds", "decode_seconds"),
            ),
            0.0,
        )

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Take a report in. Runs in the event loop: no work that grows with the tokens."""
        values = self.values
        if scheduler is not None:
            values["running"] = scheduler.num_running_reqs
            values["waiting"] = scheduler.num_waiting_reqs
            values["kv_cache_usage"] = scheduler.kv_cache_usage
            values["prefix_queries"] += scheduler.prefix_cache_stats.queries
            values["prefix_hits"] += scheduler.prefix_cache_stats.hits
        if iteration is not None:
            values["preemptions"] += iteration.num_preempted_reqs
            values["steps"] += 1
            values["tokens"] += iteration.num_generation_tokens
            for request in iteration.finished_requests:
                values["finished"] += 1
                values["queue_seconds"] += request.queued_time
                values["prefill_seconds"] += request.prefill_time
                values["decode_seconds"] += request.decode_time


class ThrottledStatLogger:
    """vLLM's Prometheus logger, told four times a second what came of all steps since.

    By itself it is told at every step, which is a seventh of this process's CPU where steps are
    short. Counters, gauges and what it says of requests come out the same. Only its histogram of
    the tokens of a step is of several steps.

    :param logger: a `PrometheusStatLogger`
    """

    def __init__(self, logger: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._told = -math.inf
        self._iteration: Any = None  # all since then, in the first of them
        self._cached: Any = None  # likewise, of the prefix cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any) -> None:
        if iteration_stats is not None:
            if self._iteration is None:
                self._iteration = iteration_stats
            else:
                add(self._iteration, iteration_stats)
        if scheduler_stats is None:
            return
        if self._cached is None:
            self._cached = scheduler_stats.prefix_cache_stats
        else:
            add(self._cached, scheduler_stats.prefix_cache_stats)
        now = self._clock()
        busy = scheduler_stats.num_running_reqs or scheduler_stats.num_waiting_reqs
        if busy and now - self._told < SELDOM_S and not _rich(scheduler_stats):
            return
        self._told = now
        scheduler_stats.prefix_cache_stats, self._cached = self._cached, None
        iteration, self._iteration = self._iteration, None
        self._logger.record(scheduler_stats, iteration, *args, **kwargs)


def add(total: Any, more: Any) -> None:
    """Add the counts and lists of one of vLLM's statistics to those of another of its kind."""
    mine = vars(total)
    for name, value in vars(more).items():
        if isinstance(value, list):
            mine[name].extend(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            mine[name] += value
        elif hasattr(value, "__dict__"):
            add(mine[name], value)


def _rich(scheduler: Any) -> bool:
    """Whether a step has figures that cannot be added up here."""
    return any(getattr(scheduler, name, None) for name in RICH)


def tap(gauges: EngineStats) -> Callable[..., Any]:
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
