"""Tests of `deploy/haproxy` in front of gateways that share rooms, while Redis is away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.soak.proxy import Proxy
from gateway.auth.origin import AllowedHosts
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.settings.catalogue import Settings
from tests.deploy.test_haproxy import HAProxy, haproxy
from tests.support.live import Live, running
from tests.support.redis import RedisServer
from tests.support.reverse_proxy import HOST, said

__all__ = ["haproxy"]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
async def way(redis: RedisServer) -> AsyncIterator[Proxy]:
    """Return the way of the first gateway to Redis, which can be cut."""
    async with Proxy("127.0.0.1", redis.port) as proxy:
        yield proxy


@pytest.fixture
async def gateways(redis: RedisServer, way: Proxy) -> AsyncIterator[list[Live]]:
    """Run four gateways, the first of which reaches Redis by another way."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                running(
                    authenticator=Authenticator(Limits(), hosts=AllowedHosts([HOST])),
                    settings=Settings(redis=url),
                )
            )
            for url in (f"redis://127.0.0.1:{way.port}/0", *[redis.url] * 3)
        ]


def private(haproxy: HAProxy) -> connect:
    """Open a socket without a room."""
    url = f"wss://{HOST}/v1/ws?from=en&to=de"
    return connect(url, host="127.0.0.1", port=haproxy.port, ssl=haproxy.tls.trust)


async def first(socket: ClientConnection) -> str:
    """Return the type of the first message, or the code if it is an error."""
    message = json.loads(await socket.recv())
    return str(message.get("code", message["type"]))


async def test_everything_but_shared_rooms_goes_on_while_redis_is_away(
    haproxy: HAProxy, redis: RedisServer
) -> None:
    async with haproxy.connect("meeting") as socket:
        assert await first(socket) == "welcome"
    redis.kill()
    await haproxy.wait("rooms", one="DOWN", two="DOWN", three="DOWN")
    servers = await haproxy.servers("gateways")
    assert servers == {"one": "UP", "two": "UP", "three": "UP"}
    async with haproxy.http() as client:
        for path in ("/", "/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200
        body = {"text": "good morning", "source_lang": "en", "target_lang": "de"}
        assert (await client.post("/v1/translate", json=body)).status_code == 200
        answer = await client.get("/v1/rooms/another/transcript.txt")
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
    async with private(haproxy) as socket:
        assert "[de] good morning" in await said(socket)
    async with haproxy.connect("another") as socket:
        assert await first(socket) == "busy"
    redis.start()
    await haproxy.wait("rooms", one="UP", two="UP", three="UP")
    async with haproxy.connect("meeting") as socket:
        assert await first(socket) == "welcome"


async def test_shared_rooms_move_from_a_gateway_that_alone_cannot_reach_redis(
    haproxy: HAProxy, way: Proxy
) -> None:
    way.refuse = True
    way.cut()
    await haproxy.wait("rooms", one="DOWN", two="UP", three="UP")
    for n in range(10):
        async with haproxy.connect(f"meeting-{n}") as socket:
            assert await first(socket) == "welcome"
    assert (await haproxy.servers("gateways"))["one"] == "UP"
