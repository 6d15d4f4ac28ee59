"""Answers of OpenAI's chat completions, read by the types of OpenAI's own package."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.server.openai_api.chat import ChatAnswer, Json, error, model, models

types = pytest.importorskip("openai.types")


def test_a_whole_chat_completion_is_one_of_openai_without_a_count_of_tokens() -> None:
    body = ChatAnswer("1", 7, "translate-en-to-de").whole("Hallo")
    read = types.chat.ChatCompletion.model_validate(body, strict=True)
    assert read.choices[0].message.content == "Hallo" and read.usage is None


def test_the_chunks_of_a_chat_completion_are_those_of_openai() -> None:
    answer = ChatAnswer("1", 7, "translate-en-to-de")
    events = [answer.chunk(role="assistant", content="")]
    events += [answer.chunk(content=text) for text in ("Ha", "llo")]
    events.append(answer.chunk("stop"))
    read = [types.chat.ChatCompletionChunk.model_validate(event, strict=True) for event in events]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in read) == "Hallo"
    assert [chunk.choices[0].finish_reason for chunk in read] == [None, None, None, "stop"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_the_type_of_an_error_follows_its_status(status: int, kind: str) -> None:
    fault = ClientFault(ErrorCode.BAD_FRAME, "No.", "Do this.")
    body = {"message": "No. Do this.", "type": kind, "param": None, "code": "bad_frame"}
    assert error(fault, status) == {"error": body}


def test_there_is_a_model_for_each_language() -> None:
    listed = models(["de", "pt-BR"])
    assert [row["id"] for row in listed] == ["translate", "translate-de", "translate-pt-BR"]
    assert types.Model.model_validate(model("translate"), strict=True).object == "model"


def test_a_chat_completion_has_the_fields_of_openais_reference() -> None:
    answer = ChatAnswer("1", 7, "m")
    choice: Json = {"index": 0, "logprobs": None}
    body = {"id": "chatcmpl-1", "created": 7, "model": "m"}
    message = {"role": "assistant", "content": "Hallo", "refusal": None}
    whole = [{**choice, "message": message, "finish_reason": "stop"}]
    assert answer.whole("Hallo") == {**body, "object": "chat.completion", "choices": whole}
    first = [{**choice, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert answer.chunk(role="assistant", content="") == {
        **body,
        "object": "chat.completion.chunk",
        "choices": first,
    }


def test_a_model_is_owned_by_the_gateway() -> None:
    row = {"id": "translate", "object": "model", "created": 0, "owned_by": "caption-gateway"}
    assert model("translate") == row
