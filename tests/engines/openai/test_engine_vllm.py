"""Tests of the OpenAI engine with a real vLLM server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from websockets.asyncio.client import connect

from gateway.engines import profiles
from gateway.engines.base.engine import Aborted
from gateway.engines.openai.engine import OpenAIEngine
from tests.engines.openai.vllm_server import counted
from tests.engines.reading import idle, job, texts
from tests.server.started import gateway
from tests.support.talk import Talk

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

LONG = " ".join(["We will meet again on Monday to talk about the budget."] * 12)


@pytest.fixture
def server(servers: list[str]) -> str:
    return servers[0]


async def test_a_translation_streams_token_by_token_and_repeats(server: str) -> None:
    engine = OpenAIEngine(server, profile=profiles.load("embedded"))
    await engine.start()
    first = await texts(engine, job("a", "Good morning everybody"))
    again = await texts(engine, job("b", "Good morning everybody"))
    assert len(first) > 1
    assert "".join(first) == "".join(again)
    await engine.aclose()


@pytest.mark.parametrize("way", ["abort", "close", "cancel"])
async def test_closing_a_stream_ends_the_work_in_the_server(server: str, way: str) -> None:
    engine = OpenAIEngine(server, profile=profiles.load("embedded"))
    await engine.start()

    async def read() -> None:
        async with aclosing(engine.translate(job(way, LONG))) as chunks:
            async for _ in chunks:
                seen.set()
                if way == "close":
                    return

    made = await asyncio.to_thread(counted, server, "generation_tokens_total")
    seen = asyncio.Event()
    reading = asyncio.create_task(read())
    await seen.wait()
    if way == "abort":
        engine.abort(way)
        with pytest.raises(Aborted):
            await reading
    elif way == "cancel":
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    else:
        await reading
    await idle(engine)  # the task that closes the response needs some turns of the loop
    async with asyncio.timeout(20):
        left = ("num_requests_running", "num_requests_waiting")
        while await asyncio.to_thread(counted, server, *left):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    made = await asyncio.to_thread(counted, server, "generation_tokens_total") - made
    assert made < profiles.load("embedded").max_tokens(200) / 2  # it would have gone on
    await engine.aclose()


async def test_gateways_share_the_server_and_one_that_is_killed_leaves_no_work_there(
    server: str,
) -> None:
    flags = (
        *("--engine", "openai", "--openai-url", server, "--profile", "embedded", "--no-guards"),
        *("--port", "FREE", "--log-level", "warning"),
    )
    with gateway(*flags) as one, gateway(*flags) as other:
        async with (
            connect(f"ws://127.0.0.1:{one.port}/v1/ws?from=en&to=de", max_queue=None) as stays,
            connect(f"ws://127.0.0.1:{other.port}/v1/ws?from=en&to=de", max_queue=None) as falls,
        ):
            await falls.send(LONG)
            await Talk(falls).until("delta")
            other.popen.kill()
            assert (await Talk(falls).closed())[0] == 1006
            left = ("num_requests_running", "num_requests_waiting")
            while await asyncio.to_thread(counted, server, *left):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await stays.send("we go on")
            await Talk(stays).until("final")
