"""The core of (d) and (e): the engine in the process of the web server, without a queue between.

Owns: vLLM's ``AsyncLLMEngine`` with the settings of each; on a CPU, the nearest equivalent. Must
not know: HTTP.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

from benchmarks.journey.models import Prompter
from benchmarks.journey.plan import PLACES, SOURCE, TARGET, Answer, Plan
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.job import Job


class Continuous(Protocol):
    """An engine in this process."""

    async def start(self) -> None: ...

    async def translate(self, text: str) -> Answer: ...

    async def aclose(self) -> None: ...


def build(plan: Plan) -> Continuous:
    """Return the engine of (d) or (e), without loading it."""
    return Async(plan) if plan.backend == "vllm" else InProcess(plan)


class InProcess:
    """The CPU engine of this gateway.

    It gets at most as many requests as (d) or (e) have places. With 16 to a decode it takes waiting
    ones as soon as one of its threads is free.
    """

    def __init__(self, plan: Plan) -> None:
        self._engine = PiecewiseEngine(
            CTranslate2Engine(Path(plan.model), _profile(plan), inter_threads=plan.cpus)
        )
        self._places = asyncio.Semaphore(PLACES[plan.architecture])
        self._serial = 0

    async def start(self) -> None:
        await self._engine.start()

    async def translate(self, text: str) -> Answer:
        came = time.monotonic()
        async with self._places:
            begun = time.monotonic()
            self._serial += 1
            job = Job(id=str(self._serial), text=text, source=SOURCE, target=TARGET)
            made, tokens = "", 0
            async with aclosing(self._engine.translate(job)) as chunks:
                async for chunk in chunks:
                    made += chunk.text
                    tokens += chunk.tokens
            return Answer(made, tokens, begun - came, time.monotonic() - begun)

    async def aclose(self) -> None:
        await self._engine.aclose()


class Async:
    """vLLM's ``AsyncLLMEngine``, whose scheduler adds requests to and removes them from a running
    batch.
    """

    def __init__(self, plan: Plan) -> None:
        self._prompter = Prompter(plan)
        self._engine: Any = None
        self._params: Any = None
        self._input: Any = None
        self._final: Any = None
        self._serial = 0

    async def start(self) -> None:
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind

        self._params, self._input = SamplingParams, tokens_input
        self._final = RequestOutputKind.FINAL_ONLY
        # With its statistics: they tell when a request was scheduled.
        args = AsyncEngineArgs(**self._prompter.engine(), disable_log_stats=False)
        self._engine = AsyncLLMEngine.from_engine_args(args)

    async def translate(self, text: str) -> Answer:
        whole = Answer("", 0, 0.0, 0.0)
        for piece in self._prompter.pieces(text):
            ids, params = self._prompter.ids(piece)
            self._serial += 1
            came = time.monotonic()
            outputs = self._engine.generate(
                self._input(ids), self._params(output_kind=self._final, **params), str(self._serial)
            )
            last: Any = None
            async with aclosing(outputs) as stream:
                async for output in stream:
                    last = output
            took = time.monotonic() - came
            (made,) = last.outputs
            times = last.metrics
            queued = max(0.0, times.scheduled_ts - times.queued_ts)
            whole.text = f"{whole.text} {made.text}".strip()
            whole.tokens += len(made.token_ids)
            whole.queue += queued
            whole.engine += took - queued
        return whole

    async def aclose(self) -> None:
        if self._engine is not None:
            if (handler := self._engine.output_handler) is not None:
                handler.cancel()
            await asyncio.to_thread(self._engine.shutdown)


def _profile(plan: Plan) -> Any:
    from benchmarks.journey.models import prompted

    return prompted(plan)
