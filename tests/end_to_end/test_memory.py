"""Memory of a session: nothing of its handshake is kept."""

from __future__ import annotations

import pytest

from gateway.core.session.session import Session
from gateway.server.routes.websocket import Connection
from gateway.server.uvicorn.websocket import WebSocketProtocol
from tests.support.live import running
from tests.support.talk import talk


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
