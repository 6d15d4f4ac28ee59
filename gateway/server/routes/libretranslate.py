"""LibreTranslate's shapes, so that its clients work unchanged.

Owns: ``POST /translate``, ``GET /languages``, ``POST /detect`` as LibreTranslate's API has them
(docs.libretranslate.com). Must not know: how a translation is made.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth.permissions import Role
from gateway.engines.profiles import Profile
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import PRIVATE
from gateway.server.routes.api import allowed, answer, directions, menu, read, reply
from gateway.server.routes.oneshot import OneShot
from gateway.server.runtime.hub import Hub
from gateway.text import languages

BATCH = 50
"""Texts in one request."""


class TranslateQuery(msgspec.Struct, frozen=True):
    """Body of ``/translate``. ``alternatives`` is read and has no effect."""

    q: str | Annotated[tuple[str, ...], Meta(max_length=BATCH)]
    target: str
    source: str = "auto"
    format: str = "text"
    api_key: str | None = None


class DetectRequest(msgspec.Struct, frozen=True):
    """Body of ``/detect``."""

    q: str
    api_key: str | None = None


async def translate(request: Request) -> Response:
    """Translate one text or a list of them.

    Where ``source`` is ``auto`` each is detected by itself; those that are too short for that have
    the language of the whole list.
    """
    hub: Hub = request.app.state.hub
    query = await read(request, TranslateQuery)
    grant = await allowed(request, Role.SPEAK, PRIVATE, query.api_key or None)
    if query.format != "text":
        raise ClientFault(
            ErrorCode.BAD_FRAME,
            f"The format {query.format[:32]!r} is not served.",
            'Send "format": "text".',
        )
    batch = [query.q] if isinstance(query.q, str) else list(query.q)
    whole = "\n".join(batch)
    shots: dict[int, OneShot] = {}
    try:
        for i, text in enumerate(batch):
            if text.strip():
                shots[i] = OneShot(
                    hub,
                    text,
                    source=query.source,
                    target=query.target,
                    beside=whole,
                    grant=grant,
                )
        answers = dict(zip(shots, await answer(request, list(shots.values())), strict=True))
    finally:
        for shot in shots.values():  # those before the one that cannot be said have begun
            shot.close()
    texts = [shots[i].join(answers[i]) if i in shots else text for i, text in enumerate(batch)]
    found = [
        {"confidence": shots[i].confidence, "language": shots[i].source} if i in shots else None
        for i in range(len(batch))
    ]
    single = isinstance(query.q, str)
    body: dict[str, object] = {"translatedText": texts[0] if single else texts}
    if query.source == "auto":
        body["detectedLanguage"] = found[0] if single else found
    return reply(body)


async def list_languages(request: Request) -> Response:
    """``[{code, name, targets}]``."""
    return await menu(request, _menu)


def _menu(profile: Profile) -> object:
    return [
        {"code": tag, "name": languages.name(tag), "targets": targets}
        for tag, targets in directions(profile).items()
    ]


async def detect(request: Request) -> Response:
    """``[{confidence, language}]``, likeliest first; confidence in percent."""
    hub: Hub = request.app.state.hub
    sample = await read(request, DetectRequest)
    await allowed(request, Role.VIEW, token=sample.api_key or None)
    ranks = [] if hub.detect is None else hub.detect.rank(sample.q)
    return reply([{"confidence": round(100 * p, 1), "language": tag} for tag, p in ranks[:3]])


ROUTES = (
    Route("/translate", translate, methods=["POST"]),
    Route("/languages", list_languages),
    Route("/detect", detect, methods=["POST"]),
)
