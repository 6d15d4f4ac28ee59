"""Permissions of callers, also from the claims of a JSON Web Token (RFC 7519).

Owns: the rights of a caller once it is authenticated, the errors for what it may not do, and the
claims that are read. Must not know: keys, signatures, how callers authenticate.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages

Pattern = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_~*?-]+\Z")]
"""A room's name, or a pattern of names with ``*`` and ``?``."""


WILD = frozenset("*?")
"""The signs of a pattern that stand for others."""


class Role(enum.StrEnum):
    """Role of a socket in a room. Every role may read."""

    VIEW = "view"
    SPEAK = "speak"
    MODERATE = "moderate"


RANKS = tuple(Role)
"""Roles in ascending order: each may do everything that those before it may."""


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of all sockets of one tenant together. None: only those of the gateway apply."""

    sessions: int | None = None  # number of open sockets
    inflight: int | None = None  # number of unfinished utterances
    minute: int | None = None  # number of utterances begun within a minute


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions from a key or a token. The default allows everything, for gateways without keys.

    Resume tokens and tickets carry them, so the names of the fields must not change.
    """

    name: str = ""
    """Name of the key or subject of the token, "" without either."""
    key: str = ""
    """ID of the key that gave the permissions. They end with the key. "" for none."""
    tenant: str = ""
    """Tenant whose quota and share of the engine are used."""
    role: Role = Role.MODERATE
    """Highest role."""
    rooms: tuple[str, ...] = ("*",)
    """Names or patterns with ``*`` and ``?``. ``~*`` are private rooms, which have no name."""
    langs: tuple[str, ...] | None = None
    """Canonical tags of the languages that may be read; None for all."""
    until: float | None = None
    """Expiry in seconds of the Unix clock; None for no expiry."""
    quota: Quota = Quota()

    @property
    def default_role(self) -> Role:
        """Role of a socket that names none."""
        return min(Role.SPEAK, self.role, key=RANKS.index)

    @property
    def only_room(self) -> str | None:
        """Room of a socket that names none, if the permissions are for exactly one room."""
        # Without any room there is none to choose, as with a pattern.
        (room, *more) = self.rooms or ("*",)
        return None if more or not WILD.isdisjoint(room) else room

    def check_role(self, role: Role) -> None:
        """Raise `ClientFault` (``forbidden``) if ``role`` is higher than allowed."""
        if RANKS.index(role) > RANKS.index(self.role):
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"This key allows the role {self.role.value}, not {role.value}.",
                f"Ask for a key that does, or use role={self.role.value}.",
            )

    def limited_to(self, other: Permissions) -> Permissions:
        """Return permissions for all that both these and ``other`` allow, with its quota."""
        # None means all languages, so the other side decides.
        langs = self.langs if other.langs is None else other.langs
        if self.langs is not None:
            langs = tuple(lang for lang in self.langs if other.can_read(lang))
        # What ends first ends the whole.
        ends = [until for until in (self.until, other.until) if until is not None]
        return msgspec.structs.replace(
            self,
            role=min(self.role, other.role, key=RANKS.index),
            rooms=tuple(room for room in self.rooms if _covers(other.rooms, room)),
            langs=langs,
            until=min(ends, default=None),
            quota=other.quota,
        )

    def check_room(self, room: str) -> None:
        """Raise `ClientFault` (``forbidden``) if ``room`` is not allowed."""
        if not _covers(self.rooms, room):
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                "This key does not allow a private room."
                if room.startswith("~")
                else f"This key does not allow the room {room[:64]!r}.",
                "It allows: " + (", ".join(self.rooms[:5]) or "none") + ".",
            )

    def can_read(self, lang: str) -> bool:
        """Tell whether a language may be read, itself or as one that matches an allowed one."""
        return self.langs is None or languages.match(lang, self.langs) is not None

    def check_languages(self, langs: Iterable[str]) -> None:
        """Raise `ClientFault` (``forbidden``) if one of ``langs`` may not be read."""
        forbidden = [lang for lang in langs if not self.can_read(lang)]
        if forbidden:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"This key does not allow reading {forbidden[0][:32]!r}.",
                "It allows: " + ", ".join(self.langs or ()) + ".",
            )


def _covers(patterns: Iterable[str], room: str) -> bool:
    """Tell whether ``patterns`` allow every room that ``room``, a name or a pattern, means."""
    if "*" in patterns or room in patterns:
        return True
    # A pattern is covered only by itself or by ``*``: comparing two patterns is not worth the code.
    # `fnmatch` would keep 32,768 compiled patterns, 55 MB of rooms that somebody has had a ticket
    # for. `re` keeps 512.
    return WILD.isdisjoint(room) and any(
        not WILD.isdisjoint(pattern) and re.match(translate(pattern), room) is not None
        for pattern in patterns
    )


EVERYTHING = Permissions()
"""Permissions of everybody if no keys are configured."""


class Claims(msgspec.Struct, frozen=True):
    """Claims of a JSON Web Token that are read."""

    role: Role
    rooms: Pattern | tuple[Pattern, ...]
    exp: float
    langs: Annotated[tuple[str, ...], Meta(max_length=languages.MAX_TAGS)] | None = None
    tenant: Annotated[str, Meta(max_length=64)] = ""
    sub: Annotated[str, Meta(max_length=255)] = ""


def permissions_of(claims: Mapping[str, Any]) -> Permissions:
    """Return the permissions of a token whose signature is valid.

    ``role``, ``rooms`` (a name, or a list) and ``exp`` are required; ``langs``, ``tenant`` and
    ``sub`` are optional. Raises `ClientFault` (``unauthenticated``) for other claims.
    """
    # An identity provider signs tokens for everybody who logs in there, and most of them were never
    # meant for this gateway. So a token has to state role and rooms.
    try:
        stated = msgspec.convert(claims, Claims)
        langs = None if stated.langs is None else tuple(map(languages.normalise, stated.langs))
    except (msgspec.ValidationError, ClientFault) as exc:
        raise ClientFault(
            ErrorCode.UNAUTHENTICATED,
            f"The claims of the token do not give permissions: {exc}.",
            'Required are "role" (view, speak or moderate) and "rooms" (a name, or a list).',
        ) from exc
    rooms = (stated.rooms,) if isinstance(stated.rooms, str) else stated.rooms
    return Permissions(
        name=stated.sub[:64],
        tenant=stated.tenant,
        role=stated.role,
        rooms=rooms,
        langs=langs,
        until=stated.exp,
    )
