"""A grant refuses what goes beyond it, in words that say what it allows."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import EVERYTHING, Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode


def test_where_nobody_is_asked_everything_is_allowed() -> None:
    EVERYTHING.be(Role.MODERATE)
    EVERYTHING.enter("any-room")
    EVERYTHING.read(["de", "ja"])


@pytest.mark.parametrize("role", [Role.VIEW, Role.SPEAK])
def test_a_role_holds_those_below_it(role: Role) -> None:
    Permissions(role=Role.SPEAK).be(role)


def test_a_role_above_it_is_refused() -> None:
    with pytest.raises(ClientFault, match="lets you speak, not moderate") as caught:
        Permissions(role=Role.SPEAK).be(Role.MODERATE)
    assert caught.value.code is ErrorCode.FORBIDDEN


@pytest.mark.parametrize("room", ["board", "team-a", "team-"])
def test_a_room_is_named_or_matched(room: str) -> None:
    Permissions(rooms=("board", "team-*")).enter(room)


def test_another_room_is_refused() -> None:
    with pytest.raises(ClientFault, match="does not open the room 'Board'"):
        Permissions(rooms=("board", "team-*")).enter("Board")


def test_a_language_beyond_its_own_is_refused() -> None:
    grant = Permissions(langs=("de", "fr"))
    grant.read(["de"])
    with pytest.raises(ClientFault, match="does not let you read 'ja'"):
        grant.read(["de", "ja"])


def test_a_room_of_ones_own_has_a_pattern_of_its_own() -> None:
    Permissions(rooms=("~*",)).enter("~")
    with pytest.raises(ClientFault, match="does not open a room of your own") as caught:
        Permissions(rooms=()).enter("~4f1d")
    assert caught.value.hint == "It opens: none."


def test_a_language_serves_its_regions() -> None:
    assert Permissions(langs=("de",)).reads("de-AT")
    assert not Permissions(langs=("zh",)).reads("zh-Hant")


@pytest.mark.parametrize(
    ("mine", "theirs", "left"),
    [
        (("board",), ("*",), ("board",)),
        (("*",), ("board",), ()),
        (("*",), ("*",), ("*",)),
        (("team-a", "team-*"), ("team-?",), ("team-a",)),
        (("team-*",), ("team-*", "x"), ("team-*",)),
        (("a*",), ("a?",), ()),
    ],
)
def test_within_another_grant_only_the_rooms_of_both_are_left(
    mine: tuple[str, ...], theirs: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert Permissions(rooms=mine).within(Permissions(rooms=theirs)).rooms == left


def test_within_another_grant_the_smaller_of_everything_holds() -> None:
    quota = Quota(sessions=1)
    mine = Permissions(name="a", role=Role.MODERATE, langs=("de", "fr"), until=9.0)
    theirs = Permissions(name="b", role=Role.SPEAK, langs=("de", "ja"), until=5.0, quota=quota)
    left = mine.within(theirs)
    assert (left.name, left.role, left.langs, left.until) == ("a", Role.SPEAK, ("de",), 5.0)
    assert left.quota == quota
    assert Permissions().within(theirs).langs == ("de", "ja")
    assert mine.within(Permissions()).langs == ("de", "fr")
    assert mine.within(Permissions()).until == 9.0


@pytest.mark.parametrize(
    ("most", "usual"),
    [(Role.VIEW, Role.VIEW), (Role.SPEAK, Role.SPEAK), (Role.MODERATE, Role.SPEAK)],
)
def test_who_names_no_role_speaks_where_that_is_allowed(most: Role, usual: Role) -> None:
    assert Permissions(role=most).usual is usual


@pytest.mark.parametrize(
    ("rooms", "home"),
    [
        (("board",), "board"),
        (("board", "x"), None),
        (("team-*",), None),
        (("*",), None),
        ((), None),
    ],
)
def test_who_names_no_room_is_in_the_one_that_the_grant_is_for(
    rooms: tuple[str, ...], home: str | None
) -> None:
    assert Permissions(rooms=rooms).home == home
