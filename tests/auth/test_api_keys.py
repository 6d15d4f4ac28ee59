"""API keys: verification by hash, permissions from the file, revocation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.api_keys import ApiKey, KeyFault, Keyring, create_key
from gateway.auth.permissions import EVERYTHING, Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode

NOW = 1_000.0
SECRET = "ab" * 32


def key(**fields: Any) -> ApiKey:
    return ApiKey(id="4f1d0c2a", name="board", hash="0" * 64, **fields)


def ring(**fields: Any) -> tuple[Keyring, str]:
    """Return a keyring with one key, and that key."""
    token, entry = create_key(key(**fields), SECRET)
    return Keyring(entry), token


def refused(keys: Keyring, token: str, now: float = NOW) -> str:
    with pytest.raises(ClientFault) as caught:
        keys.authenticate(token, now)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert caught.value.hint
    return str(caught.value)


def test_a_key_has_the_permissions_of_its_entry() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    keys, token = ring(
        role=Role.MODERATE,
        rooms=("board", "team-*"),
        langs=("DE", "zh_TW"),
        tenant="acme",
        until=until,
        quota=Quota(sessions=3, minute=60),
    )
    assert keys.authenticate(token, NOW) == Permissions(
        name="board",
        key="4f1d0c2a",
        tenant="acme",
        role=Role.MODERATE,
        rooms=("board", "team-*"),
        langs=("de", "zh-TW"),
        until=until.timestamp(),
        quota=Quota(sessions=3, minute=60),
    )


def test_by_default_a_key_may_speak_in_every_room_and_is_its_own_tenant() -> None:
    keys, token = ring()
    permissions = keys.authenticate(token, NOW)
    assert (permissions.role, permissions.rooms, permissions.langs) == (Role.SPEAK, ("*",), None)
    assert (permissions.tenant, permissions.until, permissions.quota) == ("board", None, Quota())


def test_the_key_file_does_not_contain_the_secret() -> None:
    token, entry = create_key(key(), SECRET)
    assert token == f"gwk_4f1d0c2a_{SECRET}"
    assert SECRET not in entry and len(Keyring(entry)) == 1


def test_a_keyring_has_the_text_that_it_was_read_from() -> None:
    _, entry = create_key(key(), SECRET)
    assert Keyring(entry).text == entry
    assert Keyring().text == ""


def test_names_in_the_key_file_are_written_as_they_are() -> None:
    named = ApiKey(id="4f1d0c2a", name="Zoë 会議", hash="0" * 64)
    assert 'name = "Zoë 会議"\n' in create_key(named, SECRET)[1]


@given(st.text())
def test_arbitrary_text_is_not_a_known_key(text: str) -> None:
    assert refused(ring()[0], text) == "This key is not known."


@pytest.mark.parametrize(
    "token",
    [
        f"gwk_4f1d0c2a_{'ac' * 32}",
        f"gwk_00000000_{SECRET}",
        f"gwk_4f1d0c2a_{SECRET}\n",
        f"GWK_4f1d0c2a_{SECRET}",
        f"gwk_4f1d0c2a_{SECRET[:-1]}",
    ],
)
def test_a_key_with_a_small_difference_is_not_known(token: str) -> None:
    assert refused(ring()[0], token) == "This key is not known."


def test_a_key_is_refused_from_its_expiry_on() -> None:
    keys, token = ring(until=datetime.fromtimestamp(NOW, UTC))
    assert keys.authenticate(token, NOW - 1).until == NOW
    assert refused(keys, token) == "This key has expired."


def test_permissions_end_when_their_key_is_revoked() -> None:
    keys, token = ring()
    permissions = keys.authenticate(token, NOW)
    assert keys.confirm(permissions, NOW) == permissions
    with pytest.raises(ClientFault, match="revoked") as caught:
        Keyring().confirm(permissions, NOW)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED


def test_permissions_without_a_key_are_only_checked_for_expiry() -> None:
    assert Keyring().confirm(EVERYTHING, NOW) is EVERYTHING
    with pytest.raises(ClientFault, match="expired"):
        Keyring().confirm(Permissions(until=NOW), NOW)


def test_permissions_shrink_when_their_key_is_changed() -> None:
    keys, token = ring(role=Role.MODERATE, rooms=("board", "team-*"))
    permissions = keys.authenticate(token, NOW)
    less, _ = ring(role=Role.VIEW, rooms=("team-*",), langs=("de",), quota=Quota(sessions=1))
    left = less.confirm(permissions, NOW)
    assert (left.role, left.rooms, left.langs) == (Role.VIEW, ("team-*",), ("de",))
    assert left.quota == Quota(sessions=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("key = 3", r"Expected `array`, got `int` - at `\$.key`"),
        ("[[keys]]\n", "unknown field `keys`"),
        ("[[key]]\n", "missing required field `id`"),
        ("[[key", "The keys cannot be read"),
        ('[[key]]\nid = "4f1d0c2a"\nname = "a"\nhash = "plain"', r"at `\$.key\[0\].hash`"),
    ],
)
def test_the_error_says_where_a_key_file_is_wrong(text: str, says: str) -> None:
    with pytest.raises(KeyFault, match=says):
        Keyring(text)


def test_a_date_without_an_offset_is_refused() -> None:
    _, entry = create_key(key(), SECRET)
    with pytest.raises(KeyFault, match="until"):
        Keyring(entry + "until = 2030-01-01T00:00:00\n")


def test_a_key_with_an_invalid_language_tag_is_refused() -> None:
    with pytest.raises(KeyFault, match="'board' cannot be used: `klingonese` is not a language"):
        ring(langs=("klingonese",))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"id": "4f1d0c2a"}, "two keys with the id '4f1d0c2a'"),
        ({"name": "board"}, "two keys named 'board'"),
    ],
)
def test_two_keys_with_the_same_name_or_id_are_refused(other: dict[str, str], says: str) -> None:
    fields: dict[str, Any] = {"id": "00000001", "name": "b", "hash": "0" * 64}
    more = ApiKey(**fields | other)
    with pytest.raises(KeyFault, match=says):
        Keyring(create_key(key(), SECRET)[1] + create_key(more, SECRET)[1])
