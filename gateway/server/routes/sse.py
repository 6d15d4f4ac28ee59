"""A room as server-sent events, for networks that block WebSockets.

Owns: the request, the encoding of frames as events, the end of the stream. Must not know: what
frames mean. A stream has the session of a socket with ``role=view``. A client that reads too slowly
is disconnected, and resumes from the number of the last event that it received.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import Permissions, Role
from gateway.core.history.event_log import StreamPosition
from gateway.core.session.session import Session
from gateway.errors import ClientFault, CloseCode, redacted
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import is_room_name
from gateway.protocol.messages import DURABLE
from gateway.server.access.authenticator import Authenticator, Caller
from gateway.server.access.guarded_route import ROOM, GuardedRoute, Right
from gateway.server.routes.api import no_room, while_connected
from gateway.server.routes.websocket import BATCH, enter
from gateway.server.runtime.hub import Hub, session_ids

log = logging.getLogger("gateway.events")

RETRY_MS = 1000
"""Milliseconds until a browser opens a broken stream again."""
HEARTBEAT_S = 15.0
"""Default seconds between two ``tick``. Proxies close a stream that is silent for longer."""
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would buffer the stream
)

_FRAME_HEAD = re.compile(r'\{"type":"(\w+)"(?:,"seq":(\d+))?')
_EVENT_ID = re.compile(r"(\w{1,64})\.(\d{1,15})")
_DURABLE = frozenset(str(kind.__struct_config__.tag) for kind in DURABLE)


async def events(request: Request, _: Permissions) -> RoomEventStream:
    """Answer with the events of a room from now on, or since ``Last-Event-ID``."""
    hub: Hub = request.app.state.hub
    authenticator: Authenticator = request.app.state.authenticator
    room = request.path_params["room"]
    if not is_room_name(room):
        raise no_room(room)
    caller = authenticator.caller(request.scope)
    caller.admit()
    try:
        fixed: dict[str, Any] = {"room": room, "role": Role.VIEW, "speaker": None}
        if last := _EVENT_ID.fullmatch(request.headers.get("last-event-id", "")):
            fixed["since"] = StreamPosition(last[1], int(last[2]))
        query = request.query_params
        session, heartbeat = await enter(hub, caller, query, Codec.JSON, fixed)
        return RoomEventStream(hub, session, heartbeat or HEARTBEAT_S, caller)
    except BaseException:
        # Otherwise the stream releases the caller when it ends.
        caller.release()
        raise


class RoomEventStream:
    """The answer with the events, and a ``tick`` after every ``heartbeat`` seconds. The session
    ends with it.
    """

    def __init__(self, hub: Hub, session: Session, heartbeat: float, caller: Caller) -> None:
        self._hub = hub
        self._session = session
        self._heartbeat = heartbeat
        self._caller = caller
        self._has_frames = asyncio.Event()
        self._deadline = asyncio.timeout(None)  # set when the client does not read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session
        try:
            async with self._deadline:
                session.outbox.wake = self._on_outbox
                await while_connected(Request(scope, receive), self._write(send))
        except (ClientFault, OSError) as exc:  # the client has gone, or the deadline is over
            log.debug("%s: %s", session.id, exc)
        except Exception as exc:
            ids = session_ids(session)
            log.error("%s ended by a fault", session.id, exc_info=redacted(exc), extra=ids)
        finally:
            session.outbox.detach()
            self._hub.close(session)
            self._caller.release()

    def _on_outbox(self) -> None:
        if self._session.outbox.closing is CloseCode.TOO_SLOW and not self._deadline.expired():
            self._deadline.reschedule(0)  # the client does not read: `send` would wait for ever
        self._has_frames.set()

    async def _write(self, send: Send) -> None:
        session, outbox = self._session, self._session.outbox
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        # In the block of the first event, since some clients take a block without data for one.
        await _send_text(send, f"retry: {RETRY_MS}\n")
        while outbox.closing is None or len(outbox):
            if len(outbox):
                frames = outbox.take(BATCH)
                await _send_text(send, "".join(self._event(str(frame)) for frame in frames))
                continue
            self._has_frames.clear()
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._has_frames.wait()
            except TimeoutError:  # a proxy must not take the stream for dead
                session.tick(self._hub.now())
        # SSE has no close codes: the last event carries it.
        code = outbox.closing
        await _send_text(send, f'event: close\ndata: {{"code":{code:d}}}\n\n')
        await send({"type": "http.response.body", "body": b""})

    def _event(self, frame: str) -> str:
        """Return a frame as an event. The id of a durable one lets the client resume after it."""
        head = _FRAME_HEAD.match(frame)
        assert head is not None, "a message has its type first, and a durable one its seq next"
        kind, seq = head.groups()
        if kind not in _DURABLE or seq is None:
            return f"data: {frame}\n\n"
        return f"id: {self._session.room.log.epoch}.{seq}\ndata: {frame}\n\n"


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


# A resume token is accepted too, and the stream counts as a socket of its address.
_RIGHT = Right(Role.VIEW, ROOM, by_endpoint=True)

ROUTES = (GuardedRoute("/v1/rooms/{room}/events", events, _RIGHT),)
