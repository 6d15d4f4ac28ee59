"""The ASGI application: routes, middleware, and the lifespan of the hub.

Owns: which module serves which path, and the background tasks. Must not know: how a route works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.auth.origin import AllowedOrigins
from gateway.engines.base.engine import Engine
from gateway.engines.base.language_detection import Detector
from gateway.errors import ClientFault, ErrorCode, redacted
from gateway.io.tasks import keep_running, running
from gateway.limits import Limits
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import ServerMessage
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.guarded_route import GuardedRoute
from gateway.server.metrics import Metrics, authentication, deliveries
from gateway.server.outputs.outputs import Outputs
from gateway.server.realtime.transcription import TranscriptionDialect
from gateway.server.realtime.translation import TranslationDialect
from gateway.server.routes import (
    api,
    audio_files,
    deepl,
    description,
    libretranslate,
    openai,
    page,
    qr,
    sse,
    tickets,
    transcripts,
)
from gateway.server.routes.realtime import RealtimeEndpoint
from gateway.server.routes.websocket import WebSocketEndpoint
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.recognition import RecognitionRunner, SpeechModels
from gateway.server.runtime.room_host import RoomHost, TextOptions
from gateway.server.telemetry.start import start as start_telemetry
from gateway.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from gateway.server.telemetry.providers import Telemetry

log = logging.getLogger("gateway.app")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; "
)
"""Content security policy of the demo page: its own files only. `_own_connections` is added."""
HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
"""Value of ``Host`` that may stand in the policy. An IPv6 address cannot."""
SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every HTTP answer, beside its policy."""
DOCUMENT_SECURITY = (
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(self), payment=(), usb=()"),
)
"""Headers of HTML, which browsers read of documents alone."""
FILE_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
"""Policy of all other answers: opened as a document, a file may load nothing. It is short, because
a first visit of the page loads more than forty files."""
UNCHECKED = frozenset(("/healthz", "/readyz", "/readyz/rooms"))
"""Paths without a check of ``Origin`` and ``Host``. Load balancers call the gateway by any name,
and the answers are not private."""
APIS, ROOMS = (api, libretranslate, deepl, openai, audio_files), (transcripts, tickets, sse, qr)
HTTP_ROUTES = tuple(route for part in (*APIS, *ROOMS, description) for route in part.ROUTES)
"""Every HTTP route except those of the demo page."""
UNSTARTED = ClientFault(
    ErrorCode.INTERNAL,
    "The gateway was not started.",
    "An application that mounts the gateway has to run its lifespan:"
    " Starlette(..., lifespan=captions.lifespan).",
)
"""Answer to requests and handshakes while the lifespan does not run."""


