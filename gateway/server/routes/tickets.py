"""The HTTP route that creates tickets for browsers.

Owns: what a ticket can be asked for. Must not know: how a ticket is encoded, where it is accepted.

The server of a web page requests a ticket with its own key and passes it to the page, which never
sees the key.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth.permissions import Role
from gateway.auth.tickets import TICKET_S
from gateway.protocol.handshake import ROOM_PATTERN
from gateway.server.access.authenticator import Authenticator
from gateway.server.routes.api import allowed, reply
from gateway.server.routes.body import read
from gateway.text import languages


class TicketRequest(msgspec.Struct, frozen=True):
    """The body of ``POST /v1/tickets``.

    ``to``: languages that the ticket allows to read, separated by commas; without it, all.
    """

    EXAMPLE: ClassVar = '{"room":"demo","role":"view","to":"de,fr"}'
    room: Annotated[str, Meta(pattern=ROOM_PATTERN)]
    role: Role = Role.VIEW
    to: str | None = None


async def mint(request: Request) -> Response:
    """Answer with a ticket that has no more permissions than the key of the request."""
    authenticator: Authenticator = request.app.state.authenticator
    asked = await read(request, TicketRequest)
    permissions = await allowed(request, asked.role, asked.room)
    # A ticket without languages keeps the restriction of the key, if the key has one.
    langs = permissions.langs
    if asked.to is not None:
        langs = tuple(languages.normalise(tag) for tag in asked.to.split(","))
        permissions.check_languages(langs)
    permissions = replace(permissions, role=asked.role, rooms=(asked.room,), langs=langs)
    body = {"ticket": authenticator.mint_ticket(permissions), "expires_s": TICKET_S}
    # A ticket is a secret: no proxy may store it.
    return reply(body, headers={"cache-control": "no-store"})


ROUTES = (Route("/v1/tickets", mint, methods=["POST"]),)
