"""What a client asks for when it connects, and what it is given to take the same place again.

Owns: what a seat and a place are made of, and the kind of the token that states a place. Must not
know: queries, sockets, rooms, clocks.
"""

from __future__ import annotations

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.auth.signing import Signer
from gateway.core.event_log import StreamPosition
from gateway.core.session import Renew
from gateway.errors import ClientFault
from gateway.protocol.codec import Codec
from gateway.protocol.messages import PRIVATE, View

RESUME = "resume"
"""The kind of a token that states a `ResumePlace`."""


class ResumePlace(msgspec.Struct, frozen=True, array_like=True):
    """What a resume token states: whose place a socket may take.

    ``grant`` None: everything. ``attempt`` is that of the socket that was given the token.
    """

    session: str
    room: str
    role: Role
    source: str | None
    targets: tuple[str, ...]
    view: View
    speaker: str | None
    grant: Permissions | None = None
    attempt: int = 0


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asked for when it connected. Languages are as they were typed.

    ``session`` is the one whose place it takes, ``since`` how far that had come. ``attempt`` counts
    the client's attempts to come back, where it is ``numbered`` by the client. ``once`` is for a
    request that nobody will come back for.
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
    grant: Permissions = EVERYTHING
    renew: Renew | None = None

    def check(self) -> None:
        """Raises `ClientFault` (``forbidden``) where the grant does not reach as far as this."""
        self.grant.check_role(self.role)
        self.grant.check_room(PRIVATE if self.room is None else self.room)

    def token(self, signer: Signer, session: str, room: str, most: int, until: float) -> str:
        """For another socket to take this seat's place: the session in it, and its room.

        :param most: languages that may be read; more are too many, however many, so that it does
            not grow with what was typed
        :param until: seconds since 1970; its grant is looked at by itself
        """
        place = ResumePlace(
            session,
            room,
            self.role,
            self.source,
            self.targets[: most + 1],
            self.view,
            self.speaker,
            None if self.grant is EVERYTHING else self.grant,
            self.attempt,
        )
        return signer.sign(RESUME, place, until)


def recognise(
    signer: Signer, token: str | None, room: str | None, now: float
) -> ResumePlace | None:
    """The place that a resume token states, unless it is in another room than ``room``.

    Raises `ClientFault` (``unauthenticated``) where the token is not good, and without it
    nobody knows which room is meant.
    """
    if not token:
        return None
    try:
        place = signer.read(RESUME, token, ResumePlace, now)
    except ClientFault:
        if room is None:
            raise
        return None
    return place if room in (None, place.room) else None
