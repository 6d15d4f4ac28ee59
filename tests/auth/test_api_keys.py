"""A key is known by its hash, gives what the file says, and nothing once it is gone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.api_keys import ApiKey, KeyFault, Keyring, made
from gateway.auth.permissions import EVERYTHING, Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode

NOW = 1_000.0
SECRET = "ab" * 32


def key(**fields: object) -> ApiKey:
    return ApiKey(id="4f1d0c2a", name="board", hash="0" * 64, **fields)  # type: ignore[arg-type]


def ring(**fields: object) -> tuple[Keyring, str]:
    """A ring with one key, and that key."""
    token, entry = made(key(**fields), SECRET)
    return Keyring.read(entry), token


def refused(keys: Keyring, token: str, now: float = NOW) -> str:
    with pytest.raises(ClientFault) as caught:
        keys.grant(token, now)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert caught.value.hint
    return str(caught.value)


def test_a_key_gives_what_was_asked_for_when_it_was_made() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    keys, token = ring(
        role=Role.MODERATE,
        rooms=("board", "team-*"),
        langs=("DE", "zh_TW"),
        tenant="acme",
        until=until,
        quota=Quota(sessions=3, minute=60),
    )
    assert keys.grant(token, NOW) == Permissions(
        name="board",
        key="4f1d0c2a",
        tenant="acme",
        role=Role.MODERATE,
        rooms=("board", "team-*"),
        langs=("de", "zh-TW"),
        until=until.timestamp(),
        quota=Quota(sessions=3, minute=60),
    )


def test_a_key_of_which_nothing_is_said_speaks_in_every_room_and_is_its_own_tenant() -> None:
    keys, token = ring()
    grant = keys.grant(token, NOW)
    assert (grant.role, grant.rooms, grant.langs) == (Role.SPEAK, ("*",), None)
    assert (grant.tenant, grant.until, grant.quota) == ("board", None, Quota())


def test_what_is_kept_of_a_key_does_not_have_its_secret() -> None:
    token, entry = made(key(), SECRET)
    assert token == f"gwk_4f1d0c2a_{SECRET}"
    assert SECRET not in entry and len(Keyring.read(entry)) == 1


@given(st.text())
def test_any_other_text_is_not_known(text: str) -> None:
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
def test_a_key_that_is_nearly_right_is_not_known(token: str) -> None:
    assert refused(ring()[0], token) == "This key is not known."


def test_a_key_whose_time_is_over_has_expired() -> None:
    keys, token = ring(until=datetime.fromtimestamp(NOW, UTC))
    assert keys.grant(token, NOW - 1).until == NOW
    assert refused(keys, token) == "This key has expired."


def test_a_grant_is_worth_nothing_once_its_key_has_been_taken_away() -> None:
    keys, token = ring()
    grant = keys.grant(token, NOW)
    assert keys.confirm(grant, NOW) == grant
    with pytest.raises(ClientFault, match="taken away") as caught:
        Keyring().confirm(grant, NOW)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED


def test_a_grant_that_rests_on_no_key_is_only_looked_at_for_its_time() -> None:
    assert Keyring().confirm(EVERYTHING, NOW) is EVERYTHING
    with pytest.raises(ClientFault, match="expired"):
        Keyring().confirm(Permissions(until=NOW), NOW)


def test_a_grant_loses_what_its_key_has_lost() -> None:
    keys, token = ring(role=Role.MODERATE, rooms=("board", "team-*"))
    grant = keys.grant(token, NOW)
    less, _ = ring(role=Role.VIEW, rooms=("team-*",), langs=("de",), quota=Quota(sessions=1))
    left = less.confirm(grant, NOW)
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
def test_a_file_that_cannot_be_read_says_where(text: str, says: str) -> None:
    with pytest.raises(KeyFault, match=says):
        Keyring.read(text)


def test_a_date_without_an_offset_is_refused() -> None:
    _, entry = made(key(), SECRET)
    with pytest.raises(KeyFault, match="until"):
        Keyring.read(entry + "until = 2030-01-01T00:00:00\n")


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(KeyFault, match="'board' cannot be used: `klingonese` is not a language"):
        ring(langs=("klingonese",))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"id": "4f1d0c2a"}, "two keys with the id '4f1d0c2a'"),
        ({"name": "board"}, "two keys named 'board'"),
    ],
)
def test_two_keys_of_one_name_or_one_id_are_refused(other: dict[str, str], says: str) -> None:
    more = ApiKey(**({"id": "00000001", "name": "b", "hash": "0" * 64} | other))  # type: ignore[arg-type]
    with pytest.raises(KeyFault, match=says):
        Keyring([key(), more])
