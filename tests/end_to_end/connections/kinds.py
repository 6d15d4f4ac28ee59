"""The table of all kinds of connections, and the gateway that they are made to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.routing import Route, WebSocketRoute

from benchmarks.blocking_client import BlockingClient
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.app import GatewayApp
from tests.support.live import Live
from tests.support.talk import DEADLINE_S

LIMITS = Limits(
    grace_s=0.01,
    room_s=0.01,
    outbox_bytes=32_768,
    sessions=6,
    handshake_s=0.2,
    rate=1e6,
    burst=10**6,
)


@dataclass
class Gateway:
    """A running gateway and its connections."""

    live: Live
    engine: ScriptedEngine
    key: str
    viewer: str

    @property
    def port(self) -> int:
        return int(self.live.http.rpartition(":")[2])

    @property
    def routes(self) -> set[str]:
        app = self.live.server.config.app
        assert isinstance(app, GatewayApp)
        return {route.path for route in app.routes if isinstance(route, Route | WebSocketRoute)}

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def connect(self, receive: int = 0) -> BlockingClient:
        return BlockingClient(self.port, receive)

    def socket(self, query: str = "to=de", receive: int = 0, **headers: str) -> BlockingClient:
        """Return an open socket of ``/v1/ws``, or of another path, before its first frame."""
        client = self.connect(receive)
        path = query if query.startswith("/") else f"/v1/ws?{query}"
        client.upgrade(path, self.bearer | headers)
        return client

    def welcome(self, query: str = "to=de", receive: int = 0, **headers: str) -> BlockingClient:
        client = self.socket(query, receive, **headers)
        client.until(b"session.created" if query.startswith("/v1/realtime") else b"welcome")
        return client

    def ask(
        self, method: str, path: str, body: bytes | dict[str, Any] = b"", **headers: str
    ) -> BlockingClient:
        client = self.connect()
        client.request(method, path, body, self.bearer | {"connection": "close"} | headers)
        return client

    def call(self, work: Callable[[], object]) -> None:
        """Call something in the loop of the gateway."""

        async def called() -> None:
            work()

        asyncio.run_coroutine_threadsafe(called(), self.live.loop).result(DEADLINE_S)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come true"
            time.sleep(0.002)

    def settle(self) -> None:
        """Wait until nothing is left of all connections."""
        self.call(self.engine.release)
        state, hub = self.live.server.server_state, self.live.hub

        def quiet() -> bool:
            self.call(hub.sweep)
            return not (state.connections or state.tasks or hub.sessions or hub.rooms)

        self.until(quiet)
        self.call(lambda: None)  # callbacks of the last task


Run = Callable[[Gateway], None]


@dataclass(frozen=True)
class Kind:
    """A kind of connection with one kind of end.

    :param codes: close codes that it ends with
    """

    run: Run
    route: str
    codes: tuple[CloseCode, ...]


KINDS: dict[str, Kind] = {}


def kind(route: str, *codes: CloseCode) -> Callable[[Run], Run]:
    """Add a row to the table."""

    def added(run: Run) -> Run:
        KINDS[run.__name__] = Kind(run, route, codes)
        return run

    return added


def answered(name: str, route: str, method: str, path: str, **asked: Any) -> None:
    """Add a request with its answer to the table."""

    def run(gateway: Gateway) -> None:
        assert b" 200 " in (got := gateway.ask(method, path, **asked).end()), got

    KINDS[name] = Kind(run, route, ())


def ended(client: BlockingClient, code: CloseCode) -> None:
    """Wait for the close frame of the gateway and answer it."""
    client.until(int(code).to_bytes(2, "big"))
    client.close(code)
