"""Permissions from the claims of a JSON Web Token (RFC 7519).

Owns: the names and types of the claims that are read. Must not know: signatures, the keys of
issuers.

A token must state role and rooms. Others are refused, because an identity provider signs tokens for
everybody who logs in there, and most of them were never meant for this gateway.
"""

from __future__ import annotations

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
    langs: Annotated[tuple[str, ...], Meta(max_length=languages.MAX_TAGS)] | None = None
    tenant: Short = ""
    sub: Annotated[str, Meta(max_length=255)] = ""


def permissions_of(claims: Mapping[str, Any]) -> Permissions:
    """Return the permissions of a token whose signature is valid.

    ``role``, ``rooms`` (a name, or a list) and ``exp`` are required; ``langs``, ``tenant`` and
    ``sub`` are optional. Raises `ClientFault` (``unauthenticated``) for other claims.
    """
    try:
        found = msgspec.convert(claims, _Claims)
        langs = None if found.langs is None else tuple(map(languages.normalise, found.langs))
    except (msgspec.ValidationError, ClientFault) as exc:
        raise ClientFault(
            ErrorCode.UNAUTHENTICATED,
            f"The claims of the token do not give permissions: {exc}.",
            'Required are "role" (view, speak or moderate) and "rooms" (a name, or a list).',
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
