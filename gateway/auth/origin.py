"""Checks of the headers ``Origin`` and ``Host``.

Owns: the rules for these two headers. Must not know: requests, sockets.

A browser lets any page open a WebSocket to any server, and only sends the page's origin along
(RFC 6455 section 10.2). So a page is let in if it came from the same host or is listed. Programs
send no ``Origin`` and are always let in.

A gateway without keys needs a second check. The owner of a domain can point it at 127.0.0.1 after
a page was loaded from there ("DNS rebinding"), and then page and gateway have the same origin. But
such a page has to use its own domain as the host name. So the gateway only answers to addresses,
``localhost`` and names that the operator has listed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from gateway.errors import ClientFault, ErrorCode

ANY = "*"
"""Entry of a list that allows everything."""

_PORTS = {"http": 80, "https": 443}
_LOCAL = frozenset(("localhost",))


class AllowedOrigins:
    """Origins whose pages are let in, besides the gateway's own pages."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        """Create a list. Raises `ValueError` if an entry is not an origin.

        :param origins: such as ``https://meet.example``; ``null``; ``*`` for all
        """
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
        self._listed = _LOCAL | {host.lower() for host in hosts}

    def check(self, host: str | None) -> None:
        """Raise `ClientFault` (``forbidden``) if the header ``Host`` has another name."""
        # HTTP/1.0 clients may leave it out. Browsers always send it, and only they are tricked.
        if not host or ANY in self._listed:
            return
        name, _ = _split(host)
        if name in self._listed or _address(name):
            return
        raise ClientFault(
            ErrorCode.FORBIDDEN,
            f"This gateway does not answer to the name {host[:128]!r}.",
            "Use its address, or list the name in the setting `hosts`.",
        )


def _same(origin: str, host: str | None) -> bool:
    """Tell whether a page came from ``host``."""
    # The scheme is that of ``origin``: behind a proxy that ends TLS no other is known.
    if host is None:
        return False
    try:
        page = urlsplit(origin)
        port = page.port or _PORTS.get(page.scheme)
    except ValueError:
        return False
    name, given = _split(host)
    # Only http and https pages have a host that can be compared.
    if port is None or page.scheme not in _PORTS:
        return False
    return page.hostname == name and port == (given or _PORTS[page.scheme])


def _split(host: str) -> tuple[str, int | None]:
    """Return name and port of a header ``Host``; an empty name if it is invalid."""
    try:
        parts: SplitResult = urlsplit(f"//{host}")
        return (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return "", None


def _address(name: str) -> bool:
    """Tell whether a host name is an IP address, which DNS rebinding cannot produce."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _origin(text: str) -> str:
    """Return an origin in lower case. Raises `ValueError` if it is none."""
    # Browsers send `null` for sandboxed pages and local files.
    if text in (ANY, "null"):
        return text
    scheme, colon, rest = text.lower().partition("://")
    if not colon or not scheme or not rest or set(rest) & set("/?#@ "):
        raise ValueError(f"{text!r} is not an origin, such as https://meet.example")
    return f"{scheme}://{rest}"
