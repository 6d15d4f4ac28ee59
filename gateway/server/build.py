"""The application of one gateway, from its settings.

Owns: which parts the settings ask for, also inside another Starlette or FastAPI application. Must
not know: the application around it, how a process serves it (`gateway.server.process.serve`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

from gateway.auth.api_keys import Keyring
from gateway.engines.base.engine import Engine
from gateway.engines.registry import build as build_engine
from gateway.engines.registry import build_recogniser
from gateway.errors import ClientFault
from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.app import GatewayApp, create_app
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.recognition import RecognitionRunner, SpeechModels
from gateway.server.runtime.room_host import RoomHost, TextOptions
from gateway.settings.catalogue import Settings, SettingsError, asks, check_output
from gateway.storage.sqlite import store as sqlite
from gateway.storage.sqlite.store import SqliteStore
from gateway.text import languages


def build(
    settings: Settings,
    engine: Engine,
    guards: Counter[tuple[str, str]],
    keyring: Keyring | None = None,
) -> GatewayApp:
    """Construct the application around an engine and the counter of guards that it was built with.

    The keyring is in force if there is no file of keys. Its ``state.store`` is not open yet.

    Raises `SettingsError` for settings that cannot be used, `EngineFault` if what recognises speech
    is missing.
    """
    app = create_app(
        engine,
        settings.limits,
        authenticator=build_authenticator(settings, keyring),
        text=TextOptions(lang=default_language(settings), flow=settings.flow),
        guards=guards,
        store=sqlite.build(settings),
        fleet=None if settings.redis is None else partial(fleet, url=settings.redis),
        speech=None if settings.recogniser is None else build_speech(settings),
    )
    for output in settings.outputs:
        check_output(output)
    app.state.outputs.add(settings.outputs)
    return app


def default_language(settings: Settings) -> str | None:
    """Return the canonical tag of speakers who name no language. Raises `SettingsError`."""
    try:
        return None if settings.lang is None else languages.normalise(settings.lang)
    except ClientFault as fault:
        raise SettingsError(f"{fault} {fault.hint} Check --lang.") from fault


@contextlib.asynccontextmanager
async def opened(
    engine: Engine, store: SqliteStore | None, recognition: RecognitionRunner | None
) -> AsyncIterator[None]:
    """Open a store while the block lasts; then close it, the recogniser and the engine."""
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.aclose)
        if recognition is not None:
            stack.push_async_callback(recognition.aclose)
        if store is not None:
            await store.open()
            stack.push_async_callback(store.close)
        yield


async def start_models(engine: Engine, recognition: RecognitionRunner | None) -> None:
    """Load the models of an engine and of a recogniser. Raises `EngineFault`."""
    if recognition is None:
        await engine.start()
    else:
        await asyncio.gather(engine.start(), recognition.recogniser.start())


def build_speech(settings: Settings) -> SpeechModels:
    """Construct the recogniser that the settings name, without its model. Raises `EngineFault`."""
    from gateway.engines.recognition import voice

    recogniser = build_recogniser(settings)
    voice.load()
    return SpeechModels(recogniser, voice.VoiceDetector)


def fleet(host: RoomHost, url: str) -> Fleet:
    """Return the rooms that are shared by the gateways with the same Redis.

    Raises `SettingsError` for an address that is not that of a Redis.
    """
    try:
        from gateway.server.fleet.rooms import FleetRooms
    except ImportError as exc:
        raise SettingsError("redis needs the extra: pip install 'caption-gateway[redis]'.") from exc
    try:
        return FleetRooms(host, url)
    except ValueError as exc:
        raise SettingsError(f"redis: {exc}") from exc


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
