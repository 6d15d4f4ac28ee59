"""What the claims of a JSON Web Token let its bearer do.

Owns: the names and shapes of the claims that are read. Must not know: signatures, where keys are.

A token says what it gives, or gives nothing: an identity provider signs tokens for all who log in
there, and most of them were never meant for this gateway.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.auth.api_keys import Pattern
from gateway.auth.permissions import Permissions, Role
from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages

Short = Annotated[str, Meta(max_length=64)]


class _Claims(msgspec.Struct, frozen=True):
    role: Role
    rooms: Pattern | tuple[Pattern, ...]
    exp: float
    langs: tuple[str, ...] | None = None
    tenant: Short = ""
    sub: Annotated[str, Meta(max_length=255)] = ""


def home(token: str) -> str | None:
    """The one room that a token names, whoever signed it: good to guess by, and not to let in."""
    try:
        body = token.split(".")[1]
        claims = msgspec.json.decode(urlsafe_b64decode(body + "=="), type=dict[str, Any])
        return granted(claims).home
    except (IndexError, ValueError, ClientFault):  # msgspec's and base64's are ValueErrors
        return None


def granted(claims: Mapping[str, Any]) -> Permissions:
    """The grant of a token whose signature was found good. Raises `ClientFault`.

    ``role`` and ``rooms`` (a name, or a list) have to be there; ``langs``, ``tenant`` and ``sub``
    may be.
    """
    try:
        found = msgspec.convert(claims, _Claims)
        langs = None if found.langs is None else tuple(map(languages.normalise, found.langs))
    except (msgspec.ValidationError, ClientFault) as exc:
        raise ClientFault(
            ErrorCode.UNAUTHENTICATED,
            f"The claims of the token do not say what it is for: {exc}.",
            'They need "role" (view, speak or moderate) and "rooms" (a name, or a list).',
        ) from exc
    rooms = (found.rooms,) if isinstance(found.rooms, str) else found.rooms
    return Permissions(
        name=found.sub[:64],
        tenant=found.tenant,
        role=found.role,
        rooms=rooms,
        langs=langs,
        until=found.exp,
    )
