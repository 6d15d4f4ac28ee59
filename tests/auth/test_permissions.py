"""Permissions, and the errors for actions that they do not allow."""

from __future__ import annotations

import tracemalloc

import pytest

from gateway.auth.permissions import EVERYTHING, Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode


def test_the_default_permissions_allow_everything() -> None:
    EVERYTHING.check_role(Role.MODERATE)
    EVERYTHING.check_room("any-room")
    EVERYTHING.check_languages(["de", "ja"])


@pytest.mark.parametrize("role", [Role.VIEW, Role.SPEAK])
def test_a_role_includes_the_lower_roles(role: Role) -> None:
    Permissions(role=Role.SPEAK).check_role(role)


def test_a_higher_role_is_refused() -> None:
    with pytest.raises(ClientFault, match="allows the role speak, not moderate") as caught:
        Permissions(role=Role.SPEAK).check_role(Role.MODERATE)
    assert caught.value.code is ErrorCode.FORBIDDEN


@pytest.mark.parametrize("room", ["board", "team-a", "team-"])
def test_a_room_is_allowed_by_name_or_by_pattern(room: str) -> None:
    Permissions(rooms=("board", "team-*")).check_room(room)


def test_another_room_is_refused() -> None:
    with pytest.raises(ClientFault, match="does not allow the room 'Board'") as caught:
        Permissions(rooms=("board", "team-*")).check_room("Board")
    assert caught.value.code is ErrorCode.FORBIDDEN


def test_a_language_that_is_not_listed_is_refused() -> None:
    permissions = Permissions(langs=("de", "fr"))
    permissions.check_languages(["de"])
    with pytest.raises(ClientFault, match="does not allow reading 'ja'") as caught:
        permissions.check_languages(["de", "ja"])
    assert caught.value.code is ErrorCode.FORBIDDEN


def test_private_rooms_have_a_pattern_of_their_own() -> None:
    Permissions(rooms=("~*",)).check_room("~")
    with pytest.raises(ClientFault, match="does not allow a private room") as caught:
        Permissions(rooms=()).check_room("~4f1d")
    assert caught.value.hint == "It allows: none."


def test_an_allowed_language_includes_its_regions() -> None:
    assert Permissions(langs=("de",)).can_read("de-AT")
    assert not Permissions(langs=("zh",)).can_read("zh-Hant")


@pytest.mark.parametrize(
    ("mine", "theirs", "left"),
    [
        (("board",), ("*",), ("board",)),
        (("*",), ("board",), ()),
        (("*",), ("*",), ("*",)),
        (("team-a", "team-*"), ("team-?",), ("team-a",)),
        (("team-*",), ("team-*", "x"), ("team-*",)),
        (("a*",), ("a?",), ()),
        (("team-?",), ("team-*",), ()),
        (("team-*",), ("*",), ("team-*",)),
    ],
)
def test_limited_permissions_keep_only_rooms_that_both_allow(
    mine: tuple[str, ...], theirs: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert Permissions(rooms=mine).limited_to(Permissions(rooms=theirs)).rooms == left


def test_limited_permissions_have_the_lower_role_and_the_earlier_expiry() -> None:
    quota = Quota(sessions=1)
    mine = Permissions(name="a", role=Role.MODERATE, langs=("de", "fr"), until=9.0)
    theirs = Permissions(name="b", role=Role.SPEAK, langs=("de", "ja"), until=5.0, quota=quota)
    left = mine.limited_to(theirs)
    assert (left.name, left.role, left.langs, left.until) == ("a", Role.SPEAK, ("de",), 5.0)
    assert left.quota == quota
    assert Permissions().limited_to(theirs).langs == ("de", "ja")
    assert mine.limited_to(Permissions()).langs == ("de", "fr")
    assert mine.limited_to(Permissions()).until == 9.0


@pytest.mark.parametrize(
    ("most", "default"),
    [(Role.VIEW, Role.VIEW), (Role.SPEAK, Role.SPEAK), (Role.MODERATE, Role.SPEAK)],
)
def test_the_default_role_is_speak_if_that_is_allowed(most: Role, default: Role) -> None:
    assert Permissions(role=most).default_role is default


@pytest.mark.parametrize(
    ("rooms", "only"),
    [
        (("board",), "board"),
        (("board", "x"), None),
        (("team-*",), None),
        (("*",), None),
        ((), None),
    ],
)
def test_only_room_is_the_single_room_that_is_allowed(
    rooms: tuple[str, ...], only: str | None
) -> None:
    assert Permissions(rooms=rooms).only_room == only


@pytest.mark.parametrize("pattern", ["meeting-{}", "meeting-{}-*"])
def test_the_rooms_of_many_tokens_take_no_memory_once_they_were_checked(pattern: str) -> None:
    def check(numbers: range) -> None:
        for number in numbers:
            name = pattern.format(number)
            Permissions(rooms=(name,)).check_room(name.replace("*", "a"))

    check(range(1_000))  # a bounded cache is full
    tracemalloc.start()
    try:
        check(range(1_000, 2_000))
        before = tracemalloc.get_traced_memory()[0]
        check(range(2_000, 4_000))
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
