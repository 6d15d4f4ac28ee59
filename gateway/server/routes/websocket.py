"""A WebSocket, from its handshake to its close.

Owns: the handshake, the reader and the writer of one socket. Must not know: what frames mean.

The endpoint is an ASGI application by itself: Starlette's `WebSocket` would check each message
against the state of the socket, which is a good part of the cost of a delta.

The reader always waits in ``receive``: a socket whose messages are not read answers no pings, and
would be closed. Frames are written in the turn of the event loop in which they are made, if the
transport has room: by the gateway's `WebSocketProtocol`, on another server by the part of ``send``
that runs without waiting. Otherwise a task waits for room, and later frames wait in the outbox,
where deltas are merged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from gateway.core.base.eager import run_eagerly
from gateway.core.base.faults import error
from gateway.core.session.session import Session
from gateway.errors import ClientFault, CloseCode, ErrorCode, redacted
from gateway.protocol import frames
from gateway.protocol.codec import Codec, negotiate
from gateway.protocol.handshake import offered_tokens
from gateway.server.access.authenticator import Authenticator, Caller
from gateway.server.routes.query_parameters import default_codec, read_query
from gateway.server.runtime.hub import CLOSE, Hub, HubPhase, session_ids
from gateway.server.uvicorn.websocket import WRITER, WebSocketProtocol, Write

if TYPE_CHECKING:
    from gateway.server.telemetry.tracing import UtteranceTracer

log = logging.getLogger("gateway.connection")

CLOSE_S = 1.0
"""Seconds to send a close frame to a socket that does not read."""
BATCH = 16_384
"""Bytes that are taken from an outbox at once. Frames that were taken are not merged any more, and
a socket with many of them must not delay the others."""
DISCONNECTED = (OSError, RuntimeError, asyncio.CancelledError)
"""Exceptions of ``send`` after the client has gone. uvicorn raises `RuntimeError` if it closed the
socket itself (1007, 1009, ping timeout). A send is cancelled together with what it waits for, or by
this module if the client does not read."""
UNWRITABLE = "%s cannot be written to"
"""Log line of a socket whose ``send`` has failed."""
HELD = "gateway.held"
"""Key of a reader among the extensions of a scope, whose attribute ``delay`` is set to a function
that returns the seconds until more is to be read from a client that keeps no pace; 0: none."""


class WebSocketEndpoint:
    """The ASGI application of ``/v1/ws``: one call for each client."""

    def __init__(
        self,
        hub: Hub,
        authenticator: Authenticator,
        tracer: UtteranceTracer | None = None,
        *,
        once: bool = False,
    ) -> None:
        self._hub = hub
        self._authenticator = authenticator
        self._tracer = tracer
        self._once = once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        offered = scope.get("subprotocols", ())
        codec = negotiate(offered)
        message = await receive()
        assert message["type"] == "websocket.connect", message["type"]
        # A browser fails the connection unless the answer names one that it offered. If it offered
        # nothing but its token, the answer names the token.
        name = codec.value if codec else next(iter(offered_tokens(offered)), None)
        try:
            await send({"type": "websocket.accept", "subprotocol": name})
        except OSError:
            return  # the client has gone before the handshake was over
        query = QueryParams(scope["query_string"])
        caller = self._authenticator.caller(scope)
        try:
            try:
                caller.admit()
                once = {"once": self._once}
                session, heartbeat = await enter(hub, caller, query, codec, once)
            except ClientFault as fault:
                await _refuse(send, codec or default_codec(query), fault, hub.phase)
                return
            ids = session_ids(session)
            log.info("%s open", session.id, extra=ids)
            writer = scope.get("extensions", {}).get(WRITER)
            held = scope.get("extensions", {}).get(HELD)
            try:
                if self._tracer is not None:
                    self._tracer.connected(session.id, Headers(scope=scope))
                if held is not None:
                    held.delay = partial(_audio_delay, hub, session)
                scope["headers"].clear()  # else they stay in memory for as long as the socket
                await Connection(receive, send, hub, session, heartbeat, writer).serve()
            finally:
                hub.close(session)
                if held is not None:
                    held.delay = float  # the session refers to the caller, and so to the scope
                log.info("%s closed after %d frames", session.id, session.frames_in, extra=ids)
        finally:
            caller.release()


async def enter(
    hub: Hub, caller: Caller, query: QueryParams, codec: Codec | None, fixed: Mapping[str, Any]
) -> tuple[Session, float | None]:
    """Open the session that a query asks for, and return it with its heartbeat in seconds.

    ``fixed`` are fields of the request that the query cannot choose. Raises `ClientFault`.
    """
    resumed = hub.recognise(query.get("resume"), fixed.get("room", query.get("room")))
    permissions = await caller.authorize(None if resumed is None else resumed.permissions)
    request, heartbeat = read_query(query, codec, resumed, permissions, caller.renewal)
    request = replace(request, **fixed)
    request.check()
    await hub.fetch(request.room, request.since)
    return hub.open(request), heartbeat


class Connection:
    """The reader of an open socket, and its writer. It sends a ``tick`` every ``heartbeat``
    seconds, if any. The writer is the server's protocol, if it is the gateway's.
    """

    __slots__ = (
        *("_client_code", "_context", "_deadline", "_ended", "_heartbeat", "_hub", "_loop"),
        *("_receive", "_send", "_session", "_tick_timer", "_writer", "_writing"),
    )

    def __init__(
        self,
        receive: Receive,
        send: Send,
        hub: Hub,
        session: Session,
        heartbeat: float | None,
        writer: WebSocketProtocol | None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._hub = hub
        self._session = session
        self._heartbeat = heartbeat
        self._writer = writer
        self._context = copy_context()  # else ``send`` runs in the context of the event's sender
        self._writing: asyncio.Task[None] | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._deadline = asyncio.timeout(None)  # set when the gateway closes the socket
        self._ended = False
        self._client_code: int | None = None  # close code that the client sent

    async def serve(self) -> None:
        """Read and write until the client or the gateway ends the socket."""
        outbox = self._session.outbox
        code: CloseCode | None = None
        try:
            async with self._deadline:
                outbox.wake = self._write_waiting
                if self._writer is not None:
                    self._writer.changed = self._set_direct_write
                self._set_direct_write()
                self._write_waiting()
                self._tick()
                await self._read()
        except OSError as exc:  # the client has gone, or the deadline is over (TimeoutError)
            log.debug("%s: %s", self._session.id, exc, extra=self._ids)
        except Exception as exc:
            log.error(
                "%s ended by a fault", self._session.id, exc_info=redacted(exc), extra=self._ids
            )
            code = CloseCode.SERVER_ERROR
        finally:
            self._ended = True
            outbox.detach()
            if self._writer is not None:
                self._writer.changed = None
            self._hub.leave(self._session, lost=self._lost)
            if self._tick_timer is not None:
                self._tick_timer.cancel()
            if self._writing is not None:
                self._writing.remove_done_callback(self._on_written)
                self._writing.cancel()
                await asyncio.gather(self._writing, return_exceptions=True)
                # The exception of the task refers to its frame, and so to this object.
                self._writing = None
        code = outbox.closing or code
        if code is not None:
            await _close(self._send, code, outbox.reason)

    @property
    def _lost(self) -> bool:
        """True if the client did not mean to leave and may come back."""
        closing = self._session.outbox.closing
        # uvicorn reports 1005 for a close frame without a code and for a broken connection alike.
        return self._client_code != CloseCode.DONE if closing is None else closing.reconnect

    async def _read(self) -> None:
        receive = self._receive
        while (message := await receive())["type"] == "websocket.receive":
            frame = message.get("text")
            self._hub.receive(self._session, message["bytes"] if frame is None else frame)
            # One read from the network can hold thousands of frames, and `receive` does not wait
            # while there are any. A flood from one socket would delay all others.
            await asyncio.sleep(0)
        self._client_code = message.get("code")

    @property
    def _socket_write(self) -> Write | None:
        return None if self._writer is None else self._writer.write

    def _set_direct_write(self) -> None:
        """Let the outbox write by itself while the socket has room and no older frame waits."""
        write: Write | None = None
        if self._writing is None:
            write = self._send_now if self._writer is None else self._writer.write
        self._session.outbox.post = write

    def _send_now(self, wire: bytes) -> None:
        """Send a frame at once, if the server has no `WebSocketProtocol`. Never raises."""
        try:
            rest = self._context.run(run_eagerly, self._send(_asgi_message(wire)))
        except (Exception, asyncio.CancelledError) as fault:
            # A cancellation comes from the future that ``send`` waited for. It must not reach the
            # caller, which is an engine that reports text for all readers.
            if not isinstance(fault, DISCONNECTED):
                ids = self._ids
                log.error(UNWRITABLE, self._session.id, exc_info=redacted(fault), extra=ids)
            self._on_broken(fault)
        else:
            if rest is not None:
                self._start_writing(rest)

    def _start_writing(self, first: Awaitable[None] | None = None) -> None:
        """Write the waiting events in a task, after the rest of a frame that is partly sent."""
        self._writing = self._loop.create_task(self._write(first), context=self._context)
        self._writing.add_done_callback(self._on_written)
        self._set_direct_write()  # to None: a new frame must not overtake those of the task

    def _write_waiting(self) -> None:
        """Write the events in the outbox, or close the socket if the outbox was told to."""
        outbox = self._session.outbox
        if self._writing is not None:  # the task will find the new frames
            if outbox.closing in (CloseCode.TOO_SLOW, CloseCode.REPLACED):
                self._writing.cancel()  # the client does not read: the task would wait for ever
            return
        if len(outbox) and (write := self._socket_write) is not None:
            write(b"".join(outbox.wires(BATCH)))
        if len(outbox):
            self._start_writing()
        elif outbox.closing is not None:
            self._end()

    async def _write(self, first: Awaitable[None] | None) -> None:
        """Write the outbox, as fast as the socket accepts it, until it is empty."""
        outbox, send = self._session.outbox, self._send
        if first is not None:
            await first
        while len(outbox):
            wires = outbox.wires(BATCH)
            if (write := self._socket_write) is not None:
                write(b"".join(wires))
            else:
                for wire in wires:
                    await send(_asgi_message(wire))
            if len(outbox):
                # `send` does not wait while there is room: let other tasks run.
                await asyncio.sleep(0)

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if self._ended:  # the task ended before its callback was removed
            return
        fault = asyncio.CancelledError() if task.cancelled() else task.exception()
        if fault is None:
            self._set_direct_write()
            self._write_waiting()  # there may be more, or a reason to close
            return
        if not isinstance(fault, DISCONNECTED):
            ids = self._ids
            log.error(UNWRITABLE, self._session.id, exc_info=redacted(fault), extra=ids)
        self._on_broken(fault)

    def _on_broken(self, fault: BaseException) -> None:
        """End the socket, since nothing can be sent any more."""
        self._session.outbox.post = None
        if isinstance(fault, DISCONNECTED):
            log.debug("%s: %s", self._session.id, fault, extra=self._ids)
        else:
            self._session.outbox.discard()
            self._session.outbox.close(CloseCode.SERVER_ERROR)
        self._end()

    @property
    def _ids(self) -> dict[str, str]:
        return session_ids(self._session)

    def _end(self) -> None:
        """Stop reading now, so that `serve` closes the socket."""
        if not self._deadline.expired():
            self._deadline.reschedule(self._loop.time())

    def _tick(self) -> None:
        if self._tick_timer is not None:
            self._session.tick(self._hub.now())
        if self._heartbeat is not None:
            self._tick_timer = self._loop.call_later(self._heartbeat, self._tick)


def _audio_delay(hub: Hub, session: Session) -> float:
    return 0.0 if session.audio is None else session.audio.delay(hub.now())


async def _refuse(send: Send, codec: Codec, fault: ClientFault, phase: HubPhase) -> None:
    """Send the reason on the open socket and close it. Browsers cannot read an HTTP status."""
    wire = codec.wire(error(fault, fatal=True))
    assert wire is not None, "every codec encodes errors"
    try:
        await send(_asgi_message(wire))
    except OSError:
        return
    code = CLOSE.get(fault.code, CloseCode.PROTOCOL_ERROR)
    if fault.code is ErrorCode.BUSY and phase is not HubPhase.OPEN:
        code = CloseCode.GOAWAY
    await _close(send, code, str(fault))


async def _close(send: Send, code: CloseCode, reason: str) -> None:
    """Send a close frame, if the socket still accepts one."""
    # 123 bytes are the most that its reason can hold (RFC 6455, section 5.5).
    short = reason.encode()[:123].decode(errors="ignore")
    try:
        async with asyncio.timeout(CLOSE_S):
            await send({"type": "websocket.close", "code": int(code), "reason": short})
    except (OSError, RuntimeError, TimeoutError) as exc:
        # RuntimeError: the client has closed the socket a moment before (uvicorn).
        log.debug("no close frame: %s", exc)


def _asgi_message(wire: bytes) -> dict[str, Any]:
    """Return the ASGI message that sends an encoded frame."""
    # A frame under 126 bytes of payload has a head of two bytes (RFC 6455, section 5.2).
    payload = wire[2:] if len(wire) < 128 else wire[frames.offset(wire) :]
    if wire[0] == frames.TEXT:
        return {"type": "websocket.send", "text": payload.decode()}
    return {"type": "websocket.send", "bytes": payload}
