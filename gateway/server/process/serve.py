"""The gateway as a process: its listener, its signals, its start and its end.

Owns: the socket, uvicorn, the order of starting and stopping. Must not know: what is served.

Start: the port is taken first (so that a port in use is told at once), the store is opened, then
the engine loads while ``/healthz`` answers and ``/readyz`` says 503. Stop (SIGTERM, Ctrl-C):
where another process shares the port, no connection is accepted any more; nothing new is taken,
captions in flight finish within ``drain_s``, the rest ends visibly, then sockets close, the store
is written to its end and the engine is shut down. uvicorn by itself would close every socket with
1012 at once. A second signal cuts it short, and what hangs is not waited for. Signals count from
the start of the event loop until the store is closed: none of them ends the process halfway. SIGHUP
ends nothing: the keys are read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import itertools
import logging
import os
import queue
import signal
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette

from gateway.auth.api_keys import Keyring
from gateway.core.validation import usual
from gateway.engines.base.engine import Engine, SubstitutableEngine
from gateway.engines.registry import build
from gateway.errors import GatewayError, redacted
from gateway.limits import Limits
from gateway.protocol.handshake import SOCKET_PATH
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.app import create_app
from gateway.server.process import lan
from gateway.server.runtime.gc_tuning import GarbageCollector
from gateway.server.runtime.hub import Hub
from gateway.server.uvicorn.http import (
    BEST,
    HEAD_BYTES,
    SPARE,
    BoundedProtocol,
    http_protocol,
    not_counted,
)
from gateway.server.uvicorn.websocket import (
    WebSocketProtocol,
    websocket_protocol,
    without_client_mistakes,
)
from gateway.settings.catalogue import Settings, SettingsError, asks
from gateway.storage.base import Store
from gateway.storage.sqlite import store as sqlite

if sys.platform != "win32":
    import resource

log = logging.getLogger("gateway.process")

UNSENT_BYTES = 16_384
"""TCP_NOTSENT_LOWAT: unsent bytes the kernel keeps per socket. Without it some 4 MB of stale
captions pile up there before a slow reader is noticed; captions need a few hundred bytes."""
SEND_BYTES = 65_536
"""SO_SNDBUF, which Linux doubles: what is sent and not acknowledged counts too, so that one socket
holds no more than 128 KiB of kernel memory. That is half a megabyte a second over 200 ms."""
SILENT_S = 1.0
"""TCP_USER_TIMEOUT, beyond the time after which a ping that is not answered ends the connection: it
frees what the gateway itself does not notice, such as an answer over HTTP that nobody reads."""
BACKLOG = 2048
FILES = 128
"""Open files beside the connections: the model, the store, the log, an engine's own sockets."""
RECEIVE_BYTES = 16_384
"""SO_RCVBUF. uvicorn parses all that one read gives before anything else runs: of the smallest
frames, the 256 KiB that a read may give take a fifth of a second."""
TICK_S = 0.1
"""Seconds between two looks for a signal while nobody is listened to yet, as uvicorn's."""
GRACE_S = 0.2
"""Seconds for open responses after the drain, in which captions had theirs."""
LAST_S = 12.0
"""Seconds after ``drain_s`` until a process that hangs is ended by force: the store may take five
for its last write, and an engine that stops some more."""
PASSED = 3
"""The first descriptor that systemd passes (sd_listen_fds(3))."""


STRANGERS = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons where a key is not that of the certificate: another one, or of another kind."""


class ProcessRole(Protocol):
    """What is different in one of several processes, see `gateway.server.cluster.worker`."""

    def protocol(self, app: Starlette) -> type[BoundedProtocol]:
        """The class of its connections."""

    def attend(self, app: Starlette, server: GatewayServer) -> AbstractAsyncContextManager[None]:
        """It works with the others while this lasts."""

    def signalled(self) -> None:
        """Its end begins. Called from a signal's handler."""

    def ready(self, text: str) -> None:
        """The engine is ready, and this is what would be said of it."""


