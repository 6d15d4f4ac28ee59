"""Frames are written at once if the socket has room, and otherwise wait in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.asyncio.client import ClientConnection, connect

from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.notices import Error, Tick
from gateway.server.process import server
from gateway.server.routes import websocket
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.server.uvicorn.websocket import WRITER
from tests.support.frames import frame as as_frame
from tests.support.live import Live, running, until
from tests.support.talk import DEADLINE_S, Talk, talk


@pytest.fixture(params=["own", "stock"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a test with the gateway's protocol class and with uvicorn's, which has no writer."""
    if request.param == "stock":
        monkeypatch.setattr(server, "websocket_protocol", lambda _: WebSocketsSansIOProtocol)
    yield request.param


def seated(live: Live) -> Session:
    (session,) = live.hub.sessions.values()
    return session


@asynccontextmanager
async def deaf(live: Live, query: str) -> AsyncIterator[ClientConnection]:
    """Connect a client that does not read until its transport is resumed."""
    async with connect(live.socket + query, compression=None, max_size=None) as ws:
        ws.transport.pause_reading()
        yield ws


async def test_a_frame_is_written_in_the_turn_of_the_event_loop_in_which_it_is_made() -> None:
    async with running() as live, talk(live) as client:
        await client.until("welcome")
        session = seated(live)
        before = session.outbox.frames
        for seq in range(3):
            session.outbox.send(Tick(seq=seq), live.hub.now())
        assert len(session.outbox) == 0 and session.outbox.frames == before + 3
        assert [(await client.next())["seq"] for _ in range(3)] == [0, 1, 2]


