"""uvicorn as the gateway's server: its options, and an end that begins with a drain.

Owns: the listeners and connections of one process, from their start to their end. Must not know:
rooms, engines, settings files.

uvicorn by itself closes every socket with 1012 at once when it stops. Here the hub drains first:
captions in flight finish, sockets close with their own code, and only then uvicorn ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
from collections.abc import Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from gateway.server.access.authenticator import Authenticator
from gateway.server.process.listener import expanded
from gateway.server.runtime.hub import Hub
from gateway.server.uvicorn.http import SPARE, http_protocol, not_counted
from gateway.server.uvicorn.websocket import WebSocketProtocol, websocket_protocol
from gateway.settings.catalogue import Settings

POLL_S = 0.1
"""Seconds between two checks for a signal before the server listens, as in uvicorn."""
GRACE_S = 0.2
"""Seconds for open HTTP responses after the drain, during which captions had their time."""


class GatewayServer(uvicorn.Server):
    """uvicorn's server with a drain before its shutdown.

    :param drain_s: seconds that captions in flight may take to finish
    :param shared: whether another process accepts the connections that this one does not
    """

    def __init__(
        self, config: uvicorn.Config, hub: Hub, drain_s: float, *, shared: bool = False
    ) -> None:
        super().__init__(config)
        self._hub = hub
        self._drain_s = drain_s
        self._shared = shared
        self._signals = itertools.count()
        self.after: asyncio.Task[None] | None = None
        """Task to wait for before listening; another process serves the port meanwhile."""
        self.opened = asyncio.Event()  # set once the server listens

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at SIGINT and SIGTERM while the block runs."""
        # A shell ignores SIGINT for what it runs in the background, and that must stay so.
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        with super().capture_signals():
            if ignored:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Run until `should_exit` is set."""
        # Signal handlers are the caller's: it calls `capture_signals`, because they have to last
        # longer than the server.
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, once `after` has ended without a fault."""
        while self.after is not None and not self.after.done():
            await asyncio.wait([self.after], timeout=POLL_S)
            if self.should_exit:
                return
        if self.after is not None and self.after.exception() is not None:
            self.should_exit = True
        if self.should_exit:  # a signal came before the start
            return
        await super().startup(sockets)
        self.opened.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the hub, then close listeners and connections."""
        if self._shared:
            # Another process can serve new clients at once. Without one, the port stays open
            # during the drain, so that clients are told to come back instead of being refused.
            await self._stop_listening()
        await self._hub.drain(self._drain_s)
        for connection in list(self.server_state.connections):
            if (
                isinstance(connection, WebSocketProtocol)
                and connection.transport.get_write_buffer_size()
            ):
                connection.transport.abort()  # the client does not read; uvicorn would wait for it
        await self._stop_listening()
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn skips the lifespan then, and its task would be cancelled
            await self.lifespan.shutdown()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client has not closed it within `GRACE_S`
        await asyncio.sleep(0)  # aborted transports close in the next turn of the loop

    async def _stop_listening(self) -> None:
        """Close the listeners, but not the connections."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            # asyncio creates the transport of an accepted connection one turn later, and loses it
            # if the listener is closed in between: https://github.com/python/cpython/issues/109564
            for server in self.servers:
                for listener in server.sockets:
                    loop.remove_reader(listener.fileno())
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the drain at the first signal, and cut it short at every later one."""
        # Unlike uvicorn's method, it does not raise the signal again after a clean end. A signal
        # may interrupt any step of the program, and this method too. So it takes no lock, not even
        # that of `threading.Thread.start`, and it counts in one step.
        first = next(self._signals) == 0
        self.should_exit = True
        if not first:
            self.force_exit = True
            self._hub.hurry()


def configure(app: Starlette, settings: Settings, most: int | None = None) -> uvicorn.Config:
    """Return uvicorn's options, each for a reason given in ``docs/design/server.md``. Unless
    ``most`` connections are allowed, there are as many as the limits need.
    """
    authenticator: Authenticator | None = getattr(app.state, "authenticator", None)
    return uvicorn.Config(
        app,
        loop=settings.loop,
        ws=websocket_protocol(settings.limits),
        http=http_protocol(
            settings.limits,
            most or settings.limits.sessions + SPARE,
            counted_as=not_counted if authenticator is None else authenticator.proxies.peer_address,
        ),
        ws_max_size=settings.limits.frame,
        ws_ping_interval=settings.ping_s or None,
        ws_ping_timeout=settings.ping_s or None,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # fractions work as well
        timeout_keep_alive=5,
        server_header=False,
        proxy_headers=False,  # uvicorn would trust such headers from every local program
        ssl_certfile=None if settings.certfile is None else expanded(settings.certfile),
        ssl_keyfile=None if settings.keyfile is None else expanded(settings.keyfile),
        access_log=False,
        log_config=None,
        lifespan="on",
    )
