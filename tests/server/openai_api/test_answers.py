"""Answers of OpenAI's text APIs, read by the types of OpenAI's own package."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, EngineFault, ErrorCode
from gateway.server.openai_api.answers import (
    ChatAnswer,
    Json,
    ResponsesAnswer,
    error,
    model,
    models,
)

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


def test_a_chat_completion_has_the_fields_of_openais_reference() -> None:
    answer = ChatAnswer("1", 7, "m")
    choice: Json = {"index": 0, "logprobs": None}
    body = {"id": "chatcmpl-1", "created": 7, "model": "m"}
    message = {"role": "assistant", "content": "Hallo", "refusal": None}
    whole = [{**choice, "message": message, "finish_reason": "stop"}]
    assert answer.whole("Hallo") == {**body, "object": "chat.completion", "choices": whole}
    first = [{**choice, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert answer.begin() == [{**body, "object": "chat.completion.chunk", "choices": first}]


def test_the_events_of_a_response_are_those_of_openais_reference_in_their_order() -> None:
    answer = ResponsesAnswer("1", 7, "m")
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty: Json = {"type": "output_text", "text": "", "annotations": []}
    full = {**empty, "text": "Hallo"}
    item = {"id": "msg_1", "type": "message", "role": "assistant"}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "store": False,
    }
    begun = {**response, "status": "in_progress", "output": []}
    opened = {**item, "status": "in_progress", "content": []}
    closed = {**item, "status": "completed", "content": [full]}
    ended = {**response, "status": "completed", "output": [closed]}
    expected: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        {"type": "response.content_part.added", **place, "part": empty},
        {"type": "response.output_text.delta", **place, "delta": "Hallo", "logprobs": []},
        {"type": "response.output_text.done", **place, "text": "Hallo", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": full},
        {"type": "response.output_item.done", "output_index": 0, "item": closed},
        {"type": "response.completed", "response": ended},
    ]
    events = [*answer.begin(), answer.add("Hallo"), *answer.end("Hallo")]
    assert events == [{**event, "sequence_number": n} for n, event in enumerate(expected)]


def test_a_failed_response_has_no_output() -> None:
    failed = ResponsesAnswer("1", 7, "m").fail(EngineFault("The engine is gone."))["response"]
    assert (failed["status"], failed["output"], failed["id"]) == ("failed", [], "resp_1")


def test_a_model_is_owned_by_the_gateway() -> None:
    row = {"id": "translate", "object": "model", "created": 0, "owned_by": "caption-gateway"}
    assert model("translate") == row
