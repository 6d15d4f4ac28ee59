"""HTTP routes of OpenAI's text APIs, so that translation tools work by this gateway's URL.

Owns: ``/v1/models``, ``/v1/chat/completions`` and ``/v1/responses``: their requests, streams and
statuses. Must not know: how a request names its languages and what answers look like
(`gateway.server.openai_api`), how a text is translated.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth.permissions import Role
from gateway.core.base.model import Model
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.protocol.messages import PRIVATE
from gateway.server.openai_api.answers import (
    ApiAnswer,
    ChatAnswer,
    ResponsesAnswer,
    error,
    model,
    models,
)
from gateway.server.openai_api.requests import (
    MODEL,
    ChatRequest,
    ResponsesRequest,
    languages_of,
    model_name,
)
from gateway.server.routes.api import (
    Endpoint,
    EventStreamResponse,
    allowed,
    begin,
    language_list,
    refusal,
    reply,
    status,
    while_connected,
    with_errors,
)
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from gateway.text import languages

DONE = b"data: [DONE]\n\n"
"""End of a stream of chat completions."""


def _translating(
    shape: type[ChatRequest] | type[ResponsesRequest],
    kind: type[ChatAnswer] | type[ResponsesAnswer],
) -> Endpoint:
    """Return the endpoint for requests of a shape, with one kind of answer."""

    async def endpoint(request: Request) -> Response:
        permissions = await allowed(request, Role.SPEAK, PRIVATE)
        body = await read(request, shape)
        wanted = body.wanted()
        asked = OneShotRequest(
            wanted.text,
            wanted.source,
            wanted.target,
            context=body.context,
            glossary=body.glossary,
            live=body.stream,
        )
        shot = begin(request, asked, permissions)
        name = model_name(shot.source, shot.target)
        about = kind(shot.session, int(time.time()), name)
        if body.stream:
            return await _stream(request, shot, about)
        (finals,) = await while_connected(request, [shot.finals()])
        return reply(about.whole(shot.join(finals)))

    return with_errors(endpoint, _refused)


async def _stream(request: Request, shot: OneShot, about: ApiAnswer) -> Response:
    """Begin a stream when there is text, so that a failure before it has a status of its own."""
    texts = shot.text()
    try:
        (first,) = await while_connected(request, [anext(texts, "")])
    except BaseException:
        await texts.aclose()
        shot.close()
        raise
    return EventStreamResponse(shot, _encoded(first, texts, about))


async def _encoded(
    first: str, texts: AsyncGenerator[str], about: ApiAnswer
) -> AsyncGenerator[bytes]:
    events = [*about.begin(), about.add(first)]
    whole = first
    async with aclosing(texts):
        try:
            yield b"".join(map(_sse, events))
            async for text in texts:
                whole += text
                yield _sse(about.add(text))
            yield b"".join(map(_sse, about.end(whole)))
        except GatewayError as fault:
            yield _sse(about.fail(fault))
    if isinstance(about, ChatAnswer):
        yield DONE


def _sse(event: dict[str, Any]) -> bytes:
    # The events of /v1/responses are named twice: clients in other languages read the line.
    name = b"event: %b\n" % event["type"].encode() if "type" in event else b""
    return b"%bdata: %b\n\n" % (name, msgspec.json.encode(event))


async def list_models(request: Request) -> Response:
    """Answer with a model for each language that can be translated into."""
    await allowed(request, Role.VIEW)
    return await language_list(request, _rows)


def _rows(profile: Model) -> object:
    return {"object": "list", "data": models(profile.targets)}


async def show_model(request: Request) -> Response:
    """Answer with one model, if its languages can be translated."""
    await allowed(request, Role.VIEW)
    name = request.path_params["model"]
    source, target = languages_of(name)
    known = name == MODEL
    if target is not None:
        profile: Model = request.app.state.hub.engine.profile
        target = languages.normalise(target)
        if source is not None:
            profile.resolve(languages.normalise(source), target)
        known = languages.match(target, profile.targets) is not None
    if not known:
        raise ClientFault(
            ErrorCode.NOT_FOUND,
            f"There is no model {name[:64]!r}.",
            f'A model is called "{MODEL}-de"; /v1/models lists them.',
        )
    return reply(model(name))


def _refused(fault: GatewayError) -> Response:
    return refusal(fault, error(fault, status(fault)))


ROUTES = (
    Route("/v1/models", with_errors(list_models, _refused)),
    Route("/v1/models/{model}", with_errors(show_model, _refused)),
    Route("/v1/chat/completions", _translating(ChatRequest, ChatAnswer), methods=["POST"]),
    Route("/v1/responses", _translating(ResponsesRequest, ResponsesAnswer), methods=["POST"]),
)
