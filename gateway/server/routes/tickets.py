"""The HTTP route that creates tickets for browsers.

Owns: what a ticket can be asked for. Must not know: how a ticket is encoded, where it is accepted.
The server of a web page asks for one with its key, so that the page never sees the key.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions, Role
from gateway.auth.signed_tokens import TICKET_S
from gateway.protocol.handshake import ROOM_PATTERN, is_room_name
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.guarded_route import POST, GuardedRoute, Right
from gateway.server.routes.api import reply
from gateway.server.routes.body import read
from gateway.text import languages


class TicketRequest(msgspec.Struct, frozen=True):
    """The body of ``POST /v1/tickets``.

    ``to``: languages that the ticket allows to read, separated by commas; without it, all.
    """

    EXAMPLE: ClassVar = '{"room":"demo","role":"view","to":"de,fr"}'
    # `Meta(pattern=...)` would let a line break pass behind the name: Python's `$` does.
    room: Annotated[str, Meta(extra_json_schema={"pattern": ROOM_PATTERN})]
    role: Role = Role.VIEW
    to: str | None = None

    def __post_init__(self) -> None:
        if not is_room_name(self.room):
            raise ValueError("`room` is not 1 to 64 letters, digits, '-' or '_'")


async def mint(request: Request, permissions: Permissions) -> Response:
    """Answer with a ticket that has no more permissions than the key of the request."""
    authenticator: Authenticator = request.app.state.authenticator
    asked = await read(request, TicketRequest)
    permissions.check_role(asked.role)
    permissions.check_room(asked.room)
    # A ticket without languages keeps the restriction of the key, if the key has one.
    langs = permissions.langs
    if asked.to is not None:
        langs = languages.listed(asked.to) or (languages.normalise(asked.to),)  # it raises
        permissions.check_languages(langs)
    permissions = replace(permissions, role=asked.role, rooms=(asked.room,), langs=langs)
    body = {"ticket": authenticator.mint_ticket(permissions), "expires_s": TICKET_S}
    # A ticket is a secret: no proxy may store it.
    return reply(body, headers={"cache-control": "no-store"})


# The role and the room that the ticket is for are in the body.
ROUTES = (GuardedRoute("/v1/tickets", mint, Right(Role.VIEW), methods=POST),)
