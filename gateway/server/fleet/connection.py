"""The connections of a gateway to Redis, and whether they work.

Owns: the client, connections that are opened again when they are lost, and the state that
`/readyz` and ``degraded`` report. Must not know: what is written or read.

Each part of the link has a connection of its own. The link works while all of them do, so a part
that fails is seen, whatever it fails of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.errors import redacted
from gateway.io.tasks import keep_running
from gateway.server.fleet.pipelined_connection import (
    TIMEOUT_S,
    Away,
    PipelinedConnection,
    translated,
)

log = logging.getLogger("gateway.fleet")

Work = Callable[[PipelinedConnection], Coroutine[Any, Any, None]]

RETRY_S: Final = 0.1
"""Seconds between two attempts to reach Redis at first; they double up to `MOST_S`."""
MOST_S: Final = 0.5
"""Seconds between two attempts at most. The owner of a room has to be back within
`gateway.server.fleet.lua_scripts.RETURN_MS`."""
SETTLED_S: Final = 5.0
"""Seconds after which a connection is not lost soon after its begin."""
SHORT: Final = 3
"""Connections in a row that were lost soon, after which the next one counts only after
`SETTLED_S`: a gateway must not call itself ready again and again."""


class LinkPart:
    """A part of the link: tasks on a connection of their own.

    :param name: shown in logs and metrics
    """

    def __init__(self, name: str, redis: RedisConnection) -> None:
        self.working = False
        self.proved = False
        """True while the connection of now has done what the part needs. It counts as working at
        once, or later if those before were lost soon."""
        self._name = name
        self._redis = redis
        self._begun = 0.0
        self._tries = 0
        self._short = 0  # connections in a row that worked and were lost soon
        self._settling: asyncio.TimerHandle | None = None
        redis.parts.append(self)

    async def run(self, *work: Work, lost: Callable[[], None] = lambda: None) -> None:
        """Run tasks that end only by raising (as a rule `Away`) on a connection of their own, and
        on another one after any failure. After the tasks of each have ended, ``lost`` is called.
        """
        run = partial(self._run, work, lost)
        await keep_running(self._name, run, expected=Away, pause=self._pause)

    def works(self) -> None:
        """Note that Redis has done the work of the part on this connection."""
        if self.proved:
            return
        self.proved = True
        if self._short < SHORT:
            self._settled()
        else:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_at(self._begun + SETTLED_S, self._settled)

    async def _run(self, work: tuple[Work, ...], lost: Callable[[], None]) -> None:
        self._begun, self.proved = asyncio.get_running_loop().time(), False
        try:
            async with self._redis.pipelined() as connection:
                await _first_end([part(connection) for part in work])
        except Exception as exc:
            self._fails(exc if isinstance(exc, Away) else Away(exc))
            raise
        finally:
            if self._settling is not None:
                self._settling.cancel()
            lost()

    def _settled(self) -> None:
        self.working = True
        self._redis.update(None)

    def _fails(self, away: Away) -> None:
        if asyncio.get_running_loop().time() - self._begun >= SETTLED_S:
            self._short = self._tries = 0
        else:
            self._short += self.proved
            self._tries += 1
        self.working = self.proved = False
        self._redis.update(away)

    def _pause(self) -> float:
        return min(MOST_S, RETRY_S * 2.0 ** min(self._tries - 1, 9))


async def _first_end(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run tasks until one of them ends, end the others, and raise the cause of its end."""
    # A task group would not notice a task that returns or is cancelled by nobody.
    tasks = [asyncio.create_task(part) for part in work]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    # A mistake of this code is more than a lost connection, which may be its consequence.
    silent = RuntimeError("a task of the link has ended by itself")
    faults = [silent if part.cancelled() else part.exception() or silent for part in ended]
    faults.sort(key=lambda fault: isinstance(fault, Away))
    try:
        raise faults[0]
    finally:
        del tasks, task, ended, faults, silent  # each holds the fault, and that holds this frame


class Skipping:
    """Blocks that skip unreadable data. Their failures are counted and never raised."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: object
    ) -> bool:
        if not isinstance(exc, Exception):
            return False
        self.note(exc)
        return True

    def note(self, exc: Exception) -> None:
        """Count a failure, and log the 1st, 2nd, 4th, 8th ..."""
        self.count += 1
        if not self.count & (self.count - 1):
            line = "something in Redis cannot be read and is skipped (%d)"
            log.error(line, self.count, exc_info=redacted(exc))


class RedisConnection:
    """A client of Redis, and the parts that use it."""

    def __init__(self, url: str, changed: Callable[[bool], None]) -> None:
        self.up = False
        self.foreign: str | None = None
        """Version of the messages of the other gateways, if it is not that of this gateway."""
        self.known = asyncio.Event()
        """Set once it is known whether Redis can be used."""
        self.skipping = Skipping()
        """Block that reads from Redis: one message must not stop all others."""
        # Without retries, because a silent reconnection would hide what was lost. Without
        # `socket_timeout`, because redis-py sends with `asyncio.wait_for` then, which may lose a
        # cancellation before Python 3.12: the task would never end.
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=None,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # of which all answers are lists
        )
        self.parts: list[LinkPart] = []
        self._changed = changed

    async def execute(self, *command: str | int | bytes) -> Any:
        """Return the answer to a command that needs no connection of its own. Raises `Away`."""
        redis: Any = self._redis  # `execute_command` has no types
        with translated():
            async with asyncio.timeout(TIMEOUT_S):
                return await redis.execute_command(*command)

    def joined(self, version: str, *, own: str) -> None:
        """Note the version of the messages that the fleet uses."""
        foreign = None if version == own else version
        if foreign == self.foreign:
            return
        self.foreign = foreign
        if foreign is not None:
            log.error(
                "The gateways of this Redis exchange messages of version %s, and this one of "
                "version %s. It serves no shared rooms until they have ended.",
                version,
                own,
            )
        self.update(None)

    def update(self, away: Away | None) -> None:
        """Note that the state of a part or the version has changed. Without all parts, and the
        same version, the link does not work.

        :param away: why a part works no longer
        """
        up = self.foreign is None and all(part.working for part in self.parts)
        if up or away is not None or self.foreign is not None:
            if not self.known.is_set() and away is not None:
                log.warning("Redis cannot be reached: %s", away)
            self.known.set()
        if up != self.up:
            self.up = up
            if up:
                log.info("Redis is there")
            elif away is not None:
                log.warning("Redis is away: %s", away)
            self._changed(up)

    @asynccontextmanager
    async def pipelined(self) -> AsyncGenerator[PipelinedConnection]:
        """Return a connection of its own. Raises `Away`."""
        pool: Any = self._redis.connection_pool  # `make_connection` has no types
        connection = pool.make_connection()
        try:
            with translated():
                async with asyncio.timeout(TIMEOUT_S):
                    await connection.connect()
                    # The handshake of redis-py may pass without a password that Redis requires,
                    # and Redis closes on a long command then, without a reason.
                    await connection.send_command("PING", check_health=False)
                    await connection.read_response()
            yield PipelinedConnection(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close all sockets."""
        await self._redis.aclose()
