"""Helpers of engine tests: jobs, and reading their translations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from gateway.engines.base.engine import Engine
from gateway.job import Chunk, Job
from tests.support.live import until

TEXT = "Good morning everybody, can you hear me?"
LONG = "The report on the meeting of last week is not finished yet, " * 4 + "and that is a pity."

PATIENCE_S = 30.0
"""After which a test is taken to hang."""


def job(id: str = "j1", text: str = TEXT, **fields: Any) -> Job:
    """Return a job from English into German."""
    return Job(id=id, text=text, source="en", target="de", **fields)


async def chunks(engine: Engine, job: Job) -> list[Chunk]:
    """Return all chunks of a job. Raises the fault in which the job ends."""
    async with aclosing(engine.translate(job)) as stream:
        return [chunk async for chunk in stream]


async def texts(engine: Engine, job: Job) -> list[str]:
    """Return the texts of the chunks of a job."""
    return [chunk.text for chunk in await chunks(engine, job)]


async def read(engine: Engine, job: Job) -> str:
    """Return the translation of a job."""
    return "".join(await texts(engine, job))


async def idle(engine: Engine) -> None:
    """Wait until the engine has no unfinished job. Its output may still wait for readers."""
    await until(lambda: engine.unfinished == 0)


@asynccontextmanager
async def started(engine: Engine) -> AsyncIterator[None]:
    """Start ``engine`` for the block, and close it at the end."""
    await engine.start()
    try:
        yield
    finally:
        await engine.aclose()
