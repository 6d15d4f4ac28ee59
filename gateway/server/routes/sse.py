"""A room as server-sent events, for networks that block WebSockets.

Owns: the request, the encoding of frames as events, the end of the stream. Must not know: what
frames mean.

A stream has a session that only reads, as a socket with ``role=view`` has: the same limits, the
same bounded outbox, the same order. A client that reads too slowly is disconnected, and resumes
from the number of the last event that it received.
"""

from __future__ import annotations

import asyncio
import logging
import re

from msgspec.structs import replace
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import Permissions, Role
from gateway.core.history.event_log import StreamPosition
from gateway.core.session.session import Session
from gateway.errors import CloseCode, redacted
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import is_room_name
from gateway.protocol.messages import DURABLE
from gateway.server.access.authenticator import Authenticator, Caller
from gateway.server.access.guarded_route import ROOM, GuardedRoute, Right
from gateway.server.routes.api import no_room, until_disconnected
from gateway.server.routes.query_parameters import read_query
from gateway.server.routes.websocket import BATCH
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
        query = request.query_params
        resumed = hub.recognise(query.get("resume"), room)
        permissions = await caller.authorize(None if resumed is None else resumed.permissions)
        asked, heartbeat = read_query(query, Codec.JSON, resumed, permissions)
        reading = replace(asked, room=room, role=Role.VIEW, speaker=None)
        last = _EVENT_ID.fullmatch(request.headers.get("last-event-id", ""))
        if last is not None:
            reading = replace(reading, since=StreamPosition(last[1], int(last[2])))
        reading.check()
        await hub.fetch(room, reading.since)
        return RoomEventStream(hub, hub.open(reading), heartbeat or HEARTBEAT_S, caller)
    except BaseException:
        # Otherwise the stream releases the caller when it ends.
        caller.release()
        raise


class RoomEventStream:
    """The answer with the events. The session ends with it.

    :param heartbeat: seconds between two ``tick``
    """

    def __init__(self, hub: Hub, session: Session, heartbeat: float, caller: Caller) -> None:
        self._hub = hub
        self._session = session
        self._heartbeat = heartbeat
        self._caller = caller
        self._has_frames = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outbox = self._session.outbox
        outbox.wake = self._on_outbox
        self._writing = asyncio.create_task(self._write(send))
        tasks = {self._writing, asyncio.create_task(until_disconnected(receive))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.close(self._session)
            self._caller.release()
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                # A server raises OSError in ``send`` if the client has gone.
                if isinstance(result, Exception) and not isinstance(result, OSError):
                    ids, ended = session_ids(self._session), "%s ended by a fault"
                    log.error(ended, ids["session"], exc_info=redacted(result), extra=ids)
            # The exception of the task refers to its frame, and so to this object.
            self._writing = None

    def _on_outbox(self) -> None:
        if self._session.outbox.closing is CloseCode.TOO_SLOW and self._writing is not None:
            self._writing.cancel()  # the client does not read: the task would wait for ever
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
