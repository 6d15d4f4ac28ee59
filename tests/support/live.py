"""A real gateway on a real port: Starlette's test client has endless buffers and no network."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2 as httpx
import msgspec
from starlette.datastructures import State

from gateway.auth.origin import AllowedHosts
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.build import fleet
from gateway.server.fleet.rooms import FleetRooms
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import TextOptions
from gateway.settings.catalogue import Settings
from gateway.storage.sqlite.store import SqliteStore


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds. The test's own timeout limits this."""
    while not condition():  # noqa: ASYNC110  # what is waited for knows no event
        await asyncio.sleep(0.001)


@dataclass(frozen=True)
class Live:
    """A running gateway. ``ws`` and ``http`` are base addresses, without a path."""

    ws: str
    http: str
    hub: Hub
    engine: Engine
    server: GatewayServer
    loop: asyncio.AbstractEventLoop
    state: State
    """State of the application, as its routes see it."""

    @property
    def socket(self) -> str:
        return self.ws + "/v1/ws"

    @property
    def shared(self) -> FleetRooms:
        """The rooms of a gateway with Redis."""
        assert isinstance(self.hub.fleet, FleetRooms)
        return self.hub.fleet


@contextlib.asynccontextmanager
async def running(
    engine: Engine | None = None,
    limits: Limits | None = None,
    *,
    lang: str | None = None,
    flow: StreamingOptions | None = None,
    store: SqliteStore | None = None,
    drain_s: float = 5.0,
    authenticator: Authenticator | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[Live]:
    """Serve ``engine`` (default: a scripted one) until the block ends.

    Handshakes that are written by hand call it ``x``.
    """
    engine = engine if engine is not None else ScriptedEngine()
    limits = limits if limits is not None else Limits()
    settings = msgspec.structs.replace(settings or Settings(), limits=limits)
    listener = listen("127.0.0.1", 0, settings=settings)
    port = listener.getsockname()[1]
    if authenticator is None:
        authenticator = Authenticator(limits, hosts=AllowedHosts(["x"]))
    app = create_app(
        engine,
        limits,
        store=store,
        authenticator=authenticator,
        text=TextOptions(lang=lang, flow=flow),
        fleet=None if settings.redis is None else partial(fleet, url=settings.redis),
    )
    server = GatewayServer(configure(app, settings), app.state.hub, drain_s)
    if store is not None:
        await store.open()
    await engine.start()
    serving = asyncio.create_task(server._serve([listener]))
    try:
        await until(lambda: server.started)
        loop = asyncio.get_running_loop()
        yield Live(
            f"ws://127.0.0.1:{port}",
            f"http://127.0.0.1:{port}",
            app.state.hub,
            engine,
            server,
            loop,
            app.state,
        )
    finally:
        server.should_exit = True
        app.state.hub.hurry()
        await serving
        assert not server.server_state.connections, "would be found open in a later test"
        await engine.aclose()
        if store is not None:
            await store.close()


@contextlib.asynccontextmanager
async def browse(
    engine: ScriptedEngine | None = None, limits: Limits | None = None, drain_s: float = 5.0
) -> AsyncIterator[tuple[httpx.AsyncClient, Live]]:
    """Serve as `running` does; yield an HTTP client of the gateway, and the gateway."""
    async with (
        running(engine, limits, drain_s=drain_s) as live,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        yield client, live


@contextlib.contextmanager
def in_thread(
    engine: Engine | None = None,
    limits: Limits | None = None,
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: Any,
) -> Iterator[Live]:
    """Serve as `running` does, for tests that are no coroutines.

    :param loop: returns the event loop; default: asyncio's own
    :param options: those of `running`
    """
    ready: Future[Live] = Future()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        done = asyncio.Event()
        try:
            async with running(engine, limits, **options) as live:
                stop.append((live.loop, done))
                ready.set_result(live)
                await done.wait()
        except BaseException as exc:
            if not ready.done():
                ready.set_exception(exc)
            raise

    def serve() -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=serve, name="gateway")
    thread.start()
    try:
        yield ready.result(timeout=20)
    finally:
        for running_loop, done in stop:
            running_loop.call_soon_threadsafe(done.set)
        thread.join(timeout=20)
        assert not thread.is_alive(), "the gateway did not stop"
