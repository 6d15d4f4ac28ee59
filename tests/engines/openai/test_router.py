"""Tests with the real vllm-router in front of stub servers, see ``openai_server.py``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.engines.base.engine import Engine
from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.openai.server import SESSION_HEADER
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from tests.engines.openai_factory import CHAT, shout
from tests.engines.openai_server import Received, Script, Server
from tests.engines.reading import chunks, read
from tests.support.live import running, until
from tests.support.model_router import model_router
from tests.support.talk import talk

SESSION = SESSION_HEADER.lower()
ROOMS, LANGUAGES = 16, ("de", "fr", "es")
SAID = ["we begin", "we begin with", "we begin with the", "we begin with the budget"]
LONG = Script(pieces=["Wort "] * 2000, pace=0.02)
"""A reply of 40 s, which only a cancelled job ends."""


class Pool:
    """Replicas of a model, a router in front of them, and an engine."""

    def __init__(self, url: str, replicas: list[Server]) -> None:
        self.url = url
        self.replicas = replicas
        self.engine = OpenAIEngine(url, profile=CHAT, capacity=64)

    @property
    def received(self) -> list[tuple[int, Received]]:
        """Requests for text, each with the number of its replica."""
        return [(n, one) for n, server in enumerate(self.replicas) for one in server.received]

    def counts(self) -> list[int]:
        """Return how many requests each replica got."""
        return [len(server.received) for server in self.replicas]

    def clear(self) -> None:
        for server in self.replicas:
            server.received.clear()

    def reply(self, default: Callable[[dict[str, Any]], Script]) -> None:
        for server in self.replicas:
            server.default = default

    async def stop(self, number: int) -> None:
        """Stop a replica as if it were killed: its connections break."""
        server = self.replicas.pop(number)
        await asyncio.to_thread(server.__exit__, None, None, None)


@asynccontextmanager
async def pool(count: int = 2) -> AsyncIterator[Pool]:
    """Run a router with ``count`` replicas that answer with the source in capitals."""
    replicas = [Server(owner="vllm", default=shout).__enter__() for _ in range(count)]
    addresses = [server.url.removesuffix("/v1") for server in replicas]
    try:
        async with model_router(*addresses) as url:
            made = Pool(url, replicas)
            await made.engine.start()
            try:
                yield made
            finally:
                await made.engine.aclose()
    finally:
        for server in replicas:
            await asyncio.to_thread(server.__exit__, None, None, None)


def job(id: str, text: str = "good morning", room: str = "r", target: str = "de") -> Job:
    return Job(id=id, text=text, source="en", target=target, room=room)


class Reader:
    """A sink that keeps the text that a reader of the caption sees."""

    def __init__(self) -> None:
        self.text = ""
        self.resets = 0
        self.fault: EngineFault | None = None
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    def chunk(self, chunk: Chunk) -> None:
        self.resets += chunk.reset
        self.text = chunk.text if chunk.reset else self.text + chunk.text
        self.begun.set()

    def end(self, fault: EngineFault | None) -> None:
        self.fault = fault
        self.ended.set()


async def settled(engine: Engine) -> None:
    await until(lambda: not engine.unfinished)


async def test_a_cancelled_job_stops_in_its_replica_before_and_while_it_streams() -> None:
    async with pool() as made:
        for script in (LONG, Script(late=True)):
            made.reply(lambda body, script=script: script)  # type: ignore[misc]
            made.clear()
            readers = {f"j{n}": Reader() for n in range(12)}
            for n, (id, reader) in enumerate(readers.items()):
                made.engine.submit(job(id, room=f"r{n}"), reader)
            await until(lambda: sum(made.counts()) == 12)
            if script is LONG:
                await asyncio.gather(*(reader.begun.wait() for reader in readers.values()))
            for id in readers:
                made.engine.abort(id)
            for server in made.replicas:
                await server.wait(lambda server: server.unfinished == 0)
            assert all(received.gone for _, received in made.received)


async def grow(made: Pool, room: str, target: str) -> None:
    """Have every revision of a growing text translated, as a live caption does."""
    for said in SAID:
        await read(made.engine, job(f"{room}.{target}", said, room, target))


def places(made: Pool) -> dict[str, set[int]]:
    """Return the replicas that got requests of each session."""
    found: dict[str, set[int]] = {}
    for number, received in made.received:
        found.setdefault(received.headers[SESSION], set()).add(number)
    return found


async def test_growing_captions_stay_on_one_replica_and_spread_evenly() -> None:
    async with pool() as made:
        work = [grow(made, f"room-{n}", lang) for n in range(ROOMS) for lang in LANGUAGES]
        await asyncio.gather(*work)
        found = places(made)
        assert len(found) == ROOMS * len(LANGUAGES)
        assert all(len(replicas) == 1 for replicas in found.values())
        assert Counter(min(replicas) for replicas in found.values()) == {0: 24, 1: 24}
        assert made.counts() == [96, 96]


async def test_requests_without_a_session_all_go_to_one_replica_and_those_of_rooms_do_not() -> None:
    async with pool() as made:
        await read(made.engine, job("first"))  # one replica has one session more
        made.reply(lambda body: Script(late=True))
        for room, most in (("", 20), ("~{}", 11)):
            made.clear()
            readers = [Reader() for _ in range(20)]
            for n, reader in enumerate(readers):
                made.engine.submit(job(f"{room}{n}", room=room.format(n)), reader)
            await until(lambda: sum(made.counts()) == 20)
            assert max(made.counts()) <= most
            assert room or max(made.counts()) == 20
            for n in range(20):
                made.engine.abort(f"{room}{n}")
            await settled(made.engine)


async def test_jobs_of_a_replica_that_dies_are_made_by_another_without_doubled_text() -> None:
    async with pool() as made:
        made.reply(lambda body: Script(pieces=["GOOD", " MORNING"], hold=1))
        readers = [Reader() for _ in range(8)]
        for n, reader in enumerate(readers):
            made.engine.submit(job(f"j{n}", room=f"r{n}"), reader)
        await asyncio.gather(*(reader.begun.wait() for reader in readers))
        assert made.counts() == [4, 4]
        made.replicas[1].release()
        await made.stop(0)
        await asyncio.gather(*(reader.ended.wait() for reader in readers))
        assert [reader.fault for reader in readers] == [None] * 8
        assert {reader.text for reader in readers} == {"GOOD MORNING"}
        assert sorted(reader.resets for reader in readers) == [0] * 4 + [1] * 4
        made.reply(shout)
        for n in range(8):  # the rooms of the dead replica have moved
            assert await read(made.engine, job(f"k{n}", room=f"r{n}")) == "GOOD MORNING"


async def test_a_replica_that_comes_back_gets_new_rooms() -> None:
    async with pool() as made:
        for n in range(4):
            await read(made.engine, job(f"j{n}", room=f"r{n}"))
        port = made.replicas[0].port
        await made.stop(0)
        for n in range(4):
            await read(made.engine, job(f"k{n}", room=f"r{n}"))
        back = Server(owner="vllm", default=shout, port=port).__enter__()
        made.replicas.append(back)
        async with asyncio.timeout(20):  # the circuit breaker opens again after 2 s
            n = 0
            while not back.received:
                n += 1
                await read(made.engine, job(f"n{n}", room=f"new-{n}"))
        rooms = {received.headers[SESSION] for received in back.received}
        assert len(rooms) == 1
        for m in range(3):
            await read(made.engine, job(f"o{m}", room=f"new-{n}"))
        assert len(back.received) == 4


async def test_a_caption_goes_on_over_the_death_of_its_replica() -> None:
    async with pool() as made:
        counts: Counter[tuple[str, str]] = Counter()
        engine = GuardedEngine(Supervisor(lambda: OpenAIEngine(made.url, profile=CHAT)), counts)
        made.reply(lambda body: Script(pieces=["Guten", " Morgen"], hold=1))
        async with running(engine) as live, talk(live, "?room=r&from=en&to=de") as person:
            await person.send({"type": "say", "id": "u1", "text": "good morning"})
            await person.until("delta")
            number = made.counts().index(1)
            await made.stop(number)
            made.replicas[0].release()
            events = await person.until("final")
        assert events[-1]["text"] == "Guten Morgen"
        assert any(event.get("reset") for event in events)
        assert not counts


async def test_without_any_replica_jobs_fail_in_the_open() -> None:
    async with pool() as made:
        await made.stop(1)
        await made.stop(0)
        with pytest.raises(EngineFault):
            await chunks(made.engine, job("j"))
