"""The constants of the handshake stand in one module, and its parsers follow the RFCs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gateway
from gateway.protocol.handshake import (
    BEARER_PREFIX,
    ROOM_PATTERN,
    SOCKET_PATH,
    bearer_token,
    is_room_name,
    offered_token,
    offered_tokens,
)

HOME = Path("protocol", "handshake.py")
PACKAGE = Path(gateway.__file__).parent


@pytest.mark.parametrize("constant", [SOCKET_PATH, BEARER_PREFIX, ROOM_PATTERN.strip("^$")])
def test_a_constant_of_the_handshake_is_spelled_out_in_one_module_only(constant: str) -> None:
    # A docstring may name the path as ``/v1/ws``: what counts are strings of the program.
    spelled = re.compile(rf"(?<!`){re.escape(constant)}(?!`)")
    found = {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if spelled.search(path.read_text(encoding="utf-8"))
    }
    assert found == {HOME}


@pytest.mark.parametrize("name", ["a", "demo-1", "A_b", "x" * 64])
def test_letters_digits_hyphen_and_underscore_name_a_room(name: str) -> None:
    assert is_room_name(name)
    assert re.search(ROOM_PATTERN, name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a/b", "~private", "besprechung-ä", "会議"])
def test_any_other_text_is_no_name_of_a_room(name: str) -> None:
    assert not is_room_name(name)
    assert not re.search(ROOM_PATTERN, name)


def test_a_name_of_a_room_does_not_end_in_a_line_break() -> None:
    assert not is_room_name("demo\n")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer gwk_1", "gwk_1"),
        ("bearer gwk_1", "gwk_1"),
        ("BEARER   gwk_1 ", "gwk_1"),
        ("Bearer", None),
        ("Bearer  ", None),
        ("Basic dTpw", None),
        ("", None),
    ],
)
def test_a_token_is_read_from_an_authorization_header(header: str, token: str | None) -> None:
    assert bearer_token(header) == token


def test_the_first_sub_protocol_with_a_token_counts() -> None:
    offered = ["gateway.v1", "gw.bearer.one", "gw.bearer.two"]
    assert offered_token(offered) == "one"
    assert offered_tokens(offered) == offered[1:]


def test_sub_protocols_without_a_token_give_none() -> None:
    assert offered_token(["gateway.v1"]) is None
    assert offered_tokens([]) == []
