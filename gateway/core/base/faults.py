"""Refusals: the event that names a fault, and faults that several parts of the gateway find.

Owns: how a fault becomes an ``error``, and the words of those faults. Must not know: sockets, how
a fault is found.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.notices import Error
from gateway.text import languages


def error(
    fault: ClientFault, *, ref: str | None = None, id: str | None = None, fatal: bool = False
) -> Error:
    """Return the event that tells a client of a fault. If it is ``fatal``, the socket is closed."""
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


def other_language(stated: str, lang: str) -> ClientFault:
    """Return the fault of a text that is surely in ``lang``, not in the language stated."""
    return ClientFault(
        ErrorCode.LANG_MISMATCH,
        f"The text looks like {languages.name(lang)}, but {languages.name(stated)} was stated.",
        f"State `{lang}`, or `auto`.",
    )


def no_source(lang: str, sources: Iterable[str]) -> ClientFault:
    """Return the fault of a text in ``lang``, which is not among the languages translated from."""
    return ClientFault(
        ErrorCode.LANG_UNSUPPORTED,
        f"The text looks like {languages.name(lang)}, which this gateway cannot translate.",
        "It translates from: " + ", ".join(sources) + ".",
    )
