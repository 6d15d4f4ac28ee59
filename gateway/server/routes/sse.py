"""A room as server-sent events, for networks that let no WebSocket through.

Owns: the query, the frames as events, the end of the stream. Must not know: what frames mean.

It is a session that only reads, like that of a socket with ``role=view``: the same limits, the same
outbox and its bounds, the same order. Whoever reads too slowly is cut off, and comes back by the
number of the last event it got.
"""

from __future__ import annotations

import asyncio
import logging
import re

from msgspec.structs import replace
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import Role
from gateway.core.event_log import StreamPosition
from gateway.core.session import Session
from gateway.errors import ClientFault, CloseCode, ErrorCode, wordless
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import is_room_name
from gateway.protocol.messages import DURABLE
from gateway.server.access.authenticator import Authenticator, Caller
from gateway.server.routes.query import read_query
from gateway.server.runtime.hub import Hub

log = logging.getLogger("gateway.events")

RETRY_MS = 1000
"""Milliseconds after which a browser opens a broken stream again."""

BEAT_S = 15.0
"""Seconds between two ``tick`` where ``hb`` does not say: proxies close a stream that is silent."""

BATCH = 16_384
"""Bytes that are taken from an outbox at once: what has been taken is merged no more."""

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect what is to be read at once
)

_HEAD = re.compile(r'\{"type":"(\w+)"(?:,"seq":(\d+))?')
_LAST = re.compile(r"(\w{1,64})\.(\d{1,15})")
_SEQ = frozenset(str(kind.__struct_config__.tag) for kind in DURABLE)


async def events(request: Request) -> RoomEventStream:
    """What happens in a room from now on; after ``Last-Event-ID``, what happened since then."""
    hub: Hub = request.app.state.hub
    authenticator: Authenticator = request.app.state.authenticator
    room = request.path_params["room"]
    if not is_room_name(room):
        raise ClientFault(ErrorCode.NOT_FOUND, f"There is no room {room[:64]!r}.")
    caller = authenticator.caller(request.scope)
    caller.admit()
    try:
        query = request.query_params
        place = hub.recognise(query.get("resume"), room)
        grant = await caller.authorize(None if place is None else place.grant)
        asked, beat = read_query(query, Codec.JSON, place, grant)
        seat = replace(asked, room=room, role=Role.VIEW, speaker=None)
        last = _LAST.fullmatch(request.headers.get("last-event-id", ""))
        if last is not None:
            seat = replace(seat, since=StreamPosition(last[1], int(last[2])))
        seat.check()
        await hub.fetch(room)
        return RoomEventStream(hub, hub.open(seat), beat or BEAT_S, caller)
    except BaseException:
        caller.release()
        raise


class RoomEventStream:
    """The answer. Its session ends with it."""

    def __init__(self, hub: Hub, session: Session, beat: float, caller: Caller) -> None:
        self._hub = hub
        self._session = session
        self._beat = beat
        self._caller = caller
        self._work = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outbox = self._session.outbox
        outbox.wake = self._wake
        self._writing = asyncio.create_task(self._write(send))
        tasks = {self._writing, asyncio.create_task(_gone(receive))}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            outbox.detach()
            self._hub.close(self._session)
            self._caller.release()
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                # OSError is how a server says that the client has gone.
                if isinstance(result, Exception) and not isinstance(result, OSError):
                    log.error("%s ended by a fault", self._session.id, exc_info=wordless(result))

    def _wake(self) -> None:
        if self._session.outbox.closing is CloseCode.TOO_SLOW and self._writing is not None:
            self._writing.cancel()  # it waits for a client that does not read
        self._work.set()

    async def _write(self, send: Send) -> None:
        session, outbox = self._session, self._session.outbox
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        await _part(send, f"retry: {RETRY_MS}\n\n")
        while outbox.closing is None or len(outbox):
            if len(outbox):
                frames = outbox.take(BATCH)
                await _part(send, "".join(self._event(str(frame)) for frame in frames))
                continue
            self._work.clear()
            try:
                async with asyncio.timeout(self._beat):
                    await self._work.wait()
            except TimeoutError:
                session.tick(self._hub.now())
        code = outbox.closing
        await _part(send, f'event: close\ndata: {{"code":{code:d}}}\n\n')
        await send({"type": "http.response.body", "body": b""})

    def _event(self, frame: str) -> str:
        """A frame with the number by which a client comes back, where it has one."""
        head = _HEAD.match(frame)
        assert head is not None, "every message has its type first, and a durable one its seq next"
        kind, seq = head.groups()
        if kind not in _SEQ or seq is None:
            return f"data: {frame}\n\n"
        return f"id: {self._session.room.log.epoch}.{seq}\ndata: {frame}\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _part(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


ROUTES = (Route("/v1/rooms/{room}/events", events),)
