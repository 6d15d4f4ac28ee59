"""A supervisor on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.supervised import Supervisor
from tests.engines.workshop import Start, Time, Workshop, settle, supervised


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


@pytest.fixture
async def start(time: Time, workshop: Workshop) -> AsyncIterator[Start]:
    """Return a function that starts a supervisor, which is closed after the test."""
    started: list[Supervisor] = []

    async def start(*engines: ScriptedEngine | Exception) -> Supervisor:
        workshop.engines += engines
        engine = supervised(workshop, time)
        started.append(engine)
        await engine.start()
        await settle()
        return engine

    yield start
    for engine in started:
        await engine.aclose()
