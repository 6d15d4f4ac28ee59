"""The gateway as a process: its listener, its signals, its start and its end.

Owns: the socket, uvicorn, the order of starting and stopping. Must not know: what is served.

Start: the port is taken first (so that a port in use is told at once), the store is opened, then
the engine loads while ``/healthz`` answers and ``/readyz`` says 503. Stop (SIGTERM, Ctrl-C):
nothing new is taken, captions in flight finish within ``drain_s``, the rest ends visibly, then
sockets close, the store is written to its end and the engine is shut down. uvicorn by itself would
close every socket with 1012 at once. A second signal cuts it short.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from gateway import sqlite
from gateway.engines import build
from gateway.engines.base import Engine
from gateway.errors import GatewayError
from gateway.server.app import create_app
from gateway.server.hub import Hub
from gateway.server.upgrade import Upgrade, quiet
from gateway.session import usual
from gateway.settings import Settings
from gateway.store import Store

log = logging.getLogger("gateway.process")

UNSENT_BYTES = 16_384
"""TCP_NOTSENT_LOWAT: unsent bytes the kernel keeps per socket. Without it some 4 MB of stale
captions pile up there before a slow reader is noticed; captions need a few hundred bytes."""
SILENT_MS = 30_000
"""TCP_USER_TIMEOUT: how long sent bytes may stay unacknowledged. A client that never reads again is
otherwise never freed, since a keepalive timeout waits for the write buffer too."""
PING_S = 20.0
"""WebSocket ping interval and timeout."""
BACKLOG = 2048
RECEIVE_BYTES = 16_384
"""SO_RCVBUF. uvicorn parses all that one read gives before anything else runs: of the smallest
frames, the 256 KiB that a read may give take a fifth of a second."""
GRACE_S = 1
"""Seconds for open responses after the drain, in which captions had theirs."""


class Server(uvicorn.Server):
    """uvicorn, except that its end begins with a drain."""

    def __init__(self, config: uvicorn.Config, hub: Hub, drain_s: float) -> None:
        super().__init__(config)
        self._hub = hub
        self._drain_s = drain_s
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._hub.drain(self._drain_s)
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn left the application's end out, and would cancel it noisily
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's: it would raise the signal again after a clean end.
        if self.should_exit and self._loop is not None:
            self.force_exit = True
            self._loop.call_soon_threadsafe(self._hub.hurry)
        self.should_exit = True


def serve(settings: Settings) -> int:
    """Run until a signal says stop; the exit status. Raises `GatewayError` and `OSError`."""
    # uvicorn's own log has every frame in it at DEBUG, and texts of meetings are private.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(quiet)
    store = sqlite.build(settings)
    listener = listen(settings.host, settings.port)
    guards: Counter[tuple[str, str]] = Counter()
    engine = build(settings, guards)
    app = create_app(
        engine,
        settings.limits,
        lang=settings.lang,
        flow=settings.flow,
        guards=guards,
        store=store,
    )
    server = Server(configure(app, settings), app.state.hub, settings.drain_s)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        return runner.run(_serve(server, engine, listener, settings, store))


def configure(app: Starlette, settings: Settings) -> uvicorn.Config:
    """uvicorn's options, each for a reason given in ``docs/design/server.md``."""
    return uvicorn.Config(
        app,
        loop=settings.loop,
        ws=Upgrade,
        ws_max_size=settings.limits.frame,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=5,
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="on",
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; accepted ones inherit its options. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: plain asyncio leaves Nagle on where it is 0.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        for name, value in (("TCP_NOTSENT_LOWAT", UNSENT_BYTES), ("TCP_USER_TIMEOUT", SILENT_MS)):
            if hasattr(socket, name):  # Linux; others do without
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as exc:
        listener.close()
        why = exc.strerror or exc
        raise OSError(f"Cannot listen on {host}:{port}: {why}. Choose another --port.") from exc
    return listener


async def _serve(
    server: Server,
    engine: Engine,
    listener: socket.socket,
    settings: Settings,
    store: Store | None = None,
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.aclose)
        if store is not None:  # before anybody is let in
            await store.open()
            stack.push_async_callback(store.close)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        starting = asyncio.create_task(engine.start())
        progress = asyncio.create_task(_progress(engine, time.monotonic))
        try:
            await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
            progress.cancel()
            await asyncio.wait([progress])  # it wipes its line first
            if starting.done():
                starting.result()
                if not server.should_exit:  # else it became ready for nobody
                    gc.collect()
                    gc.freeze()  # the model's objects are here to stay: collections leave them out
                    _announce(engine, listener)
            await serving
        except GatewayError:
            server.should_exit = True
            await serving
            raise
        finally:
            for task in (starting, progress):
                task.cancel()
            await asyncio.gather(starting, progress, return_exceptions=True)
    return 0


async def _progress(engine: Engine, clock: Callable[[], float]) -> None:
    """A line that moves while the engine loads, on a terminal; one line elsewhere."""
    begun = clock()
    terminal = sys.stderr.isatty()
    try:
        while True:
            line = f"Starting {engine.name} ... {clock() - begun:.0f} s"
            if terminal:
                sys.stderr.write("\r" + line)
            else:
                sys.stderr.write(line + "\n")
            sys.stderr.flush()
            await asyncio.sleep(1 if terminal else 30)
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")


def _announce(engine: Engine, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    profile = engine.profile
    source = usual(profile)
    targets = [t for t in profile.targets if profile.supports(source, t) and t != source][:2]
    sys.stderr.write(
        f"{engine.name} is ready.\n"
        f"  Open   http://{place}/\n"
        f"  or     wscat -c 'ws://{place}/v1/ws?from={source}&to={','.join(targets)}'"
        "   and type a line\n"
        f"  stop   Ctrl-C\n"
    )
    sys.stderr.flush()
