"""API keys: their form, the file that describes them, and the permissions of their bearers.

Owns: the text of a key, the format of the key file, the look-up of a key. Must not know: paths,
sockets, callers.

A key is ``gwk_ID_SECRET``. It is found by its ID and verified by the SHA-256 of its SECRET, which
is compared in constant time. The file has only the hash. Slow hashes protect secrets that people
choose, and this one is 32 random bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import tomllib
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.auth.permissions import Pattern, Permissions, Quota, Role
from gateway.errors import ClientFault, ErrorCode
from gateway.text import languages

PREFIX = "gwk_"
ID_BYTES = 4
SECRET_BYTES = 32

_SHAPE = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
_UNKNOWN = "0" * 64
"""Hash to compare with if there is no key with the ID."""

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\w.@ -]+\Z")]


class KeyFault(ValueError):
    """The key file cannot be used. The message is a sentence that says what is wrong and where."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[key]]`` of the key file."""

    id: Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{2 * ID_BYTES}}}\Z")]
    name: Name
    hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    role: Role = Role.SPEAK
    rooms: tuple[Pattern, ...] = ("*",)
    langs: tuple[str, ...] | None = None
    tenant: Name | None = None  # default: the name of the key, a tenant of its own
    until: Annotated[datetime, Meta(tz=True)] | None = None  # a date with a time and an offset
    quota: Quota = Quota()

    @property
    def permissions(self) -> Permissions:
        """Permissions of the bearer. Raises `ClientFault` if a language tag is invalid."""
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
    """The API keys that are valid now."""

    def __init__(self, text: str = "") -> None:
        """Read a key file with the content ``text`` (TOML). Raises `KeyFault`."""
        try:
            keys = msgspec.convert(tomllib.loads(text), _KeysFile).key
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
            raise KeyFault(f"The keys cannot be read: {exc}.") from exc
        self.text = text
        self._hashes: dict[str, str] = {}
        self._permissions: dict[str, Permissions] = {}
        self.names: set[str] = set()
        for key in keys:
            # The name of a key is also its tenant by default, so two keys would share a quota.
            if key.name in self.names:
                raise KeyFault(f"There are two keys named {key.name!r}: rename or delete one.")
            if key.id in self._permissions:
                raise KeyFault(f"There are two keys with the id {key.id!r}: delete one.")
            self.names.add(key.name)
            try:
                self._permissions[key.id] = key.permissions
            except ClientFault as fault:
                raise KeyFault(f"The key {key.name!r} cannot be used: {fault}") from fault
            self._hashes[key.id] = key.hash

    def __len__(self) -> int:
        return len(self._permissions)

    def authenticate(self, token: str, now: float) -> Permissions:
        """Return the permissions of a whole key, at a Unix time. Raises `ClientFault`."""
        shape = _SHAPE.fullmatch(token)
        id, secret = shape.groups() if shape else ("", "")
        # Unknown IDs are compared too, so that the time taken does not tell which IDs exist.
        valid = hmac.compare_digest(_hash(secret), self._hashes.get(id, _UNKNOWN))
        if not valid or id not in self._permissions:
            raise _refused("This key is not known.")
        return self.confirm(self._permissions[id], now)

    def confirm(self, permissions: Permissions, now: float) -> Permissions:
        """Return permissions reduced to the present ones of their key.

        Raises `ClientFault` (``unauthenticated``) if the key was revoked or has expired.
        """
        # Keys can be changed and revoked while sockets, tickets and resume tokens carry permissions
        # of theirs. Permissions without a key are only checked for expiry.
        if permissions.key:
            if permissions.key not in self._permissions:
                raise _refused("This key has been revoked.")
            permissions = permissions.limited_to(self._permissions[permissions.key])
        if permissions.until is not None and permissions.until <= now:
            raise _refused("This key has expired.")
        return permissions


def create_key(key: ApiKey, secret: str) -> tuple[str, str]:
    """Return the text of a new key for its bearer, and its entry for the key file. ``secret`` is
    random, in hexadecimal, and the ``hash`` of ``key`` is made from it.
    """
    rows = msgspec.structs.asdict(key) | {"hash": _hash(secret)}
    until, quota = rows.pop("until"), rows.pop("quota")
    rows |= {f"quota.{name}": value for name, value in msgspec.structs.asdict(quota).items()}
    # Strings and lists are written the same way in JSON and TOML.
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in rows.items()
        if value is not None
    ]
    if until is not None:
        lines.append(f"until = {until.isoformat(timespec='seconds')}")
    return f"{PREFIX}{key.id}_{secret}", "\n".join(["[[key]]", *lines, ""])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _refused(message: str) -> ClientFault:
    hint = "Ask the operator of this gateway for a valid key."
    return ClientFault(ErrorCode.UNAUTHENTICATED, message, hint)
