"""The drain of a gateway: which rooms and sockets go on, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from pathlib import Path

import httpx2 as httpx
import pytest

from gateway.core.base.eager import run_eagerly
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.state import SessionState
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.hub import Hub, HubPhase
from gateway.server.runtime.room_host import RoomHost
from gateway.storage.sqlite.store import SqliteStore
from tests.server.wire import dial
from tests.support.live import running, until
from tests.support.talk import talk
from tests.support.typed import current


async def test_a_drain_releases_a_room_at_once_if_nothing_is_in_flight_in_it(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    engine.hold()
    store = SqliteStore(tmp_path / "rooms.db", Limits())
    other = SqliteStore(tmp_path / "rooms.db", Limits())
    async with (
        running(engine, store=store, drain_s=60.0) as live,
        talk(live, "?room=idle&to=de") as idle,
        talk(live, "?room=busy&to=de") as busy,
    ):
        await idle.next()
        await busy.send({"type": "say", "id": "a", "text": "hello there"})
        await until(lambda: engine.unfinished == 1)
        live.server.should_exit = True
        await idle.until("goaway")
        await other.open()
        log = await other.claim("idle")
        assert log.epoch == live.hub.rooms["idle"].log.epoch
        assert not live.hub.rooms["busy"].settled
        engine.release()
        assert (await busy.until("final"))[-1]["text"] == "[de] hello there"
        assert (await idle.closed())[0] == (await busy.closed())[0] == CloseCode.GOAWAY
        assert (await other.claim("busy")).seq == 2
    await other.close()


async def test_during_a_drain_growing_text_may_be_completed_but_nothing_new_begun(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "rooms.db", Limits())
    async with (
        running(store=store, drain_s=60.0) as live,
        talk(live, "?room=a&to=de") as client,
    ):
        await client.send({"type": "say", "id": "a", "text": "good", "final": False})
        await client.until("ack")
        live.server.should_exit = True
        await client.until("goaway")
        await client.send({"type": "say", "id": "b", "text": "new"})
        error = (await client.until("error"))[-1]
        assert (error["code"], error["retry"]) == ("busy", True) and error["retry_ms"] > 0
        await client.send({"type": "say", "id": "a", "text": "good morning"})
        assert (await client.until("final"))[-1]["text"] == "[de] good morning"
        seq = live.hub.rooms["a"].log.seq
        (session,) = live.hub.sessions.values()
        await until(lambda: session.state is SessionState.DISMISSED)
        await client.send({"type": "set", "context": "a meeting"})
        await client.closed()
        assert live.hub.rooms["a"].log.seq == seq, "another process may have the room by now"


async def test_requests_for_translations_are_served_during_a_drain_to_their_last_text() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with (
        running(engine, drain_s=60.0) as live,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        texts = {"q": [f"line {n}" for n in range(40)], "source": "en", "target": "de"}
        begun = asyncio.create_task(client.post("/translate", json=texts))
        await until(lambda: engine.unfinished > 0)
        live.server.should_exit = True
        await until(lambda: live.hub.phase is HubPhase.DRAINING)
        new = asyncio.create_task(client.post("/translate", json={**texts, "q": "new"}))
        await until(lambda: len(live.hub.sessions) > 1)
        engine.release()
        lines = [f"[de] line {n}" for n in range(40)]
        assert (await begun).json() == {"translatedText": lines}
        assert (await new).json() == {"translatedText": "[de] new"}


@pytest.mark.parametrize("probed", [False, True])
async def test_a_gateway_that_is_asked_for_its_readiness_outlasts_the_next_check(
    probed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.server.runtime.drain.OVERLAP_S", 60.0)
    async with (
        running(drain_s=60.0) as live,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        if probed:
            assert (await client.get("/readyz")).json()["status"] == "ready"
        live.server.should_exit = True
        if probed:
            await until(lambda: live.hub.phase is HubPhase.DRAINING)
            assert (await client.get("/readyz")).json()["status"] == "draining"
            live.hub.hurry()
        await until(lambda: live.hub.phase is HubPhase.CLOSED)


async def test_a_drain_closes_the_socket_of_a_private_room_at_once(tmp_path: Path) -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    alone, together = hub.open(ConnectRequest()), hub.open(ConnectRequest(room="r"))
    draining = asyncio.create_task(hub.drain(60.0))
    await until(lambda: alone.outbox.closing is not None)
    assert current(together.outbox.closing) is None
    hub.hurry()
    await draining
    assert together.outbox.closing is CloseCode.GOAWAY
    assert hub.phase is HubPhase.CLOSED
    await hub.drain(60.0)  # a second drain does nothing


async def test_a_room_that_loads_after_the_drain_is_released_to_the_next_process(
    tmp_path: Path,
) -> None:
    stores = [SqliteStore(tmp_path / "rooms.db", Limits()) for _ in range(2)]
    for store in stores:
        await store.open()
    hosts = [RoomHost(ScriptedEngine(), Limits()) for _ in stores]
    old, new = (Hub(host, Fleet(host, store)) for host, store in zip(hosts, stores, strict=True))
    await old.fetch("r")
    fetching = asyncio.create_task(new.fetch("r"))
    await until(lambda: "r" in stores[1]._claims)
    await new.drain(0)
    await fetching  # it returns early
    await old.drain(0)
    await until(lambda: not new.fleet.locks.working)
    assert "r" not in new.rooms
    third = SqliteStore(tmp_path / "rooms.db", Limits())
    await third.open()
    await third.claim("r")  # it was released again
    await third.close()
    for store in stores:
        await store.close()


async def test_a_drain_tells_sockets_that_wait_for_a_room_to_connect_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "rooms.db", Limits())
    other = SqliteStore(tmp_path / "rooms.db", Limits())
    await other.open()
    await other.claim("r")  # and never released
    async with (
        running(store=store, drain_s=60.0) as live,
        talk(live, "?room=r&to=de") as one,
        talk(live, "?room=r&to=de") as two,
    ):
        await until(lambda: len(live.hub.fleet.locks.working) == 2)
        live.server.should_exit = True
        for client in (one, two):
            assert (await client.next())["code"] == "busy"
            assert (await client.closed())[0] == CloseCode.GOAWAY
    await other.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_new_socket_in_a_drain_is_told_to_try_the_next_process() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with (
        running(engine, drain_s=60.0) as live,
        talk(live, "?room=a&to=de") as client,
        httpx.AsyncClient(base_url=live.http) as http,
    ):
        await client.send("hello")
        await until(lambda: engine.unfinished == 1)
        live.server.should_exit = True
        await client.until("goaway")
        async with talk(live, "?room=a") as late:
            error = await late.next()
            assert (error["code"], error["fatal"], error["retry_ms"]) == ("busy", True, 1000)
            assert (await late.closed())[0] == CloseCode.GOAWAY
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert (await http.get("/healthz")).status_code == 200


async def test_a_connection_that_misses_the_shutdown_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with running() as live:
            silent = await stack.enter_async_context(dial(int(live.ws.rpartition(":")[2])))
            await until(lambda: bool(live.server.server_state.connections))
            (connection,) = live.server.server_state.connections
            # As if it were accepted before the shutdown and created after it.
            monkeypatch.setattr(connection, "shutdown", lambda: None)
        assert not live.server.server_state.connections
        assert connection.transport.is_closing()
        assert await silent.read() in (b"[end]", b"[reset]")


async def test_a_connection_accepted_just_before_the_listener_closes_is_not_lost() -> None:
    """Asyncio of CPython 3.11 would lose the connection and leave it open."""
    loop = asyncio.get_running_loop()
    accept = loop._accept_connection  # type: ignore[attr-defined]
    rests: list[Awaitable[None] | None] = []

    def accepted(*args: object) -> None:
        accept(*args)
        rests.append(run_eagerly(live.server._stop_listening()))

    loop._accept_connection = accepted  # type: ignore[attr-defined]
    async with running() as live, dial(int(live.ws.rpartition(":")[2])):
        await until(lambda: bool(rests))
        assert rests[0] is not None
        await rests[0]
        await until(lambda: len(live.server.server_state.connections) == 1)
