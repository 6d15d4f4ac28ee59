"""Real gateways and a real Redis, while the network, Redis or a clock fails.

Each fault has a state in ``/readyz/rooms`` and a ``degraded`` event where captions suffer, and
nothing durable is lost or doubled.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from benchmarks.soak.proxy import Faults, Proxy
from gateway.server.fleet import authorities
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import Talk, talk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, durable=True) as server:
        yield server


@contextlib.asynccontextmanager
async def fleet(*urls: str) -> AsyncIterator[list[Live]]:
    """Run a gateway for each address of Redis."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(settings=Settings(redis=url))) for url in urls
        ]


@contextlib.asynccontextmanager
async def proxied(redis: RedisServer) -> AsyncIterator[tuple[Proxy, str]]:
    """Run a proxy in front of Redis, and yield it with its address."""
    async with Proxy("127.0.0.1", redis.port) as proxy:
        yield proxy, f"redis://127.0.0.1:{proxy.port}/0"


async def status(live: Live) -> str:
    """Return the state in ``/readyz/rooms``."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(live.http + "/readyz/rooms")
    body = answer.json()
    assert (answer.status_code == 200) == (body["status"] == "ready")
    return str(body["status"])


async def reaches(live: Live, state: str) -> None:
    """Wait for a state in ``/readyz/rooms``. A loaded machine may lose Redis for a moment."""
    while await status(live) != state:  # noqa: ASYNC110  # over HTTP, no event tells it
        await asyncio.sleep(0.01)


async def degraded(peer: Talk, partials: str) -> None:
    """Read until the client is told that partials are off or on."""
    while (await peer.until("degraded"))[-1]["partials"] != partials:
        pass


async def finals(peer: Talk, count: int) -> list[dict[str, Any]]:
    """Return the durable events up to a number of ends of captions."""
    events: list[dict[str, Any]] = []
    for _ in range(count):
        events += await peer.until("final")
    return [event for event in events if event["type"] in ("source", "final")]


def check(events: Sequence[dict[str, Any]], *ids: str) -> None:
    """Check that events belong to some utterances, once each and without a hole."""
    numbers = [event["seq"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(events)))
    assert sorted(event["id"] for event in events if event["type"] == "final") == sorted(ids)


def owns(live: Live) -> bool:
    return "r" in live.shared.authorities


async def test_a_redis_that_answers_late_delays_captions_and_nothing_else(
    redis: RedisServer,
) -> None:
    async with proxied(redis) as (proxy, url):
        proxy.up = proxy.down = Faults(delay=0.1)
        async with (
            fleet(url, url) as (one, two),
            talk(one, "?room=r&to=de") as speaker,
            talk(two, "?room=r&to=de&role=view") as reader,
        ):
            await speaker.next()
            await reader.next()
            for id in "ab":
                await speaker.send({"type": "say", "id": id, "text": "good morning"})
            check(await finals(reader, 2), "a", "b")
            await reaches(one, "ready")
            await reaches(two, "ready")
            await until(lambda: owns(one) != owns(two))


async def test_a_redis_that_does_not_answer_is_told_to_clients_and_proxies(
    redis: RedisServer,
) -> None:
    async with (
        proxied(redis) as (proxy, url),
        fleet(url, url) as (one, two),
        talk(one, "?room=r&to=de") as speaker,
        talk(two, "?room=r&to=de&role=view") as reader,
    ):
        await speaker.next()
        await reader.next()
        await redis.use_real_limits(one.shared.link.id, two.shared.link.id)
        for wire in proxy.wires.values():
            wire.stall()
        proxy.refuse = True
        await speaker.send({"type": "say", "id": "a", "text": "good morning"})
        await degraded(speaker, "off")
        await degraded(reader, "off")
        await reaches(one, "alone")
        await reaches(two, "alone")
        proxy.refuse = False
        proxy.cut()
        check(await finals(reader, 1), "a")
        await until(lambda: one.hub.ready_for_rooms and two.hub.ready_for_rooms)


async def test_an_owner_that_is_cut_off_from_redis_cannot_write_what_another_has_written(
    redis: RedisServer,
) -> None:
    async with (
        proxied(redis) as (proxy, url),
        fleet(url, redis.url) as (one, two),
        talk(one, "?room=r&to=de") as cut_off,
    ):
        await cut_off.next()
        await until(lambda: owns(one))
        async with talk(two, "?room=r&to=de") as speaker:
            await speaker.next()
            await redis.use_real_limits(one.shared.link.id)
            for wire in proxy.wires.values():
                wire.stall()
            proxy.refuse = True
            await cut_off.send({"type": "say", "id": "x", "text": "to nobody"})
            await until(lambda: owns(two))
            assert owns(one), "it does not know yet"
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            check(await finals(speaker, 1), "a")
            await degraded(cut_off, "off")
            await reaches(two, "ready")
            assert await status(one) == "alone"
            proxy.refuse = False
            proxy.cut()
            await until(lambda: not owns(one))
            # Its requests may be lost, so the client has to say them again.
            assert (await cut_off.closed())[0] == 4001
            async with talk(one, "?room=r&to=de") as back:
                await back.next()
                await back.send({"type": "say", "id": "x", "text": "to everybody"})
                check(await finals(back, 2), "a", "x")
                check(await finals(speaker, 1), "x")


@pytest.mark.parametrize("lost", [False, True])
async def test_sockets_of_a_gateway_that_started_without_redis_resume_on_another(
    redis: RedisServer, lost: bool
) -> None:
    redis.kill()
    async with fleet(redis.url, redis.url) as (one, two):
        redis.start()
        await until(lambda: one.hub.ready_for_rooms and two.hub.ready_for_rooms)
        if lost:  # all data of Redis, with the key that signs tokens
            redis.cli("FLUSHALL")
            await redis.restart()
            await until(lambda: not one.hub.ready_for_rooms)
            await until(lambda: one.hub.ready_for_rooms and two.hub.ready_for_rooms)
        async with fleet(redis.url) as (three,):
            signers = [live.hub.signer for live in (one, two, three)]
            await until(lambda: len({signer.key for signer in signers}) == 1)
            async with talk(one, "?room=r&to=de") as first:
                welcome = await first.next()
                async with talk(three, f"?resume={welcome['resume']}") as back:
                    again = await back.next()
                    assert (again["session"], again["room"]) == (welcome["session"], "r")


async def test_text_beyond_the_bound_is_refused_in_an_outage_and_the_rest_shown_once(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorities, "FULL", 6)
    async with (
        fleet(redis.url, redis.url) as (one, two),
        talk(one, "?room=r&to=de") as speaker,
    ):
        await speaker.next()
        await until(lambda: owns(one))  # else the other gateway may take the room first
        async with talk(two, "?room=r&to=de&role=view") as reader:
            await reader.next()
            redis.kill()
            await degraded(reader, "off")
            link = one.shared.link
            for number in range(5):
                await speaker.send({"type": "say", "id": f"u{number}", "text": "good morning"})
                # The end of each caption is decided and waits for Redis; three fill the log.
                await until(lambda n=number: link.unwritten("r") == min(6, 2 * n + 2))  # type: ignore[misc]
            redis.start()
            check(await finals(reader, 3), "u0", "u1", "u2")
            await until(lambda: one.hub.ready_for_rooms and two.hub.ready_for_rooms)
            closed = await speaker.closed()
            assert closed[0] == 4001, "the refusals were lost with the connection"
            async with talk(one, "?room=r&to=de", max_queue=None) as back:
                await back.next()
                for number in (2, 3, 4):  # as a client says again what has no end that it knows of
                    say = {"type": "say", "id": f"u{number}", "text": "good morning"}
                    await back.send(say)
                check(await finals(reader, 2), "u3", "u4")


async def test_the_clocks_of_gateways_may_differ(redis: RedisServer) -> None:
    async with fleet(redis.url, redis.url) as (one, two):
        one.hub.wall, two.hub.wall = lambda: time.time() + 5, lambda: time.time() - 5
        async with (
            talk(one, "?room=r&role=view") as first,
            talk(two, "?room=r&to=de") as speaker,
        ):
            await first.next()
            welcome = await speaker.next()
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            check(await finals(speaker, 1), "a")
            draining = asyncio.create_task(one.hub.drain(5.0))
            await until(lambda: owns(two))
            await speaker.send({"type": "say", "id": "b", "text": "good morning"})
            check(await finals(speaker, 1), "b")
            await draining
        token, epoch = welcome["resume"], welcome["epoch"]
        async with talk(two, f"?resume={token}&epoch={epoch}&seq=0") as back:
            assert (await back.next())["resumed"]["ok"]
            check(await finals(back, 2), "a", "b")


def test_leases_are_measured_without_a_clock_of_the_gateways() -> None:
    """Redis measures the life of a lease, and the event loop the time between two renewals."""
    rooms = {"rooms.py", "authorities.py"}  # which restore logs, and leave leases to the others
    for path in (ROOT / "gateway/server/fleet").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in getattr(node, "names", [])]
            assert "time" not in names and "datetime" not in names, path.name
            assert getattr(node, "attr", "") != "wall" or path.name in rooms


async def test_a_gateway_beside_a_fleet_with_other_messages_serves_no_shared_rooms(
    redis: RedisServer,
) -> None:
    async with fleet(redis.url) as (one,), talk(one, "?room=r&to=de") as reader:
        await reader.next()
        redis.cli("SET", "captions:version", "another")
        await degraded(reader, "off")
        await reaches(one, "incompatible")
        async with talk(one, "?room=other") as refused:
            assert (await refused.next())["code"] == "busy"
        async with talk(one, "?to=de") as private:
            await private.next()
            await private.send("good morning")
            await private.until("final")
        redis.cli("DEL", "captions:version")
        await degraded(reader, "on")
        await reaches(one, "ready")
