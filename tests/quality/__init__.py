"""The sentences of this directory, and an engine's captions of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from gateway.engines.base.engine import Engine
from gateway.engines.ctranslate2.engine import prompt_size
from gateway.errors import GatewayError
from gateway.job import Job

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
"""As the columns are."""

SETS = ("meeting100", "own")
DIRECTIONS = tuple(
    direction for other in LANGUAGES[1:] for direction in (f"en-{other}", f"{other}-en")
)


def lines(name: str, language: str) -> list[str]:
    text = (Path(__file__).parent / f"{name}.tsv").read_text("utf-8")
    column = LANGUAGES.index(language)
    return [row.split("\t")[column] for row in text.splitlines()]


async def captions(engine: Engine, jobs: Sequence[Job]) -> dict[str, str]:
    """Start an engine and return its translation of each job, by id; empty if it fails."""
    await engine.start()
    try:
        return await texts(engine, jobs)
    finally:
        await engine.aclose()


async def texts(engine: Engine, jobs: Sequence[Job]) -> dict[str, str]:
    """Return the translation of each job by a running engine, by id; empty if it fails."""
    free = asyncio.Semaphore(engine.capacity)

    async def caption(job: Job) -> str:
        text = ""
        async with free, aclosing(engine.translate(job)) as chunks:
            try:
                async for chunk in chunks:
                    text = chunk.text if chunk.reset else text + chunk.text
            except GatewayError:
                return ""
        return text

    # Jobs of one batch are alike in priority and size, so that batches are full and read at once.
    jobs = sorted(jobs, key=lambda job: (job.priority, prompt_size(job)))
    made = await asyncio.gather(*map(caption, jobs))
    return {job.id: text for job, text in zip(jobs, made, strict=True)}
