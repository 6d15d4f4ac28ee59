"""The command ``gateway say``: one text translated here or by a running gateway.

Owns: the flags, the engine that is started for it, and what is shown for each language.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing

from gateway.cli.flags import add_languages, add_settings, loaded
from gateway.cli.terminal import NEEDS_KEY, Screen, api_key, complain
from gateway.client import Captions, NotTranslated, Refused, connect
from gateway.core.base.faults import no_source, other_language
from gateway.core.base.model import Model
from gateway.core.base.validation import AUTO, clean
from gateway.engines import registry
from gateway.engines.base.engine import Engine
from gateway.engines.base.language_detection import Detector
from gateway.engines.base.service import Health
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.io.tasks import running
from gateway.job import Job
from gateway.protocol.messages import Cancelled, Delta, Failed, Final
from gateway.protocol.notices import Error
from gateway.server.process.console import show_progress
from gateway.server.process.logs import set_up_logs
from gateway.settings.catalogue import Settings
from gateway.text import languages

PATIENT_S = 1.0  # seconds of silence before the user is told that a model is being loaded
POLL_S = 0.02  # seconds between two looks at a model that is being loaded
PATIENCE_S = 30.0  # seconds to try to reach a gateway again after the connection broke


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("text", metavar="TEXT", help="text to translate")
    add_languages(parser, required=True)
    url = "address of a running gateway; default: start the engine in this process"
    parser.add_argument("--url", help=url)
    add_settings(parser, all_topics=False)
    parser.epilog = NEEDS_KEY


def run(args: argparse.Namespace) -> int:
    """Translate the text, print it and return the exit status. Raises as `ask` and `translate`."""
    show = CaptionPrinter(tuple(languages.normalise(tag) for tag in args.to))
    if args.url is None:
        settings = loaded(args).settings
        set_up_logs("warning")
        asyncio.run(translate(args.text, settings, args.source, show))
    else:
        asyncio.run(ask(args.text, args.url, args.source or AUTO, show))
    return show.print_result()


class CaptionPrinter:
    """One text on the screen in several languages, each with its translation or its fault."""

    def __init__(self, targets: Sequence[str]) -> None:
        self.targets = targets
        self._screen = Screen(sys.stdout)
        self._shown: dict[str, str | Exception] = {}

    def show(self, lang: str, text: str | Exception) -> None:
        """Show the text so far, or the fault. The last call for a language is its result."""
        self._shown[lang] = text
        shown = [lang for lang in self.targets if lang in self._shown]
        self._screen.draw([self._line(lang) for lang in shown])

    def print_result(self) -> int:
        """Print all languages in the order of the command line and return the exit status."""
        self._screen.draw([])
        status = 0
        for lang in self.targets:
            if isinstance(self._shown[lang], Exception):
                complain(self._line(lang))
                status = 1
            else:
                self._screen.finish(self._line(lang))
        return status

    def _line(self, lang: str) -> str:
        return f"[{lang}] {self._shown[lang]}" if len(self.targets) > 1 else str(self._shown[lang])


async def ask(text: str, url: str, source: str, out: CaptionPrinter) -> None:
    """Translate by a running gateway. Raises `Refused` and `ConnectionError`."""
    captions = Captions()
    left = set(out.targets)
    key, to = api_key(), out.targets
    async with connect(url, to=to, source=source, patience_s=PATIENCE_S, key=key) as client:
        id = await client.say(text)
        async for event in client:
            captions.fold(event)
            match event:
                case Delta():
                    out.show(event.lang, captions[id, event.lang].text)
                case Final():
                    out.show(event.lang, event.text)
                    left.discard(event.lang)
                case Failed() | Cancelled(lang=str()):
                    out.show(str(event.lang), NotTranslated(event))
                    left.discard(str(event.lang))
                case Error():
                    raise Refused(event)
            if not left:
                break


async def translate(text: str, settings: Settings, source: str | None, out: CaptionPrinter) -> None:
    """Translate in this process: start the engine, use it once and close it. Raises its faults."""
    engine = registry.build(settings)
    try:
        text = clean(text)
        if not text:
            raise ClientFault(ErrorCode.EMPTY_TEXT, "There is nothing to translate.")
        source = _spoken(text, source or settings.lang, engine.profile)
        pairs = [engine.profile.resolve(source, target) for target in out.targets]
        if settings.download:
            await _fetch_models(settings, engine.profile, [*pairs])
        async with running(_show_loading(engine)):  # its end clears its line
            await engine.start()
            # A substitute may be ready while the named model is still loading.
            while engine.substitute and _loads(engine):  # noqa: ASYNC110 - engines have no event
                await asyncio.sleep(POLL_S)
        async with asyncio.TaskGroup() as tasks:
            for target, (spoken, made) in zip(out.targets, pairs, strict=True):
                job = Job(id=target, text=text, source=spoken, target=made)
                tasks.create_task(_stream(engine, job, out))
    finally:
        await engine.aclose()


def _loads(engine: Engine) -> bool:
    """Tell whether an engine inside is still being loaded."""
    return any(part.health is Health.STARTING for part in engine.parts.values())


async def _fetch_models(settings: Settings, profile: Model, pairs: list[tuple[str, str]]) -> None:
    """Fetch the named model: one text is not to be translated by a substitute."""
    for source, target in [*pairs]:
        if profile.pivots(source, target):
            pairs += [(source, str(profile.pivot)), (str(profile.pivot), target)]
    for model in registry.named(settings):
        if model.pair is None or model.pair in pairs:
            cache = registry.cache_directory(settings)
            await asyncio.to_thread(registry.fetch, model, cache, complain)


async def _show_loading(engine: Engine) -> None:
    """Show until cancelled that the engine is loading, if that takes long enough to wonder."""
    await asyncio.sleep(PATIENT_S)
    await show_progress(engine, time.monotonic)


async def _stream(engine: Engine, job: Job, out: CaptionPrinter) -> None:
    text = ""
    try:
        async with aclosing(engine.translate(job)) as chunks:
            async for chunk in chunks:
                text = chunk.text if chunk.reset else text + chunk.text
                out.show(job.id, text)
    except GatewayError as fault:
        out.show(job.id, fault)
    else:
        out.show(job.id, text)


def _spoken(text: str, stated: str | None, profile: Model) -> str:
    """Return the stated or detected language of a text. Raises `ClientFault`."""
    detect = Detector(profile.sources)
    lang = detect(text) if stated is None else languages.normalise(stated)
    if lang is None:
        raise ClientFault(
            ErrorCode.LANG_UNSUPPORTED,
            "The language of this text could not be detected.",
            "Name it, such as --from en.",
        )
    if languages.match(lang, profile.sources) is None:
        raise no_source(lang, profile.sources)
    if (other := detect.instead(text, lang)) is not None:
        raise other_language(lang, other)
    return lang
