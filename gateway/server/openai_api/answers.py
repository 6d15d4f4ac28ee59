"""Answers of OpenAI's chat completions: whole bodies, and the events of a stream.

Owns: their fields. Must not know: HTTP, where the text comes from. A count of tokens is in none of
them, because not every engine has one (OpenAI's clients take ``usage`` for optional).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.errors import GatewayError
from gateway.server.openai_api.requests import MODEL

Json = dict[str, Any]

INVALID = "invalid_request_error"
"""Type of errors that another request avoids."""


class ChatAnswer:
    """One answer of ``/v1/chat/completions``, whole or streamed.

    :param id: unique id, without the prefix that OpenAI's ids have
    :param created: seconds since the epoch
    :param model: name of the model, with both languages
    """

    def __init__(self, id: str, created: int, model: str) -> None:
        self._id = id
        self._created = created
        self._model = model

    def whole(self, text: str) -> Json:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return self._body(
            "chat.completion",
            {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"},
        )

    def begin(self) -> Json:
        """Return the event before the first text of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def add(self, text: str) -> Json:
        """Return the event with more text."""
        return self._chunk({"content": text})

    def end(self) -> Json:
        """Return the event behind the last text."""
        return self._chunk({}, "stop")

    def _chunk(self, delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._body("chat.completion.chunk", choice)

    def _body(self, kind: str, choice: Json) -> Json:
        return {
            "id": f"chatcmpl-{self._id}",
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": [choice],
        }


def error(fault: GatewayError, status: int) -> Json:
    """Return the body of an error.

    :param status: HTTP status, by which the type of the error is chosen
    """
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else INVALID
    message = str(fault) if fault.hint is None else f"{fault} {fault.hint}"
    about = {"message": message, "type": kind, "param": None, "code": fault.code.value}
    return {"error": about}


def models(targets: Sequence[str]) -> list[Json]:
    """Return the list of models, one for each language that can be translated into."""
    return [model(name) for name in (MODEL, *(f"{MODEL}-{target}" for target in targets))]


def model(name: str) -> Json:
    """Return the description of a model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "caption-gateway"}
