"""One of several processes that serve a port together.

Owns: where its requests belong, taking what others hand over, its part of the metrics; and, where
`gateway.server.cluster.supervisor` started it, what that says to it. Must not know: how many there
are to be, who starts them again.

The parent writes to standard input: one line of JSON that says who this is, then orders, each a
line. Its end is told by the end of the file, however it came about: then this process drains and
ends, too. To standard output go lines of JSON, each a `WorkerReport`: that it is ready, then that
it goes on, each second, and why it ends by a fault."""

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
from gateway.server.cluster.routing import Headers, RoutedProtocol, Where, pinned
from gateway.server.process import serve as process
from gateway.server.process.serve import GatewayServer, serve
from gateway.server.runtime.hub import Hub
from gateway.server.uvicorn.http import BoundedProtocol
from gateway.settings.catalogue import Settings, SettingsError

log = logging.getLogger("gateway.worker")

DRAIN, HURRY, RETIRE = "drain", "hurry", "retire"
"""Orders of the parent; the last one with the number of a worker."""
ORDER_BYTES = 65_536
BEAT_S = 1.0
"""Seconds between two words of a worker that is ready."""
TELL = signal.SIGUSR1 if hasattr(signal, "SIGUSR1") else None
"""The signal that has a worker write down where each of its threads is."""

UP = f"# HELP {metrics.UP} 1 for each worker that answered, else 0.\n# TYPE {metrics.UP} gauge\n"
"""What the text of ``/metrics`` says of its first metric, where there are several workers."""

Expose = Callable[[], Awaitable[bytes]]


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Who a worker is.

    ``members`` are those that have rooms; of the ``settings.workers`` that there were some may be
    given up. ``listener`` is the descriptor of a socket that all listen on; None: each has its
    own, on the same port. ``starts`` is how often this number was started. ``keys`` is what the
    file of keys had in it when it could be read last; None: that file has to be good.
    """

    settings: Settings
    member: int
    members: tuple[int, ...]
    folder: str
    listener: int | None = None
    starts: int = 1
    keys: str | None = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says to its parent; nothing at all is said by one that goes on.

    ``ready`` is what to say of the engine, and ``fault`` why it ends; ``usage``: because of a
    setting, ``engine``: because the engine does not start.
    """

    ready: str | None = None
    fault: str | None = None
    usage: bool = False
    engine: bool = False


