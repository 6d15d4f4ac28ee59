"""A worker: one of several processes that serve a port together.

Owns: which process a request belongs to, connections that other processes hand over, and the
metrics of all processes as one answer. If `gateway.server.cluster.supervisor` started the process,
it owns the exchange with that as well. Must not know: how many processes there are to be, and who
starts them again.

The supervisor writes to standard input: one line of JSON, a `WorkerConfig`, then orders, one per
line. The end of the file means that the supervisor is gone, for whatever reason: the worker then
drains and ends, too. The worker writes lines of JSON to standard output, each a `WorkerReport`: one
when it is ready, one each second while it works, and one with the reason if a fault ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.applications import Starlette

from gateway.auth.api_keys import Keyring
from gateway.errors import ClientFault, EngineFault, GatewayError
from gateway.server.access.authenticator import Authenticator
from gateway.server.cluster import metrics, placement
from gateway.server.cluster.fd_passing import FdPassing
from gateway.server.cluster.handover_metrics import HandoverCollector
from gateway.server.cluster.routing import Headers, Locate, RoutedProtocol, routed_protocol
from gateway.server.process.console import say
from gateway.server.process.listener import listen
from gateway.server.process.logs import set_up_logs
from gateway.server.process.serve import serve
from gateway.server.process.server import GatewayServer
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.tasks import BackgroundTasks
from gateway.server.uvicorn.http import BoundedProtocol
from gateway.settings.catalogue import Settings, SettingsError

log = logging.getLogger("gateway.worker")

DRAIN, HURRY, RETIRE = "drain", "hurry", "retire"
"""Orders of the supervisor. The last one is followed by the number of a worker."""
ORDER_BYTES = 65_536
"""Bytes of orders read at once."""
REPORT_S = 1.0
"""Seconds between two reports of a worker that is ready."""
TRACE_SIGNAL = signal.SIGUSR1 if hasattr(signal, "SIGUSR1") else None
"""Signal at which a worker writes the stack of each of its threads."""

UP = f"# HELP {metrics.UP} 1 for each worker that answered, else 0.\n# TYPE {metrics.UP} gauge\n"
"""Head of the metric that tells which workers answered."""

Expose = Callable[[], Awaitable[bytes]]


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor's first message to a worker.

    ``members`` are the numbers of the workers that have rooms. ``settings.workers`` is how many the
    gateway began with; some may have been retired since. ``listener`` is the descriptor of a socket
    that all workers listen on; None: each has its own on the same port. ``starts`` counts the
    starts of this number. ``keys`` is the last content of the file of keys that could be read;
    None: the file has to be readable now.
    """

    settings: Settings
    member: int
    members: tuple[int, ...]
    folder: str
    listener: int | None = None
    starts: int = 1
    keys: str | None = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's message to its supervisor. An empty one says that the worker still works.

    ``ready`` is the text that announces the engine. ``fault`` is the reason for which the worker
    ends; ``usage`` marks a wrong setting, ``engine`` an engine that does not start.
    """

    ready: str | None = None
    fault: str | None = None
    usage: bool = False
    engine: bool = False


class Worker:
    """A `gateway.server.process.serve.ProcessRole` of one process among several."""

    def __init__(self, handover: FdPassing) -> None:
        self.handover = handover
        self._app: Starlette
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: GatewayServer | None = None

    def protocol(self, app: Starlette) -> type[BoundedProtocol]:
        """Return the class of connections that leave for the process of their room.

        From now on the hub of ``app`` has only rooms that belong to this process.
        """
        self._app = app
        hub: Hub = app.state.hub
        hub.owns = self.handover.owns
        app.state.metrics.registry.register(HandoverCollector(self.handover))
        app.state.expose = self._expose_all
        return routed_protocol(self.handover, locator(self.handover, hub, app.state.authenticator))

    @contextlib.asynccontextmanager
    async def attached(self, server: GatewayServer) -> AsyncIterator[None]:
        """Take connections from other processes, once the server listens."""
        self._loop = asyncio.get_running_loop()
        self._server = server
        tasks = BackgroundTasks(log, "no connection can be taken from other workers any more")
        receiving = tasks.start(self._receive_connections(server))
        receiving.add_done_callback(self._receiving_ended)
        try:
            yield
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiving
        finally:
            await tasks.aclose()
            await self.handover.aclose()

    def on_signal(self) -> None:
        """Take no more connections from other processes. They wait for the next process."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.handover.stop_listening)

    def on_ready(self, text: str) -> None:
        """Announce the engine on the terminal."""
        say(text)

    def on_listening(self) -> None:
        """Do what has to follow the start of the server. A subclass may override this."""

    async def _receive_connections(self, server: GatewayServer) -> None:
        await server.opened.wait()
        self.on_listening()
        connections = _HandedConnections(server)
        self.handover.listen(connections.serve, self._app.state.metrics.expose)
        try:
            await asyncio.Event().wait()
        finally:
            await connections.aclose()

    def _receiving_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            # No process can reach the rooms of this one any more. So it ends, and `attached`
            # raises the fault for the exit status, unless another fault came first.
            assert self._server is not None, "the task begins in `attached`"
            self._server.should_exit = True

    async def _expose_all(self) -> bytes:
        """Return the metrics of all workers as one text in the Prometheus format."""
        others = sorted(self.handover.members - {self.handover.member})
        own, *answers = await asyncio.gather(
            asyncio.to_thread(self._app.state.metrics.expose), *map(self.handover.ask, others)
        )
        found = dict.fromkeys(self.handover.everybody) | {self.handover.member: own}
        found |= zip(others, answers, strict=True)
        texts = {str(n): text.decode() for n, text in sorted(found.items()) if text is not None}
        for number in sorted(found):
            # Retired workers and those that did not answer are listed with 0.
            texts[str(number)] = (
                UP + f"gateway_up {int(str(number) in texts)}\n" + texts.get(str(number), "")
            )
        return (await asyncio.to_thread(metrics.merged, texts)).encode()


