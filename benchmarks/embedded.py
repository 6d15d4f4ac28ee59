"""Speed of embedded models on this machine's CPUs, as the gateway runs them.

    python -m benchmarks.embedded BASELINE [MODEL ...] [--rounds 5]

Each is a Hugging Face directory of the embedded layout. Models take turns in a round, so that other
load on the machine affects all; a ratio is the median of the ratios to the first model in the same
round. First token and caption go through `CTranslate2Engine`, one at a time. Batches go to
CTranslate2 directly: they show the capacity of the CPUs, not of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import ctranslate2

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.job import Job

CAPTIONS = (
    "We should send the new contract to the client before the weekend.",
    "Could you please repeat the last point, because my connection was lost?",
    "The second item on our agenda is the budget for next year.",
    "I think that we need two more weeks to test this properly.",
    "Let us move the meeting to Thursday so that everybody can attend.",
    "She has already told the team that the release will be late.",
    "Nobody has answered my question about the cost of the server yet.",
    "If there are no objections, I will write to the supplier today.",
)
"""Captions of twelve words each."""

TARGETS = ("de", "fr", "es")
BATCH = 16
UNITS = {
    "first token": "ms",
    "caption": "ms",
    "engine": "captions/s",
    "batches": "captions/s",
    "conversion": "s",
    "load": "s",
}
"""``engine`` keeps the engine as busy as its `capacity`; ``batches`` are of `BATCH` captions."""

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rounds: list[list[Figures]] = []
    for number in range(options.rounds):
        turn = options.models if number % 2 == 0 else options.models[::-1]
        found = {model: measured(model) for model in turn}
        rounds.append([found[model] for model in options.models])
        print(f"round {number + 1} of {options.rounds}")
    for column, model in enumerate(options.models):
        print(f"\n{model}")
        for name, unit in UNITS.items():
            values = [row[column][name] for row in rounds]
            ratio = statistics.median(row[column][name] / row[0][name] for row in rounds)
            best = max(values) if unit.endswith("/s") else min(values)
            print(
                f"  {name:12} median {statistics.median(values):8.3f}  best {best:8.3f}"
                f" {unit:11} {ratio:5.2f} x the first"
            )


def measured(model: Path) -> Figures:
    """Measure one round of one model, converted anew."""
    with tempfile.TemporaryDirectory() as dir:
        start = time.perf_counter()
        path = model_files.converted(model, Path(dir))
        converted = time.perf_counter()
        generator = ctranslate2.Generator(
            str(path), compute_type="int8", inter_threads=2, intra_threads=1
        )
        loaded = time.perf_counter()
        batches = in_batches(generator, Vocabulary.load(path))
        del generator  # two models in memory would share the caches of the CPU
        return {
            **asyncio.run(streamed(model, Path(dir))),
            "batches": batches,
            "conversion": converted - start,
            "load": loaded - converted,
        }


def in_batches(generator: ctranslate2.Generator, vocabulary: Vocabulary) -> float:
    """Return captions a second in batches, one on each CPU thread."""
    profile = profiles.load("embedded")
    prompts = [
        [vocabulary.token(id) for id in vocabulary.encode(profile.prompt(job), prefix_ids=[])]
        for job in jobs() * 6
    ]

    def translate(some: Sequence[list[str]]) -> None:
        generator.generate_batch(
            some,
            max_length=64,
            sampling_topk=1,
            max_batch_size=BATCH,
            include_prompt_in_result=False,
        )

    translate(prompts[:BATCH])
    start = time.perf_counter()
    translate(prompts)
    return len(prompts) / (time.perf_counter() - start)


async def streamed(model: Path, cache: Path) -> Figures:
    """Return medians of single captions, and captions a second of the busy engine."""
    engine = CTranslate2Engine(model, profiles.load("embedded"), cache_dir=cache)
    await engine.start()
    try:
        await _caption(engine, jobs()[0])
        alone = [await _caption(engine, job) for job in jobs()]
        waiting = jobs()
        start = time.perf_counter()

        async def caller() -> None:
            while waiting:
                await _caption(engine, waiting.pop())

        await asyncio.gather(*(caller() for _ in range(engine.capacity)))
        busy = len(jobs()) / (time.perf_counter() - start)
    finally:
        await engine.aclose()
    return {
        "first token": 1000 * statistics.median(first for first, _ in alone),
        "caption": 1000 * statistics.median(whole for _, whole in alone),
        "engine": busy,
    }


async def _caption(engine: CTranslate2Engine, job: Job) -> tuple[float, float]:
    """Return the seconds until the first text and until the end."""
    start = time.perf_counter()
    first = 0.0
    async with aclosing(engine.translate(job)) as chunks:
        async for _ in chunks:
            first = first or time.perf_counter() - start
    return first, time.perf_counter() - start


def jobs() -> list[Job]:
    return [
        Job(id=f"{target}{number}", text=text, source="en", target=target)
        for number, text in enumerate(CAPTIONS)
        for target in TARGETS
    ]


if __name__ == "__main__":
    main()
