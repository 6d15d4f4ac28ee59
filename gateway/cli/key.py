"""The command ``gateway key``: a new API key, and its entry in the file of keys.

Owns: the entry, and writing it in full or not at all. Must not know: how a gateway reads the file.
"""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from gateway.auth import api_keys
from gateway.auth.permissions import Role
from gateway.cli.flags import check_outputs, count, positive, rooms, tags
from gateway.settings.catalogue import SettingsError


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="name of the key, in logs and in the file")
    file = "file of keys; it is created if it does not exist"
    add("--keys", metavar="FILE", required=True, help=file)
    roles = [role.value for role in Role]
    role = "highest role of its holder; default: %(default)s"
    add("--role", choices=roles, default=Role.SPEAK.value, help=role)
    opens = "rooms it opens, with wildcards * and ?; ~* matches unnamed rooms; default: all"
    add("--rooms", type=rooms, default=("*",), metavar="ROOM[,ROOM]", help=opens)
    add("--langs", type=tags, metavar="LANG[,LANG]", help="languages it may read; default: all")
    tenant = "tenant whose quota it uses; default: a tenant of its own"
    add("--tenant", metavar="NAME", help=tenant)
    add("--days", type=positive, metavar="N", help="days until it expires; default: never")
    quota = "quota of its tenant: {}; default: no quota"
    add("--sessions", type=count, metavar="N", help=quota.format("open sockets"))
    add("--inflight", type=count, metavar="N", help=quota.format("unfinished utterances"))
    add("--minute", type=count, metavar="N", help=quota.format("utterances per minute"))


def run(args: argparse.Namespace) -> int:
    """Make a key, append its hash to the file, and print the key. It is written nowhere else."""
    file = Path(args.keys).expanduser()
    now = datetime.now(UTC).replace(microsecond=0)
    fields = {name: getattr(args, name) for name in ("name", "role", "rooms", "langs", "tenant")}
    fields |= {
        "id": secrets.token_hex(api_keys.ID_BYTES),
        "hash": "0" * 64,
        "until": None if args.days is None else now + timedelta(days=args.days),
        "quota": {name: getattr(args, name) for name in ("sessions", "inflight", "minute")},
    }
    try:
        key = msgspec.convert(fields, api_keys.ApiKey)
    except msgspec.ValidationError as exc:
        fault, _, field = str(exc).partition(" - at `$.")
        raise SettingsError(f"The {field.rstrip('`')} of a key: {fault}.") from exc
    check_outputs((str(file),))
    token, entry = api_keys.create_key(key, secrets.token_hex(api_keys.SECRET_BYTES))
    _add_key(file, args.name, entry)
    print(token)
    print(
        f"# The hash of key {args.name!r} was added to {file}. The key itself is not shown again."
        f" A running gateway with --keys {file} accepts it within seconds.",
        file=sys.stderr,
    )
    return 0


def _add_key(file: Path, name: str, entry: str) -> None:
    """Append a key to a key file, or leave it as it is. Raises `OSError` and `KeyFault`."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    with open(descriptor, "rb+", buffering=0) as opened:
        before = opened.read()
        if name in _ring(file, before).names:
            raise api_keys.KeyFault(
                f"{file} already has a key named {name!r}."
                " Choose another name, or delete that key from the file first."
            )
        more = (b"\n" if before else b"") + entry.encode()
        _ring(file, before + more)  # a faulty file would lock out the holders of all keys
        try:
            if opened.write(more) < len(more):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as exc:
            opened.truncate(len(before))  # half an entry would lock out the holders of all keys
            raise OSError(exc.errno, exc.strerror, str(file)) from exc


def _ring(file: Path, text: bytes) -> api_keys.Keyring:
    try:
        return api_keys.Keyring(text.decode())
    except UnicodeDecodeError as exc:
        raise api_keys.KeyFault(f"{file} cannot be read: it is not text in UTF-8.") from exc
    except api_keys.KeyFault as exc:
        raise api_keys.KeyFault(f"{file}: {exc}") from exc
