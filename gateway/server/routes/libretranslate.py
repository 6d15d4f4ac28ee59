"""HTTP routes of LibreTranslate's API, so that its clients work unchanged.

Owns: ``/translate``, ``/languages``, ``/detect`` and ``/frontend/settings`` as
docs.libretranslate.com describes them. Must not know: how a text is translated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.core.base.validation import AUTO
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.guarded_route import POST, PUBLIC, TRANSLATE, GuardedRoute, Right
from gateway.server.routes.api import directions, language_list, reply
from gateway.server.routes.batch import MOST, only_plain_text, translate_batch
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import TEXT, OneShotRequest
from gateway.server.runtime.hub import Hub
from gateway.text import languages


class TranslateQuery(msgspec.Struct, frozen=True):
    """The body of ``/translate``. ``alternatives`` is accepted, but there are none."""

    EXAMPLE: ClassVar = '{"q":"Good morning","source":"en","target":"de","format":"text"}'
    q: str | Annotated[tuple[str, ...], Meta(max_length=MOST)]
    target: str
    source: str = AUTO
    format: str = "text"
    alternatives: int = 0
    api_key: str | None = None


class DetectRequest(msgspec.Struct, frozen=True):
    """The body of ``/detect``."""

    EXAMPLE: ClassVar = '{"q":"Guten Morgen"}'
    q: str
    api_key: str | None = None


async def translate(request: Request, permissions: Permissions) -> Response:
    """Translate one text or a list of texts."""
    query: TranslateQuery = request.state.body
    if query.format != "text":
        raise only_plain_text("format")
    single = isinstance(query.q, str)
    texts = (query.q,) if isinstance(query.q, str) else query.q
    asked = OneShotRequest(texts, query.source, query.target)
    made = await translate_batch(request, asked, permissions)
    body: dict[str, list[object]] = {"translatedText": [text for text, _ in made]}
    if query.source == AUTO:
        body["detectedLanguage"] = [
            {"confidence": one.confidence, "language": one.source} if one.source else None
            for _, one in made
        ]
    if query.alternatives > 0:
        body["alternatives"] = [[] for _ in made]
    return reply({key: values[0] for key, values in body.items()} if single else body)


async def list_languages(request: Request, _: Permissions) -> Response:
    """Answer with ``[{code, name, targets}]``."""
    return await language_list(request, _rows)


def _rows(profile: Model) -> object:
    return [
        {"code": tag, "name": languages.name(tag), "targets": targets}
        for tag, targets in directions(profile).items()
    ]


async def detect(request: Request, _: Permissions) -> Response:
    """Answer with ``[{confidence, language}]``, likeliest first; confidence in percent."""
    hub: Hub = request.app.state.hub
    body: DetectRequest = request.state.body
    ranks = [] if hub.detect is None else hub.detect.rank(body.q)[:3]
    return reply([{"confidence": round(100 * share, 1), "language": tag} for tag, share in ranks])


async def frontend_settings(request: Request, _: Permissions) -> Response:
    """Answer with the settings that a page needs to use the API."""
    authenticator: Authenticator = request.app.state.authenticator
    profile: Model = request.app.state.hub.engine.profile
    target = next((tag for tag in profile.targets if tag != profile.sources[0]), None)
    settings = {
        "apiKeys": authenticator.required,
        "keyRequired": authenticator.required,
        "charLimit": TEXT,
        "frontendTimeout": 500,
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": languages.name(target or "")},
        },
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
    }
    return reply(settings)


def _key(
    shape: type[TranslateQuery] | type[DetectRequest],
) -> Callable[[Request], Awaitable[str | None]]:
    """Return a function that reads the body, keeps it for the endpoint, and returns its key."""

    async def key(request: Request) -> str | None:
        request.state.body = body = await read(request, shape)
        return body.api_key or None  # clients without a key send an empty one

    return key


_TRANSLATE = TRANSLATE._replace(key=_key(TranslateQuery))
_DETECT = Right(Role.VIEW, key=_key(DetectRequest))

ROUTES = (
    GuardedRoute("/translate", translate, _TRANSLATE, methods=POST),
    GuardedRoute("/languages", list_languages, PUBLIC),
    GuardedRoute("/detect", detect, _DETECT, methods=POST),
    GuardedRoute("/frontend/settings", frontend_settings, PUBLIC),
)
