"""The process that a request belongs to.

Owns: what in the head of a request names a room, and which process has a room. Must not know:
processes, sockets, whether a token is valid.

A room lives in one process, and everybody in it has to be connected to that one. The processes
agree without asking each other: a room belongs to the process whose number, hashed together with
its name, gives the highest value (rendezvous hashing; Thaler and Ravishankar 1998). If a process
is gone for good, only its own rooms move.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from gateway.protocol.handshake import SOCKET_PATH, bearer_token, is_room_name, offered_token

_ROOM_PATH = re.compile(r"/v1/rooms/([^/]+)(?:/.*)?")
_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class RoomHint(NamedTuple):
    """Parts of a request that tell its room. The first one that tells it counts.

    ``room`` is the name, ``resume`` a token of an earlier socket. ``bearer`` and ``ticket`` are the
    request's credentials; either may be limited to one room.
    """

    room: str | None = None
    resume: str | None = None
    bearer: str | None = None
    ticket: str | None = None


def owner(room: str, members: Collection[int]) -> int:
    """Return the process that has a room.

    :param members: numbers of the processes, at least one
    """
    return max(members, key=lambda member: (_weight(room, member), member))


def room_hint(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> RoomHint | None:
    """Return what the head of a request tells of its room; None if any process can answer.

    :param target: request target, as it stands in the request line
    :param headers: names are in lower case
    """
    text = _ORIGIN.sub("", target.decode("latin-1"), count=1)
    raw, _, query = text.partition("#")[0].partition("?")
    path = unquote(raw)
    if path != SOCKET_PATH:
        found = _ROOM_PATH.fullmatch(path)
        return RoomHint(room=found[1]) if found and is_room_name(found[1]) else None
    # As Starlette reads a query: the last of several values counts.
    fields = dict(parse_qsl(query, keep_blank_values=True))
    room = fields.get("room")
    if room is not None:
        # Any process can refuse a wrong name.
        return RoomHint(room=room) if is_room_name(room) else None
    return RoomHint(
        resume=fields.get("resume") or None,
        bearer=_bearer(headers),
        ticket=fields.get("ticket") or None,
    )


def _bearer(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the token of the authorization header, else of a sub-protocol."""
    offered = None
    for name, value in headers:
        text = value.decode("latin-1")
        if name == b"authorization":
            token = bearer_token(text)
            if token is not None:
                return token
        elif name == b"sec-websocket-protocol" and offered is None:
            # Browsers cannot set headers of a WebSocket, but they can name sub-protocols.
            offered = offered_token(one.strip() for one in text.split(","))
    return offered


def _weight(room: str, member: int) -> bytes:
    return hashlib.blake2b(f"{member}/{room}".encode(), digest_size=8).digest()
