"""CPU cost for each token of vLLM's front half in the gateway's process, without a model.

    .venv-vllm/bin/python -m benchmarks.front --streams 16,64,256

EngineCore's messages are prepared and encoded as it encodes them: one token for each request of a
step, prompts of 50 to 240 tokens, outputs of 10 to 199, a new request for each that ends. Both ways
decode them and keep vLLM's books:

    vllm    vLLM's `process_outputs`, its collectors, its Prometheus logger, and a task for each
            request that waits as `AsyncLLM.generate` does and counts what comes
    fed     `gateway.engines.vllm.outputs`, the same logger, and a receiver that makes chunks of it

Prints one JSON line per point: CPU microseconds a token of both ways and their ratio. The exit
status is 1 if the two have not produced the same text.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import model
from gateway.engines.vllm.outputs import OutputFeed
from gateway.job import Chunk

ROUNDS = 5


class Load:
    """The messages of EngineCore, step by step, and the requests before each of them."""

    def __init__(self, streams: int, tokens: int, seed: int = 1) -> None:
        from vllm.v1.engine import (
            EngineCoreEvent,
            EngineCoreEventType,
            EngineCoreOutput,
            EngineCoreOutputs,
            FinishReason,
        )
        from vllm.v1.metrics.stats import PrefillStats, SchedulerStats
        from vllm.v1.serial_utils import MsgpackEncoder

        rng = random.Random(seed)
        encoder = MsgpackEncoder()
        self.steps: list[tuple[list[tuple[str, list[int]]], list[Any]]] = []
        self.tokens = 0
        self.requests = 0
        left: dict[str, int] = {}
        fresh: set[str] = set()
        while self.tokens < tokens:
            added = []
            while len(left) < streams:
                name = f"job-{self.requests}-abcdef12"
                self.requests += 1
                # Streams that all began together would end together; they do not.
                left[name] = rng.randrange(10, 200) if self.steps else rng.randrange(1, 200)
                prompt = [rng.randrange(3, 93) for _ in range(rng.randrange(50, 240))]
                added.append((name, prompt))
                fresh.add(name)
            outputs = []
            for name in list(left):
                left[name] -= 1
                output = EngineCoreOutput(name, [rng.randrange(3, 93)])
                if name in fresh:
                    output.prefill_stats = PrefillStats(num_prompt_tokens=100)
                    output.events = [
                        EngineCoreEvent.new_event(kind)
                        for kind in (EngineCoreEventType.QUEUED, EngineCoreEventType.SCHEDULED)
                    ]
                if left[name] == 0:
                    output.finish_reason = FinishReason.LENGTH
                    del left[name]
                outputs.append(output)
            fresh.clear()
            self.tokens += len(outputs)
            message = EngineCoreOutputs(outputs=outputs, scheduler_stats=SchedulerStats())
            # Frames are copied, as they come from a socket: nothing is shared with the encoder.
            self.steps.append((added, [bytes(frame) for frame in encoder.encode(message)]))


class Front:
    """vLLM's front half around one tokenizer, without EngineCore."""

    def __init__(self, path: str) -> None:
        from vllm import AsyncEngineArgs, SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.tokenizers import get_tokenizer
        from vllm.v1.engine import EngineCoreOutputs
        from vllm.v1.metrics.loggers import StatLoggerManager
        from vllm.v1.serial_utils import MsgpackDecoder

        config = AsyncEngineArgs(model=path, load_format="dummy").create_engine_config()
        self.tokenizer = get_tokenizer(path)
        self.loggers = StatLoggerManager(config, enable_default_loggers=False)
        self.decoder = MsgpackDecoder(EngineCoreOutputs)
        self.delta = RequestOutputKind.DELTA
        self.params = SamplingParams(max_tokens=200, output_kind=self.delta)
        self.text: dict[str, list[str]] = {}

    def request(self, name: str, prompt: list[int]) -> Any:
        from vllm.v1.engine import EngineCoreRequest

        return EngineCoreRequest(
            request_id=name,
            prompt_token_ids=prompt,
            mm_features=None,
            sampling_params=self.params,
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            external_req_id=name[:-9],
        )

    async def drive(
        self, load: Load, begin: Callable[[Any, Any, str], None], processor: Any
    ) -> float:
        """Return the CPU seconds for all of ``load``, handled as by vLLM's output task."""
        from vllm.v1.metrics.stats import IterationStats

        requests = {
            name: self.request(name, prompt) for added, _ in load.steps for name, prompt in added
        }
        gc.collect()
        gc.freeze()
        begun = time.process_time()
        for added, frames in load.steps:
            for name, _ in added:
                begin(processor, requests[name], name)
            message = self.decoder.decode(frames)
            stats = IterationStats()
            for start in range(0, len(message.outputs), 128):
                part = message.outputs[start : start + 128]
                processor.process_outputs(part, message.timestamp, stats)
                await asyncio.sleep(0)
            self.loggers.record(message.scheduler_stats, stats, engine_idx=0)
        for _ in range(4):  # tasks that wait for the last step wake
            await asyncio.sleep(0)
        taken = time.process_time() - begun
        gc.unfreeze()
        return taken

    def processor(self) -> Any:
        from vllm.v1.engine.output_processor import OutputProcessor

        return OutputProcessor(self.tokenizer, log_stats=True)

    async def vllm(self, load: Load) -> float:
        """Handle the load by the way of `AsyncLLM.generate`."""
        from vllm.v1.engine.output_processor import RequestOutputCollector

        text: dict[str, list[str]] = defaultdict(list)
        tasks = set()

        async def generate(queue: Any) -> Any:
            finished = False
            while not finished:
                out = queue.get_nowait() or await queue.get()
                finished = out.finished
                yield out

        async def consume(queue: Any, name: str) -> None:
            tokens = 0
            async for output in generate(queue):
                (completion,) = output.outputs
                tokens += len(completion.token_ids)
                text[name].append(completion.text)

        def begin(processor: Any, request: Any, name: str) -> None:
            queue = RequestOutputCollector(self.delta, name)
            processor.add_request(request, None, None, 0, queue)
            task = asyncio.create_task(consume(queue, name))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        taken = await self.drive(load, begin, self.processor())
        for task in list(tasks):
            task.cancel()
        self.text = text
        return taken

    async def fed(self, load: Load) -> float:
        """Handle the load by the way of the gateway's engine."""
        from types import SimpleNamespace

        from vllm.v1.engine.output_processor import RequestOutputCollector

        text: dict[str, list[str]] = defaultdict(list)

        class Receiver:
            def __init__(self, name: str) -> None:
                self.name = name
                self.chunks = text[name]

            def on_output(self, text: str, ids: Sequence[int]) -> None:
                if text:
                    self.chunks.append(Chunk(text, len(ids), ids=tuple(ids)).text)

            def on_end(self, reason: str | None) -> None:
                pass

            def on_failure(self, exc: Exception) -> None:
                raise exc

        def begin(processor: Any, request: Any, name: str) -> None:
            queue = RequestOutputCollector(self.delta, name)  # `AsyncLLM.add_request` makes one
            processor.add_request(request, None, None, 0, queue)
            if not feed.adopt(name[:-9], Receiver(name)):
                raise RuntimeError("this vLLM's requests cannot be adopted")

        processor = self.processor()
        feed = OutputFeed(SimpleNamespace(output_processor=processor), self.tokenizer.decode)
        taken = await self.drive(load, begin, processor)
        self.text = text
        return taken


