"""HTTP routes of LibreTranslate's API, so that its clients work unchanged.

Owns: ``POST /translate``, ``GET /languages`` and ``POST /detect`` as docs.libretranslate.com
describes them. Must not know: how a text is translated.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth.permissions import Role
from gateway.core.base.model import Model
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import PRIVATE
from gateway.server.routes.api import (
    allowed,
    answer,
    directions,
    language_list,
    note_trace,
    read,
    reply,
)
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from gateway.server.runtime.hub import Hub
from gateway.text import languages

BATCH = 50
"""Most texts in one request."""


class TranslateQuery(msgspec.Struct, frozen=True):
    """The body of ``/translate``. Other fields, such as ``alternatives``, are ignored."""

    q: str | Annotated[tuple[str, ...], Meta(max_length=BATCH)]
    target: str
    source: str = "auto"
    format: str = "text"
    api_key: str | None = None


class DetectRequest(msgspec.Struct, frozen=True):
    """The body of ``/detect``."""

    q: str
    api_key: str | None = None


async def translate(request: Request) -> Response:
    """Translate one text or a list of texts.

    With ``source`` ``auto`` the language of each text is detected by itself. A text that is too
    short for that is taken to be in the language of the whole list.
    """
    hub: Hub = request.app.state.hub
    query = await read(request, TranslateQuery)
    # Clients without a key send an empty one.
    permissions = await allowed(request, Role.SPEAK, PRIVATE, query.api_key or None)
    if query.format != "text":
        raise ClientFault(
            ErrorCode.BAD_FRAME,
            f"The format {query.format[:32]!r} is not served.",
            'Send "format": "text".',
        )
    single = isinstance(query.q, str)
    batch = [query.q] if isinstance(query.q, str) else list(query.q)
    whole = "\n".join(batch)
    shots: dict[int, OneShot] = {}
    try:
        for i, text in enumerate(batch):
            # An empty text is answered with itself: there is nothing to translate.
            if text.strip():
                shots[i] = OneShot(
                    hub,
                    OneShotRequest(text, query.source, query.target, sample=whole),
                    permissions,
                )
                note_trace(request, shots[i])
        answers = dict(zip(shots, await answer(request, list(shots.values())), strict=True))
    finally:
        for shot in shots.values():  # if one text is refused, those before it have sessions
            shot.close()
    texts = [shots[i].join(answers[i]) if i in shots else text for i, text in enumerate(batch)]
    detected = [
        {"confidence": shots[i].confidence, "language": shots[i].source} if i in shots else None
        for i in range(len(batch))
    ]
    body: dict[str, object] = {"translatedText": texts[0] if single else texts}
    if query.source == "auto":
        body["detectedLanguage"] = detected[0] if single else detected
    return reply(body)


async def list_languages(request: Request) -> Response:
    """Answer with ``[{code, name, targets}]``."""
    return await language_list(request, _rows)


def _rows(profile: Model) -> object:
    return [
        {"code": tag, "name": languages.name(tag), "targets": targets}
        for tag, targets in directions(profile).items()
    ]


async def detect(request: Request) -> Response:
    """Answer with ``[{confidence, language}]``, likeliest first; confidence in percent."""
    hub: Hub = request.app.state.hub
    body = await read(request, DetectRequest)
    await allowed(request, Role.VIEW, token=body.api_key or None)
    ranks = [] if hub.detect is None else hub.detect.rank(body.q)
    return reply(
        [{"confidence": round(100 * share, 1), "language": tag} for tag, share in ranks[:3]]
    )


ROUTES = (
    Route("/translate", translate, methods=["POST"]),
    Route("/languages", list_languages),
    Route("/detect", detect, methods=["POST"]),
)
