"""Real gateways while a real Redis loses all that it has, and clients come at that moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from benchmarks.soak.proxy import Proxy
from gateway.errors import CloseCode
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running
from tests.support.redis import RedisServer
from tests.support.talk import Talk, talk

ROOMS = [f"r{number}" for number in range(8)]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def fleet(*urls: str) -> AsyncIterator[list[Live]]:
    """Run a gateway for each address of Redis."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(settings=Settings(redis=url))) for url in urls
        ]


async def finals(peer: Talk, count: int) -> list[str]:
    """Return the ids of the next captions that are complete."""
    return [(await peer.until("final"))[-1]["id"] for _ in range(count)]


async def transcript(live: Live, room: str) -> str:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{live.http}/v1/rooms/{room}/transcript.txt")).text


def owners(gateways: list[Live], room: str) -> int:
    """Return how many gateways believe to have the authority of a room."""
    return sum(room in live.shared.authorities for live in gateways)


@pytest.mark.parametrize("how", ["FLUSHALL", "restart"])
async def test_rooms_keep_owner_and_log_when_clients_come_while_redis_loses_its_data(
    redis: RedisServer, how: str
) -> None:
    async with (
        fleet(redis.url, redis.url, redis.url) as gateways,
        contextlib.AsyncExitStack() as on,
    ):
        one, two, three = gateways

        async def enter(live: Live, room: str) -> Talk:
            peer = await on.enter_async_context(talk(live, f"?room={room}&to=de"))
            assert (await peer.next())["type"] == "welcome"
            return peer

        speakers = {room: await enter(one, room) for room in ROOMS}
        readers = {room: await enter(two, room) for room in ROOMS}
        for room in ROOMS:
            await speakers[room].send({"type": "say", "id": "a", "text": "good morning"})
            assert await finals(readers[room], 1) == ["a"]
        if how == "FLUSHALL":
            redis.cli("FLUSHALL")
        else:
            await redis.restart()
        late = await asyncio.gather(*(enter_late(on, three, room) for room in ROOMS))
        for room, newcomer in zip(ROOMS, late, strict=True):
            await speakers[room].send({"type": "say", "id": "b", "text": "good bye"})
            assert await finals(readers[room], 1) == ["b"]
            assert await finals(newcomer, 2) == ["a", "b"]
            await newcomer.send({"type": "say", "id": "c", "text": "see you"})
            assert await finals(speakers[room], 3) == ["a", "b", "c"]
            assert owners(gateways, room) == 1
            for live in gateways:
                lines = await transcript(live, room)
                assert "good morning" in lines and "see you" in lines


async def enter_late(on: contextlib.AsyncExitStack, live: Live, room: str) -> Talk:
    """Enter a room as soon as the gateway lets anybody in."""
    while True:
        peer = await on.enter_async_context(talk(live, f"?room={room}&to=de"))
        if (await peer.next())["type"] == "welcome":
            return peer


async def test_an_owner_that_comes_back_too_late_yields_and_its_clients_come_back(
    redis: RedisServer,
) -> None:
    async with (
        Proxy("127.0.0.1", redis.port) as proxy,
        fleet(f"redis://127.0.0.1:{proxy.port}/0", redis.url) as gateways,
        talk(gateways[0], "?room=r&to=de") as speaker,
    ):
        token = (await speaker.next())["resume"]
        await speaker.send({"type": "say", "id": "a", "text": "good morning"})
        assert await finals(speaker, 1) == ["a"]
        proxy.refuse = True
        proxy.cut()
        redis.cli("FLUSHALL")
        async with contextlib.AsyncExitStack() as on:
            newcomer = await enter_late(on, gateways[1], "r")
            for number in range(4):  # so that its log is longer than the one of before
                await newcomer.send({"type": "say", "id": f"b{number}", "text": "good bye"})
                assert await finals(newcomer, 1) == [f"b{number}"]
            proxy.refuse = False
            assert (await speaker.closed())[0] == CloseCode.GOAWAY
            async with talk(gateways[0], f"?resume={token}&epoch=old&seq=2&to=de") as back:
                assert (await back.next())["resumed"]["ok"] is False
                assert "b3" in await finals(back, 4)
                await back.send({"type": "say", "id": "c", "text": "see you"})
                assert await finals(newcomer, 1) == await finals(back, 1) == ["c"]
            assert owners(gateways, "r") == 1
