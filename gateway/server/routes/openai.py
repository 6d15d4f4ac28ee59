"""HTTP routes of OpenAI's chat completions, so that translation tools work by this gateway's URL.

Owns: ``/v1/models`` and ``/v1/chat/completions``: their requests, streams and statuses. Must not
know: how a request names its languages and what answers look like (`gateway.server.openai_api`),
how a text is translated.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.server.access.guarded_route import TRANSLATE, GuardedRoute, Right
from gateway.server.openai_api.chat import (
    MODEL,
    ChatAnswer,
    ChatRequest,
    error,
    languages_of,
    model,
    model_name,
    models,
)
from gateway.server.routes.api import (
    EventStreamResponse,
    begin,
    language_list,
    refusal,
    reply,
    status,
    while_connected,
)
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from gateway.text import languages

DONE = b"data: [DONE]\n\n"
"""End of a stream of chat completions."""


async def complete(request: Request, permissions: Permissions) -> Response:
    """Answer with the translation of the last message of the user, whole or as a stream."""
    body = await read(request, ChatRequest)
    wanted = body.wanted()
    asked = OneShotRequest(
        (wanted.text,),
        wanted.source,
        wanted.target,
        context=body.context,
        glossary=body.glossary,
        live=body.stream,
    )
    shot = await begin(request, asked, permissions)
    answer = ChatAnswer(shot.session, int(time.time()), model_name(shot.source, shot.target))
    if body.stream:
        return await _stream(request, shot, answer)
    finals = await while_connected(request, shot.finals())
    (text,) = shot.join(finals)
    return reply(answer.whole(text))


async def _stream(request: Request, shot: OneShot, answer: ChatAnswer) -> Response:
    """Begin a stream when there is text, so that a failure before it has a status of its own."""
    texts = shot.text()
    try:
        first = await while_connected(request, anext(texts, ""))
    except BaseException:
        await texts.aclose()
        shot.close()
        raise
    return EventStreamResponse(shot, _encoded(first, texts, answer))


async def _encoded(
    first: str, texts: AsyncGenerator[str], answer: ChatAnswer
) -> AsyncGenerator[bytes]:
    async with aclosing(texts):
        try:
            begin = answer.chunk(role="assistant", content="")
            yield _sse(begin) + _sse(answer.chunk(content=first))
            async for text in texts:
                yield _sse(answer.chunk(content=text))
            yield _sse(answer.chunk("stop"))
        except GatewayError as fault:
            yield _sse(error(fault, 500))
    yield DONE


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)


async def list_models(request: Request, _: Permissions) -> Response:
    """Answer with a model for each language that can be translated into."""
    return await language_list(request, _rows)


def _rows(profile: Model) -> object:
    return {"object": "list", "data": models(profile.targets)}


async def show_model(request: Request, _: Permissions) -> Response:
    """Answer with one model, if its languages can be translated."""
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


def refused(fault: GatewayError) -> Response:
    """Return an error as OpenAI's clients read one."""
    return refusal(fault, error(fault, status(fault)))


ROUTES = (
    GuardedRoute("/v1/models", list_models, Right(Role.VIEW), refused=refused),
    GuardedRoute("/v1/models/{model}", show_model, Right(Role.VIEW), refused=refused),
    GuardedRoute("/v1/chat/completions", complete, TRANSLATE, methods=["POST"], refused=refused),
)
