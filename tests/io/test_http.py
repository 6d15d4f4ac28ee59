"""Requests that the gateway makes itself: what an answer may change, and usable addresses."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import httpx2
import pytest

import gateway
from gateway.io import http
from tests.support.receiver import Receiver


async def test_a_cookie_of_an_answer_is_neither_kept_nor_sent_back() -> None:
    async with Receiver(headers=["Set-Cookie: a=1; Path=/"]) as receiver:
        async with http.client(timeout=5) as client:
            for _ in range(2):
                assert (await client.post(receiver.url)).headers["set-cookie"]
            assert not list(client.cookies.jar)
    assert all("cookie" not in one.headers for one in receiver.received)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed_so_a_credential_stays_with_its_address(
    status: int,
) -> None:
    async with Receiver() as other:
        async with Receiver(status, headers=[f"Location: {other.url}"]) as receiver:
            async with http.client(timeout=5, headers={"authorization": "Bearer key"}) as client:
                assert (await client.post(receiver.url, content=b"text")).status_code == status
    assert not other.received


def test_certificates_are_read_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    http.client(timeout=5)
    monkeypatch.setattr(ssl, "SSLContext", None)
    http.client(timeout=5)


def test_no_other_module_makes_an_http_client_for_requests_of_the_gateway() -> None:
    root = Path(gateway.__file__).parent
    made = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"httpx2?\.(Async)?Client\(", path.read_text(encoding="utf-8"))
    }
    # Commands ask gateways. The download of a model sends nothing of anybody, and must follow the
    # redirects of hubs.
    assert {name for name in made if not name.startswith("cli/")} == {
        "io/http.py",
        "engines/fetched/download.py",
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "h", "//h", "ftp://h", "https://", "http://:80", "http://[::1", "http://h:port"),
        *("http://h:0", "http://h:99999", "http://h:-1", "http://256.1.1.1/", "http://h/\x00"),
        *("https://\u2603.example", "http://h/\ud800", "http://user:pass/word@h"),
    ],
)
def test_an_address_to_which_nothing_can_be_sent_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it must look like http://host:port or https") as caught:
        http.address(text)
    assert "pass" not in str(caught.value)


def test_a_very_long_address_is_refused() -> None:
    assert http.address("http://h/".ljust(http.ADDRESS_LENGTH, "x"))
    with pytest.raises(ValueError, match="more than 2048 characters"):
        http.address("http://h/".ljust(http.ADDRESS_LENGTH + 1, "x"))


@pytest.mark.parametrize("text", ["http://h:1/p?q=1", "https://u:p@h", "http://[::1]:65535/"])
def test_an_address_is_returned_as_a_url(text: str) -> None:
    assert http.address(text) == httpx2.URL(text)
