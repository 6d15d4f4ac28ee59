"""The ASGI application: routes, and the life of the hub.

Owns: which path is served by what. Must not know: how anything behind a path works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.auth.origin import AllowedOrigins
from gateway.auth.signing import Signer
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.errors import ClientFault
from gateway.limits import Limits
from gateway.protocol.handshake import SOCKET_PATH
from gateway.server.access.authenticator import Authenticator
from gateway.server.metrics import Metrics
from gateway.server.routes import api, libretranslate, page, qr, sse, tickets, transcripts
from gateway.server.routes.websocket import WebSocketEndpoint
from gateway.server.runtime.detection import Detector
from gateway.server.runtime.hub import Hub
from gateway.storage.base import Store, StoreFault

log = logging.getLogger("gateway.app")

POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self' ws: wss:",  # 'self' is not yet of the scheme ws everywhere
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)
"""What the demo page may load and do: its own files, and WebSockets."""

SECURITY = (
    (b"content-security-policy", "; ".join(POLICY).encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(self), payment=(), usb=()"),
)
"""Headers on every HTTP answer."""

OPEN = frozenset(("/healthz", "/readyz"))
"""Paths for machines that know the gateway by any name, and learn nothing there."""


def create_app(
    engine: Engine,
    limits: Limits | None = None,
    *,
    lang: str | None = None,
    flow: StreamingOptions | None = None,
    guards: Counter[tuple[str, str]] | None = None,
    store: Store | None = None,
    signing_key: str | None = None,
    gate: Authenticator | None = None,
    coalesce_s: float = 0.05,
) -> Starlette:
    """The gateway around an engine, and a store, that somebody else starts and closes.

    ``lang`` is what a speaker who names no language speaks (default: each text is
    detected). ``flow`` is how text that still grows is treated. ``guards`` counts what the guards
    stopped. ``signing_key`` is what tokens are signed with (default: the store's own, else a new
    one). ``gate`` is who is let in (default: everybody). ``coalesce_s`` is how long text may wait
    for more of itself under load.
    """
    metrics = Metrics()
    limits = limits if limits is not None else Limits()
    gate = gate or Authenticator(limits)
    detector = Detector(engine.profile.sources)
    hub = Hub(
        engine,
        limits,
        lang=lang,
        detect=detector,
        flow=flow,
        store=store,
        observe=metrics.observe,
        coalesce_s=coalesce_s,
        signer=None if signing_key is None else Signer(signing_key.encode()),
    )
    gate.signer = lambda: hub.signer
    metrics.guard(gate)
    metrics.watch(hub, guards if guards is not None else Counter())
    if store is not None:
        metrics.keep(store)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        if signing_key is None and store is not None:
            hub.signer = await _signer(store, hub.signer)
        loading = asyncio.create_task(asyncio.to_thread(detector.load))  # before the first text
        keepers = [
            asyncio.create_task(hub.keep()),
            asyncio.create_task(gate.watch(lambda: hub.review(gate.confirm))),
        ]
        try:
            yield
        finally:
            await hub.drain(0)
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(loading, *keepers, return_exceptions=True)
            await gate.aclose()

    endpoint = WebSocketEndpoint(hub, gate)
    routes: list[BaseRoute] = [
        WebSocketRoute(SOCKET_PATH, endpoint),
        *api.ROUTES,
        *libretranslate.ROUTES,
        *transcripts.ROUTES,
        *tickets.ROUTES,
        *sse.ROUTES,
        *qr.ROUTES,
        *page.routes(),
        WebSocketRoute("/{path:path}", api.no_socket),
    ]
    app = _Application(
        endpoint,
        routes=routes,
        lifespan=life,
        middleware=[Middleware(_OriginMiddleware, gate=gate), *_across(gate.pages)],
        exception_handlers=api.EXCEPTIONS,
    )
    # Around all there is: Starlette's own answer to a fault is outside of its middleware.
    app.middleware_stack = _SecurityHeaders(app.build_middleware_stack())
    app.state.hub = hub
    app.state.gate = gate
    app.state.metrics = metrics
    app.state.expose = partial(asyncio.to_thread, metrics.expose)  # of all processes, for several
    app.state.store = store
    app.state.scribe = transcripts.TranscriptWriter()
    app.state.menus = {}
    app.state.base = None  # where others reach it, if that is known: `join.qr`
    return app


class _Application(Starlette):
    """Starlette, except that sockets go past its middleware and routes.

    Those have nothing to do for a socket, and would keep nine coroutines and some 5 KB of it for as
    long as it is open.
    """

    def __init__(self, endpoint: WebSocketEndpoint, **options: Any) -> None:
        super().__init__(**options)
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == SOCKET_PATH:
            await self._endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _SecurityHeaders:
    """Pure ASGI: Starlette's BaseHTTPMiddleware would wrap every request in a task group."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY]
            await send(message)

        await self.app(scope, receive, with_headers)


async def _signer(store: Store, default: Signer) -> Signer:
    """One that believes what was signed before a restart, and by other processes of the store."""
    try:
        return Signer(await store.key())
    except StoreFault as fault:
        log.error("Resume tokens will not outlive this process: %s", fault)
        return default


class _OriginMiddleware:
    """Turns away requests of pages from elsewhere, and under names that are not the gateway's.

    A socket is told on the socket, by its `WebSocketEndpoint`.
    """

    def __init__(self, app: ASGIApp, gate: Authenticator) -> None:
        self.app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            try:
                self._gate.check(Headers(scope=scope))
            except ClientFault as fault:
                await api.refusal(fault)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _across(pages: AllowedOrigins) -> list[Middleware]:
    """What lets pages of listed origins read the answers: a token is in a header, not a cookie."""
    if not pages.listed:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=sorted(pages.listed),
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("authorization", "content-type"),
            expose_headers=("retry-after",),
        )
    ]
