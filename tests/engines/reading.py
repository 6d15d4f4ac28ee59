"""Helpers of engine tests: jobs, and reading their translations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from caption_gateway.testing.subject import LONG, TEXT, chunks, job, texts
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.job import Job
from tests.support.live import until

__all__ = ["LONG", "TEXT", "chunks", "idle", "job", "read", "started", "texts", "tried"]


async def read(engine: Engine, job: Job) -> str:
    """Return the translation of a job."""
    return "".join(await texts(engine, job))


async def idle(engine: Engine) -> None:
    """Wait until the engine has no unfinished job. Its output may still wait for readers."""
    await until(lambda: engine.unfinished == 0)


async def tried(engine: Engine) -> None:
    """Wait until each engine inside has started or failed. A spare one may be ready before them."""
    await until(lambda: all(part.health is not Health.STARTING for part in engine.parts.values()))


@asynccontextmanager
async def started(engine: Engine) -> AsyncIterator[None]:
    """Start ``engine`` for the block, and close it at the end."""
    await engine.start()
    try:
        await tried(engine)
        yield
    finally:
        await engine.aclose()
