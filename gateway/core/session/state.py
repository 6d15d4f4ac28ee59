"""The life of a session, as a table.

Owns: every state of a session and every legal change. Must not know: what a session does in them.
"""

from __future__ import annotations

import enum

from gateway.core.base.transitions import Table


class SessionState(enum.Enum):
    """States of a session."""

    OPEN = "open"
    DRAINING = "draining"  # the server is about to stop: nothing new is accepted
    DISMISSED = "dismissed"  # the room was released and may continue in another process
    LEAVING = "leaving"  # after `bye`: ends when nothing is in flight
    CLOSED = "closed"


class SessionEvent(enum.Enum):
    """Events that change the state of a session."""

    DRAIN = "drain"
    DISMISS = "dismiss"
    BYE = "bye"
    CLOSE = "close"


_S, _E = SessionState, SessionEvent

_ANY = {_E.DRAIN: _S.DRAINING, _E.DISMISS: _S.DISMISSED, _E.BYE: _S.LEAVING, _E.CLOSE: _S.CLOSED}

SESSION_TRANSITIONS: Table[SessionState, SessionEvent] = {
    _S.OPEN: _ANY,
    _S.DRAINING: _ANY,
    _S.DISMISSED: _ANY | {_E.DRAIN: _S.DISMISSED},
    # A client that has said `bye` may say it again, and leaves whatever the server does.
    _S.LEAVING: dict.fromkeys(_ANY, _S.LEAVING) | {_E.CLOSE: _S.CLOSED},
    # The server may drain sessions whose sockets are closed but not forgotten yet.
    _S.CLOSED: dict.fromkeys((_E.DRAIN, _E.DISMISS, _E.CLOSE), _S.CLOSED),
}
