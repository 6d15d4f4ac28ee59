"""The one fault that calls of Redis raise.

Owns: what of a failure is told, and whether it concerns one room only. Must not know: what was
called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions

DAMAGED: Final = ("WRONGTYPE ", "user_script:")
"""Beginnings of the errors that Redis answers if a key of a room has what no gateway writes."""


class Away(Exception):
    """A call of Redis that has failed: it is away, too slow, full, or does not do what it is told.

    Its text is the reason, without texts of meetings.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(reason(cause))
        answer = isinstance(cause, exceptions.ResponseError)
        self.damaged = answer and str(cause).startswith(DAMAGED)
        """True if the data of the room is damaged: another attempt would fail too."""


def reason(exc: BaseException) -> str:
    """Return why a call has failed, without the texts that it carried."""
    # Other exceptions may quote a command or an answer.
    about_connection = isinstance(exc, exceptions.ConnectionError | OSError)
    return f"{type(exc).__name__}: {exc}" if about_connection else type(exc).__name__


@contextmanager
def translated() -> Iterator[None]:
    """Raise `Away` for any failure of a call of Redis.

    Not only the client's own errors are meant: uvloop raises `RuntimeError` for a write to a
    connection that was reset, and a connection that is being closed `AttributeError`.
    """
    try:
        yield
    except Away:
        raise
    except Exception as exc:
        raise Away(exc) from exc
