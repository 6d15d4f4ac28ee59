"""Tests with the real vllm-router in front of two real vLLM servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.engines import profiles
from gateway.engines.openai.engine import OpenAIEngine
from gateway.job import Job
from tests.engines.openai.vllm_server import counted
from tests.engines.reading import read
from tests.support.live import running
from tests.support.model_router import model_router
from tests.support.talk import talk

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

SAID = "good morning everybody and welcome to the meeting".split()
LONG = " ".join(["We will meet again on Monday to talk about the budget."] * 12)
UNFINISHED = ("num_requests_running", "num_requests_waiting")


@asynccontextmanager
async def pooled(servers: list[str]) -> AsyncIterator[OpenAIEngine]:
    """Give an engine whose server is a router in front of both servers."""
    async with model_router(*servers) as url:
        engine = OpenAIEngine(url, profile=profiles.load("embedded"))
        async with running(engine):
            yield engine


async def requests(servers: list[str]) -> list[float]:
    """Return how many requests each server has finished or aborted."""
    name = "e2e_request_latency_seconds_count"
    return [await asyncio.to_thread(counted, url, name) for url in servers]


async def tokens(servers: list[str]) -> float:
    """Return how many tokens both servers have made."""
    name = "generation_tokens_total"
    return sum([await asyncio.to_thread(counted, url, name) for url in servers])


async def test_growing_captions_stay_on_one_server_and_rooms_spread(servers: list[str]) -> None:
    async with pooled(servers) as engine:
        before = await requests(servers)
        for room in ("a", "b", "c", "d"):
            counts = await requests(servers)
            for n in range(1, len(SAID) + 1):
                text = " ".join(SAID[:n])
                job = Job(id=room, text=text, source="en", target="de", room=room)
                assert await read(engine, job)
            grown = [new - old for new, old in zip(await requests(servers), counts, strict=True)]
            assert sorted(grown) == [0, len(SAID)]
        total = [new - old for new, old in zip(await requests(servers), before, strict=True)]
        assert total == [2 * len(SAID)] * 2


async def test_a_caption_that_is_cancelled_ends_the_work_in_its_server(
    servers: list[str],
) -> None:
    async with model_router(*servers) as url:
        engine = OpenAIEngine(url, profile=profiles.load("embedded"))
        async with running(engine) as live, talk(live, "?room=r&from=en&to=de") as person:
            await person.send({"type": "say", "id": "u1", "text": "good morning"})
            assert (await person.until("final"))[-1]["text"]
            made = await tokens(servers)
            await person.send({"type": "say", "id": "u2", "text": LONG})
            await person.until("delta")
            await person.send({"type": "cancel", "id": "u2"})
            await person.until("cancelled")
            async with asyncio.timeout(20):
                for server in servers:
                    while await asyncio.to_thread(counted, server, *UNFINISHED):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
            made = await tokens(servers) - made
            assert made < profiles.load("embedded").max_tokens(200) / 2  # it would have gone on
