"""Tests that the OpenAI engine ends the requests of aborted and abandoned jobs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.openai.engine import OPEN_FACTOR, OpenAIEngine
from gateway.errors import EngineFault, EngineGone, Overloaded
from gateway.job import Chunk, Job
from tests.engines import reading
from tests.engines.openai_factory import CHAT, serving
from tests.engines.openai_server import Script
from tests.engines.reading import idle, read


def job(id: str = "j1", text: str = "Good morning!", **fields: Any) -> Job:
    return reading.job(id, text, **fields)


# --- stopping -------------------------------------------------------------------------------------


async def test_closing_the_stream_ends_the_request_at_the_server() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            await anext(chunks)
            assert (engine.unfinished, server.unfinished) == (1, 1)
        await idle(engine)
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone


async def test_cancelling_the_reading_task_ends_the_request_at_the_server() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=0))
        task = asyncio.create_task(read(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await idle(engine)
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone


async def test_abort_ends_the_request_at_the_server_and_the_stream_in_aborted() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=0))
        task = asyncio.create_task(read(engine, job("j7")))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j7")
        engine.abort("j7")
        with pytest.raises(Aborted, match="j7"):
            await task
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone


async def test_no_chunk_follows_an_abort_even_if_it_has_arrived() -> None:
    class Aborting:
        """A sink that aborts its job at the first chunk, and keeps all calls."""

        def __init__(self, engine: OpenAIEngine) -> None:
            self.engine = engine
            self.received: list[object] = []

        def chunk(self, chunk: Chunk) -> None:
            self.received.append(chunk.text)
            self.engine.abort("j1")

        def end(self, fault: EngineFault | None) -> None:
            self.received.append(type(fault))

    async with serving() as (server, engine):
        server.script(Script(pieces=["a", "b"]))
        sink = Aborting(engine)
        engine.submit(job(), sink)
        await idle(engine)
        await server.wait(lambda server: server.unfinished == 0)
        assert sink.received == ["a", Aborted]


async def test_abort_of_one_job_leaves_the_others_alone() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=1), Script(hold=1))
        tasks = [asyncio.create_task(read(engine, job(id))) for id in ("a", "b")]
        await server.wait(lambda server: server.unfinished == 2)
        engine.abort("a")
        engine.abort("unknown")
        with pytest.raises(Aborted):
            await tasks[0]
        server.release()
        assert await tasks[1] == "Guten Morgen!"


async def test_an_id_may_be_used_again_as_soon_as_its_job_is_aborted() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=0))
        first = asyncio.create_task(read(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j1")
        assert await read(engine, job()) == "Guten Morgen!"
        with pytest.raises(Aborted):
            await first


async def test_a_job_can_be_aborted_before_the_server_begins_to_answer() -> None:
    async with serving() as (server, engine):
        server.script(Script(late=True))
        task = asyncio.create_task(read(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j1")
        with pytest.raises(Aborted):
            await task
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone


async def test_jobs_cancelled_at_any_moment_leave_no_connection_behind() -> None:
    """There are only five connections, and a leak takes one of them for ever."""
    async with serving(capacity=1) as (server, engine):
        server.default = lambda body: Script(hold=1)
        for turns in [*range(40), *range(40)]:
            tasks = [
                asyncio.create_task(read(engine, job(f"{turns}.{n}"))) for n in range(OPEN_FACTOR)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(3):  # several times, as cascading shutdowns do
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait(tasks)
            await idle(engine)
        server.default = lambda body: Script()
        assert await read(engine, job()) == "Guten Morgen!"


async def test_closing_the_engine_ends_its_jobs_in_engine_gone() -> None:
    async with serving() as (server, engine):
        server.script(Script(hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            await anext(chunks)
            await engine.aclose()
            await engine.aclose()
            assert engine.health is Health.CLOSED
            with pytest.raises(EngineGone, match="closed while the job ran"):
                await anext(chunks)
        with pytest.raises(EngineGone, match="closed"):
            await read(engine, job("j2"))


async def test_far_more_jobs_than_its_capacity_are_refused_as_overloaded() -> None:
    async with serving(capacity=1) as (server, engine):
        server.script(*[Script(hold=0)] * OPEN_FACTOR)
        tasks = [asyncio.create_task(read(engine, job(f"j{n}"))) for n in range(OPEN_FACTOR)]
        await server.wait(lambda server: server.unfinished == OPEN_FACTOR)
        assert engine.unfinished == OPEN_FACTOR
        assert engine.capacity == 1
        with pytest.raises(Overloaded, match="open"):
            await read(engine, job("one too many"))
        server.release()
        assert set(await asyncio.gather(*tasks)) == {"Guten Morgen!"}


# --- life -----------------------------------------------------------------------------------------


async def test_a_job_before_start_is_refused() -> None:
    engine = OpenAIEngine("http://127.0.0.1:9", profile=CHAT)
    assert engine.health is Health.STARTING
    with pytest.raises(EngineGone, match="starting"):
        await read(engine, job())
    await engine.aclose()
