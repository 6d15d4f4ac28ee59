"""A client's request to connect, and the token with which it can resume its session.

Owns: the fields of both, and the kind of the token. Must not know: queries, sockets, rooms, clocks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.auth.signed_tokens import Signer
from gateway.core.base import validation
from gateway.core.history.event_log import StreamPosition
from gateway.errors import ClientFault
from gateway.protocol.codec import Codec
from gateway.protocol.messages import PRIVATE, Set, View

RESUME = "resume"
"""Kind of a token that states a `ResumePoint`."""

Renew = Callable[[str], Permissions]
"""Returns the permissions that a key or a token gives. Raises `ClientFault`."""


class ResumePoint(msgspec.Struct, frozen=True, array_like=True):
    """The session that a resume token allows a socket to continue. ``permissions`` is None if
    everything is permitted. ``attempt`` is that of the socket that was given the token.
    """

    session: str
    room: str
    role: Role
    source: str | None
    targets: tuple[str, ...]
    view: View
    speaker: str | None
    permissions: Permissions | None = None
    attempt: int = 0


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a client that connects. Languages are as the client wrote them.

    ``session``   id of the session to continue
    ``since``     how far the client of that session had come
    ``attempt``   number of the client's attempt to come back
    ``numbered``  whether the client numbers its attempts
    ``once``      whether nobody will come back to the session: it serves a single request
    ``renew``     checks the keys that the client presents later; None if none are needed
    """

    session: str | None = None
    attempt: int = 0
    numbered: bool = False
    since: StreamPosition | None = None
    once: bool = False
    room: str | None = None
    role: Role = Role.SPEAK
    source: str | None = None
    targets: tuple[str, ...] = ()
    view: View = "live"
    speaker: str | None = None
    codec: Codec = Codec.JSON
    permissions: Permissions = EVERYTHING
    renew: Renew | None = None

    def check(self) -> None:
        """Check the request and its permissions. Raises `ClientFault`: ``forbidden``, or
        ``bad_frame`` for a name that is too long.
        """
        validation.cleaned(Set(speaker=self.speaker), 0)
        self.permissions.check_role(self.role)
        self.permissions.check_room(PRIVATE if self.room is None else self.room)

    def token(self, signer: Signer, session: str, room: str, most: int, until: float) -> str:
        """Return a token with which another socket can continue a session in a room.

        :param most: languages that one socket may read; the token names at most one more, which is
            refused as too many, so that its size is bounded
        :param until: end of validity in seconds since 1970; permissions have an end of their own
        """
        point = ResumePoint(
            session,
            room,
            self.role,
            self.source,
            self.targets[: most + 1],
            self.view,
            self.speaker,
            None if self.permissions is EVERYTHING else self.permissions,
            self.attempt,
        )
        return signer.sign(RESUME, point, until)


def recognise(
    signer: Signer, token: str | None, room: str | None, now: float
) -> ResumePoint | None:
    """Return the point that a resume token states, unless it is in another room than ``room``, at a
    time of the Unix clock.

    Raises `ClientFault` (``unauthenticated``) if the token is not valid and ``room`` is None, since
    the room is then unknown.
    """
    if not token:
        return None
    try:
        point = signer.read(RESUME, token, ResumePoint, now)
    except ClientFault:
        if room is None:
            raise
        return None
    return point if room in (None, point.room) else None
