"""Refusals: the event that names a fault, and the fault of a socket that closes.

Owns: how a fault becomes an ``error``. Must not know: sockets, what was refused.
"""

from __future__ import annotations

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Error


def error(
    fault: ClientFault, *, ref: str | None = None, id: str | None = None, fatal: bool = False
) -> Error:
    """Return the event that tells a client of a fault.

    :param ref: from the request
    :param id: the utterance
    :param fatal: whether the socket is closed
    """
    return Error(
        code=fault.code.value,
        fatal=fatal,
        retry=fault.code.retry,
        retry_ms=fault.retry_ms,
        id=id,
        ref=ref,
        msg=str(fault),
        hint=fault.hint,
    )


def closing() -> ClientFault:
    """Return the fault of beginning something on a socket that is about to close."""
    return ClientFault(ErrorCode.BUSY, "This socket is about to close; open a new one.")
