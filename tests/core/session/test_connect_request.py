"""A client's request to connect, and the token with which it resumes its session."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.auth.signed_tokens import Signer
from gateway.core.session.connect_request import ConnectRequest, ResumePoint, recognise
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits

NOW = 1_700_000_000.0
SIGNER = Signer(b"k" * 32)
SEAT = ConnectRequest(
    role=Role.VIEW,
    source="en",
    targets=("de", "fr"),
    view="stable",
    speaker="Ana",
    attempt=2,
)


def token(seat: ConnectRequest = SEAT, most: int = 10) -> str:
    return seat.token(SIGNER, "s1", "club", most, NOW + 60)


def test_a_token_states_the_place_that_it_was_made_for() -> None:
    place = ResumePoint("s1", "club", Role.VIEW, "en", ("de", "fr"), "stable", "Ana", None, 2)
    assert recognise(SIGNER, token(), None, NOW) == place
    assert recognise(SIGNER, token(), "club", NOW) == place


def test_a_token_of_another_room_is_no_place_in_this_one() -> None:
    assert recognise(SIGNER, token(), "bar", NOW) is None


def test_without_a_token_there_is_no_place() -> None:
    assert recognise(SIGNER, None, None, NOW) is None
    assert recognise(SIGNER, "", "club", NOW) is None


def test_a_token_that_is_not_good_is_ignored_only_where_the_room_is_known_without_it() -> None:
    late = NOW + 61
    for bad, now in (("x" + token(), NOW), (token(), late)):
        assert recognise(SIGNER, bad, "club", now) is None
        with pytest.raises(ClientFault) as refused:
            recognise(SIGNER, bad, None, now)
        assert refused.value.code is ErrorCode.UNAUTHENTICATED


def test_a_token_has_the_permissions_of_its_seat_unless_that_is_everything() -> None:
    permissions = Permissions(key="k", rooms=("club",))
    place = recognise(SIGNER, token(ConnectRequest(permissions=permissions)), None, NOW)
    assert place is not None and place.permissions == permissions
    place = recognise(SIGNER, token(ConnectRequest(permissions=EVERYTHING)), None, NOW)
    assert place is not None and place.permissions is None


def test_a_token_does_not_grow_with_typed_languages_and_says_if_there_were_too_many() -> None:
    most = Limits().targets
    assert token(ConnectRequest(targets=("de",) * 9_000), most) == token(
        ConnectRequest(targets=("de",) * 99), most
    )
    place = recognise(SIGNER, token(ConnectRequest(targets=("de",) * 9_000), most), None, NOW)
    assert place is not None and len(place.targets) == most + 1


@pytest.mark.parametrize(
    "seat",
    [
        ConnectRequest(room="a", permissions=Permissions(rooms=("b",))),
        ConnectRequest(permissions=Permissions(rooms=("b",))),
        ConnectRequest(room="b", role=Role.SPEAK, permissions=Permissions(role=Role.VIEW)),
    ],
)
def test_a_seat_beyond_its_permissions_is_forbidden(seat: ConnectRequest) -> None:
    with pytest.raises(ClientFault) as refused:
        seat.check()
    assert refused.value.code is ErrorCode.FORBIDDEN


def test_a_seat_within_its_permissions_is_not() -> None:
    ConnectRequest(
        room="b", role=Role.VIEW, permissions=Permissions(rooms=("b",), role=Role.VIEW)
    ).check()
    ConnectRequest().check()
