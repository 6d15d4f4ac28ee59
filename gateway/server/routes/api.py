"""HTTP routes besides the WebSocket: one-shot translation, languages, health, metrics.

Owns: requests, status codes and JSON bodies. Must not know: how a text is translated. A request
translates as a socket does, in a private room.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from gateway import __version__
from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.engines.base.service import Health
from gateway.errors import ClientFault, EngineFault, ErrorCode, GatewayError, bad_frame
from gateway.protocol.fields import Context, Terms
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import Final
from gateway.server.access.guarded_route import POST, PUBLIC, TRANSLATE, GuardedRoute, Right
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from gateway.server.routes.oneshot import read as read_texts
from gateway.server.runtime.hub import Hub, HubPhase
from gateway.settings.loading import near
from gateway.storage.base import StoreFault
from gateway.text import languages

log = logging.getLogger("gateway.http")

T = TypeVar("T")

SHOWN_PATH = 128
"""Most characters of an unknown path that the answer repeats."""
STATUS: Mapping[ErrorCode, int] = {
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.TOO_LONG: 413,
    ErrorCode.BUSY: 429,
    ErrorCode.RATE: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.REJECTED: 502,
    ErrorCode.ENGINE_UNAVAILABLE: 503,
    ErrorCode.TIMEOUT: 504,
}
"""HTTP status by error code; 400 for any other code."""

LATE_BODY = 408
"""HTTP status of ``timeout`` if the client was late and not the engine (RFC 9110, 15.5.9)."""


class TranslateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """The body of ``POST /v1/translate``."""

    EXAMPLE: ClassVar = '{"text":"good morning","source_lang":"en","target_lang":"de"}'
    text: str
    target_lang: str
    source_lang: str = "auto"
    context: Context | None = None
    glossary: Terms | None = None
    stream: bool = False


async def translate(request: Request, permissions: Permissions) -> Response:
    """Translate one text into one language. Answer in JSON or, with ``stream``, in events."""
    body = await read(request, TranslateRequest)
    asked = OneShotRequest(
        (body.text,), body.source_lang, body.target_lang, body.context, body.glossary, body.stream
    )
    shot = await begin(request, asked, permissions)
    if body.stream:
        return EventStreamResponse(shot, _encoded(shot))
    finals = await while_connected(request, shot.finals())
    (text,) = shot.join(finals)
    answer = {
        "translation": text,
        "source_lang": shot.source,
        "target_lang": shot.target,
        "ms": max(final.ms.total for final in finals),
        "flags": sorted({flag for final in finals for flag in final.flags}),
    }
    known = [final.p for final in finals if final.p is not None]
    if known:
        answer["p"] = round(math.prod(known), 2)
    return reply(answer)


async def begin(request: Request, asked: OneShotRequest, permissions: Permissions) -> OneShot:
    """Begin a translation, as a part of the trace that the request belongs to. See `OneShot`."""
    hub = _hub(request)
    texts = await read_texts(hub, asked)
    return OneShot(hub, asked, texts, permissions, partial(trace, request))


def trace(request: Request, session: str) -> None:
    """Make a session a part of the trace that the request belongs to, if there are traces."""
    tracer = request.app.state.tracer
    if tracer is not None:
        tracer.connected(session, request.headers, once=True)


async def while_connected(request: Request, awaited: Awaitable[T]) -> T:
    """Return the result of an awaitable, which is cancelled if the client disconnects.

    Raises `ClientFault` (``not_found``) if the client has disconnected.
    """
    work = asyncio.ensure_future(awaited)
    disconnected = asyncio.ensure_future(until_disconnected(request.receive))
    try:
        await asyncio.wait({work, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if disconnected.done():
            raise ClientFault(ErrorCode.NOT_FOUND, "The caller hung up.")
        return work.result()
    finally:
        work.cancel()
        disconnected.cancel()
        await asyncio.gather(work, disconnected, return_exceptions=True)
        del work, disconnected  # they refer to a fault, and that to this frame


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client of a request has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStreamResponse(StreamingResponse):
    """A translation as server-sent events, which are encoded already."""

    def __init__(self, shot: OneShot, events: AsyncGenerator[bytes]) -> None:
        headers = {"cache-control": "no-store"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events
        self._shot = shot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # Close the generator now: the garbage collector would do so at any later time.
            async with aclosing(self._events):
                # Not Starlette's own: if the client has gone, its task group leaves a cycle.
                await while_connected(Request(scope, receive), self.stream_response(send))
        except ClientFault as fault:
            log.debug("the end of a stream was not sent: %s", fault)
        finally:
            # The session ends with the answer, even if the answer is never begun.
            self._shot.close()


async def _encoded(shot: OneShot) -> AsyncGenerator[bytes]:
    finals = []
    try:
        async with aclosing(shot.events()) as events:
            async for event in events:
                if isinstance(event, Final):
                    finals.append(event)
                yield _sse(str(event.__struct_config__.tag), event)
        (text,) = shot.join(finals)
        yield _sse("done", {"translation": text})
    except GatewayError as fault:
        # The status 200 has been sent: a failure can only be an event.
        yield _sse("error", _body(fault))


def _sse(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


async def list_languages(request: Request, _: Permissions) -> Response:
    """Answer with the languages, their targets and their names."""
    return await language_list(request, _rows)


def _rows(profile: Model) -> object:
    rows = []
    for tag, targets in directions(profile).items():
        row = {"tag": tag, "name": languages.name(tag), "endonym": languages.endonym(tag)}
        pivoted = [target for target in targets if profile.pivots(tag, target)]
        rows.append({**row, "targets": targets, "pivoted": pivoted})
    about = {"model": profile.name, "pivot": profile.pivot, "glossary": profile.glossary}
    return {**about, "languages": rows}


async def language_list(request: Request, make: Callable[[Model], object]) -> Response:
    """Answer with a list of the engine's languages, which ``make`` returns for JSON."""
    # The list is made once for each profile: making one takes long, and no key is required.
    profile = _hub(request).engine.profile
    cache: dict[object, tuple[Model, bytes]] = request.app.state.language_lists
    cached_for, body = cache.get(make, (None, b""))
    if cached_for is not profile:
        # Two requests may both make it. That is rare and does no harm.
        body = await asyncio.to_thread(lambda: msgspec.json.encode(make(profile)))
        cache[make] = (profile, body)
    return Response(body, media_type="application/json")


