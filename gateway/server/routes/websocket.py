"""One WebSocket, from its handshake to its close.

Owns: the query string, the sub-protocol, the reader and the writer of one socket. Must not know:
what frames mean.

It is an ASGI application by itself. Starlette's `WebSocket` would check each message against a
state that is plain from this one module, for a good part of what a delta costs altogether.

The reader is always in ``receive``: a socket whose messages are not read cannot answer pings
either, and would be closed for it. What is to be sent is written in the same turn of the event
loop, where the socket has room: by a `SocketWriter` where the server has one, else by as much of
``send`` as runs without waiting. Where it has none a task waits for it, and what arrives meanwhile
is merged in the outbox."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Generator, Iterator
from contextvars import copy_context
from typing import Any, get_args

from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.core.connect import ConnectRequest, ResumePlace
from gateway.core.event_log import StreamPosition
from gateway.core.session import Renew, Session
from gateway.errors import ClientFault, CloseCode, ErrorCode, wordless
from gateway.protocol import frames
from gateway.protocol.codec import Codec, negotiate
from gateway.protocol.handshake import is_room_name
from gateway.protocol.messages import Error, View
from gateway.server.access.authenticator import Authenticator, accepted_subprotocol
from gateway.server.runtime.hub import CLOSE, Hub, HubPhase
from gateway.server.uvicorn.websocket import WRITER, SocketWriter, Write

log = logging.getLogger("gateway.connection")

HEARTBEAT_S = (1.0, 300.0)
"""Least and most seconds between two ``tick``."""
CLOSE_S = 1.0
"""Seconds to get a close frame out to a socket that does not read."""
BATCH = 16_384
"""Bytes that are taken from an outbox at once: what has been taken is merged no more, and one
socket that is sent a lot is not to hold up the others."""


GONE = (OSError, RuntimeError, asyncio.CancelledError)
"""What ``send`` raises where nobody is there any more. `RuntimeError` is uvicorn's answer where it
closed the socket itself (1007, 1009, ping timeout); it is cancelled with what it waits for, or by
us where nobody reads."""


class WebSocketEndpoint:
    """``/v1/ws``: one call for each client."""

    def __init__(self, hub: Hub, authenticator: Authenticator) -> None:
        self._hub = hub
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        codec = negotiate(scope.get("subprotocols", ()))
        message = await receive()
        assert message["type"] == "websocket.connect", message["type"]
        try:
            name = accepted_subprotocol(
                scope.get("subprotocols", ()), codec.value if codec else None
            )
            await send({"type": "websocket.accept", "subprotocol": name})
        except OSError:
            return  # gone before it was let in
        query = QueryParams(scope["query_string"])
        caller = self._authenticator.caller(scope)
        try:
            try:
                caller.admit()
                place = hub.recognise(query.get("resume"), query.get("room"))
                grant = await caller.authorize(None if place is None else place.grant)
                seat, beat = read_query(query, codec, place, grant, caller.renewal)
                seat.check()
                await hub.fetch(seat.room)
                session = hub.open(seat)
            except ClientFault as fault:
                await _turn_away(send, codec or _unnegotiated(query), fault, hub.phase)
                return
            log.info("%s open", session.id)
            try:
                writer = scope.get("extensions", {}).get(WRITER)
                scope["headers"].clear()  # they would stay in memory as long as the socket
                await Connection(receive, send, hub, session, beat, writer).serve()
            finally:
                hub.close(session)
                log.info("%s closed after %d frames", session.id, session.frames_in)
        finally:
            caller.release()


class Connection:
    """One socket at work: its reader, and a writer only while it cannot take more at once."""

    __slots__ = (
        "_beat",
        "_context",
        "_end",
        "_hub",
        "_left",
        "_loop",
        "_over",
        "_pulse",
        "_receive",
        "_send",
        "_session",
        "_writer",
        "_writing",
    )

    def __init__(
        self,
        receive: Receive,
        send: Send,
        hub: Hub,
        session: Session,
        beat: float | None,
        writer: SocketWriter | None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._hub = hub
        self._session = session
        self._beat = beat
        self._writer = writer
        self._context = copy_context()  # or ``send`` would run in that of whoever has something
        self._writing: asyncio.Task[None] | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.timeout(None)  # it gets a time, now, when the gateway ends the socket
        self._over = False
        self._left: int | None = None  # the code with which the client closed

    async def serve(self) -> None:
        """Read and write until either ends."""
        outbox = self._session.outbox
        code: CloseCode | None = None
        try:
            async with self._end:
                outbox.wake = self._wake
                if self._writer is not None:
                    self._writer.changed = self._offer
                self._offer()
                self._wake()
                self._tick()
                await self._read()
        except OSError as exc:  # the client has gone, or it is time to end
            log.debug("%s: %s", self._session.id, exc)
        except Exception as exc:
            log.error("%s ended by a fault", self._session.id, exc_info=wordless(exc))
            code = CloseCode.SERVER_ERROR
        finally:
            self._over = True
            outbox.detach()
            if self._writer is not None:
                self._writer.changed = None
            self._hub.leave(self._session, lost=self._lost)
            if self._pulse is not None:
                self._pulse.cancel()
            if self._writing is not None:
                self._writing.remove_done_callback(self._written)
                self._writing.cancel()
                await asyncio.gather(self._writing, return_exceptions=True)
        code = outbox.closing or code
        if code is not None:
            await _close(self._send, code, outbox.reason)

    @property
    def _lost(self) -> bool:
        """Whether the client did not mean to leave, and may come back."""
        closing = self._session.outbox.closing
        # uvicorn says 1005 of a close frame without a code, but of a broken connection as well.
        return self._left != CloseCode.DONE if closing is None else closing.reconnect

    async def _read(self) -> None:
        receive = self._receive
        while (message := await receive())["type"] == "websocket.receive":
            frame = message.get("text")
            self._hub.receive(self._session, message["bytes"] if frame is None else frame)
            # One read from the network can hold thousands of frames, and `receive` does not wait
            # while there are any: a flood from one socket would hold up all others.
            await asyncio.sleep(0)
        self._left = message.get("code")

    @property
    def _post(self) -> Write | None:
        return None if self._writer is None else self._writer.write

    def _offer(self) -> None:
        """Let the outbox write by itself while the socket has room, and nothing was taken before
        that is not written."""
        post: Write | None = None
        if self._writing is None:
            post = self._hand if self._writer is None else self._writer.write
        self._session.outbox.post = post

    def _hand(self, wire: bytes) -> None:
        """Send a frame at once where the server has no `SocketWriter`; what of that has to wait, a
        task waits for. Never raises."""
        try:
            rest = self._context.run(begin, self._send(_event(wire)))
        except (Exception, asyncio.CancelledError) as fault:
            # Cancelled is what it waited for: the engine that is speaking here is not.
            if not isinstance(fault, GONE):
                log.error("%s cannot be written to", self._session.id, exc_info=wordless(fault))
            self._broke(fault)
        else:
            if rest is not None:
                self._start(rest)

    def _start(self, first: Awaitable[None] | None = None) -> None:
        """Have what waits written by a task, behind what has been begun."""
        self._writing = self._loop.create_task(self._write(first), context=self._context)
        self._writing.add_done_callback(self._written)
        self._offer()  # no more: it would overtake what has been taken

    def _wake(self) -> None:
        outbox = self._session.outbox
        if self._writing is not None:  # it will see what there is
            if outbox.closing in (CloseCode.TOO_SLOW, CloseCode.REPLACED):
                self._writing.cancel()  # it waits for a socket that nobody reads
            return
        if len(outbox) and (post := self._post) is not None:
            post(b"".join(outbox.wires(BATCH)))
        if len(outbox):
            self._start()
        elif outbox.closing is not None:
            self._finish()

    async def _write(self, first: Awaitable[None] | None) -> None:
        """Write what waits, as fast as the socket takes it."""
        outbox, send = self._session.outbox, self._send
        if first is not None:
            await first
        while len(outbox):
            wires = outbox.wires(BATCH)
            if (post := self._post) is not None:
                post(b"".join(wires))
            else:
                for wire in wires:
                    await send(_event(wire))
            if len(outbox):
                await asyncio.sleep(0)  # `send` does not wait while there is room: others live, too

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if self._over:  # it was done before it could be told not to call
            return
        fault = asyncio.CancelledError() if task.cancelled() else task.exception()
        if fault is None:
            self._offer()
            self._wake()  # there may be more, or a reason to close
            return
        if not isinstance(fault, GONE):
            log.error("%s cannot be written to", self._session.id, exc_info=wordless(fault))
        self._broke(fault)

    def _broke(self, fault: BaseException) -> None:
        """Nothing can be sent any more."""
        self._session.outbox.post = None
        if isinstance(fault, GONE):
            log.debug("%s: %s", self._session.id, fault)
        else:
            self._session.outbox.discard()
            self._session.outbox.close(CloseCode.SERVER_ERROR)
        self._finish()

    def _finish(self) -> None:
        if not self._end.expired():
            self._end.reschedule(self._loop.time())

    def _tick(self) -> None:
        if self._pulse is not None:
            self._session.tick(self._hub.now())
        if self._beat is not None:
            self._pulse = self._loop.call_later(self._beat, self._tick)


def begin(sending: Awaitable[None]) -> Awaitable[None] | None:
    """Run a coroutine until it would wait; what is left of it, or None where nothing is.

    A task for it would run in another turn of the event loop, and cost as much as what it does.
    (From Python 3.12 on, `asyncio.eager_task_factory` makes tasks that do the same.) Raises what
    the coroutine raises.
    """
    steps = sending.__await__()
    try:
        waits = next(steps)
    except StopIteration:
        return None
    return _Remainder(steps, waits)


class _Remainder:
    """A coroutine that was begun: whoever awaits it waits for what it is waiting for, first.

    Not all servers have coroutines for it; what can be iterated is all that `await` asks for.
    """

    __slots__ = ("_steps", "_waits")

    def __init__(self, steps: Iterator[Any], waits: object) -> None:
        self._steps = steps
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, None]:
        return self  # type: ignore[return-value]

    def __next__(self) -> object:
        waits, self._waits = self._waits, None
        return next(self._steps) if waits is None else waits

    def throw(self, fault: BaseException) -> object:
        if hasattr(self._steps, "throw"):
            return self._steps.throw(fault)
        raise fault

    def close(self) -> None:
        if hasattr(self._steps, "close"):
            self._steps.close()


def read_query(
    query: QueryParams,
    codec: Codec | None,
    place: ResumePlace | None = None,
    grant: Permissions = EVERYTHING,
    renew: Renew | None = None,
) -> tuple[ConnectRequest, float | None]:
    """The seat asked for, and the heartbeat in seconds. Raises `ClientFault` (``bad_frame``).

    What the query does not say is as at the ``place`` that it takes, else as the ``grant`` is for.
    """
    was = place or replace(
        _ANYWHERE,
        role=grant.usual,
        targets=(grant.langs or ()) if "ticket" in query else (),
    )
    room = query.get("room")
    if room is not None and not is_room_name(room):
        raise _bad("room", room, "1 to 64 letters, digits, '-' or '_'")
    role = query.get("role", was.role.value)
    if role not in Role.__members__.values():
        raise _bad("role", role, ", ".join(Role))
    view = query.get("view", was.view)
    if view not in get_args(View):
        raise _bad("view", view, ", ".join(get_args(View)))
    beat = query.get("hb")
    if beat is not None and not (
        re.fullmatch(r"\d{1,6}(\.\d{1,3})?", beat) and HEARTBEAT_S[0] <= float(beat)
    ):
        raise _bad("heartbeat (hb)", beat, f"seconds, {HEARTBEAT_S[0]:g} to {HEARTBEAT_S[1]:g}")
    speaker = query.get("speaker", was.speaker)
    if speaker is not None and len(speaker) > 128:
        raise _bad("speaker", speaker, "at most 128 characters")
    to = query.get("to")
    attempt = query.get("attempt")
    if attempt is not None and not re.fullmatch(r"[0-9]{1,15}", attempt):
        raise _bad("attempt", attempt, "a number that grows with each attempt to come back")
    seat = ConnectRequest(
        session=place.session if place is not None else None,
        # A client that shows the token of a socket comes after it, however it counts.
        attempt=0 if place is None else max(int(attempt or 0), place.attempt + 1),
        numbered=attempt is not None,
        since=_since(query),
        room=place.room if place is not None else grant.home if room is None else room,
        role=Role(role),
        source=query.get("from", was.source),
        targets=was.targets
        if to is None
        else tuple(tag.strip() for tag in to.split(",") if tag.strip()),
        view=view,  # type: ignore[arg-type]  # checked above
        speaker=speaker or None,
        codec=codec or _unnegotiated(query),
        grant=grant,
        renew=renew,
    )
    return seat, None if beat is None else min(float(beat), HEARTBEAT_S[1])


_ANYWHERE = ResumePlace("", "", Role.SPEAK, None, (), "live", None)
"""What holds where nothing is said."""


def _since(query: QueryParams) -> StreamPosition | None:
    """How far the client has come, where it says so."""
    epoch, seq = query.get("epoch"), query.get("seq")
    if epoch is None and seq is None:
        return None
    if not epoch or len(epoch) > 64:
        raise _bad("epoch", epoch or "", "that of a `welcome`, together with seq")
    if seq is None or not re.fullmatch(r"[0-9]{1,15}", seq):
        raise _bad("number of an event (seq)", seq or "", "the last one seen, together with epoch")
    return StreamPosition(epoch, int(seq))


def _unnegotiated(query: QueryParams) -> Codec:
    return Codec.PLAIN if query.get("plain", "0") not in ("0", "") else Codec.JSON


def _bad(name: str, value: str, allowed: str) -> ClientFault:
    article = "an" if name[0] in "aeiou" else "a"
    return ClientFault(
        ErrorCode.BAD_FRAME, f"{value[:64]!r} is not {article} {name}.", f"Allowed: {allowed}."
    )


async def _turn_away(send: Send, codec: Codec, fault: ClientFault, phase: HubPhase) -> None:
    """Say why on the open socket: browsers cannot read an HTTP status."""
    error = Error(
        code=fault.code.value,
        fatal=True,
        retry=fault.code.retry,
        retry_ms=fault.retry_ms,
        msg=str(fault),
        hint=fault.hint,
    )
    wire = codec.wire(error)
    assert wire is not None, "every codec shows errors"
    try:
        await send(_event(wire))
    except OSError:
        return
    code = CLOSE.get(fault.code, CloseCode.PROTOCOL_ERROR)
    if fault.code is ErrorCode.BUSY and phase is not HubPhase.OPEN:
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


def _event(wire: bytes) -> dict[str, Any]:
    """A frame as ASGI has it."""
    payload = wire[2:] if len(wire) < 128 else wire[frames.offset(wire) :]
    if wire[0] == frames.TEXT:
        return {"type": "websocket.send", "text": payload.decode()}
    return {"type": "websocket.send", "bytes": payload}
