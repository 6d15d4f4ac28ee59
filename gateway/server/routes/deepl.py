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
from starlette.routing import Route

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.core.base.validation import AUTO
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.protocol.fields import Context
from gateway.protocol.messages import PRIVATE
from gateway.server.routes.api import allowed, language_list, refusal, reply, status, with_errors
from gateway.server.routes.batch import MOST, only_plain_text, translate_batch
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShotRequest
from gateway.text import languages

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


async def translate(request: Request) -> Response:
    """Translate one text or several."""
    permissions = await _allowed(request, Role.SPEAK, PRIVATE)
    body = await read(request, DeepLRequest, permissions)
    if body.glossary_id is not None or body.formality in ("more", "less"):
        raise ClientFault(
            ErrorCode.BAD_FRAME,
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
            "detected_source_language": (one.source or body.source_lang or "").upper(),
            "text": one.text,
            "billed_characters": len(text),
        }
        for text, one in zip(texts, made, strict=True)
    ]
    return reply({"translations": translations})


async def list_languages(request: Request) -> Response:
    """Answer with the sources, or with ``type=target`` the targets."""
    permissions = await _allowed(request, Role.VIEW)
    # Some clients send the parameter as a form, even with GET.
    kind = await read(request, LanguagesRequest, permissions)
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


async def usage(request: Request) -> Response:
    """Answer with an empty object: characters are not counted, and there is no limit to reach."""
    await _allowed(request, Role.VIEW)
    return reply({})


async def _allowed(request: Request, role: Role, room: str | None = None) -> Permissions:
    header = request.headers.get("authorization", "")
    key = header.removeprefix(SCHEME) if header.startswith(SCHEME) else None
    return await allowed(request, role, room, key or None)


def _refused(fault: GatewayError) -> Response:
    """Return an error as DeepL's clients read one. A wrong key has the status 403 there."""
    message = str(fault) if fault.hint is None else f"{fault} {fault.hint}"
    unknown = fault.code is ErrorCode.UNAUTHENTICATED
    return refusal(fault, {"message": message}, 403 if unknown else status(fault))


ROUTES = (
    Route("/v2/translate", with_errors(translate, _refused), methods=["POST"]),
    Route("/v2/languages", with_errors(list_languages, _refused)),
    Route("/v2/usage", with_errors(usage, _refused)),
)