def directions(profile: Model) -> dict[str, list[str]]:
    """Return the targets of each source. Takes 50 ms for NLLB: call it off the event loop."""
    return {
        tag: [t for t in profile.targets if profile.supports(tag, t)] for tag in profile.sources
    }


async def healthz(request: Request, _: Permissions) -> Response:
    """Answer 200: the process is alive."""
    return reply({"status": "ok", "version": __version__})


async def readyz(request: Request, _: Permissions) -> Response:
    """Answer 200 if a new utterance would be translated, else 503 with the reason.

    Without Redis that is so in rooms that are not shared.
    """
    hub = _hub(request)
    return _readiness(hub, ready=hub.ready)


async def readyz_rooms(request: Request, _: Permissions) -> Response:
    """Answer 200 if a new utterance would be translated in any room, else 503 with the reason."""
    hub = _hub(request)
    return _readiness(hub, ready=hub.ready_for_rooms)


def _readiness(hub: Hub, *, ready: bool) -> Response:
    hub.shutdown.probed_at = hub.now()
    status = hub.engine.health.value if hub.phase is HubPhase.OPEN else hub.phase.value
    if status == Health.READY.value and not hub.ready_for_rooms:
        if hub.recognition is not None and hub.recognition.starting:
            status = Health.STARTING.value
        else:
            # The other gateways cannot be reached, or are of another version.
            status = "alone" if hub.ready else "incompatible"
    body: dict[str, object] = {
        "status": status,
        "engine": hub.engine.name,
        "fallback": hub.host.degraded.engine,
        "partials": hub.host.degraded.partials,
    }
    engines = {name: part.health.value for name, part in hub.engine.parts.items()}
    if len(engines) > 1:
        body["engines"] = engines
    if hub.recognition is not None:
        recogniser = hub.recognition.recogniser
        body["recogniser"] = {"name": recogniser.name, "status": recogniser.health.value}
    return reply(body, 200 if ready else 503)


async def metrics(request: Request, _: Permissions) -> Response:
    """Answer with the metrics in Prometheus' text format."""
    text = await asyncio.to_thread(request.app.state.metrics.expose)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def on_fault(request: Request, exc: Exception) -> Response:
    """Answer with a `GatewayError` as JSON with its status."""
    assert isinstance(exc, GatewayError)
    return refusal(exc)


def no_room(name: str, hint: str | None = None) -> ClientFault:
    """Return the fault (``not_found``) of a request for a room that does not exist."""
    return ClientFault(ErrorCode.NOT_FOUND, f"There is no room {name[:64]!r}.", hint)


