"""Work with a real vLLM in the tests of its engine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from caption_gateway.testing.subject import EngineSubject
from gateway.engines.vllm.engine import VllmEngine
from gateway.job import Job
from tests.engines.reading import read


def real(test: Any) -> Any:
    """Mark a test that runs vLLM; it may have to start it first."""
    return pytest.mark.vllm(pytest.mark.timeout(600)(test))


async def start_and_read(engine: VllmEngine, *jobs: Job) -> list[str]:
    """Start an engine, read ``jobs`` and close it; return the translations."""
    try:
        await engine.start()
        return [await read(engine, job) for job in jobs]
    finally:
        await engine.aclose()


def try_on(subject: EngineSubject, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    subject.run(work(subject.engine))


def inside(engine: VllmEngine, name: str = "engine") -> Any:
    """Return vLLM's engine object, or another attribute of the loaded model."""
    assert engine._loaded is not None
    return getattr(engine._loaded, name)
