"""Connections to Redis that are reset, and messages that nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import pytest
import uvloop

from benchmarks.soak.proxy import Proxy
from gateway.server.fleet import lua_scripts
from gateway.server.fleet.feeds import Message, pack
from tests.server.fleet.links import ROOM, Links, Peer
from tests.support.live import until
from tests.support.redis import RedisServer

OTHER = "another room"


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_resets_of_all_connections_cost_no_event_and_no_part_of_the_link(
    redis: RedisServer, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def play() -> None:
        chance, links, count = Random(1), Links(), 0
        async with Proxy("127.0.0.1", redis.port) as proxy:
            owner, reader = [await links.join(redis.at(proxy.port)) for _ in range(2)]
            here, there = await owner.follow(), await reader.follow()
            assert await owner.link.acquire(ROOM)
            for _ in range(5):
                for _ in range(3):
                    count += 1
                    owner.write(count)
                    await asyncio.sleep(chance.uniform(0, 0.02))
                proxy.cut()
                count += 1
                owner.write(count)  # to a connection that was reset
                reader.link.send(owner.link.id, b"%d" % count)
                # All parts are at work again, so the next reset meets each of them.
                await until(lambda: len(proxy.wires) >= 8)
            await until(lambda: here.numbers == there.numbers == list(range(1, count + 1)))
            await until(lambda: owner.requests == [b"%d" % n for n in range(4, count + 1, 4)])
            await until(lambda: owner.link.connected and reader.link.connected)
            await links.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(play())


@pytest.mark.parametrize("refused", range(4))
async def test_a_gateway_is_not_ready_and_does_not_flap_if_one_connection_fails_for_good(
    redis: RedisServer, links: Links, refused: int
) -> None:
    async with Proxy("127.0.0.1", redis.port) as proxy:
        peer = await links.join(redis.at(proxy.port))
        await until(lambda: peer.link.connected and len(proxy.wires) == 4)
        proxy.refuse = True
        list(proxy.wires.values())[refused].cut()
        tries = proxy.count
        await until(lambda: proxy.count >= tries + 10)
        assert peer.connections == [True, False]
        proxy.refuse = False
        await until(lambda: peer.connections == [True, False, True])


GARBAGE = [b"", b"\xff\xfe", b"garbage", b"\xc1", "词".encode("utf-16")]
WRONG: list[object] = [
    *((1, 2), ("1", 2, b"3 x"), (1, 2, 3), (10**15, -1, b"\xff"), None, {"a": 1}, (1, 2, b"3", 4)),
]


async def send(redis: RedisServer, *command: str | bytes | int) -> None:
    """Write something into Redis that no gateway would write."""
    connection = Peer(redis).link.connection
    try:
        await connection.execute(*command)
    finally:
        await connection.aclose()


REPLACE = "redis.call('DEL', KEYS[1]); return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
"""Writes a key anew in one step, because an owner renews a lease that it misses."""


@pytest.mark.parametrize("room", [ROOM, OTHER, ""])
async def test_messages_of_a_feed_that_nobody_can_read_are_counted_and_skipped(
    redis: RedisServer, links: Links, room: str, caplog: pytest.LogCaptureFixture
) -> None:
    owner, reader = await links.join(redis), await links.join(redis)
    here, _ = await owner.follow(), await owner.follow(OTHER)
    there = await reader.follow()
    assert await owner.link.acquire(ROOM)
    owner.write(1)
    for payload in GARBAGE + [msgspec.msgpack.encode(one) for one in WRONG]:
        await send(redis, "PUBLISH", lua_scripts.feed(room), payload)
    far: Message = (9, 1_000_000, b"1000000 from nobody")
    await send(redis, "PUBLISH", lua_scripts.feed(room), pack(far))
    owner.write(2)
    await until(lambda: here.numbers == there.numbers == [1, 2])
    assert owner.connections == reader.connections == [True]
    if room:
        assert owner.link.connection.skipping.count >= len(GARBAGE + WRONG)
    assert "from nobody" not in caplog.text


async def test_requests_that_nobody_can_read_are_counted_and_skipped(
    redis: RedisServer, links: Links
) -> None:
    owner, other = await links.join(redis), await links.join(redis)
    inbox = lua_scripts.inbox(owner.link.id)
    for fields in (
        ["f", "x", "n", "1"],
        ["f", b"\xff", "n", "1", "p", b"x"],
        ["f", "x", "n", "one", "p", b"x"],
        ["nothing", ""],
    ):
        await send(redis, "XADD", inbox, "*", *fields)
    other.link.send(owner.link.id, b"a request")
    await until(lambda: owner.requests == [b"a request"])
    assert owner.link.connection.skipping.count == 4
    redis.cli("DEL", inbox)
    redis.cli("SET", inbox, "of another type")
    await until(lambda: redis.cli("TYPE", inbox) != "string")
    other.link.send(owner.link.id, b"another request")
    await until(lambda: owner.requests[1:] == [b"another request"])
    await until(lambda: owner.link.connected)


@pytest.mark.parametrize("key", [lua_scripts.lease, lua_scripts.fence, lua_scripts.log])
@pytest.mark.parametrize("kind", ["garbage", "another type"])
async def test_damaged_keys_of_a_room_cost_that_room_only(
    redis: RedisServer, links: Links, key: Callable[[str], str], kind: str
) -> None:
    owner, reader = await links.join(redis), await links.join(redis)
    for room in (ROOM, OTHER):
        await owner.follow(room)
        await reader.follow(room)
        assert await owner.link.acquire(room)
    owner.write(1)
    await until(lambda: reader.rooms[ROOM].numbers == [1])
    command: tuple[str | bytes | int, ...] = ("LPUSH", "x")
    if kind == "garbage":
        log = key is lua_scripts.log
        command = ("ZADD", "inf", b"garbage") if log else ("SET", b"\xff garbage", "PX", 60_000)
    await send(redis, "EVAL", REPLACE, 1, key(ROOM), *command)
    owner.write(2)
    # The fence is only read when a room is taken, and an entry of the log when it is followed.
    if key is lua_scripts.lease or (key is lua_scripts.log and kind == "another type"):
        await until(lambda: ROOM in owner.lost)
    owner.write(1, 2, 3, room=OTHER)
    await until(lambda: reader.rooms[OTHER].numbers == [1, 2, 3])
    assert owner.link.owns(OTHER) and not reader.lost
    assert await reader.link.acquire(ROOM) is False
    await until(lambda: owner.link.connected and reader.link.connected)
    assert OTHER not in owner.lost
