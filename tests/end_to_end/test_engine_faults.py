"""Rooms whose engine dies, hangs or comes back, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx

from gateway.engines.base.engine import Engine, EngineWrapper
from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.limits import Limits
from tests.engines.workshop import with_spare
from tests.support.live import Live, running, until
from tests.support.talk import Talk, talk


class Second(ScriptedEngine):
    @property
    def name(self) -> str:
        return "second"


class Workshop:
    """A builder of scripted engines that keeps them. The first one holds its jobs."""

    def __init__(self) -> None:
        self.built: list[ScriptedEngine] = []
        self.mend = asyncio.Event()

    def __call__(self) -> Engine:
        engine = ScriptedEngine({("good morning", "de"): ["Guten", " Morgen"]})
        if not self.built:
            engine.hold()
        self.built.append(engine)
        return engine

    async def sleep(self, seconds: float) -> None:
        """Replace waits: polls and probes never come, a rebuild comes when the test says so."""
        if seconds >= 1.0:
            await asyncio.Event().wait()
        await self.mend.wait()


class Sleeper(EngineWrapper):
    """An engine whose start lasts until the test ends it."""

    awake = False

    @property
    def health(self) -> Health:
        return self.engine.health if self.awake else Health.STARTING


def supervised(workshop: Workshop) -> Supervisor:
    return Supervisor(workshop, insist=True, sleep=workshop.sleep, chance=lambda: 0.5)


@asynccontextmanager
async def fallen() -> AsyncIterator[tuple[Live, Workshop]]:
    """Run a gateway with a fallback, whose first engine is ready."""
    workshop = Workshop()
    first = supervised(workshop)
    engine = with_spare(first, Second())
    async with running(engine) as live:
        await until(lambda: first.health is Health.READY)
        yield live, workshop


async def settled(peer: Talk) -> None:
    await peer.until("welcome")


async def test_text_that_arrives_while_the_engine_starts_waits_for_it() -> None:
    engine = Sleeper(ScriptedEngine())
    async with running(engine) as live, talk(live, "?from=en&to=de") as peer:
        await peer.send("good morning")
        await peer.until("ack")
        live.hub.sweep()
        assert (live.hub.scheduler.queued, engine.unfinished) == (1, 0)
        engine.awake = True
        live.hub.sweep()
        assert (await peer.until("final"))[-1]["text"] == "[de] good morning"


async def test_text_that_waits_too_long_for_the_engine_fails_with_a_reason() -> None:
    limits = Limits(job_s=0.001)
    async with running(Sleeper(ScriptedEngine()), limits) as live:
        async with talk(live, "?from=en&to=de") as peer:
            await peer.send("good morning")
            assert (await peer.until("failed"))[-1]["code"] == "engine_unavailable"


async def test_captions_in_flight_fail_when_the_engine_dies_and_the_room_goes_on() -> None:
    workshop = Workshop()
    async with running(supervised(workshop)) as live, talk(live, "?from=en&to=de") as peer:
        await settled(peer)
        await peer.send("good morning")
        await workshop.built[0].step()
        await peer.until("delta")
        workshop.built[0].die()
        failed = (await peer.until("failed"))[-1]
        assert (failed["code"], failed["retry"]) == ("engine_unavailable", True)
        await peer.send("good morning")
        assert (await peer.until("failed"))[-1]["code"] == "engine_unavailable"
        workshop.mend.set()
        await until(lambda: live.hub.ready)
        await peer.send("good morning")
        assert (await peer.until("final"))[-1]["text"] == "Guten Morgen"


async def test_the_fallback_takes_over_in_the_middle_of_a_caption_and_clients_are_told() -> None:
    async with fallen() as (live, workshop), talk(live, "?room=r&from=en&to=de") as peer:
        await settled(peer)
        await peer.send("good morning")
        await workshop.built[0].step()
        await peer.until("delta")
        workshop.built[0].die()
        events = await peer.until("final")
        assert events[-1]["text"] == "[de] good morning"
        degraded = [event for event in events if event["type"] == "degraded"]
        assert degraded == [{"type": "degraded", "partials": "on", "engine": "second"}]
        assert [event["type"] for event in events].count("failed") == 0

        async with (
            talk(live, "?room=r&from=en&to=de") as late,
            httpx.AsyncClient(base_url=live.http) as client,
        ):
            await settled(late)
            assert await late.next() == degraded[0]
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()) == (
                200,
                {
                    "status": "ready",
                    "engine": "scripted",
                    "fallback": "second",
                    "partials": "on",
                    "engines": {"first": "dead", "spare": "ready"},
                },
            )
            scraped = (await client.get("/metrics")).text
            assert "gateway_fallback 1.0" in scraped
            workshop.mend.set()
            for each in (peer, late):
                back = (await each.until("degraded"))[-1]
                assert back == {"type": "degraded", "partials": "on"}
            await late.send("good morning")
            assert (await late.until("final"))[-1]["text"] == "Guten Morgen"