def run(path: str, streams: list[int], tokens: int) -> bool:
    front = Front(path)
    same = True
    for count in streams:
        load = Load(count, tokens)
        taken: dict[str, list[float]] = {"vllm": [], "fed": []}
        texts: dict[str, dict[str, str]] = {}
        for _ in range(ROUNDS):  # in turns: a machine is faster now and slower then
            for name, way in (("vllm", front.vllm), ("fed", front.fed)):
                taken[name].append(asyncio.run(way(load)))
                texts[name] = {key: "".join(parts) for key, parts in front.text.items()}
        same = same and texts["vllm"] == texts["fed"]
        line: dict[str, float] = {
            "streams": count,
            "tokens": load.tokens,
            "requests": load.requests,
        }
        line |= {f"{name}_us": round(1e6 * min(s) / load.tokens, 2) for name, s in taken.items()}
        ratio = sorted(b / a for a, b in zip(taken["vllm"], taken["fed"], strict=True))
        print(json.dumps(line | {"ratio": round(ratio[len(ratio) // 2], 3)}), flush=True)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", default="16,64,256")
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--model", help="a model directory; default: a tokenizer is made")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = args.model or str(model(Path(directory)))
        if not run(path, [int(n) for n in args.streams.split(",")], args.tokens):
            sys.exit("the two ways did not see the same text")


if __name__ == "__main__":
    main()
