"""HTTP routes of OpenAI's chat completions, so that translation tools work by this gateway's URL.

Owns: the streams and statuses of ``/v1/models`` and ``/v1/chat/completions``. Must not know: what
requests and answers look like (`gateway.server.openai_api`), how a text is translated.
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
from gateway.server.access.guarded_route import POST, TRANSLATE, GuardedRoute, Right
from gateway.server.openai_api import chat
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.routes import api
from gateway.server.routes.body import read
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from gateway.text import languages

DONE = b"data: [DONE]\n\n"
"""End of a stream of chat completions."""


async def complete(request: Request, permissions: Permissions) -> Response:
    """Answer with the translation of the last message of the user, whole or as a stream."""
    body = await read(request, ChatRequest)
    text, source, target = body.wanted()
    asked = OneShotRequest((text,), source, target, body.context, body.glossary, body.stream)
    shot = await api.begin(request, asked, permissions)
    model = chat.model_name(shot.source, shot.target)
    answer = chat.ChatAnswer(shot.session, int(time.time()), model)
    if body.stream:
        return await _stream(request, shot, answer)
    (text,) = shot.join(await api.while_connected(request, shot.finals()))
    return api.reply(answer.whole(text))


async def _stream(request: Request, shot: OneShot, answer: chat.ChatAnswer) -> Response:
    """Begin a stream when there is text, so that a failure before it has a status of its own."""
    texts = shot.text()
    try:
        first = await api.while_connected(request, anext(texts, ""))
    except BaseException:
        await texts.aclose()
        shot.close()
        raise
    return api.EventStreamResponse(shot, _encoded(first, texts, answer))


async def _encoded(
    first: str, texts: AsyncGenerator[str], answer: chat.ChatAnswer
) -> AsyncGenerator[bytes]:
    async with aclosing(texts):
        try:
            begin = answer.chunk(role="assistant", content="")
            yield _sse(begin) + _sse(answer.chunk(content=first))
            async for text in texts:
                yield _sse(answer.chunk(content=text))
            yield _sse(answer.chunk("stop"))
        except GatewayError as fault:
            yield _sse(chat.error(fault, 500))
    yield DONE


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)


async def list_models(request: Request, _: Permissions) -> Response:
    """Answer with a model for each language that can be translated into."""
    return await api.language_list(request, _rows)


def _rows(profile: Model) -> object:
    return {"object": "list", "data": chat.models(profile.targets)}


async def show_model(request: Request, _: Permissions) -> Response:
    """Answer with one model, if its languages can be translated."""
    name = request.path_params["model"]
    source, target = chat.languages_of(name)
    known = name == chat.MODEL
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
            f'A model is called "{chat.MODEL}-de"; /v1/models lists them.',
        )
    return api.reply(chat.model(name))


def refused(fault: GatewayError) -> Response:
    """Return an error as OpenAI's clients read one."""
    return api.refusal(fault, chat.error(fault, api.status(fault)))


ROUTES = (
    GuardedRoute("/v1/models", list_models, Right(Role.VIEW), refused=refused),
    GuardedRoute("/v1/models/{model}", show_model, Right(Role.VIEW), refused=refused),
    GuardedRoute("/v1/chat/completions", complete, TRANSLATE, methods=POST, refused=refused),
)
