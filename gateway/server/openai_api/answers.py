"""Answers of OpenAI's text APIs: whole bodies, and the events of a stream.

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


class _TextAnswer:
    """One answer, whole or streamed.

    :param id: unique id, without the prefix that OpenAI's ids have
    :param created: seconds since the epoch
    :param model: name of the model, with both languages
    """

    def __init__(self, id: str, created: int, model: str) -> None:
        self._id = id
        self._created = created
        self._model = model


class ChatAnswer(_TextAnswer):
    """An answer of ``/v1/chat/completions``."""

    def whole(self, text: str) -> Json:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return self._body(
            "chat.completion",
            {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"},
        )

    def begin(self) -> list[Json]:
        """Return the events before the first text of a stream."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def add(self, text: str) -> Json:
        """Return the event with more text."""
        return self._chunk({"content": text})

    def end(self, text: str) -> list[Json]:
        """Return the events behind the last text. ``text`` is all of it."""
        return [self._chunk({}, "stop")]

    def fail(self, fault: GatewayError) -> Json:
        """Return the event of a failure, the last one of a stream."""
        return error(fault, 500)

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


class ResponsesAnswer(_TextAnswer):
    """An answer of ``/v1/responses`` with numbered events. It has the methods of `ChatAnswer`."""

    def __init__(self, id: str, created: int, model: str) -> None:
        super().__init__(id, created, model)
        self._events = 0

    def whole(self, text: str) -> Json:
        return self._response("completed", [self._item("completed", [_part(text)])])

    def begin(self) -> list[Json]:
        return [
            self._event("created", response=self._response("in_progress", [])),
            self._event("in_progress", response=self._response("in_progress", [])),
            self._event("output_item.added", output_index=0, item=self._item("in_progress", [])),
            self._event("content_part.added", **self._place, part=_part("")),
        ]

    def add(self, text: str) -> Json:
        return self._event("output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, text: str) -> list[Json]:
        item = self._item("completed", [_part(text)])
        return [
            self._event("output_text.done", **self._place, text=text, logprobs=[]),
            self._event("content_part.done", **self._place, part=_part(text)),
            self._event("output_item.done", output_index=0, item=item),
            self._event("completed", response=self.whole(text)),
        ]

    def fail(self, fault: GatewayError) -> Json:
        about = error(fault, 500)["error"]
        failed = {key: about[key] for key in ("code", "message")}
        return self._event("failed", response={**self._response("failed", []), "error": failed})

    @property
    def _place(self) -> Json:
        return {"item_id": f"msg_{self._id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: object) -> Json:
        self._events += 1
        return {"type": f"response.{kind}", "sequence_number": self._events - 1, **fields}

    def _item(self, status: str, content: Sequence[Json]) -> Json:
        about = {"id": f"msg_{self._id}", "type": "message", "role": "assistant"}
        return {**about, "status": status, "content": list(content)}

    def _response(self, status: str, output: list[Json]) -> Json:
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "store": False,
        }


ApiAnswer = ChatAnswer | ResponsesAnswer


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


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
