"""Connections to Redis whose commands do not wait for each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.io.tasks import failures, running
from gateway.server.fleet.connection import SHORT, LinkPart, RedisConnection
from gateway.server.fleet.leases import OwnedRoom
from gateway.server.fleet.pipelined_connection import Away, PipelinedConnection
from tests.server.fleet.links import ROOM, Peer
from tests.support.live import until
from tests.support.redis import RedisServer

SAID = "words of a meeting"


def client(redis: RedisServer) -> RedisConnection:
    return RedisConnection(redis.url, lambda up: None)


async def test_answers_come_in_the_order_of_commands_and_errors_among_them(
    redis: RedisServer,
) -> None:
    async with client(redis).pipelined() as connection:
        await connection.send([("SET", "schlüssel", "值"), ("INCR", "schlüssel")])
        await connection.send([("GET", "schlüssel"), ("MGET", "schlüssel", "none")])
        assert await connection.read() == b"OK"
        with pytest.raises(Away):
            await connection.read()
        value = "值".encode()
        assert [await connection.read() for _ in range(2)] == [value, [value, None]]
        assert connection.received == 4
        assert await connection.execute([("INCR", "n"), ("INCR", "n")]) == [1, 2]
        with pytest.raises(Away):
            await connection.execute([("INCR", "schlüssel"), ("PING",)])


async def test_a_connection_that_is_lost_is_not_opened_again_behind_its_user(
    redis: RedisServer,
) -> None:
    async with client(redis).pipelined() as connection:
        redis.cli("CLIENT", "KILL", "TYPE", "normal")
        with pytest.raises(Away):
            await connection.execute([("PING",)])
        assert not connection.connected
        with pytest.raises(Away, match="not connected"):
            await connection.send([("PING",)])


@pytest.mark.parametrize("end", ["fails", "returns", "is cancelled by nobody"])
async def test_a_part_whose_task_ends_runs_again_on_another_connection(
    redis: RedisServer, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    states: list[bool] = []
    made = RedisConnection(redis.url, states.append)
    part = LinkPart("a part", made)
    used: list[PipelinedConnection] = []
    before = failures["a part"]

    async def work(connection: PipelinedConnection) -> None:
        part.works()
        used.append(connection)
        if len(used) > 1:
            await asyncio.Event().wait()
        if end == "fails":
            raise LookupError(SAID)
        if end != "returns":
            raise asyncio.CancelledError

    async def wait(connection: PipelinedConnection) -> None:
        await connection.read()

    async with running(part.run(work, wait)):
        await until(lambda: states == [True, False, True])
    assert len(used) == 2 and not used[0].connected
    assert failures["a part"] == before + 1
    assert "a part failed; it starts again" in caplog.text
    assert SAID not in caplog.text
    await made.aclose()


async def test_a_part_that_soon_loses_its_connections_does_not_report_ready_each_time(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.server.fleet.connection.MOST_S", 0.001)
    states: list[bool] = []
    made = RedisConnection(redis.url, states.append)
    part, tries = LinkPart("a part", made), 0

    async def work(connection: PipelinedConnection) -> None:
        nonlocal tries
        tries += 1
        part.works()
        await connection.execute([("NONSENSE",)])

    async with running(part.run(work)):
        await until(lambda: tries >= 20)
    assert states == SHORT * [True, False]
    await made.aclose()


async def test_pauses_between_attempts_double_up_to_half_a_second() -> None:
    made = RedisConnection("redis://127.0.0.1:1", lambda up: None)
    part, pauses = LinkPart("a part", made), []
    part._begun = asyncio.get_running_loop().time()
    for _ in range(5):
        part._fails(Away(ConnectionError()))
        pauses.append(part._pause())
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]
    await made.aclose()


async def test_the_writer_gives_a_connection_up_only_if_it_waits_for_an_answer(
    redis: RedisServer,
) -> None:
    writer = Peer(redis).link.writer
    writer.leases.rooms[ROOM] = OwnedRoom(ROOM, 1, "g1 1")
    writer.append(ROOM, 1, b"event")
    silences: list[int] = []

    class Silent:
        """A connection on which nothing comes, and a command is sent after the first silence."""

        async def silence(self) -> None:
            silences.append(len(writer._under_way))

        def expect(self) -> None:
            writer._under_way += writer._next()

    silent: Any = Silent()
    with pytest.raises(Away, match="no answer"):
        await writer._watch(silent)
    assert silences == [0, 1]
