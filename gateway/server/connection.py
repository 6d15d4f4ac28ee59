"""One WebSocket, from its handshake to its close.

Owns: the query string, the sub-protocol, the reader and the writer of one socket. Must not know:
what frames mean.

It is an ASGI application by itself. Starlette's `WebSocket` would check each message against a
state that is plain from this one module, for a good part of what a delta costs altogether.

The reader is always in ``receive``: a socket whose messages are not read cannot answer pings
either, and would be closed for it. The writer takes everything the outbox holds each time it wakes;
what arrives while it waits for a slow socket is merged there.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, get_args

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from gateway.codec import Codec, negotiate
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.member import Role
from gateway.messages import Error, View
from gateway.server.hub import Hub, Phase, Seat
from gateway.session import Session

log = logging.getLogger("gateway.connection")

ROOM = re.compile(r"[A-Za-z0-9_-]{1,64}")
HEARTBEAT_S = (1.0, 300.0)
"""Least and most seconds between two ``tick``."""
CLOSE_S = 1.0
"""Seconds to get a close frame out to a socket that does not read."""


class Endpoint:
    """``/v1/ws``: one call for each client."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        codec = negotiate(scope.get("subprotocols", ()))
        message = await receive()
        assert message["type"] == "websocket.connect", message["type"]
        try:
            await send({"type": "websocket.accept", "subprotocol": codec.value if codec else None})
        except OSError:
            return  # gone before it was let in
        query = QueryParams(scope["query_string"])
        try:
            seat, beat = read_query(query, codec)
            await hub.fetch(seat.room)
            session = hub.open(seat)
        except ClientFault as fault:
            await _turn_away(send, codec or _unnegotiated(query), fault, hub.phase)
            return
        log.info("%s open", session.id)
        try:
            await Connection(receive, send, hub, session, beat).serve()
        finally:
            hub.close(session)
            log.info("%s closed after %d frames", session.id, session.frames_in)


class Connection:
    """The tasks of one socket."""

    def __init__(
        self, receive: Receive, send: Send, hub: Hub, session: Session, beat: float | None
    ) -> None:
        self._receive = receive
        self._send = send
        self._hub = hub
        self._session = session
        self._beat = beat
        self._idle: asyncio.Future[None] | None = None  # the writer waits here for work
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        """Read and write until either ends."""
        outbox = self._session.outbox
        outbox.wake = self._wake
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        if self._beat is not None:
            self._tasks.append(asyncio.create_task(self._heart(self._beat)))
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(self._session)
            for task in self._tasks:
                task.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        code = outbox.closing
        for result in results:
            # OSError is how a server says that the client has gone.
            if isinstance(result, Exception) and not isinstance(result, OSError):
                log.error("%s ended by a fault", self._session.id, exc_info=result)
                code = code or CloseCode.SERVER_ERROR
        if code is not None:
            await _close(self._send, code, outbox.reason)

    def _wake(self) -> None:
        if self._session.outbox.closing is CloseCode.TOO_SLOW:
            self._tasks[1].cancel()  # it waits for a socket that nobody reads
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _read(self) -> None:
        receive = self._receive
        while (message := await receive())["type"] == "websocket.receive":
            frame = message.get("text")
            self._hub.receive(self._session, message["bytes"] if frame is None else frame)
            # One read from the network can hold thousands of frames, and `receive` does not wait
            # while there are any: a flood from one socket would hold up all others.
            await asyncio.sleep(0)

    async def _write(self) -> None:
        outbox = self._session.outbox
        send = self._send
        loop = asyncio.get_running_loop()
        while outbox.closing is None or len(outbox):
            if not len(outbox):
                self._idle = loop.create_future()
                await self._idle
            for frame in outbox.take():
                try:
                    await send(_event(frame))
                except RuntimeError as exc:
                    # uvicorn's answer where it closed the socket itself (1007, 1009, ping timeout).
                    log.debug("%s: %s", self._session.id, exc)
                    return

    async def _heart(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._session.tick(self._hub.now())


def read_query(query: QueryParams, codec: Codec | None) -> tuple[Seat, float | None]:
    """The seat asked for, and the heartbeat in seconds. Raises `ClientFault` (``bad_frame``)."""
    room = query.get("room")
    if room is not None and not ROOM.fullmatch(room):
        raise _bad("room", room, "1 to 64 letters, digits, '-' or '_'")
    role = query.get("role", Role.SPEAK.value)
    if role not in Role.__members__.values():
        raise _bad("role", role, ", ".join(Role))
    view = query.get("view", "live")
    if view not in get_args(View):
        raise _bad("view", view, ", ".join(get_args(View)))
    beat = query.get("hb")
    if beat is not None and not (
        re.fullmatch(r"\d{1,6}(\.\d{1,3})?", beat) and HEARTBEAT_S[0] <= float(beat)
    ):
        raise _bad("heartbeat (hb)", beat, f"seconds, at least {HEARTBEAT_S[0]:g}")
    speaker = query.get("speaker")
    if speaker is not None and len(speaker) > 128:
        raise _bad("speaker", speaker, "at most 128 characters")
    seat = Seat(
        room=room,
        role=Role(role),
        source=query.get("from"),
        targets=tuple(tag.strip() for tag in query.get("to", "").split(",") if tag.strip()),
        view=view,  # type: ignore[arg-type]  # checked above
        speaker=speaker or None,
        codec=codec or _unnegotiated(query),
    )
    return seat, None if beat is None else min(float(beat), HEARTBEAT_S[1])


def _unnegotiated(query: QueryParams) -> Codec:
    return Codec.PLAIN if query.get("plain", "0") not in ("0", "") else Codec.JSON


def _bad(name: str, value: str, allowed: str) -> ClientFault:
    return ClientFault(
        ErrorCode.BAD_FRAME, f"{value[:64]!r} is not a {name}.", f"Allowed: {allowed}."
    )


_CLOSE = {
    ErrorCode.BUSY: CloseCode.TOO_MANY,
    ErrorCode.UNAUTHENTICATED: CloseCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN,
    ErrorCode.NOT_FOUND: CloseCode.NO_SUCH_ROOM,
}


async def _turn_away(send: Send, codec: Codec, fault: ClientFault, phase: Phase) -> None:
    """Say why on the open socket: browsers cannot read an HTTP status."""
    error = Error(
        code=fault.code.value, fatal=True, retry=fault.code.retry, msg=str(fault), hint=fault.hint
    )
    frame = codec.encode(error)
    assert frame is not None, "every codec shows errors"
    try:
        await send(_event(frame))
    except OSError:
        return
    code = _CLOSE.get(fault.code, CloseCode.PROTOCOL_ERROR)
    if fault.code is ErrorCode.BUSY and phase is not Phase.OPEN:
        code = CloseCode.GOAWAY
    await _close(send, code, str(fault))


async def _close(send: Send, code: CloseCode, reason: str) -> None:
    """Send a close frame, if the socket still takes one. A reason has at most 123 bytes."""
    short = reason.encode()[:123].decode(errors="ignore")
    try:
        async with asyncio.timeout(CLOSE_S):
            await send({"type": "websocket.close", "code": int(code), "reason": short})
    except (OSError, RuntimeError, TimeoutError) as exc:
        # RuntimeError: uvicorn's answer to closing what the client closed a moment before.
        log.debug("no close frame: %s", exc)


def _event(frame: str | bytes) -> dict[str, Any]:
    key = "text" if isinstance(frame, str) else "bytes"
    return {"type": "websocket.send", key: frame}