async def test_captions_and_the_close_arrive_on_either_protocol_class(either: str) -> None:
    async with running() as live, talk(live, "?to=de,fr&hb=1") as client:
        await client.send("good morning everybody")
        events = await client.until("final") + await client.until("final")
        for lang in ("de", "fr"):
            text = "".join(e["add"] for e in events if e.get("lang") == lang and "add" in e)
            assert text == f"[{lang}] good morning everybody"
        await client.until("tick")
        await client.send({"type": "bye"})
        await client.until("stats")
        assert (await client.closed())[0] == CloseCode.DONE
        await until(lambda: not live.hub.sessions)


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 200_000])
async def test_a_frame_of_any_length_arrives_complete_as_text_and_as_binary(size: int) -> None:
    async with running() as live, talk(live) as client:
        await client.until("welcome")
        outbox = seated(live).outbox
        for frame in ("ü" * (size // 2) + "x" * (size % 2), bytes(size)):
            for sent in (frame, "{}"):
                await until(lambda: outbox.post is not None)  # the socket has room
                post = outbox.post
                assert post is not None
                post(as_frame(sent))
                assert await asyncio.wait_for(client.ws.recv(), DEADLINE_S) == sent


async def test_a_reader_that_pauses_gets_all_durable_events_in_order(either: str) -> None:
    engine = ScriptedEngine({("go", "de"): ["word " * 2_000] * 10})
    async with running(engine) as live, deaf(live, "?room=r&role=view&to=de") as ws:
        await until(lambda: bool(live.hub.sessions))
        reader = seated(live)
        async with talk(live, "?room=r&to=de") as speaker:
            said = 0
            while not len(reader.outbox):
                await speaker.send("go")
                await speaker.until("final")
                said += 1
            await speaker.send("go")  # its captions wait in the outbox
            await speaker.until("final")
            ws.transport.resume_reading()
            client = Talk(ws)
            events: list[dict[str, Any]] = []
            while sum(e["type"] == "final" for e in events) <= said:
                events += await client.until("final")
        seqs = [e["seq"] for e in events if e["type"] in ("source", "final")]
        assert seqs == list(range(1, 2 * said + 3))


def broken(*_: object) -> None:
    raise KeyError("nothing")


async def test_an_unexpected_exception_closes_1011_and_its_traceback_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with running() as live, talk(live) as client:
            await client.until("welcome")
            monkeypatch.setattr(live.hub, "receive", broken)
            await client.send("hello")
            assert (await client.closed())[0] == CloseCode.SERVER_ERROR
            await until(lambda: not live.hub.sessions)
    (record,) = [r for r in caplog.records if r.name == "gateway.connection"]
    assert getattr(record.exc_info[0] if record.exc_info else None, "__name__", None) == "KeyError"


async def test_a_socket_that_cannot_be_written_to_is_closed_1011(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with running() as live, talk(live) as client:
            await client.until("welcome")
            monkeypatch.setattr(websocket, "_asgi_message", broken)
            (protocol,) = live.server.server_state.connections
            protocol.pause_writing()
            seated(live).outbox.send(Tick(seq=1), live.hub.now())
            await until(lambda: bool(caplog.records))
            protocol.resume_writing()
            assert (await client.closed())[0] == CloseCode.SERVER_ERROR
    assert [r.name for r in caplog.records if r.levelno >= logging.ERROR] == ["gateway.connection"]


async def test_a_lost_socket_is_not_kept_in_memory_by_its_writer() -> None:
    async with running() as live:
        async with talk(live) as client:
            await client.until("welcome")
            (protocol,) = live.server.server_state.connections
            scope = protocol.scope  # type: ignore[union-attr]
            assert scope["extensions"][WRITER] is protocol
        await until(lambda: not live.hub.sessions)
        assert WRITER not in scope["extensions"]


async def test_a_socket_may_be_lost_in_the_same_turn_as_its_last_write() -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    for turns in range(8):  # in one of them the write is the last
        session = hub.open(ConnectRequest())

        async def send(message: Any) -> None:
            await asyncio.sleep(0)

        async def receive(turns: int = turns, session: Session = session) -> dict[str, Any]:
            for _ in range(turns):
                await asyncio.sleep(0)
            session.outbox.close(CloseCode.REPLACED)
            return {"type": "websocket.disconnect", "code": 1006}

        await websocket.Connection(receive, send, hub, session, None, None).serve()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not faults


MARK = ContextVar("MARK", default="nobody")


async def receiving() -> dict[str, Any]:
    """Wait for a message of a client that sends none."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def test_context_variables_that_a_send_sets_do_not_reach_the_sender_of_the_event() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    session = hub.open(ConnectRequest())
    room = asyncio.Event()
    seen: list[str] = []

    async def send(message: Any) -> None:
        seen.append(MARK.get())
        before = MARK.set("the send")
        await room.wait()
        MARK.reset(before)  # raises in another context

    MARK.set("the request")
    serving = asyncio.create_task(
        websocket.Connection(receiving, send, hub, session, None, None).serve()
    )
    MARK.set("the engine")
    room.set()
    await until(lambda: session.outbox.post is not None)
    room.clear()
    session.outbox.send(Tick(seq=1), hub.now())
    assert session.outbox.post is None
    assert MARK.get() == "the engine"
    room.set()
    await until(lambda: session.outbox.post is not None)
    assert set(seen) == {"the request"}
    session.outbox.close(CloseCode.DONE)
    await serving


async def test_a_cancelled_send_ends_its_own_socket_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        hub = Hub(RoomHost(ScriptedEngine(), Limits()))
        for waits in (False, True):
            session = hub.open(ConnectRequest())
            broken: list[bool] = []

            async def send(message: Any, waits: bool = waits, broken: list[bool] = broken) -> None:
                if broken:
                    await asyncio.sleep(0) if waits else None
                    raise asyncio.CancelledError

            serving = asyncio.create_task(
                websocket.Connection(receiving, send, hub, session, None, None).serve()
            )
            outbox = session.outbox
            await until(lambda: outbox.post is not None)  # noqa: B023  # awaited in this turn
            broken.append(True)
            session.outbox.send(Tick(seq=1), hub.now())
            await serving
            assert session.id not in hub.sessions or session.outbox.post is None
    assert not caplog.records


async def test_a_session_that_resumes_closes_its_old_socket_even_if_that_does_not_read(
    either: str,
) -> None:
    """The outbox may hold more frames than the one that the socket is sending."""
    async with running() as live, deaf(live, "") as ws:
        await until(lambda: bool(live.hub.sessions))
        session = seated(live)
        outbox = session.outbox
        error = Error(code="internal", fatal=False, retry=False, msg="x" * 10_000)
        while len(outbox) < 3:
            outbox.send(error, live.hub.now())
        outbox.close(CloseCode.REPLACED)
        await until(lambda: not live.hub.sessions)
        ws.transport.abort()


async def test_a_send_that_fails_in_an_unknown_way_is_logged_and_closes_the_socket(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "websocket_protocol", lambda _: WebSocketsSansIOProtocol)

    async with running() as live, talk(live) as client:
        await client.until("welcome")
        session = seated(live)
        monkeypatch.setattr(
            websocket, "_asgi_message", lambda frame: {"type": "no such thing", 0: 1 / 0}
        )
        session.outbox.send(Tick(seq=1), live.hub.now())
        assert session.outbox.post is None
        monkeypatch.undo()
        await until(lambda: not live.hub.sessions)
    assert "cannot be written to" in caplog.text
    assert "ZeroDivisionError" in caplog.text
