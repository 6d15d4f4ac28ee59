"""Checks of the headers Origin and Host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.origin import AllowedHosts, AllowedOrigins
from gateway.errors import ClientFault, ErrorCode


def let_in(pages: AllowedOrigins, origin: str | None, host: str | None) -> bool:
    try:
        pages.check(origin, host)
    except ClientFault as fault:
        assert fault.code is ErrorCode.FORBIDDEN
        return False
    return True


def answers(names: AllowedHosts, host: str | None) -> bool:
    try:
        names.check(host)
    except ClientFault as fault:
        assert fault.code is ErrorCode.FORBIDDEN
        return False
    return True


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "gateway.example"),
        (None, None),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("https://gateway.example", "gateway.example"),
        ("https://gateway.example", "gateway.example:443"),
        ("http://gateway.example", "gateway.example"),
        ("https://Gateway.Example", "gateway.example."),
    ],
)
def test_pages_of_the_same_host_and_programs_are_let_in(
    origin: str | None, host: str | None
) -> None:
    assert let_in(AllowedOrigins(), origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "gateway.example"),
        ("https://gateway.example.evil.example", "gateway.example"),
        ("https://evil.example/gateway.example", "gateway.example"),
        ("http://gateway.example@evil.example", "gateway.example"),
        ("http://127.0.0.1:8001", "127.0.0.1:8000"),
        ("http://127.0.0.1", "127.0.0.1:8000"),
        ("https://gateway.example", "gateway.example:80"),
        ("null", "gateway.example"),
        ("", "gateway.example"),
        ("file://", ""),
        ("http://", ""),
        ("chrome-extension://gateway.example", "gateway.example"),
        ("http://gateway.example:x", "gateway.example"),
        ("http://gateway.example", "gateway.example:x"),
        ("http://gateway.example", None),
    ],
)
def test_pages_of_other_origins_are_refused(origin: str, host: str | None) -> None:
    assert not let_in(AllowedOrigins(), origin, host)


def test_only_listed_pages_are_let_in() -> None:
    pages = AllowedOrigins(["https://Meet.example", "null", "chrome-extension://abc"])
    for origin in ("https://meet.example", "null", "chrome-extension://abc"):
        assert let_in(pages, origin, "gateway.example")
    for origin in ("http://meet.example", "https://meet.example:444", "https://a.meet.example"):
        assert not let_in(pages, origin, "gateway.example")
    assert let_in(AllowedOrigins(["*"]), "https://evil.example", "gateway.example")


@pytest.mark.parametrize("text", ["meet.example", "https://meet.example/", "https://", "://x", ""])
def test_a_list_entry_that_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        AllowedOrigins([text])


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:8000", "192.168.0.7:8000", "[::1]:8000", "[::1]"),
        *("localhost", "LOCALHOST:8000", "localhost.", "", None),
        *("gateway.example", "Gateway.example:8000"),
    ],
)
def test_addresses_localhost_and_listed_host_names_are_allowed(host: str | None) -> None:
    assert answers(AllowedHosts(["Gateway.example"]), host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::1", "a b", "@"]
)
def test_other_host_names_are_refused_against_dns_rebinding(host: str) -> None:
    assert not answers(AllowedHosts(), host)
    assert answers(AllowedHosts(["*"]), host)


@given(st.text(), st.text())
def test_arbitrary_origin_and_host_headers_raise_only_client_faults(origin: str, host: str) -> None:
    let_in(AllowedOrigins(["https://meet.example"]), origin, host)
    answers(AllowedHosts(["gateway.example"]), host)
