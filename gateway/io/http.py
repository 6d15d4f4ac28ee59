"""HTTP requests that the gateway makes itself: to model servers, outputs and issuers of tokens.

Owns: the client of these requests, its certificates, and which addresses can be used. Must not
know: who asks, and for what.

There are no cookies, and no redirect is followed, since it would carry texts and credentials to an
address that nobody has configured. Downloads of models have neither, and follow redirects with a
client of their own (`gateway.engines.fetched.download`).
"""

from __future__ import annotations

import logging
import ssl
from functools import cache
from http.cookiejar import CookieJar
from typing import Any

import httpx2

# They log addresses and headers of answers, also in an application that contains the gateway.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)

ADDRESS_LENGTH = 2_048
"""Most characters of an address. The client refuses requests with very long ones."""


class _NoCookies(CookieJar):
    """A cookie jar that stays empty. A full one costs 30 ms for each answer."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Keep none."""


@cache
def certificates() -> ssl.SSLContext:
    """Return the TLS context of all clients. Call it before the loop runs: it takes 100 ms."""
    return httpx2.create_ssl_context()


def client(
    *,
    base_url: httpx2.URL | str = "",
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | float | None,
    limits: httpx2.Limits | None = None,
) -> httpx2.AsyncClient:
    """Return a client. Proxies that are named in the environment are used."""
    return httpx2.AsyncClient(
        base_url=base_url,
        # A small compressed answer may be a very large one.
        headers={"accept-encoding": "identity", **(headers or {})},
        timeout=timeout,
        limits=limits or httpx2.Limits(),
        cookies=_NoCookies(),
        follow_redirects=False,
        verify=certificates(),
    )


def address(text: str) -> httpx2.URL:
    """Return a URL to which requests can be sent.

    Raises `ValueError`. Its message does not quote the URL, which may contain a secret.
    """
    if len(text) > ADDRESS_LENGTH:
        raise ValueError(f"it has more than {ADDRESS_LENGTH} characters")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, UnicodeError):
        url = httpx2.URL()
    port = 80 if url.port is None else url.port
    if url.scheme not in ("http", "https") or not url.host or not 0 < port < 65_536:
        raise ValueError("it must look like http://host:port or https://host/path")
    return url