def create_app(
    engine: Engine,
    limits: Limits | None = None,
    *,
    authenticator: Authenticator,
    text: TextOptions | None = None,
    guards: Counter[tuple[str, str]] | None = None,
    store: SqliteStore | None = None,
    fleet: Callable[[RoomHost], Fleet] | None = None,
    speech: SpeechModels | None = None,
) -> GatewayApp:
    """Return the gateway around an engine as an ASGI application.

    `gateway.server.build.gateway_app` makes one from settings, to be mounted. Here the caller
    starts and closes ``engine`` and ``store``. The lifespan must run: it starts the housekeeping,
    and its end closes all rooms. A server that stops serving before should first call
    ``app.state.hub.drain(seconds)``, so that captions in flight are finished. The bounds of
    `gateway.server.uvicorn` hold only with `gateway.server.process.serve.configure`.

    ``app.state`` has these attributes for embedders: ``hub`` (`Hub`), ``authenticator``,
    ``metrics`` (`Metrics`), ``outputs`` (`Outputs`), ``tracer`` (None unless the variables of
    OpenTelemetry ask for traces), ``store``, and ``base_url`` (address of the gateway for QR codes,
    without a slash at its end; None: the address of the request).

    :param engine: translates; its profile lists the languages
    :param limits: bounds of sockets, texts, rooms and memory; default: `Limits()`
    :param authenticator: decides who is admitted, and signs tokens; without keys and issuer it
        admits everyone
    :param text: treatment of text; without a detector, the languages of the engine are detected
    :param guards: counts outputs that a guard stopped, by guard and outcome. Pass the counter that
        the engine was built with, so that ``/metrics`` shows it.
    :param store: stores rooms across restarts; default: rooms are in memory only
    :param fleet: makes the rooms that are shared with other gateways; default: none are shared
    :param speech: recognises speech; the caller starts and closes it; default: audio is refused
    """
    metrics = Metrics()
    telemetry: Telemetry | None = None

    def observe(room: str, event: ServerMessage, now: float) -> None:
        metrics.observe(event)
        if telemetry is not None:
            telemetry.tracer.observe(room, event, now)
        outputs.observe(room, event)

    limits = limits if limits is not None else Limits()
    # Only languages that the engine can translate from are worth detecting.
    text = text or TextOptions()
    detector = text.detect or Detector(engine.profile.sources)
    host = RoomHost(engine, limits, text=replace(text, detect=detector), observe=observe)
    hub = Hub(
        host,
        Fleet(host, store) if fleet is None else fleet(host),
        recognition=None if speech is None else RecognitionRunner(host, *speech),
        signer=authenticator.signer,
    )
    outputs = Outputs(hub)
    telemetry = start_telemetry(hub, os.environ)
    metrics.add(authentication, authenticator)
    metrics.add(deliveries, outputs)
    metrics.add_hub(hub, guards if guards is not None else Counter())

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await hub.fleet.start(hub.signer if authenticator.signer_is_random else None)

        async def watch_keys() -> None:
            await authenticator.watch_keys(lambda: hub.review(authenticator.confirm))

        async with contextlib.AsyncExitStack() as stack:
            if telemetry is not None:
                stack.push_async_callback(telemetry.aclose)
            stack.push_async_callback(authenticator.aclose)
            stack.push_async_callback(hub.fleet.aclose)
            # Without housekeeping nothing would time out, and without the watch over the key file a
            # revoked key would stay valid. A restart keeps both; the gateway stays ready meanwhile,
            # because captions do not need them.
            for work in (
                # The model takes a second to load: the first text should not wait for it.
                _load(detector),
                keep_running("housekeeping", hub.keep),
                keep_running("the watch over the key file", watch_keys),
            ):
                await stack.enter_async_context(running(work))
            stack.push_async_callback(outputs.aclose)
            # A server that drained before leaves nothing here to wait for.
            stack.push_async_callback(hub.drain, 0)
            yield

    tracer = None if telemetry is None else telemetry.tracer
    endpoint = WebSocketEndpoint(hub, authenticator, tracer)
    realtime = WebSocketEndpoint(hub, authenticator, tracer, once=True)
    http = [*HTTP_ROUTES, *page.routes()]
    for route in http:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"The route {route.path} does not state the right that it needs.")
    routes: list[BaseRoute] = [
        WebSocketRoute(SOCKET_PATH, endpoint),
        WebSocketRoute("/v1/realtime", RealtimeEndpoint(realtime, TranscriptionDialect)),
        WebSocketRoute("/v1/realtime/translations", RealtimeEndpoint(realtime, TranslationDialect)),
        *http,
        WebSocketRoute("/{path:path}", api.no_socket),
    ]
    app = GatewayApp(
        endpoint,
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(_with_checked_origin, authenticator), *_cors(authenticator.origins)],
        exception_handlers=api.EXCEPTIONS,
    )
    app.state.hub = hub
    app.state.tracer = tracer
    app.state.authenticator = authenticator
    app.state.metrics = metrics
    app.state.outputs = outputs
    app.state.store = store
    app.state.uploads = audio_files.Uploads()
    app.state.transcript_writer = transcripts.TranscriptWriter()
    app.state.language_lists = {}
    app.state.base_url = None
    return app


async def _load(detector: Detector) -> None:
    try:
        await asyncio.to_thread(detector.load)
    except Exception as exc:
        # Not fatal: the first text to detect loads the model again, and its speaker is told.
        log.error("the language detector could not be loaded", exc_info=redacted(exc))


