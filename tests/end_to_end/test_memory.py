"""Memory of a session: nothing of its handshake is kept, and nothing after its end."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from gateway.core.session.session import Session
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.routes.websocket import Connection
from gateway.server.uvicorn.websocket import WebSocketProtocol
from tests.support.live import running, until
from tests.support.talk import talk

KINDS = {"Session", "Outbox", "Connection", "GatewaySocket", "ServerProtocol", "Room"}
KINDS |= {"Captioner", "EventLog"}
BEFORE = {"HttpProtocol", "HttpRequestParser"}
"""Classes of objects that exist until a connection has become a WebSocket."""


def alive() -> Counter[str]:
    """Return the objects of sessions, reachable or not."""
    names = (type(thing).__name__ for thing in gc.get_objects())
    return Counter(name for name in names if name in KINDS | BEFORE)


async def test_a_session_that_has_ended_is_freed_without_the_garbage_collector() -> None:
    async with running() as live:
        gc.collect()
        gc.disable()
        try:
            before = alive()
            async with talk(live, "?to=de&hb=60") as client:
                await client.send("good morning")
                await client.until("final")
                assert set((alive() - before).keys()) == KINDS
            await until(lambda: not live.server.server_state.connections)
            await until(lambda: not live.hub.rooms)
            await until(lambda: not alive() - before)
        finally:
            gc.enable()


async def test_a_session_with_cancelled_captions_is_freed_without_the_garbage_collector() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine, Limits(grace_s=0.01, room_s=0.01)) as live:
        gc.collect()
        gc.disable()
        try:
            before = alive()
            async with talk(live, "?to=de,fr") as client:
                await client.send({"type": "say", "id": "a", "text": "one two three"})
                await until(lambda: engine.unfinished == 2)
                await client.send({"type": "cancel", "id": "a"})
                await client.until("cancelled")
                await client.send("four five six")
                await until(lambda: engine.unfinished == 2)
                client.ws.transport.abort()
            await until(lambda: engine.unfinished == 0 and not live.hub.rooms)
            await until(lambda: not alive() - before)
        finally:
            gc.enable()


async def test_an_open_socket_keeps_nothing_of_its_handshake() -> None:
    async with running() as live, talk(live, "?to=de") as client:
        await client.until("welcome")
        (protocol,) = live.server.server_state.connections
        assert isinstance(protocol, WebSocketProtocol)
        assert not protocol.request.headers and not protocol.response.headers
        assert protocol.scope["headers"] == []


@pytest.mark.parametrize("kind", [Connection, Session])
def test_objects_that_every_socket_has_use_slots(kind: type) -> None:
    assert all("__slots__" in vars(base) for base in kind.__mro__[:-1])
