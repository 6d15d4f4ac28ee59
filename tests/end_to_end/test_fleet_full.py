"""A gateway of a fleet that has as many rooms as it may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx2 as httpx
import pytest

from gateway.limits import Limits
from gateway.server.fleet import lua_scripts
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import talk


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


def is_empty(live: Live, room: str) -> bool:
    return live.hub.fleet.replicas[room].empty_since is not None


async def test_empty_rooms_make_place_for_another_and_keep_what_was_said(
    redis: RedisServer,
) -> None:
    settings, limits = Settings(redis=redis.url), Limits(rooms=3)
    async with (
        running(settings=settings, limits=limits) as live,
        running(settings=settings, limits=limits) as other,
        httpx.AsyncClient() as client,
    ):
        for n in range(8):
            async with talk(live, f"?room=r{n}&to=de") as speaker:
                assert (await speaker.next())["type"] == "welcome"
                await speaker.send({"type": "say", "text": f"line {n}"})
                await speaker.until("final")
            await until(partial(is_empty, live, f"r{n}"))
        assert list(live.hub.fleet.replicas) == ["r5", "r6", "r7"]
        await until(lambda: not redis.cli("GET", lua_scripts.lease("r0")))
        for gateway in (live, other):
            answer = await client.get(f"{gateway.http}/v1/rooms/r0/transcript.txt")
            assert "line 0" in answer.text
        async with talk(live, "?room=r0&to=de") as back:
            assert (await back.until("final"))[-1]["text"] == "[de] line 0"


async def test_a_room_is_not_evicted_while_it_has_members_at_another_gateway(
    redis: RedisServer,
) -> None:
    settings = Settings(redis=redis.url)
    async with (
        running(settings=settings, limits=Limits(rooms=2)) as live,
        running(settings=settings) as other,
    ):
        async with AsyncExitStack() as elsewhere:
            async with talk(live, "?room=r") as first:
                await first.next()
                await until(lambda: "r" in live.hub.rooms)
                reader = await elsewhere.enter_async_context(talk(other, "?room=r&to=de"))
                await reader.next()
            await until(partial(is_empty, live, "r"))
            async with talk(live, "?room=s") as second, talk(live, "?room=t") as refused:
                assert (await second.next())["type"] == "welcome"
                assert (await refused.next())["code"] == "busy"
                assert live.hub.rooms["r"].subscribers.members
