"""One room in several real gateways, joined by a real Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from benchmarks.soak.child import Child
from gateway.client import Client, connect
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.protocol.messages import Final
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import talk

Event = dict[str, Any]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def fleet(redis: RedisServer, count: int = 3, **options: Any) -> AsyncIterator[list[Live]]:
    """Run several gateways."""
    settings = Settings(redis=redis.url)
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(settings=settings, **options))
            for _ in range(count)
        ]


def owner(gateways: Sequence[Live], room: str = "r") -> Live:
    """Return the gateway that has the authority of a room."""
    (one,) = (live for live in gateways if room in live.shared.authorities)
    return one


def durable(events: Sequence[Event]) -> list[Event]:
    return [
        event for event in events if "seq" in event and event["type"] not in ("welcome", "tick")
    ]


async def test_readers_of_every_gateway_are_sent_one_translation(redis: RedisServer) -> None:
    async with fleet(redis) as (one, two, three):
        async with (
            talk(one, "?room=r&to=de") as speaker,
            talk(two, "?room=r&to=de&role=view") as reader,
            talk(three, "?room=r&to=de-AT,fr&role=view") as other,
        ):
            welcomes = [await peer.next() for peer in (speaker, reader, other)]
            assert len({welcome["epoch"] for welcome in welcomes}) == 1
            await speaker.send({"type": "say", "id": "a", "text": "good morning", "ref": "x"})
            heard = durable(await speaker.until("final"))
            assert [event["seq"] for event in heard][:2] == [1, heard[1]["seq"]]
            seen = durable(await reader.until("final"))
            assert [event["text"] for event in seen] == ["good morning", heard[1]["text"]]
            both = durable(await other.until("final") + await other.until("final"))
            assert {event["lang"] for event in both} == {"en", "de-AT", "fr"}
            jobs = [live.hub.jobs.chunks > 0 for live in (one, two, three)]
            assert sorted(jobs) == [False, False, True], "one gateway translates"


async def test_an_answer_with_its_reference_goes_to_the_speaker_alone(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with (
            talk(one, "?room=r&to=de") as first,
            talk(two, "?room=r&to=de&role=moderate") as speaker,
        ):
            await first.next()
            await speaker.next()
            await speaker.send({"type": "say", "id": "a", "text": "good", "ref": "r1"})
            events = await speaker.until("final")
            assert [e["type"] for e in events if e.get("ref") == "r1"] == ["ack"]
            await first.until("final")
            await speaker.send(
                {"type": "edit", "id": "a", "lang": "de", "text": "gut", "ref": "r2"}
            )
            (edited,) = durable(await speaker.until("edited"))
            assert (edited["text"], edited["ref"]) == ("gut", "r2")
            (copy,) = durable(await first.until("edited"))
            assert copy["text"] == "gut" and "ref" not in copy
            await speaker.send({"type": "get", "id": "a", "ref": "r3"})
            snapshot = (await speaker.until("snapshot"))[-1]
            assert snapshot["ref"] == "r3" and snapshot["lines"][0]["text"] == "gut"
            await speaker.send({"type": "retract", "id": "a", "ref": "r4"})
            assert (await speaker.until("retracted"))[-1]["ref"] == "r4"
            assert (await first.until("retracted"))[-1]["id"] == "a"
            await first.send({"type": "cancel", "id": "zz", "ref": "r5"})
            assert (await first.until("cancelled"))[-1]["was"] == "none"
            await first.send({"type": "edit", "id": "a", "lang": "de", "text": "x", "ref": "r6"})
            error = (await first.until("error"))[-1]
            assert (error["code"], error["ref"]) == ("not_found", "r6")


async def test_a_late_reader_on_another_gateway_is_shown_what_was_said(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with talk(one, "?room=r&to=de") as speaker:
            await speaker.next()
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            final = (await speaker.until("final"))[-1]
            async with talk(two, "?room=r&to=de&role=view") as late:
                events = await late.until("final")
                assert [event["type"] for event in events] == ["welcome", "source", "final"]
                assert events[-1] == final


async def test_a_socket_resumes_on_another_gateway(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with talk(one, "?room=r&to=de") as speaker:
            await speaker.next()
            async with talk(two, "?room=r&to=de&role=view") as reader:
                welcome = await reader.next()
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            await speaker.until("final")
            token, epoch, seq = (welcome[key] for key in ("resume", "epoch", "seq"))
            query = f"?resume={token}&epoch={epoch}&seq={seq}"
            async with talk(one, query) as back:
                events = await back.until("final")
                assert events[0]["resumed"]["ok"] and events[0]["resumed"]["replayed"] == 2


async def test_presence_counts_the_members_of_all_gateways(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with (
            talk(one, "?room=r&to=de&speaker=Ann") as first,
            talk(two, "?room=r&to=de,fr&role=view") as second,
        ):
            for peer in (first, second):
                presence = (await peer.until("presence"))[-1]
                while presence["members"] != 2:
                    presence = (await peer.until("presence"))[-1]
                assert presence["readers"] == {"de": 2, "fr": 1}
                assert presence["speakers"] == ["Ann"]


async def test_bye_waits_for_captions_that_another_gateway_makes(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with talk(one, "?room=r&role=view") as first:
            await first.next()
            assert owner((one, two)) is one
            async with talk(two, "?room=r&to=de") as speaker:
                await speaker.next()
                await speaker.send({"type": "say", "id": "a", "text": "good morning"})
                await speaker.send({"type": "bye", "ref": "b"})
                events = await speaker.until("stats")
                assert [event["type"] for event in durable(events)] == ["source", "final"]
                assert (await speaker.closed())[0] == 1000


async def test_a_transcript_can_be_read_and_a_room_deleted_on_any_gateway(
    redis: RedisServer,
) -> None:
    async with fleet(redis) as (one, two, three):
        async with talk(one, "?room=r&to=de") as speaker:
            await speaker.next()
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            await speaker.until("final")
            async with httpx.AsyncClient() as client:
                answer = await client.get(f"{three.http}/v1/rooms/r/transcript.txt")
                assert "good morning" in answer.text
                assert (await client.delete(f"{two.http}/v1/rooms/r")).status_code == 204
                assert (await speaker.closed())[0] == 4410
                answer = await client.get(f"{three.http}/v1/rooms/r/transcript.txt")
                assert answer.status_code == 404
        async with talk(three, "?room=r&to=de") as new:
            assert (await new.next())["seq"] == 0


async def test_a_private_room_stays_in_its_gateway(redis: RedisServer) -> None:
    async with fleet(redis, 1) as (one,):
        async with talk(one, "?to=de") as speaker:
            await speaker.next()
            await speaker.send("good morning")
            await speaker.until("final")
        assert redis.cli("KEYS", "*room*") == ""


async def test_a_drained_owner_hands_its_rooms_over_without_a_loss(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two):
        async with talk(one, "?room=r&role=view") as first:
            await until(lambda: "r" in one.shared.authorities)
            async with (
                talk(two, "?room=r&to=de") as speaker,
                talk(two, "?room=r&to=de&role=view") as reader,
            ):
                await speaker.next()
                await reader.next()
                await speaker.send({"type": "say", "id": "a", "text": "one"})
                await speaker.until("final")
                draining = asyncio.create_task(one.hub.drain(5.0))
                assert (await first.until("goaway"))[-1]["type"] == "goaway"
                await until(lambda: "r" in two.shared.authorities)
                await speaker.send({"type": "say", "id": "b", "text": "two"})
                await speaker.until("final")
                events = durable(await reader.until("final") + await reader.until("final"))
                assert [event["seq"] for event in events] == [1, 2, 3, 4]
                await draining


@pytest.mark.parametrize("seconds", [5.0, 0.1])
async def test_a_drain_ends_no_caption_of_other_gateways(
    redis: RedisServer, seconds: float
) -> None:
    """A caption that does not end within the drain is made again by the next authority."""
    async with contextlib.AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(
                running(ScriptedEngine(delay=0.2, pace=0.05), settings=Settings(redis=redis.url))
            )
            for _ in range(2)
        ]
        async with (
            talk(one, "?room=r&role=view") as first,
            talk(two, "?room=r&to=de&role=view") as reader,
        ):
            await first.next()
            await reader.next()
            speaker = await stack.enter_async_context(talk(two, "?room=r&to=de"))
            await speaker.next()
            await speaker.send({"type": "say", "id": "a", "text": "one two three four five six"})
            await speaker.until("source")
            draining = asyncio.create_task(one.hub.drain(seconds))
            events = durable(await reader.until("final"))
            assert [event["type"] for event in events] == ["source", "final"]
            await draining
            assert "r" in two.shared.authorities
            assert owner((one, two)) is two


async def test_a_room_that_stays_empty_ends_in_all_gateways(redis: RedisServer) -> None:
    async with fleet(redis, 2, limits=Limits(room_s=0.1)) as (one, two):
        async with talk(one, "?room=r&to=de") as speaker, talk(two, "?room=r") as other:
            await speaker.next()
            await other.next()
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            await speaker.until("final")
        await until(lambda: not one.hub.fleet.replicas and not two.hub.fleet.replicas)
        await until(lambda: "log" not in redis.cli("KEYS", "*room*"))
        assert not one.hub.rooms and not two.hub.rooms


async def test_what_a_gateway_does_not_understand_ends_no_other_room(redis: RedisServer) -> None:
    """A newer gateway may send messages that this one does not know."""
    async with fleet(redis, 2) as (one, two):
        async with (
            talk(one, "?room=r&role=view") as first,
            talk(two, "?room=r&to=de&role=view") as reader,
            talk(two, "?room=other&to=de") as other,
        ):
            for peer in (first, reader, other):
                await peer.next()
            links = [server.shared.link for server in (one, two)]
            for link in links:  # only the owner of the room may publish, and either may own it
                link.publish("r", b"\xc1", b"\xc1")
            links[0].send(links[1].id, b"\xc1")
            assert (await reader.closed())[0] == 4000
            await other.send({"type": "say", "id": "a", "text": "good morning"})
            await other.until("final")
        async with talk(two, "?room=r&to=de") as back:
            await back.next()
            await back.send({"type": "say", "id": "a", "text": "good morning"})
            await back.until("final")


async def test_readers_notice_nothing_of_a_gateway_that_takes_over(redis: RedisServer) -> None:
    async with fleet(redis, 3) as (one, two, three), talk(one, "?room=r&role=view"):
        await until(lambda: "r" in one.shared.authorities)
        async with (
            talk(two, "?room=r&to=de") as speaker,
            talk(three, "?room=r&to=de&role=view") as reader,
        ):
            for peer in (speaker, reader):
                await peer.next()
            await speaker.send({"type": "say", "id": "a", "text": "one"})
            await speaker.until("final")
            one.shared.draining = True  # it may not take the room again
            one.shared._own.release(one.shared.authorities["r"])
            await until(lambda: any("r" in live.shared.authorities for live in (two, three)))
            await speaker.send({"type": "say", "id": "b", "text": "two"})
            await speaker.until("final")
            events = durable(await reader.until("final") + await reader.until("final"))
            assert [event["seq"] for event in events] == [1, 2, 3, 4]


async def test_clients_and_proxies_are_told_while_redis_is_away(redis: RedisServer) -> None:
    async with fleet(redis, 2) as (one, two), httpx.AsyncClient() as client:
        async with (
            talk(one, "?room=r&to=de") as speaker,
            talk(two, "?room=r&to=de&role=view") as reader,
        ):
            await speaker.next()
            await reader.next()
            assert (await client.get(one.http + "/readyz")).status_code == 200
            redis.kill()
            for peer in (speaker, reader):
                assert (await peer.until("degraded"))[-1]["partials"] == "off"
            for path, code in (("/readyz", 200), ("/readyz/rooms", 503), ("/healthz", 200)):
                answer = await client.get(one.http + path)
                assert answer.status_code == code
                assert answer.json()["status"] == ("ok" if path == "/healthz" else "alone")
            async with talk(two, "?room=other") as refused:
                assert (await refused.next())["code"] == "busy"
            async with talk(two, "?to=de") as private:  # needs no other gateway
                await private.next()
                await private.send("good morning")
                await private.until("final")
            await speaker.send({"type": "say", "id": "a", "text": "good morning"})
            redis.start()
            assert (await speaker.until("final"))[-1]["id"] == "a"
            assert (await reader.until("final"))[-1]["id"] == "a"
            await until(lambda: one.hub.ready_for_rooms and two.hub.ready_for_rooms)


async def test_a_private_room_of_one_shot_requests_needs_no_redis(redis: RedisServer) -> None:
    async with fleet(redis, 1) as (one,), httpx.AsyncClient() as client:
        redis.kill()
        body = {"text": "good morning", "source_lang": "en", "target_lang": "de"}
        answer = await client.post(one.http + "/v1/translate", json=body)
        assert answer.status_code == 200


@contextlib.asynccontextmanager
async def processes(redis: RedisServer, folder: Path, count: int) -> AsyncIterator[list[Child]]:
    """Run several gateways in processes of their own."""
    flags = ("--engine", "scripted", "--redis", redis.url)
    children = [Child(flags, folder / f"log{number}") for number in range(count)]
    try:
        await asyncio.gather(*(child.start() for child in children))
        yield children
    finally:
        await asyncio.gather(*(child.kill() for child in children))


async def test_nothing_is_lost_or_doubled_when_the_owner_is_killed(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with (
        processes(redis, tmp_path, 3) as (one, two, three),
        contextlib.AsyncExitStack() as stack,
    ):
        notes: list[object] = []

        async def enter(child: Child, **options: Any) -> Client:
            url = f"http://127.0.0.1:{child.port}"
            return await stack.enter_async_context(connect(url, room="r", to=("de",), **options))

        await enter(one, role="view", resume=False)  # so the first gateway owns the room
        heard: list[list[Final]] = [[] for _ in range(6)]
        for number, finals in enumerate(heard):
            reader = await enter((two, three)[number % 2], role="view", notice=notes.append)
            task = asyncio.create_task(collect(reader, finals))
            stack.callback(task.cancel)
        speakers = [await enter(child) for child in (two, three)]
        said = []
        for number in range(20):
            for name, speaker in zip("ab", speakers, strict=True):
                said.append(f"{name}{number}")
                await speaker.say(f"sentence {number}", id=said[-1])
            if number == 10:
                await one.kill()
        await until(lambda: all(len({f.id for f in finals}) == len(said) for finals in heard))
        for finals in heard:
            assert sorted(final.id for final in finals) == sorted(said)
            assert [final.seq for final in finals] == sorted(final.seq for final in finals)
        assert notes == [], "the socket of a reader was closed"


async def collect(client: Client, finals: list[Final]) -> None:
    async for event in client:
        if isinstance(event, Final):
            finals.append(event)  # noqa: PERF401  # they are looked at meanwhile
