"""The gateway inside another application, on uvicorn and on Hypercorn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn
from fastapi import FastAPI
from hypercorn.asyncio import serve as serve_hypercorn
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from benchmarks.ports import free_port
from gateway.cli.main import main
from gateway.server.app import GatewayApp
from gateway.server.build import gateway_app
from gateway.settings.catalogue import Settings, SettingsError
from tests.support.live import until

OPEN = Settings(engine="scripted", insecure=True)

Serve = Callable[[ASGIApp], contextlib.AbstractAsyncContextManager[str]]


@contextlib.asynccontextmanager
async def uvicorn_serves(app: ASGIApp) -> AsyncIterator[str]:
    """Serve on uvicorn with its own protocols, and yield host and port."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="on"))
    task = asyncio.create_task(server._serve())
    await until(lambda: server.started or task.done())
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@contextlib.asynccontextmanager
async def hypercorn_serves(app: ASGIApp) -> AsyncIterator[str]:
    """Serve on Hypercorn, and yield host and port."""
    config = Config()
    config.bind = [f"127.0.0.1:{free_port()}"]
    end = asyncio.Event()

    async def ended() -> None:
        await end.wait()

    task = asyncio.create_task(serve_hypercorn(app, config, shutdown_trigger=ended))  # type: ignore[arg-type]
    try:
        yield config.bind[0]
    finally:
        end.set()
        await task


def mounted(captions: GatewayApp) -> Starlette:
    return Starlette(routes=[Mount("/captions", captions)], lifespan=captions.lifespan)


async def answer(url: str) -> httpx.Response:
    """Request ``url``, again while the server does not listen yet."""
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=5)) as client:
        return await client.get(url)


async def translated(socket: Any, text: str) -> str:
    """Say ``text`` and return its final translation."""
    await socket.send(text)
    async for frame in socket:
        event = json.loads(frame)
        if event["type"] == "final":
            return str(event["text"])
    raise AssertionError("the socket closed first")


@pytest.mark.parametrize("serving", [uvicorn_serves, hypercorn_serves])
async def test_a_mounted_gateway_serves_page_requests_and_sockets(serving: Serve) -> None:
    async with serving(mounted(gateway_app(OPEN))) as place:
        page = await answer(f"http://{place}/captions/")
        assert (page.status_code, page.headers["x-frame-options"]) == (200, "DENY")
        assert "<script" in page.text
        ready = await answer(f"http://{place}/captions/readyz")
        assert ready.status_code == 200
        async with connect(f"ws://{place}/captions/v1/ws?from=en&to=de") as socket:
            assert "good morning" in await translated(socket, "good morning")


async def test_fastapi_runs_the_lifespan_of_a_mounted_gateway_beside_its_own() -> None:
    captions = gateway_app(OPEN)
    order = []

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        order.append("database")
        async with captions.lifespan(app):
            yield
        order.append("end")

    app = FastAPI(lifespan=lifespan)
    app.mount("/a/b", captions)
    async with uvicorn_serves(app) as place:
        async with connect(f"ws://{place}/a/b/v1/ws?from=en&to=de") as socket:
            assert "hello" in await translated(socket, "hello")
    assert order == ["database", "end"]


async def test_a_gateway_whose_lifespan_does_not_run_says_so_at_once() -> None:
    app = Starlette(routes=[Mount("/captions", gateway_app(OPEN))])
    async with uvicorn_serves(app) as place:
        refused = await answer(f"http://{place}/captions/v1/languages")
        assert refused.status_code == 500
        assert "lifespan=captions.lifespan" in refused.json()["hint"]
        with pytest.raises(InvalidStatus) as handshake:
            await connect(f"ws://{place}/captions/v1/ws?to=de")
        assert "lifespan=captions.lifespan" in handshake.value.response.body.decode()


async def test_middleware_that_is_added_sees_sockets_as_well_as_requests() -> None:
    seen = []

    class Spy:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            seen.append((scope["type"], scope["path"]))
            await self.app(scope, receive, send)

    captions = gateway_app(OPEN)
    captions.add_middleware(Spy)
    async with uvicorn_serves(mounted(captions)) as place:
        await answer(f"http://{place}/captions/healthz")
        async with connect(f"ws://{place}/captions/v1/ws?from=en&to=de") as socket:
            await socket.recv()
    assert ("http", "/captions/healthz") in seen
    assert ("websocket", "/captions/v1/ws") in seen


async def test_routes_can_be_added_beside_those_of_the_gateway() -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(request.app.state.hub.sessions)} are here")

    captions = gateway_app(OPEN)
    captions.routes.insert(0, Route("/hello", hello))
    app = Starlette(
        routes=[Mount("/captions", captions)],
        lifespan=captions.lifespan,
        middleware=[Middleware(Pass)],
    )
    async with uvicorn_serves(app) as place:
        assert (await answer(f"http://{place}/captions/hello")).text == "0 are here"


class Pass:
    """Middleware that changes nothing, as applications have around a mount."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


async def test_an_embedded_gateway_opens_and_closes_its_store(tmp_path: Path) -> None:
    settings = Settings(engine="scripted", insecure=True, store=f"sqlite:{tmp_path / 'rooms.db'}")
    captions = gateway_app(settings)
    async with captions.lifespan(captions):
        assert (tmp_path / "rooms.db").exists()
    async with gateway_app(settings).lifespan(captions):
        pass  # the lock of the first was given back


def test_an_application_that_everybody_could_use_has_to_be_asked_for() -> None:
    with pytest.raises(SettingsError, match=r"Settings\(insecure=True\)"):
        gateway_app(Settings(engine="scripted"))


async def test_the_example_of_the_how_to_page_serves_those_who_have_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "embed.md"
    example = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    assert main(["key", "test", "--keys", "keys.toml"]) == 0
    program: dict[str, Any] = {}
    exec(example.replace('{"keys"', '{"engine": "scripted", "keys"'), program)
    async with uvicorn_serves(program["app"]) as place:
        assert (await answer(f"http://{place}/captions/readyz")).status_code == 200
        assert (
            await answer(f"http://{place}/captions/v1/rooms/a/transcript.txt")
        ).status_code == 401
