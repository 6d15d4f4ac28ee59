"""Tests with a model server that hangs, fails, is full or is gone, and comes back.

They use real HTTP and a clock that only the test moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from benchmarks.ports import free_port
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import (
    BACKOFF,
    FAILING_SHARE,
    FAILURES,
    HANG,
    POLL,
    PROBE,
    Supervisor,
)
from gateway.errors import EngineFault, JobFault
from gateway.job import Job
from tests.engines import reading
from tests.engines.openai_factory import CHAT
from tests.engines.openai_server import Script, Server
from tests.engines.workshop import Time, substitutes, with_spare
from tests.support.live import until

WINDOW = HANG * FAILING_SHARE
MODEL = "Guten Morgen!"
"""The translation that the server gives of every text while it works."""


def job(id: str = "j1") -> Job:
    return reading.job(id, "good morning")


class Second(ScriptedEngine):
    """An engine with an output that differs from the server's."""

    def __init__(self) -> None:
        super().__init__({("good morning", "de"): ["Guten", " Tag"]})

    @property
    def name(self) -> str:
        return "second"


def supervised(server: Server, time: Time) -> Supervisor:
    return Supervisor(
        lambda: OpenAIEngine(server.url, profile=CHAT),
        sleep=time.sleep,
        clock=time.clock,
        chance=lambda: 1.0,
    )


async def text(engine: Engine, job: Job) -> str:
    """Return the text of a job after all resets."""
    shown = ""
    for chunk in await reading.chunks(engine, job):
        shown = chunk.text if chunk.reset else shown + chunk.text
    return shown


Work = Callable[[Server, Time, RoutedEngine, list[str | None]], Awaitable[None]]


async def with_fallback(work: Work) -> None:
    """Run ``work`` with a server, an engine with a fallback, and its reported substitutes."""
    time = Time()
    with Server() as server:
        first = supervised(server, time)
        engine = with_spare(first, Second())
        told = substitutes(engine)
        await engine.start()
        await until(lambda: first.health is Health.READY)
        told.clear()
        await work(server, time, engine, told)
        await engine.aclose()
        assert engine.unfinished == 0
        await server.wait(lambda server: server.unfinished == 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def back(server: Server, time: Time, engine: RoutedEngine, wait: float) -> None:
    """Have the server work again, and check that it is used after ``wait`` seconds."""
    server.default = lambda body: Script()
    await time.end_sleep(wait)
    await until(lambda: engine.routes[0].health is Health.READY)
    assert await text(engine, job()) == MODEL


def probes(server: Server) -> int:
    """Return the number of probes that the server received."""
    return sum(PROBE in received.body["messages"][-1]["content"] for received in server.received)


async def test_the_fallback_takes_over_after_a_server_hangs_for_hang_s() -> None:
    async def work(
        server: Server, time: Time, engine: RoutedEngine, told: list[str | None]
    ) -> None:
        server.default = lambda body: Script(late=True)
        reading = [asyncio.create_task(text(engine, job(f"j{n}"))) for n in range(7)]
        await server.wait(lambda server: server.unfinished == 7)
        await time.pass_(HANG - 1)
        assert (engine.substitute, told) == (None, [])
        await time.pass_(POLL)
        assert await asyncio.gather(*reading) == ["Guten Tag"] * 7
        assert told == ["second"]
        received = len(server.received)
        assert await text(engine, job()) == "Guten Tag", "without a wait"
        assert len(server.received) == received

        # The list of models comes, but no translation.
        await time.end_sleep(BACKOFF)
        await server.wait(lambda server: probes(server) == 1)
        assert engine.substitute == "second"
        await time.end_sleep(HANG)
        assert told == ["second"]
        await back(server, time, engine, BACKOFF * 2)
        assert told == ["second", None]

    await with_fallback(work)


async def test_a_server_that_stops_in_the_middle_of_its_texts_hangs() -> None:
    async def work(
        server: Server, time: Time, engine: RoutedEngine, told: list[str | None]
    ) -> None:
        server.default = lambda body: Script(pieces=["Gut", "en"], hold=1)
        reading = asyncio.create_task(text(engine, job()))
        wrappers: Any = engine._open_sinks
        await until(lambda: "j1" in wrappers and wrappers["j1"].has_output)
        await time.pass_(POLL)
        await time.pass_(HANG)
        assert await reading == "Guten Tag", "what was shown is taken back"
        assert told == ["second"]
        await back(server, time, engine, BACKOFF)

    await with_fallback(work)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 502, 503])
