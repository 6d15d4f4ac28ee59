"""The query string of a WebSocket or an event stream.

Owns: the parameters, their formats and defaults. Must not know: sockets, rooms.
"""

from __future__ import annotations

import re
from typing import get_args

from msgspec.structs import replace
from starlette.datastructures import QueryParams

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.core.history.event_log import StreamPosition
from gateway.core.session.connect_request import ConnectRequest, Renew, ResumePoint
from gateway.errors import ClientFault, bad_frame
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import is_room_name
from gateway.protocol.messages import View

HEARTBEAT_S = (1.0, 300.0)
"""Least and most seconds between two ``tick``."""
SPEAKER = 128
"""Most characters of a speaker's name."""
SOURCE = 256
"""Most characters of the languages that a speaker speaks, as in `Set`."""

_DEFAULTS = ResumePoint("", "", Role.SPEAK, None, (), "live", None)


def read_query(
    query: QueryParams,
    codec: Codec | None,
    resumed: ResumePoint | None = None,
    permissions: Permissions = EVERYTHING,
    renew: Renew | None = None,
) -> tuple[ConnectRequest, float | None]:
    """Return the request that a query makes, and the heartbeat in seconds (None: no heartbeat).

    Parameters that are missing are as before in a session that is resumed, otherwise as the
    permissions say. Raises `ClientFault` (``bad_frame``).
    """
    defaults = resumed or replace(
        _DEFAULTS,
        role=permissions.default_role,
        # A ticket was made for a page that reads: its languages are those to read.
        targets=(permissions.langs or ()) if "ticket" in query else (),
    )
    room = query.get("room")
    if room is not None and not is_room_name(room):
        raise _refused("room", room, "1 to 64 letters, digits, '-' or '_'")
    role = query.get("role", defaults.role.value)
    if role not in Role.__members__.values():
        raise _refused("role", role, ", ".join(Role))
    view = query.get("view", defaults.view)
    if view not in get_args(View):
        raise _refused("view", view, ", ".join(get_args(View)))
    heartbeat = _heartbeat(query)
    speaker = query.get("speaker", defaults.speaker)
    if speaker is not None and len(speaker) > SPEAKER:
        raise _refused("speaker", speaker, f"at most {SPEAKER} characters")
    source = query.get("from", defaults.source)
    if source is not None and len(source) > SOURCE:
        raise _refused("list of languages (from)", source, f"at most {SOURCE} characters")
    if resumed is not None:
        room = resumed.room
    elif room is None:
        room = permissions.only_room
    to, targets = query.get("to"), defaults.targets
    if to is not None:
        targets = tuple(tag.strip() for tag in to.split(",") if tag.strip())
    attempt = query.get("attempt")
    if attempt is not None and not re.fullmatch(r"[0-9]{1,15}", attempt):
        raise _refused("attempt", attempt, "a number that grows with each attempt to come back")
    request = ConnectRequest(
        session=resumed.session if resumed is not None else None,
        # A client that has the token of a socket comes after that socket, even if it does not
        # number its attempts.
        attempt=0 if resumed is None else max(int(attempt or 0), resumed.attempt + 1),
        numbered=attempt is not None,
        since=_since(query),
        room=room,
        role=Role(role),
        source=source,
        targets=targets,
        view=view,  # type: ignore[arg-type]  # checked above
        speaker=speaker or None,  # an empty name is none
        codec=codec or default_codec(query),
        permissions=permissions,
        renew=renew,
    )
    return request, heartbeat


def default_codec(query: QueryParams) -> Codec:
    """Return the codec of a client that negotiates none: JSON, or typed lines with ``plain``."""
    return Codec.PLAIN if query.get("plain", "0") not in ("0", "") else Codec.JSON


def _heartbeat(query: QueryParams) -> float | None:
    text = query.get("hb")
    if text is None:
        return None
    least, most = HEARTBEAT_S
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) or float(text) < least:
        raise _refused("heartbeat (hb)", text, f"seconds, {least:g} to {most:g}")
    return min(float(text), most)


def _since(query: QueryParams) -> StreamPosition | None:
    """Return the position up to which the client has read the room, if it states one."""
    epoch, seq = query.get("epoch"), query.get("seq")
    if epoch is None and seq is None:
        return None
    # One without the other has no meaning: numbers begin anew in each epoch.
    if not epoch or len(epoch) > 64:
        raise _refused("epoch", epoch or "", "that of a `welcome`, together with seq")
    if seq is None or not re.fullmatch(r"[0-9]{1,15}", seq):
        allowed = "the last one seen, together with epoch"
        raise _refused("number of an event (seq)", seq or "", allowed)
    return StreamPosition(epoch, int(seq))


def _refused(name: str, value: str, allowed: str) -> ClientFault:
    article = "an" if name[0] in "aeiou" else "a"
    return bad_frame(f"{value[:64]!r} is not {article} {name}.", f"Allowed: {allowed}.")
