"""Sockets whose credentials no longer admit them.

Owns: which open sockets are closed when keys expire or change. Must not know: keys and tokens
themselves, and who issues them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.auth.permissions import Permissions
from gateway.core.session.session import Session
from gateway.errors import ClientFault, CloseCode, ErrorCode

CLOSE = {
    ErrorCode.BUSY: CloseCode.TOO_MANY,
    ErrorCode.UNAUTHENTICATED: CloseCode.UNAUTHENTICATED,
    ErrorCode.FORBIDDEN: CloseCode.FORBIDDEN,
    ErrorCode.NOT_FOUND: CloseCode.NO_SUCH_ROOM,
}
"""Close code of a socket that must not stay open, by the error code it is sent before."""


def close_expired(sessions: Iterable[Session], wall: float, now: float) -> None:
    """Close the sockets whose key or token has expired.

    :param wall: time since the epoch, in seconds
    :param now: monotonic time, in seconds
    """
    for session in sessions:
        until = session.permissions.until
        if until is not None and until <= wall and session.outbox.closing is None:
            fault = ClientFault(
                ErrorCode.UNAUTHENTICATED,
                "The key of this socket has expired.",
                "Connect with another one; send `auth` before the next one expires.",
            )
            session.refuse(fault, CloseCode.UNAUTHENTICATED, now)


def apply_changed_keys(
    sessions: Iterable[Session], confirm: Callable[[Permissions], Permissions], now: float
) -> None:
    """Restrict sockets to the permissions of changed keys, and close sockets that they do not
    admit.

    :param confirm: returns what is left of permissions; raises `ClientFault` (``unauthenticated``)
    :param now: monotonic time, in seconds
    """
    for session in sessions:
        if session.outbox.closing is None:
            try:
                permissions = confirm(session.permissions)
                session.confirm(permissions)
            except ClientFault as fault:
                session.refuse(fault, CLOSE[fault.code], now)
            else:
                session.permissions = permissions
