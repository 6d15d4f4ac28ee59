"""A connection to Redis on which commands do not wait for the answers to earlier ones.

Owns: how commands are packed, the next answer, how long the gateway waits for one (`TIMEOUT_S`),
and the one fault that calls of Redis raise. Must not know: what is sent and answered.

A pipeline of redis-py waits for all its answers before the next one is sent, packs commands in
Python, and takes more than twice the CPU time for a single message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from hiredis import pack_command
from redis import exceptions
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError

TIMEOUT_S: Final = 2.0
"""Seconds to wait for an answer of Redis. A slower Redis counts as away."""

Arguments = tuple[str | int | bytes, ...]
"""A command and its arguments."""
Question = tuple[Arguments, Callable[[Any], None] | None]
"""A command, and what is to be called with its answer."""

# Its own type has one argument only.
_pack = cast(Callable[[Arguments], bytes], pack_command)


DAMAGED: Final = ("WRONGTYPE ", "user_script:")
"""Beginnings of the errors that Redis answers if another program wrote a key of a room."""


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


class PipelinedConnection:
    """A connection of redis-py, after its handshake, whose commands and answers are handled by
    different tasks.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        self.received = 0
        """Answers and messages so far."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()  # time from which a silence is counted

    @property
    def connected(self) -> bool:
        """True until the connection was closed."""
        return bool(self._connection.is_connected)

    async def send(self, commands: Iterable[Arguments]) -> None:
        """Send commands. Wait only while the buffers of the socket are full.

        Raises `Away`, also if the connection is closed: redis-py alone would connect again, and the
        answers of before would be missed.
        """
        if not self.connected:
            raise Away(ConnectionError("not connected"))
        data = b"".join(map(_pack, commands))
        with translated():
            await self._connection.send_packed_command(data, check_health=False)

    async def read(self) -> Any:
        """Return the next answer or message. Raises `Away`, also for an error that Redis answers:
        more answers may follow that one.
        """
        with translated():
            try:
                return await self._connection.read_response(
                    disable_decoding=True, push_request=True
                )
            finally:
                self.received += 1
                self._since = self._loop.time()

    def expect(self) -> None:
        """Count a silence from now on."""
        self._since = self._loop.time()

    async def silence(self) -> None:
        """Return when nothing has come for `TIMEOUT_S`: no command has a timeout of its own."""
        rest = TIMEOUT_S
        while rest > 0:
            await asyncio.sleep(rest)
            rest = self._since + TIMEOUT_S - self._loop.time()

    async def execute(self, commands: Sequence[Arguments]) -> list[Any]:
        """Run commands, and return their answers.

        Raises `Away`, and then the connection cannot be used any more.
        """
        with translated():
            async with asyncio.timeout(TIMEOUT_S):
                await self.send(commands)
                return [await self.read() for _ in commands]
