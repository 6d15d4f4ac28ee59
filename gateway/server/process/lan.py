"""A meeting on the local network: the keys of one start, and what brings people into it.

Owns: those keys, the address that others reach, the links and their code in a terminal. Must not
know: what is served, and who came. The keys are in memory and in the links, which are written to
the terminal once; behind the ``#`` no server is sent them, and no log has them.
"""

from __future__ import annotations

import io
import ipaddress
import os
import secrets
import shutil
import socket
from dataclasses import dataclass
from typing import TextIO
from urllib.parse import urlencode

import segno

from gateway.auth import api_keys
from gateway.auth.api_keys import ApiKey, Keyring
from gateway.auth.permissions import Role
from gateway.settings.catalogue import Settings, SettingsError, loopback

EVERYWHERE = "0.0.0.0"
"""All interfaces of IPv4, which is what telephones in a room have."""
ELSEWHERE = "198.51.100.1"
"""An address that nobody has (RFC 5737): the way there is the default route."""
QUIET = 4
"""Light modules around a code (ISO/IEC 18004, section 5.3.8); a terminal adds none."""

_CONSONANTS = "bdfghklmnprstvz"
_VOWELS = "aeiou"
_INK = "\x1b[38;5;231;48;5;16m"
"""White on black, of the 240 colours that no theme changes: blocks are the light modules."""
_LAST = "\x1b[38;5;231m"
_PLAIN = "\x1b[0m"


@dataclass(frozen=True, repr=False)
class Invitation:
    """How people come into the meeting of this start.

    :param base: scheme, address and port that others reach
    :param here: the same for this machine alone; None where it listens on one address only
    :param ring: the keys that are good; None: those of the settings are, or nobody is asked
    """

    base: str
    here: str | None
    room: str
    ring: Keyring | None = None
    moderator: str | None = None
    reader: str | None = None

    def speak(self, base: str | None = None) -> str:
        """The link of who runs the meeting. It has the readers' key too, to invite them with."""
        query = urlencode({"room": self.room, "role": Role.MODERATE.value})
        shown = {"key": self.moderator, "guests": self.reader}
        return f"{base or self.base}/?{query}{_behind(shown)}"

    @property
    def join(self) -> str:
        """The link of who reads."""
        query = urlencode({"room": self.room})
        return f"{self.base}/join.html?{query}{_behind({'key': self.reader})}"


def host(settings: Settings) -> str:
    """The address to listen on."""
    return EVERYWHERE if settings.lan and loopback(settings.host) else settings.host


def invite(listener: socket.socket, settings: Settings) -> Invitation:
    """A meeting behind ``listener``. Raises `OSError` where no other machine can be reached.

    Keys are made unless there is a file of them, or nobody is to be asked. Raises `SettingsError`
    where another process would have others.
    """
    scheme = "http" if settings.certfile is None else "https"
    bound, port = listener.getsockname()[:2]
    base = f"{scheme}://{place(address(bound), port)}"
    here = f"{scheme}://{place('127.0.0.1', port)}" if unspecified(bound) else None
    room = invented()
    if settings.keys is not None or settings.insecure:
        return Invitation(base, here, room)
    if settings.reuse_port:
        raise SettingsError(
            "Who shares the port would not know the keys of this start: make a file of them with"
            " `gateway key`, and name it with --keys."
        )
    moderator, first = _made("meeting", Role.MODERATE)
    reader, second = _made("readers", Role.VIEW)
    ring = Keyring.read(f"{first}\n{second}")
    return Invitation(base, here, room, ring, moderator, reader)


def address(bound: str) -> str:
    """Where others reach who listens on ``bound``: of all interfaces, that of the default route.

    Nothing is sent: a datagram socket that is connected only looks the route up. Raises `OSError`.
    """
    if not unspecified(bound):
        return bound
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ELSEWHERE, 9))
        except OSError as exc:
            raise OSError(
                "This machine has no default route: join a network, or name with --host the"
                " address that others reach."
            ) from exc
        return str(probe.getsockname()[0])


def unspecified(bound: str) -> bool:
    """Whether it stands for all interfaces."""
    return ipaddress.ip_address(bound.partition("%")[0]).is_unspecified


def place(host: str, port: int) -> str:
    """Host and port as they stand in an address (RFC 3986, section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def invented() -> str:
    """A name for a meeting that can be said and hardly be guessed, as the page makes them."""
    parts = [secrets.choice(_CONSONANTS) + secrets.choice(_VOWELS) for _ in range(4)]
    return f"{parts[0]}{parts[1]}-{parts[2]}{parts[3]}-{10 + secrets.randbelow(90)}"


def notice(invitation: Invitation, settings: Settings, out: TextIO) -> str:
    """What ``out`` is told: links, the readers' code where it can be shown, and what to know."""
    lines = [f"  Speak  {invitation.speak()}", f"  Read   {invitation.join}"]
    code = drawn(invitation.join)
    if fits(code, out):
        lines.append(code)
    if settings.certfile is None:
        lines.append(
            "  No certificate (--certfile): telephones grant no microphone, which needs https;\n"
            "  whoever listens in on this network reads along, and has the keys."
        )
        if invitation.here is not None:
            lines.append(f"  To speak on this machine: {invitation.speak(invitation.here)}")
    if invitation.ring is not None:
        lines.append("  The links are keys, good until the gateway stops, and not shown again.")
    elif settings.keys is not None:
        lines.append(f"  The page asks for a key of {settings.keys}.")
    else:
        lines.append("  Nobody is asked for a key: who reaches this address may do everything.")
    return "\n".join(lines) + "\n"


def fits(code: str, out: TextIO) -> bool:
    """Whether ``out`` is a terminal that can show ``code``."""
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        return False
    try:
        code.encode(out.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    last = code.rpartition("\n")[2].removeprefix(_LAST).removesuffix(_PLAIN)
    return shutil.get_terminal_size().columns >= len(last)


def drawn(link: str) -> str:
    """The QR code of ``link`` for a terminal, black on white in every theme; no line at its end.

    Two modules a character, one above the other. Error correction L: nothing covers a screen, and
    larger modules are read from further away.
    """
    text = io.StringIO()
    segno.make_qr(link, error="l").terminal(text, border=QUIET, compact=True)
    *rows, last = text.getvalue().splitlines()
    # The last has the upper half only: it is light, and what is below is the terminal's own.
    return "\n".join([*(f"{_INK}{row}{_PLAIN}" for row in rows), f"{_LAST}{last}{_PLAIN}"])


def _made(name: str, role: Role) -> tuple[str, str]:
    key = ApiKey(id=secrets.token_hex(api_keys.ID_BYTES), name=name, hash="0" * 64, role=role)
    return api_keys.create_key(key, secrets.token_hex(api_keys.SECRET_BYTES))


def _behind(shown: dict[str, str | None]) -> str:
    """A fragment of what there is."""
    found = {name: value for name, value in shown.items() if value is not None}
    return f"#{urlencode(found)}" if found else ""