class _HandedConnections:
    """Connections that other processes accepted, on their way into uvicorn."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._tasks = BackgroundTasks(log, "a connection from another worker could not be served")

    def serve(self, connection: socket.socket, data: bytes) -> None:
        """Serve a connection as uvicorn serves those that it accepts itself.

        :param connection: owned by this method
        :param data: bytes that the other process has read
        """
        self._tasks.start(self._serve(connection, data))

    async def _serve(self, connection: socket.socket, data: bytes) -> None:
        server = self._server
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            kind = server.config.http_protocol_class
            assert isinstance(kind, type) and issubclass(kind, RoutedProtocol), (
                "`Worker.protocol` is the configured class"
            )
            return kind(
                config=server.config,
                server_state=server.server_state,
                app_state=server.lifespan.state,
                _loop=loop,
                ahead=data,
            )

        try:
            await loop.connect_accepted_socket(protocol, connection)
        except OSError as exc:  # the client left in the meantime
            log.debug("a connection from another worker had ended: %s", exc)
            connection.close()
        except Exception:
            # No transport owns the socket yet. A cancelled task needs nothing: by then one does.
            connection.close()
            raise

    async def aclose(self) -> None:
        """Cancel what has not reached uvicorn yet."""
        await self._tasks.aclose()


def locator(handover: FdPassing, hub: Hub, authenticator: Authenticator) -> Locate:
    """Return a function that finds the process of a request.

    It looks at the room that the request names, else at its resume token, else at the one room that
    its key or ticket allows.
    """

    def locate(target: bytes, headers: Headers) -> int | None:
        hint = placement.room_hint(target, headers)
        if hint is None:
            return None
        room = hint.room
        if room is None and hint.resume is not None:
            try:
                place = hub.recognise(hint.resume, None)
            except ClientFault:  # any process can refuse the token
                return None
            room = None if place is None else place.room
        if room is None:
            room = authenticator.home_room(hint.bearer, hint.ticket)
        return None if room is None else handover.owner(room)

    return locate


class _SupervisedWorker(Worker):
    """A worker that follows the orders of a supervisor.

    A signal begins its end, and only an order hastens it: service managers signal every process of
    a service, so the worker gets both the signal and the supervisor's order.

    :param reports: descriptor that the supervisor reads reports from
    """

    def __init__(self, handover: FdPassing, reports: int) -> None:
        super().__init__(handover)
        self._reports = reports
        self._orders = b""  # the beginning of a line that has not come whole
        self._abandoned = False

    @contextlib.asynccontextmanager
    async def attached(self, server: GatewayServer) -> AsyncIterator[None]:
        """Follow orders from standard input in addition to what a `Worker` does."""
        async with super().attached(server):
            asyncio.get_running_loop().add_reader(0, self._read_orders)
            # A worker whose supervisor is gone already must not listen even for a moment.
            self._read_orders()
            yield
        if self._abandoned:  # the supervisor would have removed it
            self.handover.remove_folder()

    def on_listening(self) -> None:
        """Replace the server's signal handlers, which hasten the end at a second signal."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._follow, DRAIN)

    def on_ready(self, text: str) -> None:
        """Report the announcement, and from now on each second that the worker works."""
        _report(self._reports, WorkerReport(ready=text))
        asyncio.get_running_loop().call_later(REPORT_S, self._report_again)

    def _report_again(self) -> None:
        _report(self._reports, WorkerReport())
        asyncio.get_running_loop().call_later(REPORT_S, self._report_again)

    def _read_orders(self) -> None:
        try:
            data = os.read(0, ORDER_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(0)
            log.warning("the process that started this worker is gone")
            self._abandoned = True
            self._follow(DRAIN)
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            self._follow(line.decode())

    def _follow(self, order: str) -> None:
        assert self._server is not None, "orders are read in `attached`"
        word, _, number = order.partition(" ")
        if word == RETIRE:
            self.handover.retire(int(number))
        elif word == DRAIN and not self._server.should_exit:
            self._server.handle_exit(signal.SIGTERM, None)
        elif word == HURRY:
            # A further call of `handle_exit` cuts the drain short.
            self._server.handle_exit(signal.SIGTERM, None)


def main() -> int:
    """Run the process that `gateway.server.cluster.supervisor` starts; return its exit status."""
    config = msgspec.json.decode(_read_line(0), type=WorkerConfig)
    settings = config.settings
    faulthandler.enable()
    if TRACE_SIGNAL is not None:
        faulthandler.register(TRACE_SIGNAL)
    set_up_logs(settings.log_level, settings.log_format, config.member)
    os.set_blocking(0, False)
    reports = os.dup(1)
    os.dup2(2, 1)  # the supervisor must not read what a library prints
    os.set_blocking(reports, False)
    everybody = range(settings.workers)
    handover = FdPassing(Path(config.folder), config.member, config.members, everybody=everybody)
    handover.starts = config.starts
    worker = _SupervisedWorker(handover, reports)
    try:
        if config.listener is not None:
            listener = socket.socket(fileno=config.listener)
            listener.set_inheritable(False)
        else:
            listener = listen(settings.host, settings.port, reuse=True, settings=settings)
        ring = None if config.keys is None else Keyring.read(config.keys)
        return serve(settings, listener=listener, role=worker, ring=ring)
    except SettingsError as exc:
        _report(reports, WorkerReport(fault=str(exc), usage=True))
        return 2
    except (GatewayError, OSError) as exc:
        hint = getattr(exc, "hint", None)
        why = f"{exc} {hint}" if hint else str(exc)
        _report(reports, WorkerReport(fault=why, engine=isinstance(exc, EngineFault)))
        return 1


def _report(reports: int, report: WorkerReport) -> None:
    """Send a report, unless the supervisor is gone or does not read."""
    with contextlib.suppress(OSError):
        os.write(reports, msgspec.json.encode(report) + b"\n")


def _read_line(descriptor: int) -> bytes:
    """Read one line, and nothing of what follows: later lines are orders."""
    line = bytearray()
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)
