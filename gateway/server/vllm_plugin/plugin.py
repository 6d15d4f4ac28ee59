"""The gateway inside ``vllm serve``: a ``vllm.endpoint_plugins`` plugin, from vLLM 0.32 on.

Owns: the gateway's start and end in a process that is vLLM's, and what the API servers of one
``vllm serve`` have in common. Must not know: vLLM's inside, connections, rooms.

The gateway listens on a port of its own, with its own server on vLLM's event loop: vLLM's uvicorn
knows nothing of rooms that are in one process, nor of slow readers. Each API server is one worker,
see ``docs/design/cores.md``. Settings are the variables ``GATEWAY_...``; without ``GATEWAY_PORT``
the port is the one above vLLM's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette

from gateway.engines.base.engine import Engine
from gateway.engines.registry import around
from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.app import create_app
from gateway.server.cluster.fd_passing import FdPassing, private
from gateway.server.cluster.worker import Worker
from gateway.server.process.serve import GatewayServer, configure, descriptors, listen
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings, SettingsError, refuse_exposure
from gateway.settings.loading import load
from gateway.storage.base import Store
from gateway.storage.sqlite import store as sqlite

log = logging.getLogger("gateway.plugin")

SPARE_S = 1.0
"""Of vLLM's ``--shutdown-timeout``, seconds that are left for vLLM's own end."""
LATE_S = 3.0
"""Seconds beyond the drain after which vLLM ends without waiting for the gateway."""


class Plugin:
    """An `EndpointPlugin` of vLLM's, without routes on vLLM's port."""

    name = "caption_gateway"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self.guest: PluginGateway | None = None

    def attach_router(self, app: Any) -> None:
        """Nothing: the gateway has a port of its own."""

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Begin to serve. Raises `GatewayError`, `SettingsError` and `OSError`; vLLM ends then."""
        if engine_client is None:
            return
        self.guest = PluginGateway(engine_client, read(args, os.environ))
        self.guest.begin()


def read(args: Namespace, environ: Any) -> Settings:
    """The gateway's settings beside these of vLLM's. Raises `SettingsError`."""
    loaded = load({}, environ)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    settings = loaded.settings
    if settings.workers > 1 or settings.lan or settings.certfile is not None:
        raise SettingsError(
            "Inside vLLM the gateway has as many processes as --api-server-count says, and neither"
            " --lan nor --certfile."
        )
    refuse_exposure(settings)
    if "port" not in loaded.origins:
        settings = msgspec.structs.replace(settings, port=args.port + 1)
    allowed = max(0.0, float(getattr(args, "shutdown_timeout", 0) or 0) - SPARE_S)
    return msgspec.structs.replace(settings, drain_s=min(settings.drain_s, allowed))


class _PluginServer(GatewayServer):
    """One that leaves signals to vLLM."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PluginGateway:
    """The gateway in one API server.

    Its end is before vLLM's: ``client.shutdown`` waits for the drain first, because a signal tells
    vLLM alone, and captions in flight need the engine.

    :param client: the `AsyncLLM` of this process
    """

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        parallel = client.vllm_config.parallel_config
        self._member = max(0, int(getattr(parallel, "_api_process_rank", 0)))
        self._count = max(1, int(getattr(parallel, "_api_process_count", 1)))
        # The API servers of one `vllm serve` are children of one process.
        self._folder = private(None if self._count == 1 else str(os.getppid()))
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._serving: asyncio.Task[None] | None = None
        self.server: GatewayServer | None = None

    def begin(self) -> None:
        """Take the port, and serve in a task. Raises `GatewayError` and `OSError`."""
        settings = self._settings
        _speak(settings.log_level)
        store = sqlite.build(settings)
        if settings.signing_key is None and store is None:
            settings = msgspec.structs.replace(settings, signing_key=shared_key(self._folder))
        guards: Counter[tuple[str, str]] = Counter()
        engine = around(self._client, settings, guards)
        app = create_app(
            engine,
            settings.limits,
            lang=settings.lang,
            flow=settings.flow,
            guards=guards,
            store=store,
            authenticator=build_authenticator(settings),
            coalesce_s=settings.coalesce_ms / 1000,
        )
        worker = Worker(FdPassing(self._folder, self._member, range(self._count)))
        shared = self._count > 1
        listener = listen(settings.host, settings.port, reuse=shared, settings=settings)
        most = descriptors(settings.limits)
        config: uvicorn.Config = configure(app, settings, most, worker.protocol(app))
        self.server = _PluginServer(config, app.state.hub, settings.drain_s, shared=True)
        end, self._client.shutdown = self._client.shutdown, self._shutdown
        self._end: Callable[..., None] = end
        self._serving = self._loop.create_task(
            self._serve(self.server, app, worker, engine, store, listener), name="gateway"
        )
        self._serving.add_done_callback(self._served)
        place = f"{settings.host}:{listener.getsockname()[1]}"
        log.info("serving on %s, worker %d of %d", place, self._member, self._count)

    async def _serve(
        self,
        server: GatewayServer,
        app: Starlette,
        worker: Worker,
        engine: Engine,
        store: Store | None,
        listener: Any,
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(listener.close)
            stack.callback(worker.handover.clear)
            stack.push_async_callback(engine.aclose)
            if store is not None:
                await store.open()
                stack.push_async_callback(store.close)
            await stack.enter_async_context(worker.attend(app, server))
            starting = asyncio.create_task(engine.start())
            stack.push_async_callback(_ended, starting)
            server.after = starting
            await server.serve(sockets=[listener])
            starting.result()  # it says why the server did not even begin

    def _served(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            log.critical("the gateway ended by a fault, and vLLM with it", exc_info=fault)
            os.kill(os.getpid(), signal.SIGTERM)

    def _shutdown(self, timeout: float | None = None) -> None:
        """In the place of the client's own."""
        if self._serving is not None and not self._serving.done():
            if threading.get_ident() == self._thread:
                self._serving.cancel()  # there is no loop to wait with
            else:
                drained = asyncio.run_coroutine_threadsafe(self.drain(), self._loop)
                with contextlib.suppress(TimeoutError, CancelledError):
                    drained.result(self._settings.drain_s + LATE_S)
        self._end(timeout=timeout)

    async def drain(self) -> None:
        """End visibly: captions in flight finish within ``drain_s``."""
        assert self.server is not None and self._serving is not None, "it was begun"
        self.server.should_exit = True
        await asyncio.wait([self._serving])


def _speak(level: str) -> None:
    """Write the gateway's log: vLLM shows its own alone."""
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    ours = logging.getLogger("gateway")
    ours.setLevel(level.upper())
    if not ours.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(name)s: %(message)s"))
        ours.addHandler(handler)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def shared_key(folder: Path) -> str:
    """A key for tokens that all processes of this directory have, made by the first."""
    path, own = folder / "key", folder / f"key.{os.getpid()}"
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    try:
        os.link(own, path)  # all of it at once, or not at all
    except FileExistsError:
        pass
    finally:
        own.unlink()
    return path.read_text(encoding="ascii")
