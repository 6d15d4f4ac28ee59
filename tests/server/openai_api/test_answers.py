"""Answers of OpenAI's text APIs, read by the types of OpenAI's own package."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, EngineFault, ErrorCode
from gateway.server.openai_api.answers import ChatAnswer, ResponsesAnswer, error, model, models

types = pytest.importorskip("openai.types")


def test_a_whole_chat_completion_is_one_of_openai_without_a_count_of_tokens() -> None:
    body = ChatAnswer("1", 7, "translate-en-to-de").whole("Hallo")
    read = types.chat.ChatCompletion.model_validate(body, strict=True)
    assert read.choices[0].message.content == "Hallo" and read.usage is None


def test_the_chunks_of_a_chat_completion_are_those_of_openai() -> None:
    answer = ChatAnswer("1", 7, "translate-en-to-de")
    events = [*answer.begin(), answer.add("Ha"), answer.add("llo"), *answer.end("Hallo")]
    read = [types.chat.ChatCompletionChunk.model_validate(event, strict=True) for event in events]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in read) == "Hallo"
    assert [chunk.choices[0].finish_reason for chunk in read] == [None, None, None, "stop"]


def test_a_whole_response_is_one_of_openai() -> None:
    body = ResponsesAnswer("1", 7, "translate-en-to-de").whole("Hallo")
    read = types.responses.Response.model_validate(body)
    assert read.output_text == "Hallo" and read.status == "completed" and read.usage is None


def test_the_events_of_a_response_are_numbered_and_end_with_the_whole() -> None:
    answer = ResponsesAnswer("1", 7, "translate-en-to-de")
    events = [*answer.begin(), answer.add("Hallo"), *answer.end("Hallo")]
    assert [event["sequence_number"] for event in events] == list(range(9))
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == answer.whole("Hallo")


def test_a_failed_stream_says_why() -> None:
    fault = EngineFault("The engine is gone.")
    assert ChatAnswer("1", 7, "m").fail(fault)["error"]["type"] == "server_error"
    failed = ResponsesAnswer("1", 7, "m").fail(fault)
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {
        "code": "engine_unavailable",
        "message": "The engine is gone.",
    }


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
