"""The interface to the vLLM package: names, configuration, exceptions and statistics.

Owns: the import of vLLM, its configuration, the faults for its exceptions, gauges from its
statistics, and the differences between versions 0.25 and 0.33. Must not know: jobs, how the output
of a request is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from gateway.engines.vllm import devices
from gateway.errors import ClientFault, EngineFault, EngineGone, ErrorCode, JobFault, Overloaded

REPORT_INTERVAL_S = 0.25
"""Seconds between two updates of vLLM's Prometheus metrics while the model works."""

UNMERGED_STATS = (
    "spec_decoding_stats kv_connector_stats ec_connector_stats perf_stats kv_cache_eviction_events"
    " connector_prefix_cache_stats"
).split()
"""Statistics of a step that cannot be added up, so that they are passed on at once. They belong to
features that are off by default."""


class VllmApi:
    """The parts of vLLM that the engine uses, for versions 0.25 to 0.33. Raises `EngineFault` if
    vLLM cannot be imported.
    """

    def __init__(self) -> None:
        try:
            import vllm
            from vllm import exceptions
            from vllm.inputs import tokens_input
            from vllm.platforms import current_platform
            from vllm.sampling_params import RequestOutputKind
            from vllm.v1.engine import core_client
            from vllm.v1.engine.exceptions import EngineDeadError
        except ImportError as exc:
            hint = "pip install 'caption-gateway[vllm]'"
            raise EngineFault(f"vLLM cannot be used: {exc}.", hint=hint) from exc

        self.vllm = vllm
        devices.confine(core_client, current_platform.device_control_env_var)
        self.tokens_input = tokens_input
        self.delta = RequestOutputKind.DELTA
        self.dead_error = EngineDeadError
        # Admission control came with 0.32, the refusal of a paused engine with 0.33.
        self.full_errors = tuple(
            getattr(exceptions, name)
            for name in ("QueueOverflowError", "MaxQueuedTokensError", "RetryableRequestError")
            if hasattr(exceptions, name)
        )

    def configure(self, options: Mapping[str, Any], max_model_len: int) -> Any:
        """Return a configuration of vLLM.

        :param options: arguments of ``AsyncEngineArgs``
        :param max_model_len: most tokens of prompt and output, unless the model allows fewer or
            ``options`` has another limit

        Raises `EngineFault` if this version lacks an argument. Blocks.
        """
        args = self.vllm.AsyncEngineArgs
        if unknown := options.keys() - {field.name for field in fields(args)}:
            what = f"has no engine argument {', '.join(sorted(unknown))}"
            raise EngineFault(f"vLLM {self.vllm.__version__} {what}.")
        args = args(**options)
        if args.max_model_len is None:
            args.max_model_len = min(max_model_len, args.create_model_config().max_model_len)
        return args.create_engine_config()

    def build(self, config: Any, stats: EngineStats) -> Any:
        """Return an engine, after starting its processes. It reports to ``stats``. Blocks."""
        # With `disable_log_stats` vLLM writes no statistics to the log; its metrics are kept.
        engine = self.vllm.AsyncLLMEngine.from_vllm_config(
            config, stat_loggers=[stat_logger_factory(stats)], disable_log_stats=True
        )
        loggers = getattr(engine.logger_manager, "stat_loggers", [])
        for number, logger in enumerate(loggers):
            if type(logger).__name__ == "PrometheusStatLogger":
                loggers[number] = ThrottledStatLogger(logger)
        return engine

    def sampling_params(self, **params: Any) -> Any:
        """Return sampling parameters for one request. They must not be used for another one."""
        return self.vllm.SamplingParams(output_kind=self.delta, skip_clone=True, **params)

    def fault(self, exc: Exception, name: str) -> EngineFault:
        """Return the fault for an exception raised for a request, without its private message."""
        if isinstance(exc, EngineFault):
            return exc
        if isinstance(exc, self.dead_error):
            return EngineGone(f"{name} died.")
        if isinstance(exc, self.full_errors):
            return Overloaded(f"{name} is full.")
        if isinstance(exc, ClientFault):  # a language that the profile does not have
            return JobFault(str(exc), exc.code, exc.hint)
        kind = type(exc.__cause__ or exc).__name__
        if isinstance(exc, ValueError):  # how vLLM refuses one request
            return JobFault(f"{name} refused the job ({kind}).", ErrorCode.INTERNAL)
        return EngineFault(f"{name} failed ({kind}).", ErrorCode.INTERNAL)


class EngineStats:
    """Statistics that vLLM reports at every step of the model.

    Gauges of the last step: ``running`` and ``waiting`` (requests), ``kv_cache_usage`` (0 to 1).

    Counters: ``steps``, the ``tokens`` they made, ``prefix_queries`` and ``prefix_hits`` (tokens),
    ``preemptions``, and ``finished`` requests, without aborted ones. For finished requests the
    seconds that they waited in vLLM (``queue_seconds``), then until their first token
    (``prefill_seconds``), and then until their last (``decode_seconds``).
    """

    def __init__(self) -> None:
        names = (
            "running waiting kv_cache_usage prefix_queries prefix_hits preemptions steps tokens"
            " finished queue_seconds prefill_seconds decode_seconds"
        )
        self.values = dict.fromkeys(names.split(), 0.0)

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Add a report of vLLM. Runs in the event loop, so its work must not grow with tokens."""
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
    """A wrapper of vLLM's Prometheus logger that passes on the sum of all steps every 0.25 s.

    vLLM calls its logger at every step, which takes a seventh of this process's CPU if steps are
    short. Counters, gauges and statistics of requests are the same with this wrapper. Only the
    histogram of tokens per step counts several steps as one.
    """

    def __init__(self, logger: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._reported_at = -math.inf
        self._iteration: Any = None  # sum of the statistics since then
        self._prefix_cache: Any = None  # the same for the prefix cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def record(self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any) -> None:
        if iteration_stats is not None:
            self._iteration = summed(self._iteration, iteration_stats)
        if scheduler_stats is None:
            return
        self._prefix_cache = summed(self._prefix_cache, scheduler_stats.prefix_cache_stats)
        now = self._clock()
        busy = scheduler_stats.num_running_reqs or scheduler_stats.num_waiting_reqs
        unmerged = any(getattr(scheduler_stats, name, None) for name in UNMERGED_STATS)
        if busy and now - self._reported_at < REPORT_INTERVAL_S and not unmerged:
            return
        self._reported_at = now
        scheduler_stats.prefix_cache_stats, self._prefix_cache = self._prefix_cache, None
        iteration, self._iteration = self._iteration, None
        self._logger.record(scheduler_stats, iteration, *args, **kwargs)


def summed(total: Any, more: Any) -> Any:
    """Return ``total``, or ``more`` if it is None, after adding the counts and lists of ``more``,
    vLLM statistics of one type.
    """
    if total is None:
        return more
    mine = vars(total)
    for name, value in vars(more).items():
        if isinstance(value, list):
            mine[name].extend(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            mine[name] += value
        elif hasattr(value, "__dict__"):
            mine[name] = summed(mine[name], value)
    return total


def stat_logger_factory(stats: EngineStats) -> Callable[..., Any]:
    """Return a factory of loggers, as vLLM's ``stat_loggers`` takes it, that fill ``stats``."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class StatLogger(StatLoggerBase):  # type: ignore[misc]  # of type Any where vLLM is not installed
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            pass

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **kwargs: Any
        ) -> None:
            stats.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            pass

    return StatLogger
