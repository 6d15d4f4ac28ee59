"""Which of several processes a request belongs to.

Owns: what of the head of a request names a room, and which process a room is pinned to. Must not
know: processes, sockets, whether a token is good.

A room lives in one process, and everybody who is in it has to come there. The processes agree on
which without asking each other: each room goes to the one whose hash with its name is highest
(rendezvous hashing). When one is gone for good only its own rooms get another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from gateway.protocol.handshake import SOCKET_PATH, bearer_token, is_room_name, offered_token

_PATH = re.compile(r"/v1/rooms/([^/]+)(?:/.*)?")
_ORIGIN = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class RoomHint(NamedTuple):
    """What a request says of its room: the first of these that says anything counts.

    ``room`` is its name, ``resume`` a token of somebody who was there. ``bearer`` and ``ticket``
    are what it shows to be let in; either may be good for one room alone.
    """

    room: str | None = None
    resume: str | None = None
    bearer: str | None = None
    ticket: str | None = None


def owner(room: str, members: Collection[int]) -> int:
    """The member that has the room. ``members`` are numbers of processes, at least one."""
    return max(members, key=lambda member: (_weight(room, member), member))


def asked(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> RoomHint | None:
    """What the head of a request says; None where any process will do.

    :param target: the request target, as it stands in the request line
    :param headers: with their names in lower case
    """
    text = _ORIGIN.sub("", target.decode("latin-1"), count=1)
    raw, _, query = text.partition("#")[0].partition("?")
    path = unquote(raw)
    if path != SOCKET_PATH:
        found = _PATH.fullmatch(path)
        return RoomHint(room=found[1]) if found and is_room_name(found[1]) else None
    # As Starlette reads it: of what is there twice the last counts.
    fields = dict(parse_qsl(query, keep_blank_values=True))
    room = fields.get("room")
    if room is not None:
        return RoomHint(room=room) if is_room_name(room) else None
    return RoomHint(
        resume=fields.get("resume") or None,
        bearer=_bearer(headers),
        ticket=fields.get("ticket") or None,
    )


def _bearer(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The token of a header, else of a sub-protocol."""
    offered = None
    for name, value in headers:
        text = value.decode("latin-1")
        if name == b"authorization":
            token = bearer_token(text)
            if token is not None:
                return token
        elif name == b"sec-websocket-protocol" and offered is None:
            offered = offered_token(one.strip() for one in text.split(","))
    return offered


def _weight(room: str, member: int) -> bytes:
    return hashlib.blake2b(f"{member}/{room}".encode(), digest_size=8).digest()
