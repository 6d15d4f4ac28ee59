"""The settings of authentication are checked before anything is served."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.auth.api_keys import Keyring
from gateway.server.access.authenticator import build
from gateway.settings.catalogue import Settings, SettingsError
from tests.server.access.credentials import BOTH, FILE, RSA, SECRET, SPEAKER, signed


def test_without_settings_no_keys_are_required() -> None:
    assert not build(Settings()).required


def test_keys_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    authenticator = build(Settings(keys=str(file)))
    assert authenticator.required and authenticator.verify(SPEAKER).name == "key 1"


def test_an_empty_key_file_refuses_everyone(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text("")
    assert build(Settings(keys=str(file))).required


def test_the_fallback_keys_are_in_force_without_a_file_only(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    ring = Keyring(FILE)
    assert build(Settings(), fallback=ring).keyring is ring
    file.write_text("")
    authenticator = build(Settings(keys=str(file)), fallback=ring)
    assert authenticator.keyring is not None and len(authenticator.keyring) == 0
    file.write_text("[[key")
    with pytest.raises(SettingsError, match="Check --keys"):
        build(Settings(keys=str(file)), fallback=ring)


async def test_keys_from_a_pipe_are_read_once_and_stay_in_force(tmp_path: Path) -> None:
    pipe = tmp_path / "keys"
    os.mkfifo(pipe)
    authenticator, _ = await asyncio.gather(
        asyncio.to_thread(build, Settings(keys=str(pipe))),
        asyncio.to_thread(pipe.write_text, FILE),
    )
    assert authenticator.verify(SPEAKER).name == "key 1"
    await authenticator.watch_keys(lambda: None)  # it returns: a pipe is not watched


def test_tokens_signed_with_a_secret_or_with_a_key_of_a_file_are_accepted(tmp_path: Path) -> None:
    authenticator = build(Settings(jwt_key=SECRET.decode()))
    assert authenticator.verify(signed()).rooms == ("demo",)
    file = tmp_path / "jwks.json"
    file.write_text(BOTH)
    authenticator = build(Settings(jwks_file=str(file), jwt_audience="captions"))
    assert authenticator.verify(signed(RSA, "RS256", kid="r", aud="captions")).rooms == ("demo",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"keys": "nowhere.toml"}, "nowhere.toml cannot be read: No such file or directory."),
        ({"keys": "/"}, "/ cannot be read: Is a directory. Check --keys."),
        ({"keys": "{binary}"}, "binary cannot be read: it is not text in UTF-8. Check --keys."),
        ({"keys": "{bad}"}, "The keys cannot be read"),
        ({"jwt_key": "short"}, "jwt_key has 5 bytes; 32 is the least"),
        ({"jwks_url": "https://id.example/jwks"}, "set jwt_audience"),
        ({"jwks_url": "http://id.example/jwks", "jwt_audience": "a"}, "begin with https"),
        ({"jwks_url": "https://", "jwt_audience": "a"}, "jwks_url cannot be used: it must look"),
        ({"jwks_url": "https://a:b/", "jwt_audience": "a"}, "jwks_url cannot be used: it must"),
        (
            {"jwks_file": "nowhere.json", "jwt_audience": "a"},
            "nowhere.json cannot be read: No such",
        ),
        ({"jwks_file": "{bad}", "jwt_audience": "a"}, "no JSON Web Key Set"),
        ({"origins": "meet.example"}, "origins cannot be used: 'meet.example' is not an origin"),
        ({"trusted_proxies": "proxy"}, "trusted_proxies cannot be used: 'proxy' does not appear"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_with_a_sentence(
    tmp_path: Path, given: dict[str, str], says: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_text("bad")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    values: dict[str, Any] = {
        name: value.format(bad=bad, binary=binary) for name, value in given.items()
    }
    with pytest.raises(SettingsError) as caught:
        build(Settings(**values))
    assert says in str(caught.value)
