"""The gateway inside another Starlette or FastAPI application.

Owns: what `gateway.server.process.serve` does for a process of its own, reduced to a lifespan.
Must not know: the application around it, or its server.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from gateway.engines.registry import build as build_engine
from gateway.server.app import GatewayApp
from gateway.server.build import build, opened, start_models
from gateway.settings.catalogue import Settings, SettingsError, asks


def gateway_app(settings: Settings) -> GatewayApp:
    """Return the gateway as an application to mount. Its lifespan starts and ends all its parts.

    The lifespan opens the store and loads the model before it lets the application around it serve.
    Settings of the listener are ignored (``host``, ``port``, ``certfile``, ``lan``, ``ping_s`` and
    the like): the server around it has its own.

    Raises `SettingsError` if nobody has to present a key and ``insecure`` is not set, `EngineFault`
    if a model or package is missing. The lifespan raises `GatewayError` if the engine cannot start,
    `StoreFault` if the store cannot open.
    """
    if not (asks(settings) or settings.insecure):
        raise SettingsError(
            "Everybody who reaches the application could use the gateway. Name a key file,"
            " Settings(keys=...), or allow it, Settings(insecure=True)."
        )
    guards: Counter[tuple[str, str]] = Counter()
    engine = build_engine(settings, guards)
    app = build(settings, engine, guards)
    recognition = app.state.hub.recognition

    @contextlib.asynccontextmanager
    async def parts() -> AsyncIterator[None]:
        async with opened(engine, app.state.store, recognition):
            await start_models(engine, recognition)
            yield

    app.parts = parts
    return app
