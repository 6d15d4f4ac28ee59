"""Tests of a Redis that is away, slow, full, or has lost its data."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import InvalidResponse, ResponseError

from benchmarks.soak.proxy import Proxy
from gateway.errors import ClientFault, ErrorCode
from gateway.server.fleet import link, lua_scripts
from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.feeds import Feeds, pack
from gateway.server.fleet.pipelined_connection import Away, reason
from tests.server.fleet.links import ROOM, Links, Peer
from tests.support.live import until
from tests.support.redis import RedisServer


async def test_a_gateway_starts_while_redis_is_away(redis: RedisServer, links: Links) -> None:
    redis.kill()
    peer = Peer(redis)
    await peer.link.start()
    assert not peer.link.connected
    redis.start()
    await until(lambda: peer.connections == [True])
    await until(lambda: peer.link._feeds._subscriptions is not None)
    await peer.follow()
    assert await peer.link.acquire(ROOM)
    await peer.link.aclose()


async def test_a_link_ends_at_whatever_step_of_its_connection_it_is_closed(
    redis: RedisServer,
) -> None:
    for steps in range(100):
        peer = Peer(redis)
        starting = asyncio.create_task(peer.link.start())
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        await peer.link.aclose()


async def test_the_reason_for_which_redis_is_away_is_logged(
    redis: RedisServer, links: Links, caplog: pytest.LogCaptureFixture
) -> None:
    redis.cli("CONFIG", "SET", "requirepass", "sesame")
    peer = Peer(redis)
    await peer.link.start()
    await peer.link.aclose()
    assert "Redis cannot be reached: AuthenticationError: Authentication required" in caplog.text


async def test_a_connection_without_the_password_ends_with_that_reason(redis: RedisServer) -> None:
    redis.cli("CONFIG", "SET", "requirepass", "sesame")
    connection = RedisConnection(redis.url, lambda up: None)
    with pytest.raises(Away, match="AuthenticationError: Authentication required"):
        async with connection.pipelined():
            pass


def test_an_answer_of_redis_is_not_logged_because_it_may_quote_a_text() -> None:
    assert reason(ResponseError("unknown command, with args: 'secret'")) == "ResponseError"
    assert reason(InvalidResponse("Protocol Error: b'secret'")) == "InvalidResponse"


async def test_events_wait_while_redis_restarts_and_none_is_lost(
    durable_redis: RedisServer, links: Links
) -> None:
    redis = durable_redis
    owner, reader = await links.join_two(redis)
    here, there = owner.rooms[ROOM], reader.rooms[ROOM]
    owner.write(1, 2)
    await until(lambda: there.numbers == [1, 2])
    redis.kill()
    await until(lambda: not owner.link.connected)
    owner.write(3, 4)
    owner.tell("a draft")
    assert owner.link.unwritten(ROOM) == 2
    redis.start()
    await until(lambda: here.numbers == there.numbers == [1, 2, 3, 4])
    owner.write(5)
    await until(lambda: here.numbers == there.numbers == [1, 2, 3, 4, 5])
    assert there.gaps, "drafts may have been lost"
    assert there.volatile == []
    assert owner.link.writer.dropped == 1
    assert not owner.lost


async def test_the_owner_writes_the_log_again_after_redis_has_lost_it(
    redis: RedisServer, links: Links
) -> None:
    owner, reader = await links.join_two(redis)
    here, there = owner.rooms[ROOM], reader.rooms[ROOM]
    owner.write(1, 2, 3)
    await until(lambda: here.numbers == there.numbers == [1, 2, 3])
    redis.kill()
    await until(lambda: not owner.link.connected)
    owner.write(4)
    redis.start()
    await until(lambda: here.numbers == there.numbers == [1, 2, 3, 4])
    assert [number for number, _ in await reader.link.read(ROOM)] == [1, 2, 3, 4]
    assert owner.lost == []


async def test_a_new_owner_writes_the_log_again_if_redis_has_lost_it(
    redis: RedisServer, links: Links
) -> None:
    owner, heir = await links.join_two(redis)
    follower = heir.rooms[ROOM]
    owner.write(1, 2, 3)
    await until(lambda: follower.numbers == [1, 2, 3])
    await links.kill(owner)
    redis.cli("FLUSHALL")
    await until(lambda: follower.owners[-1] is None)
    assert await heir.link.acquire(ROOM)
    heir.write(4)
    await until(lambda: follower.numbers == [1, 2, 3, 4])
    assert [number for number, _ in await heir.link.read(ROOM)] == [1, 2, 3, 4]


async def test_a_room_that_redis_has_lost_is_left_to_the_gateways_that_have_its_log(
    redis: RedisServer, links: Links
) -> None:
    owner, heir, newcomer = [await links.join(redis) for _ in range(3)]
    await owner.follow()
    follower = await heir.follow()
    assert await owner.link.acquire(ROOM)
    owner.write(1, 2, 3)
    await until(lambda: follower.numbers == [1, 2, 3])
    before = int(redis.cli("GET", lua_scripts.fence(ROOM)))
    await links.kill(owner)
    redis.cli("FLUSHALL")
    empty = await newcomer.follow()
    taken = await asyncio.gather(newcomer.link.acquire(ROOM), heir.link.acquire(ROOM))
    assert list(taken) == [False, True]
    assert int(redis.cli("GET", lua_scripts.fence(ROOM))) > before
    await until(lambda: empty.numbers == [1, 2, 3])


async def test_an_owner_gets_its_room_back_first_when_redis_has_lost_its_data(
    redis: RedisServer, links: Links
) -> None:
    owner, newcomer = await links.join(redis), await links.join(redis)
    await owner.follow()
    assert await owner.link.acquire(ROOM)
    owner.write(1)
    await until(lambda: not owner.link.unwritten(ROOM))
    redis.cli("FLUSHALL")
    empty = await newcomer.follow()
    assert not await newcomer.link.acquire(ROOM)
    await until(lambda: empty.numbers == [1])
    assert owner.lost == [] and owner.link.owns(ROOM)


async def test_an_event_that_redis_has_lost_is_not_looked_for_again_and_again(
    redis: RedisServer, links: Links
) -> None:
    owner, reader = await links.join_two(redis)
    there = reader.rooms[ROOM]
    publish = Redis.from_url(redis.url).publish
    publish(lua_scripts.feed(ROOM), pack((1, 51, b"51 of a log that is gone")))
    owner.write(1, 2)
    await until(lambda: there.numbers == [1, 2])
    gaps = there.gaps
    for _ in range(3):
        reader.link.broadcast(b"")
        await until(lambda: bool(reader.broadcasts))
        reader.broadcasts.clear()
    assert there.gaps == gaps == 1


async def test_a_frozen_redis_counts_as_away_and_goes_on(redis: RedisServer, links: Links) -> None:
    owner, reader = await links.join_two(redis)
    here, there = owner.rooms[ROOM], reader.rooms[ROOM]
    await redis.use_real_limits(owner.link.id, reader.link.id)
    redis.freeze()
    owner.write(1, 2)
    await until(lambda: not owner.link.connected)
    owner.write(3)
    redis.thaw()
    await until(lambda: here.numbers == there.numbers == [1, 2, 3])
    assert [number for number, _ in await reader.link.read(ROOM)] == [1, 2, 3]


async def test_a_full_redis_takes_the_events_when_it_has_space_again(
    redis: RedisServer, links: Links
) -> None:
    owner, reader = await links.join_two(redis)
    there = reader.rooms[ROOM]
    owner.write(1)
    await until(lambda: there.numbers == [1])
    redis.cli("CONFIG", "SET", "maxmemory", "1")
    owner.write(2, 3)
    await until(lambda: not owner.link.connected)
    assert owner.link.unwritten(ROOM) == 2
    redis.cli("CONFIG", "SET", "maxmemory", "0")
    await until(lambda: there.numbers == [1, 2, 3])
    await until(lambda: owner.link.connected)


async def test_a_room_that_is_given_back_while_redis_is_full_loses_no_event(
    redis: RedisServer, links: Links
) -> None:
    owner, reader = await links.join_two(redis)
    there = reader.rooms[ROOM]
    owner.write(1)
    await until(lambda: there.numbers == [1])
    redis.cli("CONFIG", "SET", "maxmemory", "1")
    owner.write(2)
    owner.link.release(ROOM)
    await until(lambda: not owner.link.connected)
    assert owner.link.owns(ROOM), "Redis would take the release, and not the event before it"
    redis.cli("CONFIG", "SET", "maxmemory", "0")
    await until(lambda: not owner.link.owns(ROOM))
    assert [number for number, _ in await reader.link.read(ROOM)] == [1, 2]


async def test_rooms_are_busy_while_the_connection_of_the_feeds_is_lost(
    redis: RedisServer, links: Links, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await links.join(redis)
    await peer.follow()
    lost = peer.link._feeds._subscriptions
    assert lost is not None
    await lost._connection.disconnect(nowait=True)  # as the client does when a read fails
    found = await asyncio.gather(
        *(peer.link.follow(f"{ROOM} {n}") for n in range(4)), return_exceptions=True
    )
    assert [fault.code for fault in found if isinstance(fault, ClientFault)] == [ErrorCode.BUSY] * 4
    await until(lambda: peer.link._feeds._subscriptions not in (None, lost))
    await peer.follow(f"{ROOM} again")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_requests_wait_while_redis_is_away(durable_redis: RedisServer, links: Links) -> None:
    owner, other = await links.join(durable_redis), await links.join(durable_redis)
    other.link.send(owner.link.id, b"before")
    await until(lambda: owner.requests == [b"before"])
    durable_redis.kill()
    await until(lambda: not other.link.connected)
    other.link.send(owner.link.id, b"meanwhile")
    durable_redis.start()
    await until(lambda: owner.requests == [b"before", b"meanwhile"])


async def test_a_feed_with_a_hole_is_filled_from_the_log(redis: RedisServer, links: Links) -> None:
    owner, reader = await links.join_two(redis)
    there = reader.rooms[ROOM]
    owner.write(1)
    await until(lambda: there.numbers == [1])
    redis.cli("CLIENT", "KILL", "TYPE", "pubsub")
    owner.write(2, 3)
    await until(lambda: there.numbers == [1, 2, 3])
    assert there.gaps


class SilentConnection:
    """A subscribed connection on which nothing is published, and few pings are answered."""

    def __init__(self, *, answered: int) -> None:
        self.received = self.pings = 0
        self._answered = answered

    async def silence(self) -> None:
        pass

    def expect(self) -> None:
        pass

    async def send(self, commands: list[tuple[str]]) -> None:
        assert commands == [("PING",)]
        self.pings += 1
        self.received += self.pings <= self._answered


async def test_a_connection_on_which_nothing_is_said_is_used_until_a_ping_has_no_answer(
    redis: RedisServer,
) -> None:
    feeds = Feeds(RedisConnection("redis://localhost:1/0", lambda up: None), Peer(redis))
    connection: Any = SilentConnection(answered=2)
    with pytest.raises(Away, match="no answer"):
        await feeds._watch(connection)
    assert connection.pings == 3


async def test_a_ping_is_answered_between_the_messages_of_a_feed(
    redis: RedisServer, links: Links
) -> None:
    peer = await links.join_owner(redis)
    follower = peer.rooms[ROOM]
    connection = peer.link._feeds._subscriptions
    assert connection is not None
    await connection.send([("PING",)])
    peer.write(1)
    await until(lambda: follower.numbers == [1])
    assert peer.connections == [True]


@pytest.mark.parametrize("end", ["killed", "closed"])
async def test_a_gateway_with_another_version_of_the_messages_waits_for_the_others_to_end(
    redis: RedisServer, links: Links, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(link, "VACANT_TICKS", 2)
    old = await links.join_owner(redis)
    old.write(1)
    new = await links.join(redis, "2")
    assert (new.link.connected, new.link.compatible) == (False, False)
    with pytest.raises(ClientFault, match="cannot reach the others"):
        await new.follow()
    assert (old.link.connected, old.link.compatible) == (True, True)
    await until(lambda: old.link.unwritten(ROOM) == 0)
    if end == "killed":
        monkeypatch.setattr(link, "VERSION_MS", 1_000)
        await until(lambda: int(redis.cli("PTTL", lua_scripts.VERSION)) <= 1_000)
        await links.kill(old)
    else:  # it tells that it leaves
        await redis.use_real_limits(old.link.id)
        await old.link.aclose()
    await until(lambda: new.connections == [True])
    assert new.link.compatible


@pytest.mark.parametrize("fault", ["a time without Redis", "FLUSHALL", "a new Redis"])
async def test_an_incompatible_gateway_cannot_take_the_place_of_those_that_live(
    redis: RedisServer, links: Links, fault: str
) -> None:
    async with Proxy("127.0.0.1", redis.port) as proxy:
        old = await links.join(redis.at(proxy.port))
        new = await links.join(redis, "2")
        await until(lambda: not new.link.compatible)
        sign = lua_scripts.alive(old.link.id)
        if fault == "a time without Redis":
            await redis.use_real_limits(old.link.id)
            proxy.refuse = True
            proxy.cut()
            await until(lambda: redis.cli("EXISTS", sign) == "0")
            proxy.refuse = False
        elif fault == "FLUSHALL":
            redis.cli("FLUSHALL")
        else:
            await redis.restart()
        await until(lambda: redis.cli("EXISTS", sign) == "1")
        assert redis.cli("GET", lua_scripts.VERSION) == "1"
        await until(lambda: old.link.connected)
        assert (old.link.compatible, new.link.compatible, new.connections) == (True, False, [])


async def test_a_signing_key_is_there_again_after_redis_has_lost_it(
    redis: RedisServer, links: Links
) -> None:
    one = await links.join(redis, key=b"1" * 32)
    redis.cli("FLUSHALL")
    await until(lambda: redis.cli("GET", lua_scripts.SIGNING_KEY) == "1" * 32)
    redis.cli("SET", lua_scripts.SIGNING_KEY, "2" * 32)  # another gateway was faster
    await until(lambda: one.keys == [b"2" * 32])
    assert one.link.key == b"2" * 32
    redis.cli("SET", lua_scripts.SIGNING_KEY, "")
    await until(lambda: one.link.connection.skipping.count > 0)
    assert (one.link.key, one.link.connected) == (b"2" * 32, True)


@pytest.mark.parametrize("key", [lua_scripts.VERSION, lua_scripts.SIGNING_KEY])
async def test_a_value_that_is_no_text_does_not_keep_the_gateways_away(
    redis: RedisServer, links: Links, key: str
) -> None:
    one = await links.join(redis, key=b"1" * 32)
    redis.cli("DEL", key)
    redis.cli("RPUSH", key, "1")
    await until(lambda: redis.cli("TYPE", key) == "string")
    assert await links.join(redis, key=b"2" * 32)
    # On a busy machine Redis may be away for a moment.
    await until(lambda: one.link.connected)
    assert (one.link.compatible, one.link.key) == (True, b"1" * 32)


@pytest.mark.parametrize("command", [("SET", "no number"), ("RPUSH", "1")])
async def test_rooms_can_be_taken_again_soon_after_the_time_in_redis_was_damaged(
    redis: RedisServer, links: Links, command: tuple[str, str]
) -> None:
    one = await links.join(redis)
    await one.follow()
    redis.cli("DEL", lua_scripts.SINCE)
    redis.cli(command[0], lua_scripts.SINCE, command[1])
    async with asyncio.timeout(20):
        while not await one.link.acquire(ROOM):  # noqa: ASYNC110  # it says no more than that
            await asyncio.sleep(0.01)


async def test_every_key_has_an_end_at_all_times(redis: RedisServer, links: Links) -> None:
    owner, other = await links.join(redis, key=b"1" * 32), await links.join(redis)
    await owner.follow()
    await other.follow()
    assert await owner.link.acquire(ROOM)
    await owner.link._tasks.aclose()  # nothing is renewed any more
    writer = asyncio.create_task(owner.link.writer.run())
    owner.write(1, 2)
    other.link.send(owner.link.id, b"a request")
    other.link.send("a gateway that is gone", b"a request")
    await until(lambda: owner.link.unwritten(ROOM) == 0 and not len(other.link.writer))
    keys = redis.cli("KEYS", "*").split("\n")
    inboxes = {lua_scripts.inbox(one) for one in (owner.link.id, "a gateway that is gone")}
    assert {lua_scripts.log(ROOM), lua_scripts.SIGNING_KEY, lua_scripts.VERSION} <= set(keys)
    assert inboxes <= set(keys)
    assert [key for key in keys if redis.cli("PTTL", key) == "-1"] == []
    await owner.link.aclose()  # it waits for the writer
    writer.cancel()
    await asyncio.wait([writer])


async def test_a_gateway_that_meets_another_version_reports_it_until_that_is_gone(
    redis: RedisServer, links: Links
) -> None:
    old = await links.join_owner(redis)
    redis.cli("SET", "captions:version", "2")
    await until(lambda: old.connections == [True, False])
    assert not old.link.compatible
    redis.cli("DEL", "captions:version")
    await until(lambda: old.connections == [True, False, True])
    assert old.link.owns(ROOM)
