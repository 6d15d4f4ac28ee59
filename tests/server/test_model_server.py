"""Captions of a real gateway whose model server hangs or fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from websockets.asyncio.client import connect

from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.supervised import BACKOFF, FAILING_SHARE, FAILURES, HANG, Supervisor
from tests.engines.openai.test_engine_life import supervised
from tests.engines.openai_factory import CHAT
from tests.engines.openai_server import Script, Server
from tests.engines.workshop import Time, with_spare
from tests.server.started import gateway
from tests.support.live import Live, running, until
from tests.support.talk import Talk, run, talk

SAID = "good morning"
BY_SERVER, BY_FALLBACK = "Guten Morgen!", f"[de] {SAID}"

Reply = Callable[[dict[str, Any]], Script]


def hangs(body: dict[str, Any]) -> Script:
    return Script(late=True)


def breaks(body: dict[str, Any]) -> Script:
    return Script(status=500, body={"error": {"message": "oops"}})


def works(body: dict[str, Any]) -> Script:
    return Script()


@asynccontextmanager
async def ready(engine: Engine, first: Supervisor) -> AsyncIterator[Live]:
    """Run a gateway whose first engine has started."""
    async with running(engine) as live:
        await until(lambda: first.health is Health.READY)
        yield live


async def final(peer: Talk) -> str:
    """Return the translation of the last text. None of its captions may be retracted."""
    event = await peer.next()
    while event["type"] != "final":
        assert event["type"] != "failed" and not event.get("reset"), event
        event = await peer.next()
    text: str = event["text"]
    return text


@pytest.mark.parametrize("ill", [hangs, breaks])
async def test_captions_switch_to_the_fallback_and_back_and_readers_are_told(ill: Reply) -> None:
    time = Time()
    with Server(default=ill) as server:
        first = supervised(server, time)
        engine = with_spare(first, ScriptedEngine())
        async with (
            ready(engine, first) as live,
            talk(live, "?from=en&to=de") as peer,
            httpx.AsyncClient(base_url=live.http) as client,
        ):
            await peer.until("welcome")
            # Until the failure is known, jobs go to the server.
            events: list[dict[str, Any]] = []
            for _ in range(1 if ill is hangs else FAILURES):
                await time.pass_(HANG * FAILING_SHARE / 2)
                await peer.send(SAID)
                if ill is hangs:
                    await server.wait(lambda server: server.unfinished == 1)
                    await time.pass_(HANG)
                events += await peer.until("final")
            finals = [event["text"] for event in events if event["type"] == "final"]
            assert set(finals) == {BY_FALLBACK}
            assert not [event for event in events if event["type"] == "failed"]
            told = [event["engine"] for event in events if event["type"] == "degraded"]
            if not told:  # the event may follow the last final
                told = [(await peer.until("degraded"))[-1]["engine"]]
            assert told == ["scripted"]
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()["fallback"]) == (200, "scripted")
            assert answer.json()["engine"] == "openai:test-model"
            assert "gateway_fallback 1.0" in (await client.get("/metrics")).text

            # No job waits for the server any more.
            asked = len(server.received)
            await peer.send(SAID)
            assert await final(peer) == BY_FALLBACK
            assert len(server.received) == asked

            server.default = works
            await time.end_sleep(BACKOFF)
            back = (await peer.until("degraded"))[-1]
            assert back == {"type": "degraded", "partials": "on"}
            await peer.send(SAID)
            assert await final(peer) == BY_SERVER
            assert (await client.get("/readyz")).json()["fallback"] is None


async def test_without_a_fallback_the_gateway_reports_that_it_is_not_ready() -> None:
    time = Time()
    with Server(default=breaks) as server:
        engine: Supervisor = supervised(server, time)
        async with (
            running(engine) as live,
            talk(live, "?from=en&to=de") as peer,
            httpx.AsyncClient(base_url=live.http) as client,
        ):
            await peer.until("welcome")
            for _ in range(FAILURES):
                assert (await client.get("/readyz")).status_code == 200
                await time.pass_(HANG * FAILING_SHARE / 2)
                await peer.send(SAID)
                failed = (await peer.until("failed"))[-1]
                assert (failed["code"], failed["retry"]) == ("engine_unavailable", True)
            await until(lambda: engine.health is Health.DEAD)
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()["status"]) == (503, "dead")
            server.default = works
            await time.end_sleep(BACKOFF)
            await until(lambda: engine.health is Health.READY)
            assert (await client.get("/readyz")).status_code == 200
            await peer.send(SAID)
            assert await final(peer) == BY_SERVER


@pytest.mark.parametrize("ill", [hangs, breaks])
def test_a_gateway_process_with_a_fallback_uses_it_while_its_model_server_fails(ill: Reply) -> None:
    """The setting `hang_s` is passed on the command line."""

    async def meet(server: Server, port: int) -> None:
        url = f"ws://127.0.0.1:{port}/v1/ws?from=en&to=de"
        async with connect(url) as socket, httpx.AsyncClient() as client:
            peer = Talk(socket)
            await peer.until("welcome")
            ready = f"http://127.0.0.1:{port}/readyz"
            while (await client.get(ready)).json()["fallback"] is not None:
                pass  # the server's list of models is still being fetched
            await peer.send(SAID)
            assert await final(peer) == BY_SERVER
            server.default = ill
            while (await client.get(ready)).json()["fallback"] is None:
                await peer.send(SAID)
                assert await final(peer) == BY_FALLBACK
            server.default = works
            server.release()
            while (await client.get(ready)).json()["fallback"] is not None:
                pass  # a probe finds the server without any speech
            await peer.send(SAID)
            assert await final(peer) == BY_SERVER

    flags = ["--engine", "openai", "--profile", CHAT.name, "--fallback", "scripted"]
    with Server(default=works) as server:
        flags += ["--openai-url", server.url, "--port", "FREE", "--hang-s", "1"]
        flags += ["--scripted-pace", "0", "--limit-rate", "10000", "--limit-burst", "10000"]
        with gateway(*flags) as process:
            run(lambda: meet(server, process.port))
            assert "Traceback" not in process.text
