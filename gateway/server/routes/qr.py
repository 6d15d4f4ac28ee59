"""How people come into a room: the QR code of the page on which one joins.

Owns: the picture, and the address in it. Must not know: rooms; a meeting is joined before it is
opened, too.
"""

from __future__ import annotations

import asyncio
import io
from functools import lru_cache
from urllib.parse import quote, urlencode

import segno
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.handshake import bearer_token, is_room_name
from gateway.settings.catalogue import loopback

TOKEN = 128
"""Characters of a token in a code: an API key has 77, and a longer one no telephone reads well."""

QUIET = 2
"""Light modules around the code. The standard wants four (ISO/IEC 18004); the page has the rest."""

HOST = 261
"""Characters of a name with its port (RFC 1035, section 2.3.4). What one draws grows with them."""
DRAWN = 256
"""Pictures that are kept: some 8 KiB each, and some 8 ms to draw."""


async def qr(request: Request) -> Response:
    """The address of a room's join page, as it was reached itself. Raises `ClientFault`.

    Who asks from this machine under an address that is this machine's alone is given the one that
    others reach, where that is known; it is in the header ``ReconnectingConnection``, too.

    A token that is shown becomes a part of it, for those who have none: where keys are configured,
    a moderator asks with a key that was made for readers. It stands behind the ``#``, which no
    server is sent.
    """
    room = request.path_params["room"]
    if not is_room_name(room):
        raise ClientFault(ErrorCode.NOT_FOUND, f"There is no room {room[:64]!r}.")
    if len(request.headers.get("host", "")) > HOST:
        raise ClientFault(
            ErrorCode.BAD_FRAME, f"No host has a name of more than {HOST} characters."
        )
    address = f"{request.base_url}join.html?{urlencode({'room': room})}"
    headers = HEADERS
    if request.app.state.base_url is not None and loopback(request.url.hostname or ""):
        address = f"{request.app.state.base_url}/join.html?{urlencode({'room': room})}"
        headers = {**HEADERS, "link": f'<{address}>; rel="describes"'}
    token = bearer_token(request.headers.get("authorization", ""))
    if token is None:
        drawn = await asyncio.to_thread(picture, address)
    elif len(token) > TOKEN:
        raise ClientFault(ErrorCode.TOO_LONG, f"A code takes {TOKEN} characters of a token.")
    else:
        drawn = await asyncio.to_thread(draw, f"{address}#key={quote(token)}")
    return Response(drawn, headers=headers, media_type="image/svg+xml")


@lru_cache(maxsize=DRAWN)
def picture(address: str) -> bytes:
    """`draw`, kept. An address with a token in it is not."""
    return draw(address)


def draw(address: str) -> bytes:
    """A QR code as SVG, black on white in every theme: some cameras read no other.

    Error correction M: a fingerprint or a glare may cover an eighth of it.
    """
    svg = io.BytesIO()
    code = segno.make_qr(address, error="m")
    code.save(svg, kind="svg", border=QUIET, xmldecl=False, omitsize=True, light="#fff")
    return svg.getvalue()


HEADERS = {"cache-control": "no-store"}

ROUTES = (Route("/v1/rooms/{room}/qr.svg", qr),)
