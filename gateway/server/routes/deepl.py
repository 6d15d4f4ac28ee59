"""HTTP routes of DeepL's API for texts, so that its clients work with this gateway's URL.

Owns: ``/v2/translate``, ``/v2/languages`` and ``/v2/usage`` as developers.deepl.com describes them.
Must not know: how a text is translated. Documents, glossaries and formality are not served.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.core.base.validation import AUTO
from gateway.errors import ErrorCode, GatewayError, bad_frame
from gateway.protocol.fields import Context
from gateway.server.access.guarded_route import POST, TRANSLATE, GuardedRoute, Right
from gateway.server.routes.api import language_list, refusal, reply, status
from gateway.server.routes.batch import MOST, only_plain_text, translate_batch
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShotRequest
from gateway.text import languages

FORMALITIES = ("default", "prefer_less", "prefer_more")
"""Values of ``formality`` that a translation without one satisfies."""
SCHEME = "DeepL-Auth-Key "
"""Scheme of the header ``Authorization``, with the space behind it."""


class DeepLRequest(msgspec.Struct, frozen=True):
    """The body of ``/v2/translate``. Fields that are not listed are ignored."""

    EXAMPLE: ClassVar = '{"text":["Good morning"],"target_lang":"DE"}'
    text: str | Annotated[tuple[str, ...], Meta(max_length=MOST)]
    target_lang: str
    source_lang: str | None = None
    context: Context | None = None
    tag_handling: str | None = None
    formality: str = "default"
    glossary_id: str | None = None


async def translate(request: Request, permissions: Permissions) -> Response:
    """Translate one text or several."""
    body = await read(request, DeepLRequest)
    if body.glossary_id is not None or body.formality not in FORMALITIES:
        raise bad_frame(
            "This gateway has no stored glossaries and no formality.",
            'Leave "glossary_id" out, and "formality" too; "prefer_more" is ignored.',
        )
    if body.tag_handling:
        raise only_plain_text("tag_handling")
    texts = (body.text,) if isinstance(body.text, str) else body.text
    source = body.source_lang or AUTO
    asked = OneShotRequest(texts, source, body.target_lang, context=body.context)
    made = await translate_batch(request, asked, permissions)
    translations = [
        {
            "detected_source_language": (passage.source or body.source_lang or "").upper(),
            "text": translation,
            "billed_characters": len(passage.text),
        }
        for translation, passage in made
    ]
    return reply({"translations": translations})


async def list_languages(request: Request, permissions: Permissions) -> Response:
    """Answer with the sources, or with ``type=target`` the targets."""
    # Some clients send the parameter as a form, even with GET.
    kind = await read(request, LanguagesRequest)
    return await language_list(request, _targets if kind.type == "target" else _sources)


class LanguagesRequest(msgspec.Struct, frozen=True):
    """The query of ``/v2/languages``."""

    EXAMPLE: ClassVar = '{"type":"target"}'
    type: Literal["source", "target"] = "source"


def _sources(profile: Model) -> object:
    return [{"language": tag.upper(), "name": languages.name(tag)} for tag in profile.sources]


def _targets(profile: Model) -> object:
    return [
        {"language": tag.upper(), "name": languages.name(tag), "supports_formality": False}
        for tag in profile.targets
    ]


async def usage(request: Request, _: Permissions) -> Response:
    """Answer with an empty object: characters are not counted, and there is no limit to reach."""
    return reply({})


async def _key(request: Request) -> str | None:
    header = request.headers.get("authorization", "")
    return header.removeprefix(SCHEME) or None if header.startswith(SCHEME) else None


def _refused(fault: GatewayError) -> Response:
    """Return an error as DeepL's clients read one. A wrong key has the status 403 there."""
    message = str(fault) if fault.hint is None else f"{fault} {fault.hint}"
    unknown = fault.code is ErrorCode.UNAUTHENTICATED
    return refusal(fault, {"message": message}, 403 if unknown else status(fault))


_TRANSLATE, _VIEW = TRANSLATE._replace(key=_key), Right(Role.VIEW, key=_key)

ROUTES = (
    GuardedRoute("/v2/translate", translate, _TRANSLATE, methods=POST, refused=_refused),
    GuardedRoute("/v2/languages", list_languages, _VIEW, refused=_refused),
    GuardedRoute("/v2/usage", usage, _VIEW, refused=_refused),
)
