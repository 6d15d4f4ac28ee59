"""API keys: what one looks like, what is kept of it, and what it lets its bearer do.

Owns: the text of a key, the file of keys, and the look-up of one. Must not know: files, sockets,
who asks.

A key is ``gwk_ID_SECRET``. It is found by its ID and known by the SHA-256 of its SECRET, compared
in constant time; the secret itself is nowhere. It is 32 random bytes: a slow hash makes guessing
dear where people choose the secret, and nobody guesses one of 2**256, so that a fast one gives
nothing away and costs a microsecond for each socket instead of a tenth of a second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import tomllib
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.auth.permissions import Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages

PREFIX = "gwk_"
ID_BYTES = 4
SECRET_BYTES = 32

_SHAPE = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
_NOBODY = "0" * 64
"""What the secret of an ID that does not exist is compared with."""

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w.@ -]+$")]
Pattern = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_~*?-]+$")]


class KeyFault(ValueError):
    """The file of keys cannot be used. The message is a sentence that says where it is wrong."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[key]]`` of the file.

    ``until`` is a date with a time and an offset; ``tenant`` is, by default, the key by itself.
    """

    id: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * ID_BYTES}}}$")]
    name: Name
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    role: Role = Role.SPEAK
    rooms: tuple[Pattern, ...] = ("*",)
    langs: tuple[str, ...] | None = None
    tenant: Name | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None
    quota: Quota = Quota()

    @property
    def grant(self) -> Permissions:
        """What its bearer may do. Raises `ClientFault` for a language that is none."""
        return Permissions(
            name=self.name,
            key=self.id,
            tenant=self.tenant or self.name,
            role=self.role,
            rooms=self.rooms,
            langs=None if self.langs is None else tuple(map(languages.normalise, self.langs)),
            until=None if self.until is None else self.until.timestamp(),
            quota=self.quota,
        )


class _KeysFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: tuple[ApiKey, ...] = ()


class Keyring:
    """The keys that are good now.

    ``text`` is what they were read from, if they were.
    """

    def __init__(self, keys: Iterable[ApiKey] = (), text: str = "") -> None:
        self.text = text
        self._hashes: dict[str, str] = {}
        self._grants: dict[str, Permissions] = {}
        self.names: set[str] = set()
        for key in keys:
            if key.name in self.names:
                raise KeyFault(f"There are two keys named {key.name!r}: rename or delete one.")
            if key.id in self._grants:
                raise KeyFault(f"There are two keys with the id {key.id!r}: delete one.")
            self.names.add(key.name)
            try:
                self._grants[key.id] = key.grant
            except ClientFault as fault:
                raise KeyFault(f"The key {key.name!r} cannot be used: {fault}") from fault
            self._hashes[key.id] = key.hash

    @classmethod
    def read(cls, text: str) -> Keyring:
        """From the text of a TOML file. Raises `KeyFault`."""
        try:
            return cls(msgspec.convert(tomllib.loads(text), _KeysFile).key, text)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
            raise KeyFault(f"The keys cannot be read: {exc}.") from exc

    def __len__(self) -> int:
        return len(self._grants)

    def grant(self, token: str, now: float) -> Permissions:
        """What the bearer of ``token`` may do. Raises `ClientFault` (``unauthenticated``).

        :param now: seconds of the Unix clock
        """
        found = _SHAPE.fullmatch(token)
        id, secret = found.groups() if found else ("", "")
        # Whether there is such an ID is not told by how long it takes.
        good = hmac.compare_digest(_hash(secret), self._hashes.get(id, _NOBODY))
        if not good or id not in self._grants:
            raise _refused("This key is not known.")
        return self.confirm(self._grants[id], now)

    def confirm(self, grant: Permissions, now: float) -> Permissions:
        """What is left of a grant that rests on a key: keys are changed and taken away.

        Raises `ClientFault` (``unauthenticated``).
        """
        if grant.key:
            if grant.key not in self._grants:
                raise _refused("This key has been taken away.")
            grant = grant.within(self._grants[grant.key])
        if grant.until is not None and grant.until <= now:
            raise _refused("This key has expired.")
        return grant


def made(key: ApiKey, secret: str) -> tuple[str, str]:
    """A new key from its ``secret``: as its bearer shows it, and as it stands in the file."""
    rows: dict[str, str | int | list[str] | None] = {
        "id": key.id,
        "name": key.name,
        "hash": _hash(secret),
        "role": key.role.value,
        "rooms": list(key.rooms),
        "langs": None if key.langs is None else list(key.langs),
        "tenant": key.tenant,
        **{f"quota.{name}": value for name, value in msgspec.structs.asdict(key.quota).items()},
    }
    # Strings and lists of JSON are those of TOML.
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in rows.items()
        if value is not None
    ]
    if key.until is not None:
        lines.append(f"until = {key.until.isoformat(timespec='seconds')}")
    return f"{PREFIX}{key.id}_{secret}", "\n".join(["[[key]]", *lines, ""])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _refused(what: str) -> ClientFault:
    return ClientFault(ErrorCode.UNAUTHENTICATED, what, "Ask whoever runs this gateway for one.")
