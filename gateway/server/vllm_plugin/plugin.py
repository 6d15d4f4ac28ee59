"""The gateway inside ``vllm serve``, as a ``vllm.endpoint_plugins`` plugin for vLLM 0.32 or newer.

Owns: the gateway's start and end in a process of vLLM's. Must not know: vLLM's internals,
connections, rooms.

The gateway has its own port and its own server on vLLM's event loop: vLLM's uvicorn knows neither
the gateway's drain nor its bounds on slow readers. Each API server is a gateway of its own. Several
of them share the port and the rooms, and so need Redis; see ``docs/design/vllm.md``. Settings come
from the variables ``GATEWAY_...``; without ``GATEWAY_PORT`` the port is vLLM's plus one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import msgspec

from gateway.engines.base.engine import Engine
from gateway.engines.registry import around
from gateway.server.build import build, opened, start_models
from gateway.server.process.listener import descriptors, listen
from gateway.server.process.logs import formatter
from gateway.server.process.server import GatewayServer, configure
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.runtime.tasks import running
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings, SettingsError, refuse_exposure, refuse_two_stores
from gateway.settings.loading import load
from gateway.storage.base import Store

log = logging.getLogger("gateway.plugin")

SPARE_S = 1.0
"""Seconds of vLLM's ``--shutdown-timeout`` that are left for vLLM's own end."""
LATE_S = 3.0
"""Seconds after the end of the drain until vLLM no longer waits for the gateway."""


class Plugin:
    """An `EndpointPlugin` of vLLM without routes on vLLM's port."""

    name = "caption_gateway"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self.gateway: PluginGateway | None = None

    def attach_router(self, app: Any) -> None:
        """Add no routes: the gateway has a port of its own."""

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Begin to serve, beside vLLM's own API.

        Raises `GatewayError`, `SettingsError` and `OSError`, after which vLLM ends.
        """
        if engine_client is None:  # a process of vLLM without an engine
            return
        self.gateway = PluginGateway(engine_client, plugin_settings(args, os.environ))
        self.gateway.begin()


def plugin_settings(args: Namespace, environ: Any) -> Settings:
    """Return the gateway's settings for a process of vLLM. Raises `SettingsError`.

    :param args: vLLM's own arguments
    :param environ: variables of the environment
    """
    loaded = load({"engine": "vllm"}, environ)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    settings = loaded.settings
    if settings.lan or settings.certfile is not None:
        raise SettingsError("Inside vLLM there is no --lan and no --certfile: use a proxy for TLS.")
    refuse_exposure(settings)
    refuse_two_stores(settings)
    if "port" not in loaded.origins:
        settings = msgspec.structs.replace(settings, port=args.port + 1)
    allowed = max(0.0, float(getattr(args, "shutdown_timeout", 0) or 0) - SPARE_S)
    return msgspec.structs.replace(settings, drain_s=min(settings.drain_s, allowed))


class _PluginServer(GatewayServer):
    """A server that leaves signals to vLLM."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PluginGateway:
    """The gateway in one API server of vLLM.

    Raises `SettingsError` if there are several API servers and no Redis that joins them.

    :param client: the `AsyncLLM` of this process
    """

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        parallel = client.vllm_config.parallel_config
        self._shared = int(getattr(parallel, "_api_process_count", 1)) > 1
        if self._shared and settings.redis is None:
            raise SettingsError(
                "The gateways of several API servers share their rooms through Redis: set"
                " GATEWAY_REDIS, or start vLLM with --api-server-count 1."
            )
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._serving: asyncio.Task[None] | None = None
        self.server: GatewayServer | None = None

    def begin(self) -> None:
        """Take the port, and serve in a background task. Raises `GatewayError` and `OSError`."""
        settings = self._settings
        _set_up_log(settings)
        guards: Counter[tuple[str, str]] = Counter()
        engine = around(self._client, settings, guards)
        app = build(settings, engine, guards)
        reuse = self._shared or settings.reuse_port
        listener = listen(settings.host, settings.port, reuse=reuse, settings=settings)
        config = configure(app, settings, descriptors(settings.limits))
        self.server = _PluginServer(config, app.state.hub, settings.drain_s, shared=reuse)
        # It ends before vLLM does: only vLLM receives signals, and captions in flight need the
        # engine, so ``client.shutdown`` is replaced by a method that waits for the drain first.
        end, self._client.shutdown = self._client.shutdown, self._shutdown
        self._end_client: Callable[..., None] = end
        self._serving = self._loop.create_task(
            self._serve(self.server, engine, app.state.hub.recognition, app.state.store, listener),
            name="gateway",
        )
        self._serving.add_done_callback(self._serving_ended)
        address = f"{settings.host}:{listener.getsockname()[1]}"
        log.info("serving on %s", address)

    async def _serve(
        self,
        server: GatewayServer,
        engine: Engine,
        recognition: RecognitionRunner | None,
        store: Store | None,
        listener: socket.socket,
    ) -> None:
        with listener:
            async with (
                opened(engine, store, recognition),
                running(start_models(engine, recognition)) as starting,
            ):
                server.after = starting
                await server.serve(sockets=[listener])
                if starting.done():  # else a signal came first
                    starting.result()  # raises if the engine failed: the server never listened

    def _serving_ended(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            log.critical("the gateway failed, and ends vLLM with it", exc_info=fault)
            os.kill(os.getpid(), signal.SIGTERM)

    def _shutdown(self, timeout: float | None = None) -> None:
        """Drain the gateway, then shut the client down. It replaces the client's own method."""
        if self._serving is not None and not self._serving.done():
            if threading.get_ident() == self._thread:
                self._serving.cancel()  # waiting here would block the event loop itself
            else:
                drained = asyncio.run_coroutine_threadsafe(self.drain(), self._loop)
                with contextlib.suppress(TimeoutError, CancelledError):
                    drained.result(self._settings.drain_s + LATE_S)
        self._end_client(timeout=timeout)

    async def drain(self) -> None:
        """Stop the server; captions in flight finish within ``drain_s``."""
        assert self.server is not None and self._serving is not None, "`begin` was called"
        self.server.should_exit = True
        await asyncio.wait([self._serving])


def _set_up_log(settings: Settings) -> None:
    """Write the gateway's log to standard error: vLLM sets up only its own."""
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    gateway_log = logging.getLogger("gateway")
    gateway_log.setLevel(settings.log_level.upper())
    if not gateway_log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(formatter(settings.log_format))
        gateway_log.addHandler(handler)
