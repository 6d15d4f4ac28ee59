"""The connections of a gateway to Redis, and whether they work.

Owns: the client with its timeouts, connections that are opened again when they are lost, and the
state that `/readyz` and ``degraded`` report. Must not know: what is written or read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.server.fleet.pipelined_connection import TIMEOUT_S, PipelinedConnection

log = logging.getLogger("gateway.fleet")

RETRY_S: Final = 0.1
"""Seconds between two attempts to reach Redis."""
AWAY: Final = (exceptions.RedisError, OSError)
"""Errors that a call of Redis raises if it is away, too slow or full."""


def reason(exc: BaseException) -> str:
    """Return why a call has failed, without the texts that it carried."""
    # Other exceptions may quote a command or an answer.
    about_connection = isinstance(exc, exceptions.ConnectionError | OSError)
    return f"{type(exc).__name__}: {exc}" if about_connection else type(exc).__name__


class RedisConnection:
    """A client of Redis.

    :param url: such as ``redis://localhost:6379/0``
    :param changed: called when Redis goes away and when it comes back
    """

    def __init__(self, url: str, changed: Callable[[bool], None]) -> None:
        self.up = False
        self.foreign: str | None = None
        """Version of the messages of the other gateways, if it is not that of this gateway."""
        self.closing = False
        """True if no task is to go on. A task is cancelled as well, but the client sometimes turns
        a cancellation into a `TimeoutError`."""
        # Without retries, because a silent reconnection would hide what was lost.
        self.redis: Redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._changed = changed

    def works(self) -> None:
        """Note that a call has succeeded."""
        if not self.up and self.foreign is None:
            self.up = True
            log.info("Redis is there")
            self._changed(True)

    def failed(self, exc: BaseException) -> None:
        """Note that a call has failed."""
        if self.up:
            self.up = False
            log.warning("Redis is away: %s", reason(exc))
            self._changed(False)

    def joined(self, version: str, *, own: str) -> None:
        """Note the version of the messages that the fleet uses, after a call has succeeded."""
        if version == own:
            self.foreign = None
            self.works()
        elif version != self.foreign:
            self.foreign = version
            log.error(
                "The gateways of this Redis exchange messages of version %s, and this one of "
                "version %s. It serves no shared rooms until they have ended.",
                version,
                own,
            )
            if self.up:
                self.up = False
                self._changed(False)

    @asynccontextmanager
    async def pipelined(self) -> AsyncGenerator[PipelinedConnection]:
        """Return a connection of its own. Raises `AWAY`."""
        pool: Any = self.redis.connection_pool  # `make_connection` has no types
        connection = pool.make_connection()
        try:
            await connection.connect()
            yield PipelinedConnection(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def keep(
        self,
        *work: Callable[[PipelinedConnection], Coroutine[Any, Any, None]],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Run tasks on a connection of their own, and on another one when it is lost.

        :param work: tasks that end only by raising `AWAY`
        :param lost: called after the tasks of a connection have ended
        """
        while not self.closing:
            try:
                async with self.pipelined() as connection, asyncio.TaskGroup() as tasks:
                    for one in work:
                        tasks.create_task(one(connection))
            except AWAY as exc:
                self.failed(exc)
            except ExceptionGroup as faults:
                away, others = faults.split(AWAY)
                if others is not None:
                    raise others.exceptions[0] from None
                assert away is not None, "a group is not empty"
                self.failed(away.exceptions[0])
            finally:
                lost()
            await asyncio.sleep(RETRY_S)

    async def aclose(self) -> None:
        """Close all sockets."""
        await self.redis.aclose()
