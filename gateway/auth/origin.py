"""Checks of the headers ``Origin`` and ``Host``.

Owns: the rules for these two headers. Must not know: requests, sockets.

A browser lets any page open a WebSocket to any server, and only sends the page's origin along
(RFC 6455 section 10.2). So a page is let in if it came from the same host or is listed. Programs
send no ``Origin`` and are always let in.

The owner of a domain can point it at 127.0.0.1 after a page was loaded from there ("DNS
rebinding"), so that page and gateway have the same origin. So a gateway without keys only answers
to addresses, ``localhost`` and names that the operator has listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.auth import client_ip
from gateway.errors import ClientFault, ErrorCode

ANY = "*"
"""Entry of a list that allows everything."""

_PORTS = {"http": 80, "https": 443}


class AllowedOrigins:
    """Origins whose pages are let in, besides the gateway's own pages."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        """Create a list, such as ``https://meet.example``, ``null``, ``*``. Raises `ValueError`."""
        self.listed = frozenset(map(_origin, origins))

    def check(self, origin: str | None, host: str | None) -> None:
        """Raise `ClientFault` (``forbidden``) if a page of this origin may not use the gateway.

        :param origin: header ``Origin``; None for a program
        :param host: header ``Host`` of the same request
        """
        if origin is None or ANY in self.listed or _same(origin, host):
            return
        if origin.lower() not in self.listed:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Pages of {origin[:128]!r} may not use this gateway.",
                "The setting `origins` lists the pages that may.",
            )


class AllowedHosts:
    """Host names that the gateway answers to, besides addresses and ``localhost``."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        """Create a list; ``*`` allows all names."""
        self._listed = {"localhost", *map(str.lower, hosts)}

    def check(self, host: str | None) -> None:
        """Raise `ClientFault` (``forbidden``) if the header ``Host`` has another name."""
        # HTTP/1.0 clients may leave it out. Browsers always send it, and only they are tricked.
        if not host or ANY in self._listed:
            return
        name, _ = _split(host)
        # DNS rebinding cannot produce an address.
        if name not in self._listed and client_ip.parsed(name) is None:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"This gateway does not answer to the name {host[:128]!r}.",
                "Use its address, or list the name in the setting `hosts`.",
            )


def _same(origin: str, host: str | None) -> bool:
    name, port = _split(host or "")
    try:
        page = urlsplit(origin)
        # The scheme is that of ``origin``: behind a proxy that ends TLS no other is known.
        usual = _PORTS[page.scheme]
        return page.hostname == name and (page.port or usual) == (port or usual)
    except (KeyError, ValueError):  # only http and https pages have a host to compare
        return False


def _split(host: str) -> tuple[str, int | None]:
    """Return name and port of a header ``Host``; an empty name if it is invalid."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return "", None


def _origin(text: str) -> str:
    """Return an origin in lower case. Raises `ValueError` if it is none."""
    # Browsers send `null` for sandboxed pages and local files.
    if text in (ANY, "null"):
        return text
    scheme, colon, rest = text.lower().partition("://")
    if not colon or not scheme or not rest or set(rest) & set("/?#@ "):
        raise ValueError(f"{text!r} is not an origin, such as https://meet.example")
    return f"{scheme}://{rest}"