class Worker:
    """A `gateway.server.process.serve.ProcessRole`."""

    def __init__(self, handover: FdPassing) -> None:
        self.handover = handover
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: GatewayServer | None = None
        self._orders = b""
        self._orphan = False

    def protocol(self, app: Starlette) -> type[BoundedProtocol]:
        """See `ProcessRole`. Rooms of this hub are those that are pinned here, from now on."""
        hub: Hub = app.state.hub
        hub.owns = self.handover.owns
        app.state.metrics.registry.register(HandoverCollector(self.handover))
        app.state.expose = self._expose(app)
        return pinned(self.handover, place(self.handover, hub, app.state.authenticator))

    @contextlib.asynccontextmanager
    async def attend(self, app: Starlette, server: GatewayServer) -> AsyncIterator[None]:
        """See `ProcessRole`."""
        self._loop = asyncio.get_running_loop()
        self._server = server
        opening = asyncio.create_task(self._open(app, server))
        opening.add_done_callback(lambda task: self._opened(task, server))
        try:
            yield
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await opening
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await self.handover.aclose()

    def signalled(self) -> None:
        """See `ProcessRole`."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.handover.shut)

    def ready(self, text: str) -> None:
        """See `ProcessRole`."""
        process.say(text)

    def obey(self, orders: int) -> None:
        """Follow the orders that come from a descriptor, in the loop that runs."""
        asyncio.get_running_loop().add_reader(orders, self._read, orders)

    def opened(self) -> None:
        """The server listens."""

    async def _open(self, app: Starlette, server: GatewayServer) -> None:
        await server.opened.wait()
        self.opened()
        taking = _HandedConnections(server)
        self.handover.open(taking.take, app.state.metrics.expose)
        try:
            await asyncio.Event().wait()
        finally:
            await taking.aclose()

    def _opened(self, task: asyncio.Task[None], server: GatewayServer) -> None:
        if not task.cancelled():  # by a fault: nobody could be handed to this worker any more
            server.should_exit = True

    def _expose(self, app: Starlette) -> Expose:
        async def expose() -> bytes:
            others = sorted(self.handover.members - {self.handover.member})
            own, *answers = await asyncio.gather(
                asyncio.to_thread(app.state.metrics.expose), *map(self.handover.ask, others)
            )
            found = dict.fromkeys(self.handover.everybody) | {self.handover.member: own}
            found |= zip(others, answers, strict=True)
            texts = {str(n): text.decode() for n, text in sorted(found.items()) if text is not None}
            for number in sorted(found):
                texts[str(number)] = (
                    UP + f"gateway_up {int(str(number) in texts)}\n" + texts.get(str(number), "")
                )
            return (await asyncio.to_thread(metrics.merged, texts)).encode()

        return expose

    def _read(self, orders: int) -> None:
        try:
            data = os.read(orders, ORDER_BYTES)
        except BlockingIOError:
            return
        assert self._loop is not None and self._server is not None, "it attends"
        if not data:
            self._loop.remove_reader(orders)
            log.warning("whoever started this worker is gone")
            self._orphan = True
            self._follow(DRAIN)
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            self._follow(line.decode())

    def _follow(self, order: str) -> None:
        assert self._server is not None, "it attends"
        word, _, number = order.partition(" ")
        if word == RETIRE:
            self.handover.retire(int(number))
        elif word == DRAIN and not self._server.should_exit:
            self._server.handle_exit(signal.SIGTERM, None)
        elif word == HURRY:
            self._server.handle_exit(signal.SIGTERM, None)


class _HandedConnections:
    """Connections that others hand over, on their way into uvicorn."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[object]] = set()

    def take(self, connection: socket.socket, data: bytes) -> None:
        """Serve it as uvicorn serves what it has accepted."""
        task = asyncio.create_task(self._serve(connection, data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket, data: bytes) -> None:
        server = self._server
        loop = asyncio.get_running_loop()

        def made() -> asyncio.Protocol:
            kind = server.config.http_protocol_class
            assert isinstance(kind, type) and issubclass(kind, RoutedProtocol), (
                "it was configured so"
            )
            return kind(
                config=server.config,
                server_state=server.server_state,
                app_state=server.lifespan.state,
                _loop=loop,
                ahead=data,
            )

        try:
            await loop.connect_accepted_socket(made, connection)
        except OSError as exc:  # gone meanwhile
            log.debug("a connection was handed over in vain: %s", exc)
            connection.close()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def place(handover: FdPassing, hub: Hub, authenticator: Authenticator) -> Where:
    """Where requests belong."""

    def where(target: bytes, headers: Headers) -> int | None:
        asked = placement.asked(target, headers)
        if asked is None:
            return None
        room = asked.room
        if room is None and asked.resume is not None:
            try:
                found = hub.recognise(asked.resume, None)
            except ClientFault:  # it will be told so
                return None
            room = None if found is None else found.room
        if room is None:
            room = authenticator.home_room(asked.bearer, asked.ticket)
        return None if room is None else handover.owner(room)

    return where


class _Child(Worker):
    """A worker with a parent that gives orders. Signals begin its end, and only orders hasten it: a
    service manager signals every process, the parent and this one.

    :param parent: a descriptor that the parent reads
    """

    def __init__(self, handover: FdPassing, parent: int) -> None:
        super().__init__(handover)
        self._parent = parent

    @contextlib.asynccontextmanager
    async def attend(self, app: Starlette, server: GatewayServer) -> AsyncIterator[None]:
        async with super().attend(app, server):
            self.obey(0)
            self._read(0)  # whose parent is gone already is not to listen for even a moment
            yield
        if self._orphan:
            self.handover.clear()

    def opened(self) -> None:
        """See `Worker`. From now on these handlers count, and not those of the server."""
        for one in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(one, self._follow, DRAIN)

    def ready(self, text: str) -> None:
        """See `ProcessRole`."""
        _say(self._parent, WorkerReport(ready=text))
        asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        _say(self._parent, WorkerReport())
        asyncio.get_running_loop().call_later(BEAT_S, self._beat)


def main() -> int:
    """The process that `gateway.server.cluster.supervisor` starts; its exit status."""
    brief = msgspec.json.decode(_line(0), type=WorkerConfig)
    settings = brief.settings
    faulthandler.enable()
    if TELL is not None:
        faulthandler.register(TELL)
    logging.basicConfig(
        level=settings.log_level.upper(),
        format=f"%(asctime)s %(levelname)s [{brief.member}] %(name)s: %(message)s",
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    os.set_blocking(0, False)
    parent = os.dup(1)
    os.dup2(2, 1)  # what a library prints is nothing for the parent
    os.set_blocking(parent, False)
    everybody = range(settings.workers)
    handover = FdPassing(Path(brief.folder), brief.member, brief.members, everybody=everybody)
    handover.starts = brief.starts
    worker = _Child(handover, parent)
    try:
        if brief.listener is not None:
            listener = socket.socket(fileno=brief.listener)
            listener.set_inheritable(False)
        else:
            listener = process.listen(settings.host, settings.port, reuse=True, settings=settings)
        ring = None if brief.keys is None else Keyring.read(brief.keys)
        return serve(settings, listener=listener, work=worker, ring=ring)
    except SettingsError as exc:
        _say(parent, WorkerReport(fault=str(exc), usage=True))
        return 2
    except (GatewayError, OSError) as exc:
        hint = getattr(exc, "hint", None)
        why = f"{exc} {hint}" if hint else str(exc)
        _say(parent, WorkerReport(fault=why, engine=isinstance(exc, EngineFault)))
        return 1


def _say(parent: int, word: WorkerReport) -> None:
    """If it is there to hear it."""
    with contextlib.suppress(OSError):
        os.write(parent, msgspec.json.encode(word) + b"\n")


def _line(descriptor: int) -> bytes:
    """One line, and nothing of what follows."""
    line = bytearray()
    while (one := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += one
    return bytes(line)
