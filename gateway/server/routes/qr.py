"""The QR code of a room's join page.

Owns: the picture, and the address in it. Must not know: rooms. A code is made before the meeting
begins, so that the room need not exist.
"""

from __future__ import annotations

import asyncio
import io
from functools import lru_cache
from urllib.parse import quote, urlencode

import segno
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, ErrorCode, bad_frame
from gateway.protocol.handshake import bearer_token, is_room_name
from gateway.server.access.guarded_route import PUBLIC, GuardedRoute
from gateway.server.routes.api import no_room
from gateway.settings.catalogue import loopback

TOKEN = 128
"""Most characters of a token in a code. An API key has 77; phones read larger codes badly."""
QUIET = 2
"""Light modules around the code. ISO/IEC 18004 requires four; the page's margin adds the rest."""
HOST = 261
"""Most characters of a host name with its port (RFC 1035, section 2.3.4)."""
CACHED = 256
"""Most codes that are cached. Each has about 8 KiB and takes about 8 ms to draw."""


async def qr(request: Request, _: Permissions) -> Response:
    """Answer with the QR code of a room's join page. Raises `ClientFault`."""
    room = request.path_params["room"]
    if not is_room_name(room):
        raise no_room(room)
    if len(request.headers.get("host", "")) > HOST:
        why = f"No host has a name of more than {HOST} characters."
        raise bad_frame(why)
    # The code has the address under which the request came. If no other machine reaches that one,
    # the code and the header ``Link`` have the gateway's public address instead, if it is known.
    page = f"join.html?{urlencode({'room': room})}"
    address, headers = f"{request.base_url}{page}", HEADERS
    if request.app.state.base_url is not None and loopback(request.url.hostname or ""):
        address = f"{request.app.state.base_url}/{page}"
        headers = {**HEADERS, "link": f'<{address}>; rel="describes"'}
    token = bearer_token(request.headers.get("authorization", ""))
    # A moderator requests the code with a key for readers, who have none. It stands behind the `#`,
    # which browsers do not send. Such a code is not cached: the cache would keep the secret.
    if token is None:
        svg = await asyncio.to_thread(cached, address)
    elif len(token) > TOKEN:
        raise ClientFault(ErrorCode.TOO_LONG, f"A code takes {TOKEN} characters of a token.")
    else:
        svg = await asyncio.to_thread(draw, f"{address}#key={quote(token)}")
    return Response(svg, headers=headers, media_type="image/svg+xml")


def draw(address: str) -> bytes:
    """Return a QR code as SVG. It is black on white, because some cameras read no other colours."""
    svg = io.BytesIO()
    # Error correction M restores a code of which an eighth is covered, by a glare for example.
    code = segno.make_qr(address, error="m")
    code.save(svg, kind="svg", border=QUIET, xmldecl=False, omitsize=True, light="#fff")
    return svg.getvalue()


cached = lru_cache(maxsize=CACHED)(draw)  # for addresses without a token only


HEADERS = {"cache-control": "no-store"}

ROUTES = (GuardedRoute("/v1/rooms/{room}/qr.svg", qr, PUBLIC),)
