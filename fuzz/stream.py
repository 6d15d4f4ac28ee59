"""Bytes of one TCP connection, into the protocol classes that uvicorn uses.

Promises: no exception reaches uvicorn or the event loop, for any bytes in any segments; when the
connection is gone, so are its tasks and its sessions.

The sockets are in memory and the loop turns on demand, so that an input takes a millisecond.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.server import ServerState

from fuzz.frames import frame
from fuzz.tape import Tape
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.server import configure
from gateway.server.runtime.room_host import TextOptions
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings

TURNS = 12
"""Turns of the loop after each segment, after which nothing is left to run."""
PATIENCE_S = 5.0
"""Seconds for requests to end after the client has gone: a thread writes transcripts."""
HEADS = (
    b"",
    b"GET /v1/ws?%b HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(b"k" * 16) + b"\r\n",
    b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    b"GET /v1/rooms/demo/transcript.vtt?%b HTTP/1.1\r\nHost: localhost\r\n",
)
UPGRADE = 1
QUERIES = (
    b"room=demo&to=de",
    b"room=demo&role=moderate&to=de,fr&hb=1",
    b"plain=1&to=de",
    b"to=xx&view=stable&role=speak",
    b"room=demo&resume=nonsense&epoch=x&seq=1",
)
EXTRA = (
    b"",
    b"Sec-WebSocket-Protocol: gw.v1.msgpack\r\n",
    b"Sec-WebSocket-Protocol: nope, gw.v1.json\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
    b"Origin: http://elsewhere.example\r\n",
    b"Authorization: Bearer nonsense\r\n",
    b"Expect: 100-continue\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 40\r\n",
    b"Content-Length: -1\r\n",
)


class Wire(asyncio.Transport):
    """The server's end of a connection, in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8000)})
        self._loop = loop
        self._over = False
        self.protocol: asyncio.Protocol | None = None
        self.reading = True
        self.written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._over:
            self.written += len(data)

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._loop.call_soon(self.lost)

    abort = close

    def eof(self) -> None:
        if self.protocol is not None and not self.protocol.eof_received():
            self.close()

    def lost(self) -> None:
        if self.protocol is not None:
            protocol, self.protocol = self.protocol, None
            protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._over

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None, "asked of a connection that is gone"
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (0, 65_536)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass


class Faults(logging.Handler):
    """Complaints of uvicorn, the loop and the gateway."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class Gateway:
    """One gateway for all inputs, since starting one takes longer than playing an input."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        limits = Limits(rate=1e6, burst=1_000_000)
        engine = ScriptedEngine(languages=("en", "de", "fr"))
        self.app = create_app(
            engine, limits, authenticator=Authenticator(limits), text=TextOptions(lang="en")
        )
        self.hub = self.app.state.hub
        self.config = configure(self.app, Settings(limits=limits))
        self.config.load()
        self.state = ServerState()
        self.faults = Faults()
        self.faults.addFilter(without_client_mistakes)  # as the process has it
        for name in ("uvicorn.error", "gateway", "asyncio"):
            logging.getLogger(name).addHandler(self.faults)
            logging.getLogger(name).propagate = False
        self.loop.run_until_complete(engine.start())
        # The gateway answers only while its lifespan runs, which here is as long as the process.
        self.lifespan = self.app.lifespan(self.app)
        self.loop.run_until_complete(self.lifespan.__aenter__())

    def turn(self, do: Callable[[], None] = lambda: None, times: int = TURNS) -> None:
        """Call a function where the loop runs, as a selector would, and let the loop turn."""

        async def turns() -> None:
            do()
            for _ in range(times):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def rest(self) -> None:
        """Wait until no task of a request and no room is left that another input would find."""

        async def end() -> None:
            if self.state.tasks:
                _, left = await asyncio.wait(list(self.state.tasks), timeout=PATIENCE_S)
                assert not left, left
            async with asyncio.timeout(PATIENCE_S):
                for room in list(self.hub.rooms):
                    await self.hub.forget(room)

        self.turn()
        self.loop.run_until_complete(end())
        assert not self.hub.sessions, self.hub.sessions

    def connect(self) -> Wire:
        wire = Wire(self.loop)
        make = cast(Any, self.config.http_protocol_class)

        def made() -> None:
            protocol = make(config=self.config, server_state=self.state, app_state={})
            wire.protocol = protocol
            protocol.connection_made(wire)

        self.turn(made, times=1)
        return wire


def segment(tape: Tape) -> bytes:
    """Return some bytes: any, or a WebSocket frame that is valid except for the tape's changes."""
    if tape.byte() % 4 == 0:
        return tape.chunk()
    inner = frame(tape)
    payload = inner.encode() if isinstance(inner, str) else inner
    choice = tape.byte()
    opcode = (1 if isinstance(inner, str) else 2, 0, 8, 9, 10, tape.byte() % 16)[choice % 6]
    flags = 0x80 if choice < 200 else tape.byte() & 0xF0
    masked = 0x80 if choice % 16 else 0
    size = len(payload) if choice != 255 else tape.byte() << 24
    head = bytes([flags | opcode])
    if size < 126:
        head += bytes([masked | size])
    elif size < 65_536:
        head += bytes([masked | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([masked | 127]) + size.to_bytes(8, "big")
    return head + (b"\0\0\0\0" if masked else b"") + payload


def one(data: bytes) -> None:
    """Play one input."""
    gateway = _gateway()
    tape = Tape(data)
    wire = gateway.connect()
    kind = tape.byte() % len(HEADS)
    head = HEADS[kind]
    if head:
        head = head.replace(b"%b", tape.pick(QUERIES))
        for _ in range(tape.byte() % 3):
            head += tape.pick(EXTRA)
        head += b"\r\n"
    pieces = [head] if tape.byte() % 8 else [head[:20], head[20:]]
    for _ in range(32):
        if not tape:
            break
        pieces.append(segment(tape) if kind == UPGRADE else tape.chunk())
    for piece in filter(None, pieces):
        if wire.protocol is None or wire.is_closing():
            break
        if wire.reading:
            gateway.turn(partial(wire.protocol.data_received, piece))
        else:
            gateway.turn()
    if tape.byte() % 2:
        gateway.turn(wire.eof, times=2)
    gateway.turn(wire.lost)
    gateway.rest()
    assert not gateway.state.connections, gateway.state.connections
    faults, gateway.faults.seen = gateway.faults.seen, []
    assert not faults, "\n".join(faults)


_made: list[Gateway] = []


def _gateway() -> Gateway:
    if not _made:
        _made.append(Gateway())
    return _made[0]
