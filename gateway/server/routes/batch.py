"""The translation of several texts for one HTTP request.

Owns: the sessions of the texts, and their end if one of them fails. Must not know: the API that the
request is of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace
from starlette.requests import Request

from gateway.auth.permissions import Permissions
from gateway.errors import ClientFault, ErrorCode
from gateway.server.routes.api import begin, while_connected
from gateway.server.routes.oneshot import OneShot, OneShotRequest

MOST = 50
"""Most texts of one request."""

LONG = 1_000
"""Characters from which a text is long: to read one may take a tenth of a second. Short texts are
read in one turn of the event loop, so that few sessions are open that have nothing to do."""


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
    request: Request, texts: Sequence[str], wanted: OneShotRequest, permissions: Permissions
) -> list[TranslatedText]:
    """Return the translations of texts, in order. Raises `GatewayError` if one of them fails.

    A text without a word is answered with itself. With ``auto`` the language of each text is
    detected by itself; a text that is too short for that counts as in that of the whole batch.

    :param wanted: what is asked for; its ``text`` is ignored
    """
    wanted = replace(wanted, sample="\n".join(texts))
    shots: dict[int, OneShot] = {}
    try:
        for i, text in enumerate(texts):
            if len(text) > LONG:
                await asyncio.sleep(0)  # others have their turn in between
            try:
                shots[i] = begin(request, replace(wanted, text=text), permissions)
            except ClientFault as fault:
                if fault.code is not ErrorCode.EMPTY_TEXT:
                    raise
        made = await while_connected(request, [shot.finals() for shot in shots.values()])
        finals = dict(zip(shots, made, strict=True))
    finally:
        for shot in shots.values():  # if one text is refused, those before it have sessions
            shot.close()
    return [
        TranslatedText(shots[i].join(finals[i]), shots[i].source, shots[i].confidence)
        if i in shots
        else TranslatedText(text)
        for i, text in enumerate(texts)
    ]
