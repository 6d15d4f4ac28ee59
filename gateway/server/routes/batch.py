"""The translation of several texts for one HTTP request of another service's API.

Owns: what those APIs have in common. Must not know: the API that the request is of.
"""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, ErrorCode
from gateway.server.routes.api import begin, while_connected
from gateway.server.routes.oneshot import OneShotRequest

MOST = 50
"""Most texts of one request."""


class TranslatedText(NamedTuple):
    """One text of a batch. ``source`` is None if there was nothing to translate."""

    text: str
    source: str | None = None
    confidence: float = 0.0


def only_plain_text(field: str) -> ClientFault:
    """Return the fault of a request for the translation of HTML or XML.

    :param field: the field of the request that asks for it
    """
    return ClientFault(
        ErrorCode.BAD_FRAME,
        f'This gateway translates plain text only, so "{field}" cannot ask for HTML or XML.',
        f'Take the texts out of the markup, and leave "{field}" out.',
    )


async def translate_batch(
    request: Request, asked: OneShotRequest, permissions: Permissions
) -> list[TranslatedText]:
    """Return the translations of texts, in order. Raises `GatewayError` if one of them fails.

    A text without a word is answered with itself. With ``auto`` the language of each text is
    detected by itself; a text that is too short for that counts as in that of the whole batch.
    """
    if not any(map(str.strip, asked.texts)):
        return [TranslatedText(text) for text in asked.texts]
    shot = await begin(request, asked, permissions)
    made = shot.join(await while_connected(request, shot.finals()))
    return [
        TranslatedText(text, passage.source or None, passage.confidence)
        for text, passage in zip(made, shot.passages, strict=True)
    ]
