"""A ticket for a browser, over HTTP.

Owns: what a ticket may be asked for. Must not know: what it looks like, who takes it.

Whoever runs a page asks for it with a key of its own, and hands it to the page.
"""

from __future__ import annotations

from typing import Annotated

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
from gateway.server.routes.api import EXAMPLE, allowed, read, reply
from gateway.text import languages


class TicketRequest(msgspec.Struct, frozen=True):
    """Body of ``POST /v1/tickets``. ``to`` are languages, separated by commas; without it all."""

    room: Annotated[str, Meta(pattern=ROOM_PATTERN)]
    role: Role = Role.VIEW
    to: str | None = None


EXAMPLE[TicketRequest] = '{"room":"demo","role":"view","to":"de,fr"}'


async def mint(request: Request) -> Response:
    """``{"ticket", "expires_s"}``, worth no more than the key with which it is asked for."""
    authenticator: Authenticator = request.app.state.authenticator
    wanted = await read(request, TicketRequest)
    grant = await allowed(request, wanted.role, wanted.room)
    langs = grant.langs
    if wanted.to is not None:
        langs = tuple(languages.normalise(tag) for tag in wanted.to.split(","))
        grant.read(langs)
    worth = replace(grant, role=wanted.role, rooms=(wanted.room,), langs=langs)
    body = {"ticket": authenticator.mint_ticket(worth), "expires_s": TICKET_S}
    return reply(body, headers={"cache-control": "no-store"})


ROUTES = (Route("/v1/tickets", mint, methods=["POST"]),)
