"""One gateway process from its start to its end.

Owns: the order in which the parts of a process start and stop, and its signals. Must not know: what
is served.

Start: the process takes its port first, so that a port in use is reported at once. Then it opens
the store and loads the engine; meanwhile ``/healthz`` answers and ``/readyz`` says 503.

Stop (SIGTERM, Ctrl-C): if another process shares the port, this one accepts no more connections. It
takes no new text, captions in flight finish within ``drain_s``, and the rest is cancelled. Then
sockets close, the store writes what is left, and the engine shuts down. A second signal cuts this
short. Signals count from the start of the event loop until the store is closed: none of them ends
the process halfway. SIGHUP only reads the keys again. A process that hangs is ended by its service
manager, see ``TimeoutStopSec`` in ``deploy/systemd``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gateway.engines.base.engine import Engine
from gateway.engines.registry import build as build_engine
from gateway.errors import redacted
from gateway.io.tasks import running
from gateway.server.build import build, opened, start_models
from gateway.server.metrics import garbage_collections
from gateway.server.process import lan
from gateway.server.process.console import announcement, say, show_progress
from gateway.server.process.listener import check_certificate, descriptors, inherited, listen
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.gc_tuning import GarbageCollector
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings
from gateway.storage.sqlite.store import SqliteStore

log = logging.getLogger("gateway.process")


@dataclass(frozen=True)
class GatewayProcess:
    """The parts of one process, which `run` starts and stops."""

    server: GatewayServer
    engine: Engine
    listener: socket.socket
    settings: Settings
    store: SqliteStore | None = None
    collector: GarbageCollector | None = None
    invitation: lan.Invitation | None = None
    recognition: RecognitionRunner | None = None

    async def run(self) -> int:
        """Serve until the server has to exit; return the exit status.

        Raises `GatewayError` if the engine cannot start, `StoreFault` if the store cannot open.
        """
        asyncio.get_running_loop().set_exception_handler(unhandled)
        with self.collector or contextlib.nullcontext():
            # The store is open before the first client connects.
            async with opened(self.engine, self.store, self.recognition):
                if not self.server.should_exit:
                    await self._serve()
        return 0

    async def _serve(self) -> None:
        """Start the engine and serve, until the server has to exit or the engine fails."""
        server = self.server
        starting = asyncio.create_task(start_models(self.engine, self.recognition))
        if self.settings.reuse_port:
            # The kernel gives connections to every process that listens, ready or not.
            server.after = starting
        serving = asyncio.create_task(server.serve(sockets=[self.listener]))
        opening = asyncio.create_task(server.opened.wait())
        raised: BaseException | None = None
        try:
            # The end of the block clears the line before anything else is written.
            async with running(show_progress(self.engine, time.monotonic)):
                await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait({serving, opening}, return_when=asyncio.FIRST_COMPLETED)
                if not server.should_exit:  # else nobody is left to use the engine
                    self._announce()
            await serving
        except Exception as exc:
            # The engine failed, or this code did. Sockets are closed properly all the same.
            raised = exc
            server.should_exit = True
            await asyncio.wait({serving})
            raise
        finally:
            starting.cancel()
            opening.cancel()
            await asyncio.wait({starting, opening})
            fault = None if starting.cancelled() else starting.exception()
            if fault is not None and fault is not raised:
                log.error("the engine failed while the gateway ended", exc_info=redacted(fault))
            del raised  # it refers to this frame

    def _announce(self) -> None:
        if self.collector is not None:
            # The start of a model leaves much garbage, and other objects that stay for good.
            self.collector.thaw()
        host, port = self.listener.getsockname()[:2]
        # A browser cannot open the address that stands for all interfaces.
        address = lan.host_and_port("localhost" if lan.unspecified(host) else host, port)
        say(announcement(self.engine, address, self.settings, self.invitation))


def serve(settings: Settings) -> int:
    """Run a gateway until a signal stops it; return the exit status.

    Raises `GatewayError`, `SettingsError` and `OSError`.
    """
    # Python would write such exceptions with their messages.
    threading.excepthook = lambda args: _log_unhandled("a thread", args.exc_value)
    sys.unraisablehook = lambda args: _log_unhandled("a callback", args.exc_value)
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    check_certificate(settings)
    listener, reuse = inherited(settings), settings.reuse_port
    # The next process listens on the same socket.
    shared = reuse or listener is not None
    if listener is None:
        listener = listen(lan.host(settings), settings.port, reuse=reuse, settings=settings)
    with listener:
        return _serve_on(listener, settings, shared=shared)


def _serve_on(listener: socket.socket, settings: Settings, *, shared: bool) -> int:
    """Run a gateway that accepts connections from ``listener``; see `serve`."""
    invitation = lan.invite(listener, settings) if settings.lan else None
    guards: Counter[tuple[str, str]] = Counter()
    engine = build_engine(settings, guards)
    app = build(settings, engine, guards, invitation.ring if invitation else None)
    if invitation is not None:
        app.state.base_url = invitation.base
    collector = GarbageCollector(lambda: not app.state.hub.sessions)
    app.state.metrics.add(garbage_collections, collector)
    server = GatewayServer(
        configure(app, settings, descriptors(settings.limits)),
        app.state.hub,
        settings.drain_s,
        shared=shared,
    )
    store, recognition = app.state.store, app.state.hub.recognition
    process = GatewayProcess(
        server, engine, listener, settings, store, collector, invitation, recognition
    )
    with (
        server.capture_signals(),
        asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
    ):
        if hasattr(signal, "SIGHUP"):  # not on Windows
            reload = app.state.authenticator.reload_keys
            runner.get_loop().add_signal_handler(signal.SIGHUP, reload)
        return runner.run(process.run())


def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception of a callback or task that no code awaits, without its message."""
    # The event loop's own report would contain the arguments of the callback, which may be text of
    # a meeting.
    fault = context.get("exception")
    if fault is None:
        log.error("event loop: %s", context["message"])
    else:
        log.error("a task or callback failed that nobody waits for", exc_info=redacted(fault))


def _log_unhandled(where: str, fault: BaseException | None) -> None:
    """Log an exception that Python has caught outside of the event loop."""
    log.error("%s failed that nobody waits for", where, exc_info=fault and redacted(fault))
