"""The translation of several texts for one HTTP request of another service's API.

Owns: what those APIs have in common. Must not know: the API that the request is of.
"""

from __future__ import annotations

from starlette.requests import Request

from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, bad_frame
from gateway.server.routes.api import begin, while_connected
from gateway.server.routes.oneshot import OneShotRequest, Passage

MOST = 50
"""Most texts of one request."""


def only_plain_text(field: str) -> ClientFault:
    """Return the fault of a request whose ``field`` asks for the translation of HTML or XML."""
    return bad_frame(
        f'This gateway translates plain text only, so "{field}" cannot ask for HTML or XML.',
        f'Take the texts out of the markup, and leave "{field}" out.',
    )


async def translate_batch(
    request: Request, asked: OneShotRequest, permissions: Permissions
) -> list[tuple[str, Passage]]:
    """Return the translation of each text, and the text itself with its language. Raises
    `GatewayError` if one of them fails.

    A text without a word is answered with itself. With ``auto`` the language of each text is
    detected by itself; a text that is too short for that counts as in that of the whole batch.
    """
    if not any(map(str.strip, asked.texts)):
        return [(text, Passage(text)) for text in asked.texts]
    shot = await begin(request, asked, permissions)
    made = shot.join(await while_connected(request, shot.finals()))
    return list(zip(made, shot.passages, strict=True))
