"""Signed tokens: payload, purpose and expiry."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.signed_tokens import MAX_TOKEN, Signer
from gateway.errors import ClientFault, ErrorCode

NOW = 1_000.0


class Place(msgspec.Struct, frozen=True):
    room: str
    number: int


signer = Signer(b"a key of the tests")


def refused(token: str, kind: str = "ticket", now: float = NOW) -> str:
    with pytest.raises(ClientFault) as caught:
        signer.read(kind, token, Place, now)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    return str(caught.value)


@given(st.text(), st.integers(0, 2**31))
def test_a_payload_is_read_as_it_was_signed(room: str, number: int) -> None:
    token = signer.sign("ticket", Place(room, number), NOW + 60)
    assert signer.read("ticket", token, Place, NOW) == Place(room, number)


def test_a_payload_is_read_whatever_the_last_letters_of_its_token_are() -> None:
    tokens = [signer.sign("ticket", Place("r", number), NOW + 60) for number in range(1_000)]
    assert {token.partition(".")[0][-1] for token in tokens} > set("XYZ")
    for number, token in enumerate(tokens):
        assert signer.read("ticket", token, Place, NOW).number == number


def test_a_token_has_only_characters_allowed_in_a_query_and_a_sub_protocol() -> None:
    token = signer.sign("ticket", Place("r" * 64, 1), NOW + 60)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", token)


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    token = signer.sign("ticket", Place("demo", 1), NOW + 60)
    # The last character of a half has bits that base64 ignores, so it is not changed.
    at = data.draw(st.integers(0, len(token) - 2).filter(lambda i: token[i + 1] != "."))
    other = data.draw(st.sampled_from("ABab01_-").filter(lambda c: c != token[at]))
    assert "not one of this gateway's" in refused(token[:at] + other + token[at + 1 :])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    refused(text)


def test_text_that_is_not_base64_is_refused() -> None:
    assert "not one of this gateway's" in refused("ab.c")


def test_a_token_for_another_purpose_is_refused() -> None:
    token = signer.sign("resume", Place("demo", 1), NOW + 60)
    assert "it is a resume token" in refused(token)


def test_an_expired_token_is_refused() -> None:
    token = signer.sign("ticket", Place("demo", 1), NOW + 60)
    assert "has expired" in refused(token, now=NOW + 60)


def test_a_token_with_another_type_of_payload_is_refused() -> None:
    assert "another version" in refused(signer.sign("ticket", "demo", NOW + 60))


def test_a_token_of_another_gateway_is_refused() -> None:
    token = Signer(b"another key").sign("ticket", Place("demo", 1), NOW + 60)
    assert "not one of this gateway's" in refused(token)


def test_tokens_of_the_key_before_stay_valid_after_one_replacement() -> None:
    own = Signer(b"own")
    before = own.sign("ticket", Place("demo", 1), NOW + 60)
    own.replace(b"own")
    own.replace(b"shared")
    after = own.sign("ticket", Place("demo", 2), NOW + 60)
    assert own.read("ticket", before, Place, NOW) == Place("demo", 1)
    assert Signer(b"shared").read("ticket", after, Place, NOW) == Place("demo", 2)
    own.replace(b"another")
    with pytest.raises(ClientFault):
        own.read("ticket", before, Place, NOW)


def test_a_token_that_is_too_long_is_not_decoded() -> None:
    assert "too long" in refused("A" * (MAX_TOKEN + 1))
