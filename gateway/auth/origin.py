"""Which pages may talk to the gateway, and under which names it may be talked to.

Owns: the rules for the headers ``Origin`` and ``Host``. Must not know: requests, sockets.

A browser lets any page open a WebSocket to any server and send it forms, with no question asked;
it only tells the page's origin (RFC 6455 section 10.2). So a page is let in where it came from the
same host, or is on the list. Programs send no ``Origin`` and are not concerned.

Where nobody is asked for a key, that is not enough. The owner of a name can point it at 127.0.0.1
after the page was loaded ("DNS rebinding"), and then page and gateway are of one origin. What such
a page cannot do is to call the gateway by another name than its own: an address, ``localhost`` or
one that the operator has listed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from gateway.errors import ClientFault, ErrorCode

ANY = "*"

_PORTS = {"http": 80, "https": 443}
_LOCAL = frozenset(("localhost",))


class AllowedOrigins:
    """The origins whose pages are let in beside the gateway's own; ``*`` is all of them.

    Raises `ValueError` for one that is no origin: ``https://meet.example`` or ``null``.
    """

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self.listed = frozenset(map(_origin, origins))

    def check(self, origin: str | None, host: str | None) -> None:
        """Raises `ClientFault` (``forbidden``) for a page from elsewhere.

        :param host: the header of the same request
        """
        if origin is None or ANY in self.listed or _same(origin, host):
            return
        if origin.lower() not in self.listed:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Pages of {origin[:128]!r} may not use this gateway.",
                "The setting `origins` lists those that may.",
            )


class AllowedHosts:
    """The names that the gateway answers to beside addresses and ``localhost``; ``*``: any."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._listed = _LOCAL | {host.lower() for host in hosts}

    def check(self, host: str | None) -> None:
        """Raises `ClientFault` (``forbidden``) for another. Browsers always send one."""
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
    """Whether a page came from ``host``; behind a proxy only the browser knows by which scheme."""
    if host is None:
        return False
    try:
        page = urlsplit(origin)
        port = page.port or _PORTS.get(page.scheme)
    except ValueError:
        return False
    name, given = _split(host)
    if port is None or page.scheme not in _PORTS:
        return False
    return page.hostname == name and port == (given or _PORTS[page.scheme])


def _split(host: str) -> tuple[str, int | None]:
    """Name and port; an empty name for what is no ``Host``."""
    try:
        parts: SplitResult = urlsplit(f"//{host}")
        return (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return "", None


def _address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _origin(text: str) -> str:
    if text in (ANY, "null"):
        return text
    scheme, found, rest = text.lower().partition("://")
    if not found or not scheme or not rest or set(rest) & set("/?#@ "):
        raise ValueError(f"{text!r} is not an origin, such as https://meet.example")
    return f"{scheme}://{rest}"
