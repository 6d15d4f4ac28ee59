"""Long logs of shared rooms, which must not stop the event loop of a gateway."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis import Redis

from gateway.core.history.event_log import EventLog
from gateway.core.replication.messages import as_written, encode
from gateway.limits import Limits
from gateway.protocol.messages import Source
from gateway.server.fleet import authorities, lua_scripts, rooms
from gateway.server.fleet.feeds import PAGE, Feeds
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import talk

EVENTS = 3 * PAGE


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Return a Redis with a long log of room ``r``, which no gateway follows."""
    log = EventLog("epoch", Limits())
    for n in range(1, EVENTS + 1):
        source = Source(seq=log.seq + 1, id=f"u{n}x", rev=1, ord=n, lang="en", text=f"line {n}")
        log.append(source, 1.0)
    entries = as_written(log, log.entries(), 0.0)
    with RedisServer(tmp_path) as server:
        written: dict[Any, float] = {encode(entry): entry.event.seq or 0 for entry in entries}
        Redis.from_url(server.url).zadd(lua_scripts.log("r"), written)
        yield server


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often something that takes time for each event was done in the event loop."""
    loop, found = threading.get_ident(), Counter[str]()

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def one(*arguments: Any, **named: Any) -> Any:
            found[name] += threading.get_ident() == loop
            return work(*arguments, **named)

        return one

    for name in ("decode_decided", "restored_log", "as_written", "Replica", "Authority"):
        for module in (rooms, authorities):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return found


async def transcript(live: Live) -> int:
    """Return the number of lines of the room's transcript."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{live.http}/v1/rooms/r/transcript.txt")
    return answer.text.count("line")


async def test_a_long_log_is_read_in_pages_and_decoded_in_a_thread(
    redis: RedisServer, steps: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[int] = []
    read = Feeds._pages

    async def counted(self: Feeds, name: str, after: int) -> Any:
        async for page in read(self, name, after):
            pages.append(len(page))
            yield page

    monkeypatch.setattr(Feeds, "_pages", counted)
    async with running(settings=Settings(redis=redis.url)) as live:
        assert set(await asyncio.gather(*(transcript(live) for _ in range(4)))) == {EVENTS}
        async with talk(live, "?room=r") as reader:
            await reader.next()
            await until(lambda: "r" in live.shared.authorities)
            assert await transcript(live) == EVENTS
            redis.cli("DEL", lua_scripts.log("r"), lua_scripts.lease("r"))
            await until(lambda: redis.cli("ZCARD", lua_scripts.log("r")) == str(EVENTS))
        async with httpx.AsyncClient() as client:
            assert (await client.delete(f"{live.http}/v1/rooms/r")).status_code == 204
    assert max(pages) == PAGE
    assert +steps == {}


async def test_a_log_of_a_room_with_sockets_here_is_not_read_again_for_a_transcript(
    redis: RedisServer,
) -> None:
    async with (
        running(settings=Settings(redis=redis.url)) as live,
        talk(live, "?room=r") as reader,
    ):
        await reader.next()
        assert await live.hub.fleet.history("r") is live.hub.fleet.replicas["r"].log


async def test_transcripts_beyond_a_number_are_refused(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "READING", 0)
    async with running(settings=Settings(redis=redis.url)) as live, httpx.AsyncClient() as client:
        answer = await client.get(f"{live.http}/v1/rooms/r/transcript.txt")
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
