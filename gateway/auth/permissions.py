"""What somebody who connects may do here.

Owns: the rights of a caller, once it is known who it is, and the refusal of what goes beyond them.
Must not know: keys, tokens, how anybody proves anything.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages


class Role(enum.StrEnum):
    """What a socket may do. Each may also read."""

    VIEW = "view"
    SPEAK = "speak"
    MODERATE = "moderate"


RANKS = (Role.VIEW, Role.SPEAK, Role.MODERATE)
"""Each may do what the ones before it may."""


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What all sockets of one tenant together may use; None: nothing but the gateway's limits."""

    sessions: int | None = None
    """Open sockets."""
    inflight: int | None = None
    """Utterances that have not ended."""
    minute: int | None = None
    """Utterances begun within a minute."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Rights, as a key or a token gave them. The default is everything: nobody is asked.

    ``name``    of the key, or the subject of the token; "" where nobody was asked
    ``key``     id of the key it rests on, without which it is worth nothing; "" for none
    ``tenant``  whose quota and whose share of the engine it uses
    ``role``    the most it may be
    ``rooms``   names, with ``*`` and ``?``; ``~*`` are rooms of one's own, that have no name
    ``langs``   languages it may read, as canonical tags; None: all
    ``until``   seconds of the Unix clock; None: for ever
    """

    name: str = ""
    key: str = ""
    tenant: str = ""
    role: Role = Role.MODERATE
    rooms: tuple[str, ...] = ("*",)
    langs: tuple[str, ...] | None = None
    until: float | None = None
    quota: Quota = Quota()

    @property
    def usual(self) -> Role:
        """The role of a socket that names none."""
        return min(Role.SPEAK, self.role, key=RANKS.index)

    @property
    def home(self) -> str | None:
        """The room of a socket that names none, where the grant is for one alone."""
        (room, *more) = self.rooms or ("*",)
        return None if more or {"*", "?"} & set(room) else room

    def be(self, role: Role) -> None:
        """Raises `ClientFault` (``forbidden``) for a role beyond its own."""
        if RANKS.index(role) > RANKS.index(self.role):
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"This key lets you {self.role.value}, not {role.value}.",
                f"Ask for one that does, or stay with role={self.role.value}.",
            )

    def within(self, other: Permissions) -> Permissions:
        """What is left of this grant where it cannot go beyond ``other``."""
        langs = self.langs if other.langs is None else other.langs
        if self.langs is not None:
            langs = tuple(lang for lang in self.langs if other.reads(lang))
        ends = [until for until in (self.until, other.until) if until is not None]
        return msgspec.structs.replace(
            self,
            role=min(self.role, other.role, key=RANKS.index),
            rooms=tuple(room for room in self.rooms if _opens(other.rooms, room)),
            langs=langs,
            until=min(ends, default=None),
            quota=other.quota,
        )

    def enter(self, room: str) -> None:
        """Raises `ClientFault` (``forbidden``) for a room that is not its own."""
        if not any(fnmatchcase(room, pattern) for pattern in self.rooms):
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                "This key does not open a room of your own."
                if room.startswith("~")
                else f"This key does not open the room {room[:64]!r}.",
                "It opens: " + (", ".join(self.rooms[:5]) or "none") + ".",
            )

    def reads(self, lang: str) -> bool:
        """Whether a canonical tag is one of its languages, or is served by one of them."""
        return self.langs is None or languages.match(lang, self.langs) is not None

    def read(self, langs: Iterable[str]) -> None:
        """Raises `ClientFault` (``forbidden``) for a language that is not among its own."""
        beyond = [lang for lang in langs if not self.reads(lang)]
        if beyond:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"This key does not let you read {beyond[0][:32]!r}.",
                "It lets you read: " + ", ".join(self.langs or ()) + ".",
            )


def _opens(patterns: Iterable[str], room: str) -> bool:
    """Whether every room that ``room`` means, itself a name or a pattern, is among those."""
    if "*" in patterns or room in patterns:
        return True
    return not {"*", "?"} & set(room) and any(fnmatchcase(room, one) for one in patterns)


EVERYTHING = Permissions()
"""Of everybody, where no keys are configured."""
