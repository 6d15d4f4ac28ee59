"""An overloaded engine, over real connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import httpx2 as httpx
import msgspec
import pytest

from gateway.auth.permissions import Permissions, Quota
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import ClientFault
from gateway.limits import Limits
from gateway.protocol.messages import Final, ServerMessage
from gateway.server.metrics import TENANTS, Metrics
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from tests.support import virtual
from tests.support.live import Live, running, until
from tests.support.talk import talk


def strain(live: Live) -> None:
    """Put the hub into overload: two other rooms spoke, and the engine does not keep up."""
    load, now = live.hub.load, live.hub.now()
    load.admit("other", "", 0, 1, now)
    load.begun("a", 1, 0.0, now - 1.0, alone=True)
    load.made("a", now)
    load.poll(0.0, now + 1.0)  # the hub may have decided a moment ago
    load.begun("b", 1, 60.0, now - 1.0, alone=False)
    load.made("b", now)
    load.poll(0.0, now + 2.0)


async def test_under_overload_rooms_are_told_new_ones_refused_and_accepted_text_translated() -> (
    None
):
    async with (
        running(ScriptedEngine(), Limits(presence_s=60.0)) as live,
        talk(live, "?room=r&from=en&to=de") as peer,
        talk(live, "?room=s&from=en&to=de") as late,
    ):
        await peer.until("welcome")
        await late.until("welcome")
        await peer.send("good morning")
        await peer.until("final")
        strain(live)
        await peer.send({"type": "say", "id": "u", "text": "we met", "final": False})
        off = (await peer.until("degraded"))[-1]
        assert off == {"type": "degraded", "partials": "off"}
        await peer.send({"type": "say", "id": "u", "text": "we met in March"})
        events = await peer.until("final")
        assert events[-1]["text"] == "[de] we met in March"
        assert await late.until("degraded") == [off]
        await late.send("hello")
        error = (await late.until("error"))[-1]
        assert (error["code"], error["retry"], error["retry_ms"]) == ("busy", True, 5000)
        async with httpx.AsyncClient(base_url=live.http) as client:
            text = {"text": "hello", "source_lang": "en", "target_lang": "de"}
            answer = await client.post("/v1/translate", json=text)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
            assert (await client.get("/readyz")).json()["partials"] == "off"
            scraped = (await client.get("/metrics")).text
        assert "gateway_overloaded 1.0" in scraped
        assert 'gateway_refused_total{why="seat"} 2.0' in scraped
        live.hub.load.overloaded = False
        live.hub.sweep()
        assert await late.until("degraded") == [{"type": "degraded", "partials": "on"}]


async def test_waiting_partials_are_withdrawn_when_overload_begins() -> None:
    engine = ScriptedEngine(capacity=1)
    async with running(engine) as live, talk(live, "?room=r&from=en&to=de") as peer:
        await peer.until("welcome")
        engine.hold()
        await peer.send("good morning")
        await until(lambda: engine.unfinished == 1)
        await peer.send({"type": "say", "id": "u", "text": "we met in", "final": False})
        await peer.send({"type": "say", "id": "u", "text": "we met in May", "final": False})
        await until(lambda: live.hub.scheduler.queued == 1)
        live.hub.load.admit("r", "", 0, 1, live.hub.now())
        strain(live)
        live.hub.sweep()
        assert live.hub.scheduler.queued == 0
        engine.release()
        await peer.until("final")
        await peer.send({"type": "say", "id": "u", "text": "we met in May"})
        assert (await peer.until("final"))[-1]["id"] == "u"
        await asyncio.sleep(0)


async def test_a_tenant_over_its_quota_is_refused_and_other_tenants_are_not_affected() -> None:
    engine = ScriptedEngine()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits()))
    acme = Permissions(tenant="acme", quota=Quota(sessions=1))
    peer = hub.open(ConnectRequest(room="r", targets=("de",), permissions=acme))
    with pytest.raises(ClientFault, match="may have 1 sockets"):
        hub.open(ConnectRequest(room="s", permissions=acme))
    assert hub.rooms["r"].captioner.builder.tenant == "acme"
    for n in range(60):
        hub.open(ConnectRequest(room="r", permissions=Permissions(tenant=f"t{n:02}")))
    metrics = Metrics()
    metrics.add_hub(hub, Counter())
    scraped = metrics.expose().decode()
    assert 'gateway_tenant_sessions{tenant="acme"} 1.0' in scraped
    assert 'gateway_tenant_inflight{tenant="(others)"} 0.0' in scraped
    assert scraped.count("gateway_tenant_sessions{") == TENANTS + 1
    hub.close(peer)
    hub.close(peer)
    hub.close(hub.open(ConnectRequest(room="s", permissions=acme)))
    for session in list(hub.sessions.values()):
        hub.close(session)


FLOOD = "The committee has now come to the last point of its agenda. " * 11
SPOKEN = ("Good morning.", "会議を始めます。", "Let us begin with the figures of the last quarter.")


async def waits(clock: Callable[[], float], *, flooded: bool) -> list[float]:
    """Measure a tenant's seconds from a sentence to its caption, one every three seconds.

    :param flooded: another tenant always has as many long texts in flight as it may
    """
    said: dict[str, float] = {}
    made: dict[str, float] = {}

    def observe(room: str, event: ServerMessage, now: float) -> None:
        if isinstance(event, Final) and event.id in said:
            made[event.id] = clock() - said[event.id]

    engine = ScriptedEngine(capacity=16, pace=0.03)
    await engine.start()
    hub = Hub(RoomHost(engine, Limits(), observe=observe, clock=clock))
    keeping = asyncio.create_task(hub.keep())
    one = Permissions(tenant="one")
    two = Permissions(tenant="two")
    light = hub.open(ConnectRequest(room="one", targets=("de",), permissions=one))
    heavy = hub.open(ConnectRequest(room="two", targets=("de",), permissions=two))
    for second in range(90):
        for part in range(16 - len(heavy.member.in_flight.utterances) if flooded else 0):
            say = {"type": "say", "id": f"{second}-{part}", "text": FLOOD}
            hub.receive(heavy, msgspec.json.encode(say).decode())
        if second % 3 == 2:
            text = SPOKEN[second // 3 % 3]
            said[f"u{second}"] = clock()
            say = {"type": "say", "id": f"u{second}", "text": text}
            hub.receive(light, msgspec.json.encode(say).decode())
        await asyncio.sleep(1.0)
        for session in (light, heavy):
            session.outbox.discard()
    assert len(made) == len(said) == 30
    keeping.cancel()
    await engine.aclose()
    return list(made.values())


def test_a_tenant_waits_no_longer_because_another_one_floods_the_engine() -> None:
    alone = virtual.run(lambda clock: waits(clock, flooded=False))
    beside = virtual.run(lambda clock: waits(clock, flooded=True))
    ratios = [one / other for one, other in zip(beside, alone, strict=True)]
    assert max(ratios) < 1.1, ratios
