"""A meeting on the local network: its keys, and the links that bring people into it.

Owns: keys that are valid until this process stops, the address that other machines reach, the links
and their QR code in a terminal. Must not know: what is served, and who connected.

The keys exist in memory and in the links, which are written to the terminal once. They stand behind
the ``#`` of a link, so browsers send them to no server, and no log contains them.
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

ALL_INTERFACES = "0.0.0.0"
"""All interfaces of IPv4, which phones in a room have."""
UNASSIGNED = "198.51.100.1"
"""An address that no machine has (RFC 5737). The route to it is the default route."""
QUIET_ZONE = 4
"""Light modules around a QR code (ISO/IEC 18004, section 5.3.8); a terminal adds none."""

_CONSONANTS = "bdfghklmnprstvz"
_VOWELS = "aeiou"
_WHITE_ON_BLACK = "\x1b[38;5;231;48;5;16m"
"""Two of the 240 colours that no theme changes. Block characters are the light modules."""
_WHITE = "\x1b[38;5;231m"
_RESET = "\x1b[0m"


@dataclass(frozen=True, repr=False)
class Invitation:
    """Links and keys of one meeting.

    It has no ``repr``, which would show the keys.

    :param base: scheme, address and port that other machines reach
    :param here: the same for this machine alone; None if the gateway listens on one address only
    :param ring: keys made for this meeting; None if the settings name a file of keys, or if no key
        is needed
    """

    base: str
    here: str | None
    room: str
    ring: Keyring | None = None
    moderator: str | None = None
    speaker: str | None = None
    reader: str | None = None

    def speaker_link(self, base: str | None = None) -> str:
        """Return the moderator's link. It holds the other keys too, to invite people with."""
        query = urlencode({"room": self.room, "role": Role.MODERATE.value})
        keys = {"key": self.moderator, "guests": self.reader, "speakers": self.speaker}
        return f"{base or self.base}/?{query}{_fragment(keys)}"

    @property
    def reader_link(self) -> str:
        """Link of people who read."""
        query = urlencode({"room": self.room})
        return f"{self.base}/join.html?{query}{_fragment({'key': self.reader})}"


def host(settings: Settings) -> str:
    """Return the address to listen on."""
    # Loopback is the default of the setting, and no other machine reaches it.
    return ALL_INTERFACES if settings.lan and loopback(settings.host) else settings.host


def invite(listener: socket.socket, settings: Settings) -> Invitation:
    """Return an invitation to a new meeting on ``listener``.

    It has new keys, unless the settings name a file of keys or need none. Raises `OSError` if no
    other machine can reach this one, `SettingsError` if another process shares the port: it would
    not know these keys.
    """
    scheme = "http" if settings.certfile is None else "https"
    bound, port = listener.getsockname()[:2]
    base = f"{scheme}://{host_and_port(reachable_address(bound), port)}"
    here = f"{scheme}://127.0.0.1:{port}" if unspecified(bound) else None
    room = new_room_name()
    if settings.keys is not None or settings.insecure:
        return Invitation(base, here, room)
    if settings.reuse_port:
        raise SettingsError(
            "--lan cannot share a port: create keys with `gateway key` and pass --keys FILE."
        )
    moderator, first = _new_key("meeting", Role.MODERATE)
    speaker, second = _new_key("speakers", Role.SPEAK)
    reader, third = _new_key("readers", Role.VIEW)
    ring = Keyring(f"{first}\n{second}\n{third}")
    return Invitation(base, here, room, ring, moderator, speaker, reader)


def reachable_address(bound: str) -> str:
    """Return the address under which other machines reach a socket. Raises `OSError`."""
    if not unspecified(bound):
        return bound
    # All interfaces have the address of the default route. Connecting a datagram socket looks the
    # route up and sends nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((UNASSIGNED, 9))
        except OSError as exc:
            raise OSError(
                "This machine has no default route: join a network, or name with --host the"
                " address that others reach."
            ) from exc
        return str(probe.getsockname()[0])


def unspecified(bound: str) -> bool:
    """Tell whether an address stands for all interfaces."""
    return ipaddress.ip_address(bound.partition("%")[0]).is_unspecified


def host_and_port(host: str, port: int) -> str:
    """Return host and port as they stand in a URL (RFC 3986, section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def new_room_name() -> str:
    """Return a random room name that is easy to say and hard to guess, as the page makes it."""
    parts = [secrets.choice(_CONSONANTS) + secrets.choice(_VOWELS) for _ in range(4)]
    return f"{parts[0]}{parts[1]}-{parts[2]}{parts[3]}-{10 + secrets.randbelow(90)}"


def notice(invitation: Invitation, settings: Settings, out: TextIO) -> str:
    """Return the links, advice, and the readers' QR code if ``out`` can show it."""
    lines = [f"  Speak  {invitation.speaker_link()}", f"  Read   {invitation.reader_link}"]
    code = qr_code(invitation.reader_link)
    if fits(code, out):
        lines.append(code)
    if settings.certfile is None:
        lines.append(
            "  No certificate (--certfile): phones allow the microphone only over https, and\n"
            "  anyone on this network can read the traffic, keys included."
        )
        if invitation.here is not None:
            lines.append(f"  To speak on this machine: {invitation.speaker_link(invitation.here)}")
    keys = "  No key is needed: anyone who can reach this address may do everything."
    if invitation.ring is not None:
        keys = "  The links hold keys. They are shown once, and work until the gateway stops."
    elif settings.keys is not None:
        keys = f"  The page asks for a key of {settings.keys}."
    return "\n".join((*lines, keys, ""))


def fits(code: str, out: TextIO) -> bool:
    """Tell whether ``out`` is a terminal that can show ``code``."""
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        return False
    try:
        code.encode(out.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    # The last row has no change of colour inside, so that its length is its width.
    last = code.rpartition("\n")[2].removeprefix(_WHITE).removesuffix(_RESET)
    return shutil.get_terminal_size().columns >= len(last)


def qr_code(link: str) -> str:
    """Return the QR code of a link for a terminal, black on white in every theme."""
    # Each character shows two modules, one above the other. Error correction is L: nothing covers a
    # screen, and larger modules can be read from further away. There is no newline at the end.
    text = io.StringIO()
    segno.make_qr(link, error="l").terminal(text, border=QUIET_ZONE, compact=True)
    *rows, last = text.getvalue().splitlines()
    lines = [f"{_WHITE_ON_BLACK}{row}{_RESET}" for row in rows]
    # The last row is the upper half of a character, all light. Without a background colour its
    # lower half looks like the terminal.
    return "\n".join([*lines, f"{_WHITE}{last}{_RESET}"])


def _new_key(name: str, role: Role) -> tuple[str, str]:
    key = ApiKey(id=secrets.token_hex(api_keys.ID_BYTES), name=name, hash="0" * 64, role=role)
    return api_keys.create_key(key, secrets.token_hex(api_keys.SECRET_BYTES))


def _fragment(values: dict[str, str | None]) -> str:
    """Return the fragment of a URL with the values that are not None."""
    present = {name: value for name, value in values.items() if value is not None}
    return f"#{urlencode(present)}" if present else ""
