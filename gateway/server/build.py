"""The application of one gateway, from its settings.

Owns: which parts the settings ask for. Must not know: how the application is served
(`gateway.server.process.serve`, `gateway.server.embed`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial

from gateway.auth.api_keys import Keyring
from gateway.engines.base.engine import Engine
from gateway.engines.recognition.base import Recogniser
from gateway.errors import ClientFault
from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.app import GatewayApp, create_app
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.settings.catalogue import Settings, SettingsError, check_output
from gateway.storage.base import Store
from gateway.storage.sqlite import store as sqlite
from gateway.text import languages


def build(
    settings: Settings,
    engine: Engine,
    guards: Counter[tuple[str, str]],
    keyring: Keyring | None = None,
) -> GatewayApp:
    """Construct the application around an engine. Its ``state.store`` is not open yet.

    :param guards: the counter that the engine was built with
    :param keyring: keys in force if there is no key file

    Raises `SettingsError` for settings that cannot be used, `EngineFault` if what recognises speech
    is missing.
    """
    join = fleet(settings.redis)
    app = create_app(
        engine,
        settings.limits,
        authenticator=build_authenticator(settings, keyring),
        lang=default_language(settings),
        flow=settings.flow,
        guards=guards,
        store=sqlite.build(settings),
    )
    join(app.state.hub)
    for output in settings.outputs:
        check_output(output)
    app.state.outputs.add(settings.outputs)
    if settings.recogniser is not None:
        from gateway.engines.recognition import voice

        recogniser, hub = build_recogniser(settings), app.state.hub
        hub.recognition = RecognitionRunner(hub, recogniser, voice.VoiceDetector)
    return app


def default_language(settings: Settings) -> str | None:
    """Return the canonical tag of speakers who name no language. Raises `SettingsError`."""
    try:
        return None if settings.lang is None else languages.normalise(settings.lang)
    except ClientFault as fault:
        raise SettingsError(f"{fault} {fault.hint} Check --lang.") from fault


@contextlib.asynccontextmanager
async def opened(
    engine: Engine, store: Store | None, recognition: RecognitionRunner | None
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


def build_recogniser(settings: Settings) -> Recogniser:
    """Construct the recogniser that the settings name, without its model. Raises `EngineFault`."""
    from gateway.engines import recogniser_registry
    from gateway.engines.recognition import voice

    recogniser = recogniser_registry.build(settings)
    voice.load()
    return recogniser


def fleet(url: str | None) -> Callable[[Hub], None]:
    """Return the function that joins the gateways with the same Redis. Raises `SettingsError`.

    :param url: address of Redis; None: the function does nothing
    """
    if url is None:
        return lambda _: None
    try:
        from gateway.server.fleet.join import check_url, join_fleet
    except ImportError as exc:
        raise SettingsError("redis needs the extra: pip install 'caption-gateway[redis]'.") from exc
    try:
        check_url(url)
    except ValueError as exc:
        raise SettingsError(f"redis: {exc}") from exc
    return partial(join_fleet, url=url)
