"""The constants of the handshake: the socket's path, names of rooms, tokens in headers.

Owns: what a client and the gateway must spell alike before the first frame. Must not know: whether
a token is valid, what a room is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SOCKET_PATH = "/v1/ws"
"""Path of the WebSocket."""

BEARER_PREFIX = "gw.bearer."
"""Prefix of a sub-protocol that carries a token. Browsers cannot set the header ``Authorization``
of a WebSocket, but they can offer sub-protocols."""

_ROOM = "[A-Za-z0-9_-]{1,64}"

ROOM_PATTERN = f"^{_ROOM}$"
"""Names that a client may give to a room, as a pattern of JSON Schema."""

_room_name = re.compile(_ROOM)


def is_room_name(name: str) -> bool:
    """Tell whether a client may name a room so: 1 to 64 ASCII letters, digits, ``-`` or ``_``."""
    return _room_name.fullmatch(name) is not None


def bearer_token(authorization: str) -> str | None:
    """Return the token in the value of a header ``Authorization``, or None (RFC 6750, 2.1)."""
    scheme, _, token = authorization.partition(" ")
    # The name of a scheme is case-insensitive (RFC 9110, section 11.1).
    return token.strip() or None if scheme.lower() == "bearer" else None


def offered_tokens(subprotocols: Iterable[str]) -> list[str]:
    """Return the offered sub-protocols that carry a token, with their prefix."""
    return [name for name in subprotocols if name.startswith(BEARER_PREFIX)]


def offered_token(subprotocols: Iterable[str]) -> str | None:
    """Return the token of the first offered sub-protocol that carries one, or None."""
    tokens = offered_tokens(subprotocols)
    return tokens[0].removeprefix(BEARER_PREFIX) if tokens else None
