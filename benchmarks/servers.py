"""The servers that are compared, each in its own process on the same uvicorn.

Owns: the minimal handler, the gateway around the same engine, the pipe that counts rounds. Must not
know: clients, statistics.

``raw``      prepared bytes written by an `asyncio.Protocol`, see `benchmarks.raw`
``bare``     a minimal Starlette handler on unchanged uvicorn: one constant frame for each token
``gateway``  the gateway
``served``   the gateway with guards and supervisor around the engine, as `gateway serve` has them
``stock``    the same on uvicorn's own protocol class, where everything goes through ASGI's ``send``
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from multiprocessing.connection import Connection

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from benchmarks.raw import Floor, Frames
from benchmarks.stepper import PIECES, SOURCE, STAMP, Plan, Stepper
from gateway.engines.base.engine import Engine
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol import frames as framing
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Ack, Delta, Final, ServerMessage, Source, Timing
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.gc_tuning import GarbageCollector
from gateway.server.runtime.room_host import TextOptions
from gateway.settings.catalogue import Settings

KINDS = ("raw", "bare", "gateway", "served", "stock")
PATIENCE_S = 3_600.0
"""Seconds that streams may stand still while another server is measured."""
LIMITS = Limits(
    rate=10_000,
    burst=10_000,
    queue=5_000,
    stretch=1e9,
    job_s=PATIENCE_S,
    sessions=10_000,
    rooms=10_000,
    address_sockets=10_000,
    address_rate=10_000,
)
"""Limits for a benchmark client, which says more than a person and opens many sockets."""
ID = "u-{:016d}"
"""Ids of the clients' utterances: of one length, so that both servers send the same bytes."""


def serve(kind: str, pipe: Connection) -> None:
    """Run one server until the pipe says stop. Send the port first."""
    logging.basicConfig(level=logging.WARNING)
    stepper = Stepper()
    engine: Engine = stepper
    if kind in ("served", "stock"):
        engine = GuardedEngine(Supervisor(lambda: stepper, hang=PATIENCE_S), Counter())
    listener = listen("127.0.0.1", 0)
    server = None if kind == "raw" else build(kind, engine, stepper, Settings(limits=LIMITS))
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        if server is not None:
            server.should_exit = True

    async def running() -> None:
        if server is not None:
            await server.serve(sockets=[listener])
        else:
            loop = asyncio.get_running_loop()
            floor = await loop.create_server(Floor(stepper, frames()), sock=listener)
            await stopped.wait()
            floor.close()

    async def main() -> None:
        await engine.start()
        asyncio.get_running_loop().add_reader(pipe.fileno(), _obey, pipe, stepper, stop)
        with GarbageCollector(lambda: False) as collector:  # as `gateway serve` has it, for all
            collector.thaw()
            pipe.send(listener.getsockname()[1])
            await running()
        await engine.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def build(kind: str, engine: Engine, stepper: Stepper, settings: Settings) -> uvicorn.Server:
    """Return a server on uvicorn."""
    if kind == "bare":
        config = configure(bare(stepper), settings)
        server = uvicorn.Server(config)
    else:
        # Deltas are never merged, however busy the server: the cost of one is measured.
        app = create_app(
            engine,
            settings.limits,
            authenticator=Authenticator(settings.limits),
            text=TextOptions(lang="en", coalesce_s=0),
        )
        config = configure(app, settings)
        server = GatewayServer(config, app.state.hub, 0)
    if kind in ("bare", "stock"):
        config.ws = "websockets-sansio"
    return server


def frames() -> Frames:
    """Return the frames that the gateway sends for one stream of the stepper."""
    return Frames(
        welcome=framing.text(b'{"type":"welcome"}'),
        before=[_frame(one) for one in (Ack(id=_ID, rev=1, ord=1), _source())],
        deltas=[_frame(delta) for delta in _deltas()],
        stamp=_STAMP.encode(),
        after=_frame(_final()),
    )


def bare(stepper: Stepper) -> Starlette:
    """Return a minimal handler: no ids, no cancellation, no room, no limits."""
    frames = tuple(map(_text, _deltas()))
    before = (_text(Ack(id=_ID, rev=1, ord=1)), _text(_source()))
    after = _text(_final())

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept(subprotocol=Codec.JSON.value)
        count = 0
        try:
            while True:
                await websocket.receive_text()
                count += 1
                for frame in before:
                    await websocket.send_text(frame)
                job = Job(id=f"{id(websocket)}.{count}", text=SOURCE, source="en", target="de")
                n = 0
                async with aclosing(stepper.translate(job)) as chunks:
                    async for chunk in chunks:
                        if n:
                            await websocket.send_text(frames[n])
                        else:
                            await websocket.send_text(frames[0].replace(_STAMP, chunk.text))
                        n += 1
                await websocket.send_text(after)
        except WebSocketDisconnect:
            pass

    return Starlette(routes=[WebSocketRoute("/v1/ws", socket)])


_ID = ID.format(0)
_STAMP = STAMP.format(0)


def _deltas() -> list[Delta]:
    """Return the deltas that the gateway sends for one stream of the stepper."""
    deltas = []
    length = 0
    for piece in (_STAMP, *PIECES):
        length += len(piece)
        deltas.append(Delta(id=_ID, rev=1, lang="de", add=piece, n=length))
    return deltas


def _source() -> Source:
    return Source(seq=1, id=_ID, rev=1, ord=1, lang="en", text=SOURCE)


def _final() -> Final:
    text = _STAMP + "".join(PIECES)
    ms = Timing(queue=0, first=20, total=1000)
    return Final(seq=2, id=_ID, rev=1, ord=1, lang="de", text=text, by="mt", ms=ms)


def _frame(message: ServerMessage) -> bytes:
    return framing.text(msgspec.json.encode(message))


def _text(message: ServerMessage) -> str:
    return msgspec.json.encode(message).decode()


FRAME_BYTES = sum(len(_text(delta).encode()) for delta in _deltas()) / len(_deltas())
"""Mean size of a delta's frame without its header."""


def _obey(pipe: Connection, stepper: Stepper, stop: Callable[[], None]) -> None:
    try:
        command = pipe.recv()
    except EOFError:  # the benchmark is gone
        command = None
    if isinstance(command, Plan):
        stepper.begin(command)
        pipe.send(None)
    elif command == "end":
        pipe.send(stepper.end())
    else:
        asyncio.get_running_loop().remove_reader(pipe.fileno())
        stop()