class GatewayApp(Starlette):
    """The gateway as a Starlette application, which others can mount, wrap and extend.

    ``add_middleware`` and ``add_route`` work until the application has started.
    """

    def __init__(self, endpoint: WebSocketEndpoint, **options: Any) -> None:
        super().__init__(**options)
        self._endpoint = endpoint
        self._running = False
        self._own_middleware = len(self.user_middleware)
        self._run = self.router.lifespan_context
        self.parts: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext
        """Context in which the gateway runs: its start opens what the gateway needs."""
        self.router.lifespan_context = self.lifespan

    @contextlib.asynccontextmanager
    async def lifespan(self, host: Starlette) -> AsyncIterator[None]:
        """Run the gateway while the block lasts, for any host.

        Starlette runs the lifespan of the outermost application only. An application that mounts
        the gateway takes this method as its own ``lifespan``, or enters it in its own.
        """
        async with self.parts(), self._run(self):
            self._running = True
            try:
                yield
            finally:
                self._running = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
        elif not self._running:
            await api.refuse(UNSTARTED, scope, receive, send)
        elif (
            scope["type"] == "websocket"
            and len(self.user_middleware) == self._own_middleware
            and _path(scope) == SOCKET_PATH
        ):
            # The gateway's own middleware has nothing to do for a socket, and would keep nine
            # coroutines and some 5 KB in memory for as long as it is open.
            await self._endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware and the router behind it."""
        # Starlette answers an unhandled exception outside of its middleware. That answer needs the
        # security headers too, so they are added around the whole stack.
        return _with_security_headers(super().build_middleware_stack())


def _path(scope: Scope) -> str:
    """Return the path of a request below the prefix under which the gateway is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


# Both kinds of middleware are plain ASGI: `BaseHTTPMiddleware` would wrap every request in a task
# group.


def _with_security_headers(app: ASGIApp) -> ASGIApp:
    """Return an application that adds `SECURITY` and a policy to every HTTP answer."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *SECURITY]
                # An answer without a type is a 304: a browser puts its headers in place of those of
                # the page that it has kept.
                if Headers(raw=headers).get("content-type", "text/html").startswith("text/html"):
                    host = Headers(scope=scope).get("host")
                    policy = POLICY + _own_connections(host)
                    headers.append((b"content-security-policy", policy.encode()))
                    headers.extend(DOCUMENT_SECURITY)
                else:
                    headers.append(FILE_POLICY)
                message["headers"] = headers
            await send(message)

        await app(scope, receive, send_with_headers if scope["type"] == "http" else send)

    return wrapped


def _own_connections(host: str | None) -> str:
    """Return the rule by which the page connects to the gateway that served it and to no other."""
    # Safari before 15.4 and other old browsers do not count sockets as 'self'.
    if host is None or not HOST.fullmatch(host):
        return "connect-src 'self'"
    return f"connect-src 'self' ws://{host} wss://{host}"


def _with_checked_origin(app: ASGIApp, authenticator: Authenticator) -> ASGIApp:
    """Return an application that refuses requests of foreign pages and under foreign host names."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        # Sockets are checked by `WebSocketEndpoint`, which can explain a refusal to a browser.
        # Sockets of other paths are refused by their route, whatever their origin.
        if scope["type"] == "http" and _path(scope) not in UNCHECKED:
            try:
                authenticator.check_origin(Headers(scope=scope))
            except ClientFault as fault:
                await api.refuse(fault, scope, receive, send)
                return
        await app(scope, receive, send)

    return wrapped


def _cors(origins: AllowedOrigins) -> list[Middleware]:
    """Return the middleware that lets pages of the listed origins read answers."""
    # Credentials are not allowed: a token is in a header, not in a cookie.
    if not origins.listed:
        return []  # the gateway's own pages need no permission
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=sorted(origins.listed),
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("authorization", "content-type"),
            expose_headers=("retry-after",),
        )
    ]
