"""The translation that a request of OpenAI's text APIs asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.server.openai_api.requests import (
    ChatRequest,
    ResponsesRequest,
    languages_of,
    model_name,
)


def chat(model: str = "translate", *messages: tuple[str, Any], **fields: Any) -> ChatRequest:
    said = [{"role": role, "content": content} for role, content in messages]
    return msgspec.convert({"model": model, "messages": said, **fields}, ChatRequest)


def responses(**fields: Any) -> ResponsesRequest:
    return msgspec.convert(fields, ResponsesRequest)


HELLO = ("user", "hello")
TO_GERMAN = ("system", "Translate into German.")


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (chat("translate-de", HELLO), ("hello", "auto", "de")),
        (chat("translate-en-to-pt-BR", HELLO), ("hello", "en", "pt-BR")),
        (chat("translate-de", HELLO, source_lang="en"), ("hello", "en", "de")),
        (chat("gpt-4o", HELLO, target_lang="fr"), ("hello", "auto", "fr")),
        (chat("gpt-4o", HELLO, target_lang="fr", source_lang="en"), ("hello", "en", "fr")),
        (chat("gpt-4o", TO_GERMAN, HELLO), ("hello", "auto", "de")),
        (chat("gpt-4o", TO_GERMAN, HELLO, source_lang="en"), ("hello", "en", "de")),
        (
            chat("gpt-4o", ("developer", "From English to German."), HELLO),
            ("hello", "en", "de"),
        ),
        (responses(model="translate-de", input="hello"), ("hello", "auto", "de")),
        (responses(input="hello", instructions="English to German"), ("hello", "en", "de")),
        (responses(input=[{"role": "user", "content": "hello"}], target_lang="de"), None),
    ],
)
def test_the_model_comes_before_the_fields_and_they_before_the_instructions(
    request_: ChatRequest | ResponsesRequest, wanted: tuple[str, str, str] | None
) -> None:
    assert request_.wanted() == (wanted or ("hello", "auto", "de"))


def test_an_earlier_way_to_name_the_target_wins_over_a_later_one() -> None:
    both = chat("translate-ja", TO_GERMAN, HELLO, target_lang="fr")
    assert both.wanted().target == "ja"
    assert chat("any", TO_GERMAN, HELLO, target_lang="fr").wanted().target == "fr"


def test_only_the_last_message_of_the_user_is_translated() -> None:
    talk = chat("translate-de", HELLO, ("assistant", "hallo"), ("user", "bye"), ("assistant", None))
    assert talk.wanted().text == "bye"


def test_a_language_that_the_user_mentions_is_no_instruction() -> None:
    with pytest.raises(ClientFault) as refused:
        chat("gpt-4o", ("user", "Translate into German.")).wanted()
    assert "target_lang" in str(refused.value.hint) and "translate-de" in str(refused.value.hint)


def test_the_text_parts_of_a_message_are_translated_together() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "input_text", "text": "two"}]
    assert chat("translate-de", ("user", parts)).wanted().text == "one\ntwo"


@pytest.mark.parametrize(
    "request_",
    [
        chat("translate-de", TO_GERMAN),
        chat("translate-de"),
        chat("translate-de", HELLO, n=2),
        chat("translate-de", HELLO, tools=[{"type": "function"}]),
        chat("translate-de", HELLO, response_format={"type": "json_object"}),
        chat("translate-de", ("user", [{"type": "image_url", "image_url": {"url": "x"}}])),
        chat("gpt-4o", HELLO),
        chat("gpt-4o", ("system", "German or French?"), HELLO),
        responses(model="translate-de", input=[{"type": "function_call_output"}]),
        responses(model="translate-de", input="a", text={"format": {"type": "json_schema"}}),
    ],
)
def test_what_cannot_be_a_translation_is_refused_with_a_hint(
    request_: ChatRequest | ResponsesRequest,
) -> None:
    with pytest.raises(ClientFault) as refused:
        request_.wanted()
    assert refused.value.hint and refused.value.code is ErrorCode.BAD_FRAME
    assert str(refused.value).endswith(".")


def test_harmless_fields_of_openai_are_accepted() -> None:
    fields = {"n": 1, "tools": [], "response_format": {"type": "text"}, "temperature": 0.2}
    assert chat("translate-de", HELLO, **fields).wanted().target == "de"
    text = {"format": {"type": "text"}}
    assert responses(model="translate-de", input="a", text=text).wanted().target == "de"


@pytest.mark.parametrize(
    ("model", "pair"),
    [
        ("translate", (None, None)),
        ("translate-de", (None, "de")),
        ("translate-to", (None, "to")),
        ("translate-to-to-de", ("to", "de")),
        ("translate-zh-Hant", (None, "zh-Hant")),
        ("translate-zh-Hant-to-pt-BR", ("zh-Hant", "pt-BR")),
        ("translator-de", (None, None)),
        ("gpt-4o", (None, None)),
    ],
)
def test_the_name_of_a_model_names_its_languages(
    model: str, pair: tuple[str | None, str | None]
) -> None:
    assert languages_of(model) == pair


def test_the_name_of_a_pair_is_read_back() -> None:
    assert languages_of(model_name("zh-Hant", "pt-BR")) == ("zh-Hant", "pt-BR")
