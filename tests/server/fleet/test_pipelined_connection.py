"""Connections to Redis whose commands do not wait for each other."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import RedisError, ResponseError

from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.leases import OwnedRoom
from gateway.server.fleet.pipelined_connection import PipelinedConnection
from gateway.server.fleet.writer import Writer
from tests.server.fleet.links import ROOM
from tests.support.redis import RedisServer


def client(redis: RedisServer) -> RedisConnection:
    return RedisConnection(redis.url, lambda up: None)


async def test_answers_come_in_the_order_of_commands_and_errors_among_them(
    redis: RedisServer,
) -> None:
    async with client(redis).pipelined() as connection:
        await connection.send([("SET", "schlüssel", "值"), ("INCR", "schlüssel")])
        await connection.send([("GET", "schlüssel"), ("MGET", "schlüssel", "none")])
        answers = [await connection.read() for _ in range(4)]
        assert isinstance(answers[1], ResponseError)
        value = "值".encode()
        assert [answers[0], *answers[2:]] == [b"OK", value, [value, None]]
        assert connection.received == 4
        assert await connection.execute([("INCR", "n"), ("INCR", "n")]) == [1, 2]
        with pytest.raises(ResponseError):
            await connection.execute([("INCR", "schlüssel"), ("PING",)])


async def test_a_connection_that_is_lost_is_not_opened_again_behind_its_user(
    redis: RedisServer,
) -> None:
    async with client(redis).pipelined() as connection:
        redis.cli("CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(RedisError):
            await connection.execute([("PING",)])
        assert not connection.connected
        with pytest.raises(ConnectionError, match="not connected"):
            await connection.send([("PING",)])


async def test_a_task_that_fails_is_not_taken_for_a_redis_that_is_away(
    redis: RedisServer,
) -> None:
    lost: list[str] = []

    async def fail(connection: PipelinedConnection) -> None:
        raise LookupError("a mistake")

    async def wait(connection: PipelinedConnection) -> None:
        await connection.read()

    with pytest.raises(LookupError, match="a mistake"):
        await client(redis).keep(wait, fail, lost=lambda: lost.append("lost"))
    assert lost == ["lost"]


async def test_the_writer_gives_a_connection_up_only_if_it_waits_for_an_answer(
    redis: RedisServer,
) -> None:
    writer = Writer("g1", client(redis), keep=10)
    writer.append(OwnedRoom(ROOM, 1, "g1 1"), 1, b"event")
    silences: list[int] = []

    class Silent:
        """A connection on which nothing comes, and a command is sent after the first silence."""

        async def silence(self) -> None:
            silences.append(len(writer._under_way))

        def expect(self) -> None:
            writer._under_way += writer._next()

    silent: Any = Silent()
    with pytest.raises(TimeoutError, match="no answer"):
        await writer._watch(silent)
    assert silences == [0, 1]
