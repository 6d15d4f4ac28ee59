"""Tests of requests and event streams as data. Tests over real HTTP are in ``test_engine.py``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.openai.completions import (
    EVENT_LIMIT,
    ErrorBody,
    EventStreamDecoder,
    ForcedPrefixFilter,
    error_status,
    request_body,
    token_bound,
)
from gateway.engines.profiles import Profile, load
from gateway.errors import JobFault
from gateway.job import Job, Priority

CHAT = load("chat")
RAW = load("seed-x")


def job(**fields: Any) -> Job:
    return Job(**{"id": "j1", "text": "Good morning!", "source": "en", "target": "de", **fields})


# The request


def body(profile: Profile, job: Job, *, vllm: bool = False) -> dict[str, Any]:
    return request_body(job, profile, chat=profile.kind == "chat", vllm=vllm)[0]


def test_other_servers_get_no_bos_token_and_get_stop_strings() -> None:
    sent = body(RAW, job())
    assert sent["prompt"] == RAW.prompt(job()).text.removeprefix("<s>")
    assert list(sent["stop"]) == ["</s>"]


def test_vllm_gets_the_whole_prompt_as_text_without_stop_strings() -> None:
    sent = body(RAW, job(), vllm=True)
    assert sent["prompt"] == RAW.prompt(job()).text
    assert sent["add_special_tokens"] is False
    assert "stop" not in sent


def test_a_second_attempt_is_sampled_as_the_profile_says() -> None:
    assert body(CHAT, job(attempt=2))["temperature"] == CHAT.sampling(job(attempt=2)).temperature


VLLM_FIELDS = {
    "top_k",
    "repetition_penalty",
    "stream_options",
    "priority",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
}


def test_other_servers_get_no_fields_of_vllm() -> None:
    sent = body(CHAT, job(prefix="Guten", priority=Priority.PARTIAL))
    assert not VLLM_FIELDS & sent.keys()


def test_vllm_gets_its_fields_even_if_they_are_neutral() -> None:
    sent = body(CHAT, job(priority=Priority.PARTIAL), vllm=True)
    assert sent["priority"] == 1
    assert sent["top_k"] == 0
    assert sent["repetition_penalty"] == 1.0


def test_thinking_is_switched_off_if_the_profile_has_an_option_for_it() -> None:
    sent = body(load("qwen3"), job(), vllm=True)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}


def test_vllm_continues_a_forced_prefix_as_the_last_message() -> None:
    sent = body(CHAT, job(prefix="Guten"), vllm=True)
    assert sent["messages"][-1] == {"role": "assistant", "content": "Guten"}
    assert sent["continue_final_message"] is True
    assert sent["add_generation_prompt"] is False


def test_a_prompt_sent_as_text_ends_with_the_forced_prefix() -> None:
    assert body(RAW, job(prefix="Guten"))["prompt"].endswith("Guten")


def test_other_chat_servers_do_not_get_the_prefix_and_repeat_it() -> None:
    sent, repeats = request_body(job(prefix="Guten"), CHAT, chat=True, vllm=False)
    messages: Any = sent["messages"]
    assert messages[-1]["role"] == "user"
    assert repeats == "Guten"


@pytest.mark.parametrize(
    ("text", "enough"),
    [("Good morning everybody", 6), ("Доброе утро", 6), ("おはようございます", 9), ("a", 1)],
)
def test_tokens_are_estimated_generously_in_every_script(text: str, enough: int) -> None:
    assert token_bound(text) >= enough


# The event stream


def feed(*chunks: bytes) -> list[bytes]:
    stream = EventStreamDecoder()
    return [data for chunk in chunks for data in stream.decode(chunk)]


def test_line_ends_may_be_mixed_and_split_anywhere() -> None:
    assert feed(b"data: a\r", b"\n", b"\n") == [b"a"]
    assert feed(b"data: a\r", b"", b"\n\r", b"\n") == [b"a"]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), max_size=5
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(min_value=0, max_value=200), max_size=8),
)
def test_events_do_not_depend_on_where_their_bytes_are_split(
    texts: list[str], end: str, cuts: list[int]
) -> None:
    sent = "".join(f": note{end}event: x{end}data: {text}{end}{end}" for text in texts).encode()
    places = [0, *sorted(cuts), len(sent)]
    chunks = [sent[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert feed(*chunks) == [text.encode() for text in texts]


def test_an_event_may_have_several_lines_of_data_and_needs_no_space() -> None:
    assert feed(b"data:a\ndata: b\n\n") == [b"a\nb"]


def test_a_line_separator_of_unicode_ends_no_line() -> None:
    text = "a\u2028b\u0085c\x0b".encode()
    assert feed(b"data: " + text + b"\n\n") == [text]


def test_a_byte_order_mark_before_the_first_event_is_ignored() -> None:
    assert feed(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


def test_an_event_without_its_empty_line_is_not_an_event() -> None:
    assert feed(b"data: a\n") == []


@pytest.mark.parametrize("piece", [b"data: " + b"a" * 65536, b"data: " + b"a" * 65536 + b"\n"])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError, match="more than"):
        feed(*[piece] * (EVENT_LIMIT // 65536 + 1))


# What a server says when it will not


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("stopped", 500),
        (ErrorBody(code=503), 503),
        (ErrorBody(code="invalid_api_key"), 500),
        (ErrorBody(), 500),
    ],
)
def test_the_status_of_an_error_is_its_code_if_that_is_a_number(
    error: ErrorBody | str, status: int
) -> None:
    assert error_status(error) == status


# A server that cannot continue a text


@given(st.text(), st.lists(st.integers(min_value=0, max_value=30), max_size=4))
def test_the_prefix_is_removed_wherever_the_output_is_split(rest: str, cuts: list[int]) -> None:
    output = " Guten Morgen" + rest
    places = [0, *sorted(cuts), len(output)]
    restart = ForcedPrefixFilter("Guten Morgen")
    pieces = [output[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert "".join(map(restart.strip, pieces)) == rest
    restart.finish()


def test_an_output_that_departs_from_the_prefix_is_a_fault_at_once() -> None:
    restart = ForcedPrefixFilter("Guten Morgen")
    assert restart.strip("Guten ") == ""
    with pytest.raises(JobFault, match="changed the text"):
        restart.strip("Tag")


def test_an_output_shorter_than_the_prefix_is_a_fault() -> None:
    restart = ForcedPrefixFilter("Guten Morgen")
    restart.strip("Guten")
    with pytest.raises(JobFault, match="changed the text"):
        restart.finish()
