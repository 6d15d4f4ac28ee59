"""Permissions from the claims of JSON Web Tokens."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.auth.permissions import Permissions, Role, permissions_of
from gateway.errors import ClientFault, ErrorCode

CLAIMS: dict[str, Any] = {"role": "view", "rooms": "board", "exp": 9}


def test_claims_become_permissions() -> None:
    more = {"rooms": ["board", "team-*"], "langs": ["DE"], "tenant": "acme", "sub": "ann"}
    assert permissions_of(CLAIMS | more | {"email": "x"}) == Permissions(
        name="ann",
        tenant="acme",
        role=Role.VIEW,
        rooms=("board", "team-*"),
        langs=("de",),
        until=9.0,
    )


def test_one_room_may_be_given_without_a_list() -> None:
    assert permissions_of(CLAIMS).rooms == ("board",)


def test_a_name_has_at_most_64_characters() -> None:
    for letter in "xя語":
        assert permissions_of(CLAIMS | {"sub": letter * 65}).name == letter * 64


@pytest.mark.parametrize("missing", ["role", "rooms"])
def test_a_token_without_a_required_claim_is_refused(missing: str) -> None:
    with pytest.raises(ClientFault, match=missing) as caught:
        permissions_of({name: value for name, value in CLAIMS.items() if name != missing})
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
def test_claims_of_a_wrong_type_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(ClientFault) as caught:
        permissions_of(CLAIMS | claims)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