def refusal(fault: GatewayError, body: Any = None, code: int | None = None) -> Response:
    """Return the answer to a request that fails with ``fault``. By default it has the body of all
    errors of this gateway, and the code of `status`.
    """
    headers = {}
    if fault.code.retry:
        # The header has whole seconds (RFC 9110, section 10.2.3), so that a client waits no less.
        retry_ms = fault.retry_ms if isinstance(fault, ClientFault) else None
        headers["retry-after"] = str(math.ceil((retry_ms or 1000) / 1000))
    if fault.code is ErrorCode.UNAUTHENTICATED:
        # Required of every 401 (RFC 9110, section 11.6.1).
        headers["www-authenticate"] = "Bearer"
    return reply(_body(fault) if body is None else body, code or status(fault), headers)


def status(fault: GatewayError) -> int:
    """Return the HTTP status of an error."""
    if fault.code is ErrorCode.TIMEOUT and isinstance(fault, ClientFault):
        return LATE_BODY
    return STATUS.get(fault.code, 400)


async def on_http(request: Request, exc: Exception) -> Response:
    """Answer requests that Starlette refuses by itself (404, 405) with the body of all errors."""
    assert isinstance(exc, HTTPException)
    # A path of the client is shown cut, because it can be long.
    path = request.url.path[:SHOWN_PATH]
    known = [route.path for route in request.app.routes if isinstance(route, Route)]
    code, hint = ErrorCode.NOT_FOUND, near(path, known).strip() or None
    if exc.status_code == 405:
        methods = sorted(Headers(exc.headers).get("allow", "").split(", "))
        code, hint = ErrorCode.BAD_FRAME, f"Allowed: {', '.join(methods)}."
    fault = ClientFault(code, f"{request.method} {path}: {exc.detail}.", hint)
    return reply(_body(fault), exc.status_code, exc.headers)


async def upgrade_required(request: Request, _: Permissions) -> Response:
    """Answer a plain request for the socket's path with 426 (RFC 9110, section 15.5.22)."""
    why = f"{request.url.path} is a WebSocket, and this request asks for none."
    proxy = "Behind a proxy, have it pass on the headers Connection and Upgrade."
    fault = bad_frame(why, f"Try: {_wscat(request)} {proxy}")
    return reply(_body(fault), 426, {"upgrade": "websocket", "connection": "Upgrade"})


async def no_socket(socket: WebSocket) -> None:
    """Refuse a WebSocket handshake for another path with 404 and the right path."""
    path = socket.url.path[:SHOWN_PATH]
    message = f"There is no WebSocket at {path}: it is at {SOCKET_PATH}."
    fault = ClientFault(ErrorCode.NOT_FOUND, message, f"Try: {_wscat(socket)}")
    await refuse(fault, socket.scope, socket.receive, socket.send)


async def refuse(fault: GatewayError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request or a handshake with a fault."""
    # The answer to a handshake is an ASGI extension, which not every server has.
    answers = "websocket.http.response" in scope.get("extensions", {})
    if scope["type"] == "websocket" and not answers:
        await send({"type": "websocket.close"})  # the server answers 403
    else:
        await refusal(fault)(scope, receive, send)


def _wscat(connection: HTTPConnection) -> str:
    """Return a command line that opens the socket."""
    url = connection.url
    scheme = "wss" if url.scheme in ("https", "wss") else "ws"
    prefix = connection.scope.get("root_path", "")
    return f"wscat -c '{scheme}://{url.netloc}{prefix}{SOCKET_PATH}?to=de'"


async def on_bug(request: Request, exc: Exception) -> Response:
    """Answer an unexpected exception with 500. Starlette logs its traceback."""
    return reply({"error": "A fault of the gateway; it was logged.", "code": "internal"}, 500)


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(msgspec.json.encode(body), status, headers, "application/json")


def _body(fault: GatewayError) -> dict[str, str | None]:
    return {"error": str(fault), "code": fault.code.value, "hint": fault.hint}


def _hub(request: Request) -> Hub:
    hub: Hub = request.app.state.hub
    return hub


ROUTES = (
    GuardedRoute(SOCKET_PATH, upgrade_required, PUBLIC),
    GuardedRoute("/v1/translate", translate, TRANSLATE, methods=POST),
    GuardedRoute("/v1/languages", list_languages, PUBLIC),
    GuardedRoute("/healthz", healthz, PUBLIC),
    GuardedRoute("/readyz", readyz, PUBLIC),
    GuardedRoute("/readyz/rooms", readyz_rooms, PUBLIC),
    GuardedRoute("/metrics", metrics, Right(Role.MODERATE)),  # they name all tenants
)

EXCEPTIONS = {
    ClientFault: on_fault,
    EngineFault: on_fault,
    StoreFault: on_fault,
    HTTPException: on_http,
    Exception: on_bug,
}
