"""The translation that a request of OpenAI's chat completions asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.server.openai_api.chat import ChatRequest, languages_of, model_name


def chat(model: str = "translate", *messages: tuple[str, Any], **fields: Any) -> ChatRequest:
    said = [{"role": role, "content": content} for role, content in messages]
    return msgspec.convert({"model": model, "messages": said, **fields}, ChatRequest)


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
        (
            chat("translate-de", ("system", "Translate into French."), HELLO),
            ("hello", "auto", "de"),
        ),
    ],
)
def test_the_model_or_else_the_fields_name_the_languages(
    request_: ChatRequest, wanted: tuple[str, str, str]
) -> None:
    assert request_.wanted() == wanted


def test_the_model_wins_over_the_fields() -> None:
    assert chat("translate-ja", HELLO, target_lang="fr").wanted()[2] == "ja"


def test_only_the_last_message_of_the_user_is_translated() -> None:
    talk = chat("translate-de", HELLO, ("assistant", "hallo"), ("user", "bye"), ("assistant", None))
    assert talk.wanted()[0] == "bye"


@pytest.mark.parametrize(
    "messages",
    [
        (TO_GERMAN, HELLO),
        (("developer", "From English to German."), HELLO),
        (("user", "Translate the following English text to German: hello"),),
    ],
)
def test_a_language_named_in_a_message_alone_is_refused_with_the_form(
    messages: tuple[tuple[str, str], ...],
) -> None:
    with pytest.raises(ClientFault) as refused:
        chat("gpt-4o", *messages).wanted()
    for form in ('"translate-de"', '"translate-en-to-de"', '"target_lang"'):
        assert form in str(refused.value.hint)


def test_the_text_parts_of_a_message_are_translated_together() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert chat("translate-de", ("user", parts)).wanted()[0] == "one\ntwo"


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
    ],
)
def test_what_cannot_be_a_translation_is_refused_with_a_hint(
    request_: ChatRequest,
) -> None:
    with pytest.raises(ClientFault) as refused:
        request_.wanted()
    assert refused.value.hint and refused.value.code is ErrorCode.BAD_FRAME
    assert str(refused.value).endswith(".")


def test_harmless_fields_of_openai_are_accepted() -> None:
    fields = {"n": 1, "tools": [], "response_format": {"type": "text"}, "temperature": 0.2}
    assert chat("translate-de", HELLO, **fields).wanted()[2] == "de"


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
