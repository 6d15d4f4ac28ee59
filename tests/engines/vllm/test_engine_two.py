"""Two vLLM engines in one process, as two ``[[engine]]`` tables for one device make them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.engines.base.service import Health
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from tests.engines.reading import job, read
from tests.engines.vllm_factory import make_vllm, require
from tests.engines.workshop import lane
from tests.support.live import until
from tests.support.models import tiny_llama


@pytest.mark.vllm
@pytest.mark.timeout(600)
async def test_two_engines_share_the_jobs_and_one_goes_on_without_the_other(dir: Path) -> None:
    require()
    model = tiny_llama(dir / "llama", head=32)
    engine = RoutedEngine([EngineRoute(name, make_vllm(model)) for name in ("first", "second")])
    await engine.start()
    first, second = engine.routes
    try:
        reading = [asyncio.create_task(read(engine, job(f"j{n}"))) for n in range(6)]
        await until(lambda: first.jobs == second.jobs == 3)
        assert len(set(await asyncio.gather(*reading))) == 1
        await first.engine.aclose()
        assert first.engine.health is Health.CLOSED
        assert lane(engine) == ("second",)
        assert await read(engine, job("after"))
    finally:
        await engine.aclose()