class GatewayServer(uvicorn.Server):
    """uvicorn, except that its end begins with a drain.

    :param shared: whether connections that this one does not accept are another's
    :param signalled: called when the first signal comes
    """

    def __init__(
        self,
        config: uvicorn.Config,
        hub: Hub,
        drain_s: float,
        *,
        shared: bool = False,
        signalled: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._hub = hub
        self._drain_s = drain_s
        self._shared = shared
        self._signalled = signalled
        self._signals = itertools.count()
        self.after: asyncio.Task[None] | None = None
        """Listen when this has ended: another process serves the port meanwhile."""
        self.opened = asyncio.Event()
        """Set once it listens."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Run until `should_exit` is set. The caller has called `capture_signals`, which lasts
        longer than this."""
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        while self.after is not None and not self.after.done():
            await asyncio.wait([self.after], timeout=TICK_S)
            if self.should_exit:
                return
        if self.after is not None and self.after.exception() is not None:
            self.should_exit = True
        if self.should_exit:  # before it began
            return
        await super().startup(sockets)
        self.opened.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._shared:
            await self._unlisten()
        await self._hub.drain(self._drain_s)
        for connection in list(self.server_state.connections):
            if (
                isinstance(connection, WebSocketProtocol)
                and connection.transport.get_write_buffer_size()
            ):
                connection.transport.abort()  # it does not read, and would be waited for
        await self._unlisten()
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn left the application's end out, and would cancel it noisily
            await self.lifespan.shutdown()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # its client has not ended it in `GRACE_S`
        await asyncio.sleep(0)  # in which they are closed

    async def _unlisten(self) -> None:
        """Close the listeners; not the connections."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            # What it has accepted it makes one turn later, and loses where the listener was closed
            # in between: https://github.com/python/cpython/issues/109564
            for server in self.servers:
                for listener in server.sockets:
                    loop.remove_reader(listener.fileno())
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end at the first signal, and cut it short at every later one.

        Unlike uvicorn's, it does not raise the signal again after a clean end. It may be called
        between any two steps of the program, of itself too. So it takes no lock, not even that of
        `threading.Thread.start`, and it counts in one step.
        """
        first = next(self._signals) == 0
        self.should_exit = True
        if first:
            self._signalled()
        else:
            self.force_exit = True
            self._hub.hurry()


class Watch:
    """A thread that ends the process by force where it does not end by itself."""

    def __init__(self) -> None:
        # Its `put` may be called in a signal's handler that interrupts another `put`.
        self._orders: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        threading.Thread(target=self._wait, daemon=True).start()

    def begin(self, seconds: float) -> None:
        """End the process in so many seconds. Safe in a signal's handler."""
        self._orders.put(seconds)

    def stop(self) -> None:
        """Let the process live."""
        self._orders.put(None)

    def _wait(self) -> None:
        seconds = self._orders.get()
        with contextlib.suppress(queue.Empty):
            while seconds is not None:
                seconds = self._orders.get(timeout=seconds)
            return
        _give_up()


def serve(
    settings: Settings,
    *,
    listener: socket.socket | None = None,
    work: ProcessRole | None = None,
    ring: Keyring | None = None,
) -> int:
    """Run until a signal says stop; the exit status.

    Raises `GatewayError`, `SettingsError` and `OSError`.

    :param listener: where it listens, made by `listen` or `inherited`; default: made here
    :param work: the part of this process, where there are several
    :param ring: the keys in force where the file of them cannot be read
    """
    # uvicorn's own log has every frame in it at DEBUG, and texts of meetings are private.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    _check_certificate(settings)
    store = sqlite.build(settings)
    shared = settings.reuse_port or work is not None
    if listener is None:
        listener = inherited(settings)
        shared = shared or listener is not None
    if listener is None:
        listener = listen(
            lan.host(settings), settings.port, reuse=settings.reuse_port, settings=settings
        )
    invitation = lan.invite(listener, settings) if settings.lan else None
    if invitation is not None and invitation.ring is not None:
        ring = invitation.ring
    guards: Counter[tuple[str, str]] = Counter()
    engine = build(settings, guards)
    app = create_app(
        engine,
        settings.limits,
        lang=settings.lang,
        flow=settings.flow,
        guards=guards,
        store=store,
        authenticator=build_authenticator(settings, fallback=ring),
        coalesce_s=settings.coalesce_ms / 1000,
    )
    if invitation is not None:
        app.state.base_url = invitation.base
    collector = GarbageCollector(lambda: not app.state.hub.sessions)
    app.state.metrics.add_garbage_collector(collector)
    watch = Watch()

    def signalled() -> None:
        watch.begin(settings.drain_s + LAST_S)
        if work is not None:
            work.signalled()

    base = BEST if work is None else work.protocol(app)
    server = GatewayServer(
        configure(app, settings, descriptors(settings.limits), base),
        app.state.hub,
        settings.drain_s,
        shared=shared,
        signalled=signalled,
    )
    try:
        with (
            server.capture_signals(),
            asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
        ):
            if hasattr(signal, "SIGHUP"):
                reload_keys = app.state.authenticator.reload_keys
                runner.get_loop().add_signal_handler(signal.SIGHUP, reload_keys)
            joined = None if work is None else work.attend(app, server)
            ready = None if work is None else work.ready
            return runner.run(
                _serve(
                    server, engine, listener, settings, store, collector, invitation, joined, ready
                )
            )
    finally:
        watch.stop()


def configure(
    app: Starlette, settings: Settings, most: int | None = None, base: type[BoundedProtocol] = BEST
) -> uvicorn.Config:
    """uvicorn's options, each for a reason given in ``docs/design/server.md``.

    :param most: connections there may be; default: what the limits ask for
    :param base: the class of connections that is bounded
    """
    authenticator: Authenticator | None = getattr(app.state, "authenticator", None)
    return uvicorn.Config(
        app,
        loop=settings.loop,
        ws=websocket_protocol(settings.limits),
        http=http_protocol(
            settings.limits,
            most or settings.limits.sessions + SPARE,
            base,
            counted_as=not_counted if authenticator is None else authenticator.peer_address,
        ),
        h11_max_incomplete_event_size=HEAD_BYTES,
        ws_max_size=settings.limits.frame,
        ws_ping_interval=settings.ping_s or None,
        ws_ping_timeout=settings.ping_timeout_s,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # it takes parts of one too
        timeout_keep_alive=5,
        server_header=False,
        proxy_headers=False,  # it would believe whatever comes from this machine
        ssl_certfile=_path(settings.certfile),
        ssl_keyfile=_path(settings.keyfile),
        access_log=False,
        log_config=None,
        lifespan="on",
    )


def _check_certificate(settings: Settings) -> None:
    """Raise `SettingsError` where the certificate cannot be used: uvicorn would tell it late."""
    if settings.certfile is None:
        if settings.keyfile is not None:
            raise SettingsError("keyfile is the key of a certificate: name that with --certfile.")
        return
    certfile, keyfile = settings.certfile, settings.keyfile or settings.certfile
    if b"CERTIFICATE-----" not in _pem("certfile", certfile):
        raise SettingsError(f"{certfile} holds no certificate in PEM form. Check --certfile.")
    key = _pem("keyfile" if settings.keyfile else "certfile", keyfile)
    if b"PRIVATE KEY-----" not in key:
        raise SettingsError(f"{keyfile} holds no private key in PEM form. Name one with --keyfile.")
    if b"ENCRYPTED" in key:
        raise SettingsError(
            f"The private key in {keyfile} is encrypted. Write a copy without a passphrase"
            f" (openssl pkey -in {keyfile} -out FILE) and name it with --keyfile."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # With a password, which is wrong: OpenSSL would ask for one, and wait.
        context.load_cert_chain(_path(certfile), _path(keyfile), password="-")  # type: ignore[arg-type]
    except ssl.SSLError as exc:
        if exc.reason in STRANGERS:
            raise SettingsError(
                f"The key in {keyfile} is not that of the first certificate in {certfile}."
            ) from exc
        raise SettingsError(
            f"OpenSSL cannot use {certfile} with {keyfile} ({exc.reason or exc})."
        ) from exc


def _pem(name: str, file: str) -> bytes:
    """Read the file of the setting ``name``. Raises `SettingsError`."""
    try:
        return Path(file).expanduser().read_bytes()
    except OSError as exc:
        raise SettingsError(f"{file} cannot be read: {exc.strerror}. Check --{name}.") from exc


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name).expanduser()


def descriptors(limits: Limits) -> int:
    """Let the process open as many files as its sockets need; how many connections that allows."""
    if sys.platform == "win32":
        return limits.sessions + SPARE
    wanted = limits.sessions + SPARE + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            log.warning("only %d files may be open, %d are needed: see ulimit -n", soft, wanted)
            return max(1, soft - FILES)
    return limits.sessions + SPARE


def listen(
    host: str, port: int, *, reuse: bool = False, settings: Settings | None = None
) -> socket.socket:
    """A listening socket; accepted ones inherit its options. Raises `OSError`.

    :param reuse: share the port with other processes that do (SO_REUSEPORT)
    :param settings: for the times after which a silent client is given up
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: plain asyncio leaves Nagle on where it is 0.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _tune(listener, settings or Settings())
        listener.bind((host, port))
        if not reuse:  # else asyncio does, when there is somebody to answer
            listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        why, other = exc.strerror or str(exc), "Choose another --host."
        if exc.errno == errno.EADDRINUSE:
            why, other = "another program uses this port", "End that one, or choose another --port."
        elif exc.errno == errno.EACCES:
            other = "Choose a --port above 1023."
        raise OSError(f"Cannot listen on {host}:{port}: {why}. {other}") from exc
    return listener


def inherited(settings: Settings | None = None) -> socket.socket | None:
    """The listening socket that systemd passed (sd_listen_fds(3)); None where it passed none.

    Such a socket outlives the process: who connects while nobody accepts waits for the next one.
    Raises `OSError` where there are several, or it is none.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = os.environ.get("LISTEN_FDS")
    if count != "1":
        raise OSError(f"LISTEN_FDS is {count}: pass one listening socket.")
    listener = socket.socket(fileno=PASSED)
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise OSError("The socket that was passed does not listen: in systemd, Accept=no.")
    listener.set_inheritable(False)
    _tune(listener, settings or Settings())
    return listener


def _tune(listener: socket.socket, settings: Settings) -> None:
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    silent = 0.0  # the system's own: a quarter of an hour
    if settings.ping_s:
        silent = 1000 * (settings.ping_s + settings.ping_timeout_s + SILENT_S)
    for name, value in (("TCP_NOTSENT_LOWAT", UNSENT_BYTES), ("TCP_USER_TIMEOUT", round(silent))):
        if hasattr(socket, name):  # Linux; others do without
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _give_up() -> None:
    """The process should have ended long ago: say where it hangs, and end it."""
    sys.stderr.write("The gateway does not end by itself:\n")
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a callback or a task raised, where nobody waits for it, without its words.

    The event loop's own message has the arguments of the callback in it.
    """
    fault = context.get("exception")
    if fault is None:
        log.error("event loop: %s", context["message"])
    else:
        log.error("nobody waits for what failed", exc_info=redacted(fault))


async def _serve(
    server: GatewayServer,
    engine: Engine,
    listener: socket.socket,
    settings: Settings,
    store: Store | None = None,
    collector: GarbageCollector | None = None,
    invitation: lan.Invitation | None = None,
    joined: AbstractAsyncContextManager[None] | None = None,
    ready: Callable[[str], None] | None = None,
) -> int:
    ready, quiet = ready or say, ready is not None
    collector = collector or GarbageCollector(lambda: False)
    asyncio.get_running_loop().set_exception_handler(unhandled)
    async with contextlib.AsyncExitStack() as stack:
        if joined is not None:
            await stack.enter_async_context(joined)
        collector.start()
        stack.callback(collector.stop)
        stack.push_async_callback(engine.aclose)
        if store is not None:  # before anybody is let in
            await store.open()
            stack.push_async_callback(store.close)
        if server.should_exit:
            return 0
        starting = asyncio.create_task(engine.start())
        if settings.reuse_port:  # the kernel deals out to whoever listens, ready or not
            server.after = starting
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        progress = asyncio.create_task(_progress(engine, time.monotonic, quiet))
        opening = asyncio.create_task(server.opened.wait())
        try:
            await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
            progress.cancel()
            await asyncio.wait([progress])  # it wipes its line first
            if starting.done():
                starting.result()
                await asyncio.wait({serving, opening}, return_when=asyncio.FIRST_COMPLETED)
                if not server.should_exit:  # else it became ready for nobody
                    collector.thaw()  # of a model's start much is garbage, and the rest stays
                    ready(_announcement(engine, listener, settings, invitation))
            await serving
        except GatewayError:
            server.should_exit = True
            await serving
            raise
        finally:
            for task in (starting, progress, opening):
                task.cancel()
            await asyncio.gather(starting, progress, opening, return_exceptions=True)
    return 0


async def _progress(engine: Engine, clock: Callable[[], float], quiet: bool) -> None:
    """A line that moves while the engine loads, on a terminal; one line elsewhere."""
    if quiet:
        return
    begun = clock()
    terminal = sys.stderr.isatty()
    try:
        while True:
            line = f"Starting {engine.name} ... {clock() - begun:.0f} s"
            say("\r" + line if terminal else line + "\n")
            await asyncio.sleep(1 if terminal else 30)
    finally:
        if terminal:
            say("\r\x1b[K")


def say(text: str) -> None:
    """On the terminal, if it takes it: a gateway is not to end by a disk that is full of logs."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _announcement(
    engine: Engine,
    listener: socket.socket,
    settings: Settings,
    invitation: lan.Invitation | None,
) -> str:
    """That it is ready, and how it is reached."""
    substitute = engine.substitute if isinstance(engine, SubstitutableEngine) else None
    ready = f"{engine.name} is ready."
    if substitute is not None:
        ready = f"{substitute} is ready, and does the work until {engine.name} is."
    if invitation is not None:
        how = lan.notice(invitation, settings, sys.stderr)
    else:
        how = _addresses(engine, lan.place(*listener.getsockname()[:2]), settings)
    return f"{ready}\n{how}  stop   Ctrl-C\n"


def _addresses(engine: Engine, place: str, settings: Settings) -> str:
    profile = engine.profile
    source = usual(profile)
    targets = [t for t in profile.targets if profile.supports(source, t) and t != source][:2]
    key = "-H 'Authorization: Bearer KEY' " if asks(settings) else ""
    secure = "" if settings.certfile is None else "s"
    return (
        f"  Open   http{secure}://{place}/\n"
        f"  or     wscat {key}-c 'ws{secure}://{place}{SOCKET_PATH}?from={source}&to={','.join(targets)}'"
        "   and type a line\n"
    )