async def test_the_fallback_takes_over_from_a_server_that_answers_only_with_errors(
    status: int,
) -> None:
    async def work(
        server: Server, time: Time, engine: RoutedEngine, told: list[str | None]
    ) -> None:
        server.default = lambda body: Script(status=status, body={"error": {"message": "oops"}})
        for n in range(FAILURES):
            if n:  # not after the last: the next attempt would be due
                await time.pass_(WINDOW / 2)
            assert engine.routes[0].health is Health.READY
            chunks = await reading.chunks(engine, job(f"j{n}"))
            assert [(chunk.text, chunk.reset) for chunk in chunks] == [
                ("Guten", False),
                (" Tag", False),
                ("", False),  # which engine made it
            ]
            assert chunks[-1].flags == ("engine:second",)
        await until(lambda: told == ["second"])
        received = len(server.received)
        assert await text(engine, job()) == "Guten Tag"
        assert len(server.received) == received, "it is left in peace"
        await time.end_sleep(BACKOFF)
        await time.end_sleep(BACKOFF * 2)
        await server.wait(lambda server: probes(server) == 2)
        assert told == ["second"]
        await back(server, time, engine, BACKOFF * 4)
        assert told == ["second", None]

    await with_fallback(work)


async def test_a_restarted_server_is_used_again() -> None:
    time, port = Time(), free_port()
    with Server(port=port) as server:
        engine = supervised(server, time)
        await engine.start()
    for n in range(FAILURES):
        if n:  # not after the last: the next attempt would be due
            await time.pass_(WINDOW / 2)
        with pytest.raises(EngineFault, match="cannot be reached"):
            await text(engine, job(f"j{n}"))
    await until(lambda: engine.health is Health.DEAD)
    with pytest.raises(EngineFault, match="not ready"):
        await text(engine, job())
    with Server(port=port):
        await time.end_sleep(BACKOFF)
        await until(lambda: engine.health is Health.READY)
        assert await text(engine, job()) == MODEL
        await engine.aclose()


async def test_refused_texts_fail_and_the_server_stays_in_use() -> None:
    async def work(
        server: Server, time: Time, engine: RoutedEngine, told: list[str | None]
    ) -> None:
        too_long = Script(status=400, body={"error": {"message": "too long", "code": 400}})
        for n in range(FAILURES * 3):
            server.script(too_long)
            with pytest.raises(JobFault):
                await text(engine, job(f"j{n}"))
            await time.pass_(WINDOW)
        assert await text(engine, job()) == MODEL
        assert (told, engine.routes[1].takeovers) == ([], 0)

    await with_fallback(work)


async def test_a_server_that_is_full_for_a_short_time_stays_in_use() -> None:
    async def work(
        server: Server, time: Time, engine: RoutedEngine, told: list[str | None]
    ) -> None:
        server.script(*[Script(status=429, body={})] * FAILURES * 3)
        made = await asyncio.gather(*[text(engine, job(f"j{n}")) for n in range(FAILURES * 3)])
        assert made == ["Guten Tag"] * FAILURES * 3
        assert await text(engine, job()) == MODEL
        await time.pass_(WINDOW)
        assert told == []

    await with_fallback(work)


async def test_without_a_fallback_it_is_not_ready_until_the_server_translates_again() -> None:
    time = Time()
    with Server() as server:
        engine = supervised(server, time)
        await engine.start()
        server.default = lambda body: Script(late=True)
        reading = asyncio.create_task(text(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        await time.pass_(HANG)
        with suppress(EngineFault):
            await reading
        await until(lambda: engine.health is Health.DEAD)
        server.default = lambda body: Script()
        await time.end_sleep(BACKOFF)
        await until(lambda: engine.health is Health.READY)
        assert await text(engine, job()) == MODEL
        assert engine.stats() == {"restarts": 1, "hangs": 1}
        await engine.aclose()
