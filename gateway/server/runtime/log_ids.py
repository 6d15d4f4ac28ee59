"""The ids that a log line about a session has as fields.

Owns: the names of these fields. Must not know: how a line is written, see
`gateway.server.process.logs`.
"""

from __future__ import annotations

from gateway.core.session.session import Session


def session_ids(session: Session) -> dict[str, str]:
    """Return the ids of a session and its room, for the ``extra`` of a logger's call."""
    return {"session": session.id, "room": session.room.name}
