"""The keys that gateways leave in a real Redis."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Literal

from redis import Redis

from benchmarks.soak.child import Child
from gateway.client import Client, connect
from tests.support.redis import RedisServer

KEPT_MS = 2 * 3_600_000
ROOMS = ("one", "two", "three")


async def enter(
    on: contextlib.AsyncExitStack,
    child: Child,
    room: str,
    *,
    role: Literal["view", "speak"] = "speak",
) -> Client:
    url = f"http://127.0.0.1:{child.port}"
    return await on.enter_async_context(connect(url, room=room, to=("de",), role=role))


async def test_every_key_ends_within_two_hours_of_gateways_that_were_killed(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis:
        redis.cli("DEL", "captions:since")  # which `RedisServer` writes without an end
        flags = ("--engine", "scripted", "--redis", redis.url)
        children = [Child(flags, tmp_path / f"log{number}") for number in range(3)]
        try:
            await asyncio.gather(*(child.start() for child in children))
            async with contextlib.AsyncExitStack() as on:
                first, second, third = children
                for room in ROOMS:
                    speaker = await enter(on, first, room)
                    await enter(on, second, room, role="view")
                    await speaker.caption(await speaker.say("good morning"), "de")
                async with contextlib.AsyncExitStack() as brief:
                    await enter(brief, third, "left")
                await first.kill()
                # The request of a reader who joins now goes to a gateway that is gone.
                late = [await enter(on, third, room) for room in ROOMS]
                for speaker in late:
                    await speaker.caption(await speaker.say("good bye"), "de")
                await asyncio.gather(*(child.kill() for child in (second, third)))
        finally:
            await asyncio.gather(*(child.kill() for child in children))
        with Redis.from_url(redis.url) as client:
            left = {key.decode(): client.pttl(key) for key in client.scan_iter()}
    assert {f"captions:room:{room}:log" for room in ROOMS} <= left.keys()
    assert any(key.endswith(":inbox") for key in left)
    # -2 is a key that has ended meanwhile, -1 one without an end.
    assert {key: end for key, end in left.items() if not (end == -2 or 0 < end <= KEPT_MS)} == {}
