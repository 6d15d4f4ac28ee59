"""Answers of OpenAI's chat completions: whole bodies, and the events of a stream.

Owns: their fields. Must not know: HTTP, where the text comes from. A count of tokens is in none of
them, because not every engine has one (OpenAI's clients take ``usage`` for optional).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gateway.errors import GatewayError
from gateway.server.openai_api.requests import MODEL

Json = dict[str, Any]

INVALID = "invalid_request_error"
"""Type of errors that another request avoids."""


class ChatAnswer(NamedTuple):
    """One answer of ``/v1/chat/completions``, whole or streamed.

    ``id``       unique id, without the prefix that OpenAI's ids have
    ``created``  seconds since the epoch
    ``model``    name of the model, with both languages
    """

    id: str
    created: int
    model: str

    def whole(self, text: str) -> Json:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return self._body("chat.completion", message=message, finish_reason="stop")

    def chunk(self, finish: str | None = None, **delta: str) -> Json:
        """Return an event of a stream. The first has the ``role``, and the last is a ``finish``."""
        return self._body("chat.completion.chunk", delta=delta, finish_reason=finish)

    def _body(self, kind: str, **choice: object) -> Json:
        return {
            "id": f"chatcmpl-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "logprobs": None, **choice}],
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
