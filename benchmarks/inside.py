"""The engine without a server around it: its output is counted and discarded.

    python -m benchmarks.inside raw|engine MODEL '{"max_num_seqs": 256, ...}'

A child of `benchmarks.gpu`: says READY, then reads one command a line, `{"streams", "count",
"seed"}`, and answers with one line, a `benchmarks.streams.Tally`. ``raw`` is `AsyncLLM.generate` in
its usual form, ``engine`` the gateway's engine up to its sinks.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from benchmarks.streams import Tally, prompt

Watch = Callable[[Tally, str, int], Awaitable[None]]
Close = Callable[[], Awaitable[None]]


async def raw(path: str, options: dict[str, Any]) -> tuple[Watch, Close]:
    from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import RequestOutputKind

    engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(model=path, **options))

    async def watch(tally: Tally, text: str, tokens: int) -> None:
        sampling = SamplingParams(
            temperature=0,
            max_tokens=tokens,
            ignore_eos=True,
            output_kind=RequestOutputKind.DELTA,
            skip_clone=True,
        )
        ids = tokens_input(prompt(text))
        await tally.watch(engine.generate(ids, sampling, str(random.random())), tokens)

    async def close() -> None:
        await asyncio.to_thread(engine.shutdown)

    return watch, close


async def engine(path: str, options: dict[str, Any]) -> tuple[Watch, Close]:
    from gateway.engines import profiles
    from gateway.engines.vllm.engine import VllmEngine, VllmOptions
    from gateway.job import Job

    engine = VllmEngine(
        path, profiles.load(f"{path}/profile.toml"), VllmOptions(extra=options), admission=4096
    )
    await engine.start()

    async def watch(tally: Tally, text: str, tokens: int) -> None:
        job = Job(id=str(random.random()), text=text, source="en", target="de")
        sink = Timed(tally)
        engine.submit(job, sink)
        await sink.done
        tally.tokens += tokens

    return watch, engine.aclose


class Timed:
    """A sink that notes the time of each chunk."""

    def __init__(self, tally: Tally) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tally = tally
        self._begun = self._last = time.perf_counter()

    def chunk(self, chunk: Any) -> None:
        now = time.perf_counter()
        tally = self._tally
        (tally.first if self._last == self._begun else tally.gaps).append(now - self._last)
        tally.pieces += 1
        self._last = now

    def end(self, fault: Exception | None) -> None:
        if fault is not None:
            self.done.set_exception(fault)
            return
        self._tally.whole.append(time.perf_counter() - self._begun)
        self.done.set_result(None)


async def main(which: str, path: str, options: dict[str, Any]) -> None:
    watch, close = await {"raw": raw, "engine": engine}[which](path, options)
    gc.collect()
    gc.freeze()
    print("READY", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        tally = Tally()

        async def one(jobs: Iterator[tuple[str, int]], tally: Tally = tally) -> None:
            for text, tokens in jobs:
                await watch(tally, text, tokens)

        await tally.run(command["streams"], command["count"], command["seed"], one)
        print(json.dumps(vars(tally)), flush=True)
    await close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
