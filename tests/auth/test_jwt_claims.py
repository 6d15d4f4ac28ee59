"""A token gives what its claims say, and nothing where they do not say it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from gateway.auth.jwt_claims import granted, home
from gateway.auth.permissions import Permissions, Role
from gateway.errors import ClientFault, ErrorCode

CLAIMS: dict[str, Any] = {"role": "view", "rooms": "board", "exp": 9}


def test_claims_are_a_grant() -> None:
    more = {"rooms": ["board", "team-*"], "langs": ["DE"], "tenant": "acme", "sub": "ann"}
    assert granted(CLAIMS | more | {"email": "x"}) == Permissions(
        name="ann",
        tenant="acme",
        role=Role.VIEW,
        rooms=("board", "team-*"),
        langs=("de",),
        until=9.0,
    )


def test_one_room_needs_no_list() -> None:
    assert granted(CLAIMS).rooms == ("board",)


@pytest.mark.parametrize("missing", ["role", "rooms"])
def test_a_token_that_does_not_say_what_it_is_for_gives_nothing(missing: str) -> None:
    with pytest.raises(ClientFault, match=missing) as caught:
        granted({name: value for name, value in CLAIMS.items() if name != missing})
    assert caught.value.code is ErrorCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "claims",
    [
        {"role": "admin"},
        {"rooms": [1]},
        {"rooms": "x" * 65},
        {"rooms": "a/b"},
        {"langs": "de"},
        {"langs": ["klingonese"]},
        {"tenant": 3},
        {"sub": "x" * 256},
    ],
)
def test_claims_of_another_shape_give_nothing(claims: dict[str, Any]) -> None:
    with pytest.raises(ClientFault) as caught:
        granted(CLAIMS | claims)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED


def token(claims: object) -> str:
    body = urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
    return f"head.{body}.signature"


def test_which_room_a_token_names_is_told_before_anybody_looks_at_its_signature() -> None:
    claims = {"role": "view", "rooms": "board", "exp": 1.0}
    assert home(token(claims)) == "board"
    assert home(token(claims | {"rooms": ["a", "b"]})) is None
    assert home(token({"sub": "somebody"})) is None
    assert home(token([1])) is None


@pytest.mark.parametrize("text", ["", "a.b.c", "a.%.c", "a.é.c", "a.bm9uc2Vuc2U.c"])
def test_what_is_no_token_names_no_room(text: str) -> None:
    assert home(text) is None
