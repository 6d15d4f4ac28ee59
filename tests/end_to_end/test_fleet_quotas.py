"""The quota of a tenant over several real gateways, joined by a real Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.auth.api_keys import Keyring
from gateway.auth.permissions import Quota
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.fleet.lua_scripts import EVERYBODY
from gateway.server.runtime import hub
from gateway.settings.catalogue import Settings
from tests.server.access.credentials import FULL, bearer, key, refused
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import Talk, talk

TENANT = "会議室 Zürich"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture(autouse=True)
def frequent_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gateways report more often than once a second, so that the tests take less time."""
    monkeypatch.setattr(hub, "HOUSEKEEPING_S", 0.05)


class Fleet:
    """Gateways with one key, whose tenant has a quota."""

    def __init__(self, redis: RedisServer, **quota: int) -> None:
        self.gateways: list[Live] = []
        self._redis = redis
        self._key, self._file = key(1, tenant=TENANT, quota=Quota(**quota))

    @contextlib.asynccontextmanager
    async def gateway(self) -> AsyncIterator[Live]:
        """Run one more gateway."""
        engine = ScriptedEngine()
        engine.hold()
        authenticator = Authenticator(Limits(), keyring=Keyring(self._file))
        settings = Settings(redis=self._redis.url)
        async with running(engine, settings=settings, authenticator=authenticator) as live:
            self.gateways.append(live)
            yield live
            self.gateways.remove(live)

    @contextlib.asynccontextmanager
    async def socket(self, live: Live, query: str = "?room=r&to=de") -> AsyncIterator[Talk]:
        """Open a socket with the key."""
        async with talk(live, query, additional_headers=bearer(self._key)) as client:
            yield client

    async def counted(self, live: Live, *, sessions: int = 0, inflight: int = 0) -> None:
        """Wait until a gateway counts a usage of the others."""

        def counts() -> bool:
            usage = live.hub.host.tenants.elsewhere(TENANT)
            return (usage.sessions, usage.inflight) == (sessions, inflight)

        await until(counts)


async def test_a_tenant_has_no_more_sockets_open_in_two_gateways_than_in_one(
    redis: RedisServer,
) -> None:
    fleet = Fleet(redis, sessions=2)
    async with fleet.gateway() as one, fleet.gateway() as two, fleet.socket(one) as first:
        await first.next()
        async with fleet.socket(two, "?room=other&to=de") as second:
            await second.next()
            await asyncio.gather(fleet.counted(one, sessions=1), fleet.counted(two, sessions=1))
            for live in (one, two):
                async with fleet.socket(live) as third:
                    assert await refused(third) == FULL
        await fleet.counted(one, sessions=0)
        async with fleet.socket(one) as third:
            assert (await third.next())["type"] == "welcome"


async def test_a_socket_resumes_on_another_gateway_while_its_old_one_still_counts(
    redis: RedisServer,
) -> None:
    fleet = Fleet(redis, sessions=1)
    async with fleet.gateway() as one, fleet.gateway() as two, fleet.socket(one) as first:
        welcome = await first.next()
        await fleet.counted(two, sessions=1)
        async with fleet.socket(two, f"?resume={welcome['resume']}") as back:
            again = await back.next()
            assert (again["type"], again["session"]) == ("welcome", welcome["session"])
            assert (await first.closed())[0] == CloseCode.GOAWAY


async def test_utterances_in_flight_on_one_gateway_count_on_another(redis: RedisServer) -> None:
    fleet = Fleet(redis, inflight=1)
    async with fleet.gateway() as one, fleet.gateway() as two:
        async with fleet.socket(one) as first, fleet.socket(two, "?room=other&to=de") as second:
            await first.next()
            await second.next()
            await first.send({"type": "say", "id": "a", "text": "早上好"})
            await fleet.counted(two, sessions=1, inflight=1)
            await second.send({"type": "say", "id": "b", "text": "good morning"})
            assert (await second.until("error"))[-1]["code"] == "busy"
            await first.send({"type": "cancel", "id": "a"})
            await fleet.counted(two, sessions=1, inflight=0)
            await second.send({"type": "say", "id": "b", "text": "good morning"})
            assert (await second.until("ack"))[-1]["id"] == "b"


async def test_utterances_begun_on_one_gateway_use_up_the_minute_of_another(
    redis: RedisServer,
) -> None:
    fleet = Fleet(redis, minute=3)
    async with fleet.gateway() as one, fleet.gateway() as two, fleet.socket(one) as first:
        await first.next()
        for id in ("a", "b", "c"):
            await first.send({"type": "say", "id": id, "text": "good morning"})
        await until(lambda: two.hub.host.tenants.elsewhere(TENANT).used > 2)
        async with fleet.socket(two, "?room=other&to=de") as second:
            await second.next()
            await second.send({"type": "say", "id": "d", "text": "good evening"})
            error = (await second.until("error"))[-1]
            assert (error["code"], 0 < error["retry_ms"] <= 20_000) == ("busy", True)


async def test_each_gateway_counts_for_itself_while_redis_is_away(redis: RedisServer) -> None:
    fleet = Fleet(redis, sessions=1)
    async with fleet.gateway() as one, fleet.gateway() as two, fleet.socket(one, "?to=de") as first:
        await first.next()
        await fleet.counted(two, sessions=1)
        redis.kill()
        await fleet.counted(two, sessions=0)
        async with fleet.socket(two, "?to=de") as second:
            assert (await second.next())["type"] == "welcome"
            async with fleet.socket(two, "?to=de") as third:
                assert await refused(third) == FULL
            redis.start()
            await asyncio.gather(fleet.counted(one, sessions=1), fleet.counted(two, sessions=1))


async def test_a_report_of_another_release_that_cannot_be_read_is_ignored(
    redis: RedisServer,
) -> None:
    fleet = Fleet(redis, sessions=1)
    async with fleet.gateway() as one, fleet.gateway() as two, fleet.socket(one) as first:
        await first.next()
        redis.cli("PUBLISH", EVERYBODY, "不可读")
        await fleet.counted(two, sessions=1)


async def test_a_gateway_that_has_ended_counts_no_more(redis: RedisServer) -> None:
    fleet = Fleet(redis, sessions=1)
    async with fleet.gateway() as one:
        async with fleet.gateway() as two, fleet.socket(two) as first:
            await first.next()
            await fleet.counted(one, sessions=1)
        await fleet.counted(one, sessions=0)
        async with fleet.socket(one) as second:
            assert (await second.next())["type"] == "welcome"
