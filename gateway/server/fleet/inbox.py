"""The requests of other gateways to this one, and whether their senders live.

Owns: that each request is read once and in the order of its sender. Must not know: what requests
say.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import LinkPart, RedisConnection
from gateway.server.fleet.feeds import LinkListener
from gateway.server.fleet.pipelined_connection import TIMEOUT_S, PipelinedConnection, Question

log = logging.getLogger("gateway.fleet")

PAGE: Final = 500
"""Requests that are read at once."""
LOST_TICKS: Final = 15
"""Renewals without a sign of life after which another gateway counts as lost: 3 s."""
KEPT_MS: Final = 600_000
"""Milliseconds that requests wait which nobody reads: Redis may be away for so long."""


class Inbox:
    """The inbox of one gateway."""

    def __init__(self, id: str, connection: RedisConnection, listener: LinkListener) -> None:
        self._key = lua_scripts.inbox(id)
        self._connection = connection
        self._part = LinkPart("the inbox of the link", connection)
        self._listener = listener
        self._read_to: bytes | str = "0-0"
        self._newest: dict[str, int] = {}  # number of the newest request of each sender
        self._missing: Counter[str] = Counter()  # renewals without a sign of life of each sender

    async def run(self) -> None:
        """Read the requests until cancelled."""
        await self._part.run(self._listen)

    async def _listen(self, connection: PipelinedConnection) -> None:
        """Read requests while the connection lives. Raises `Away`."""
        block = 0  # the first answer comes at once, and shows that the inbox can be read
        while True:
            wait = ("BLOCK", block) if block else ()
            command = ("XREAD", "COUNT", PAGE, *wait, "STREAMS", self._key, self._read_to)
            (answer,) = await connection.execute([command])
            self._part.works()
            block = round(TIMEOUT_S * 500)
            for _, entries in answer or ():
                for id, fields in entries:
                    self._read_to = id
                    with self._connection.skipping:
                        self._read(fields)

    def questions(self) -> Iterator[Question]:
        """Yield the questions of a renewal: whether the senders live.

        Requests that were read are deleted, since they have texts that may be retracted.
        """
        yield ("EVAL", lua_scripts.FORGET, 1, self._key, self._read_to, KEPT_MS), None
        if senders := list(self._newest):
            yield ("MGET", *map(lua_scripts.alive, senders)), partial(self._watch, senders)

    def _read(self, fields: list[bytes]) -> None:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        sender, number, payload = values[b"f"].decode(), int(values[b"n"]), values[b"p"]
        if number > self._newest.get(sender, 0):  # else the sender had no answer, and repeats it
            self._newest[sender] = number
            self._listener.on_request(payload)

    def _watch(self, senders: Sequence[str], signs: Sequence[bytes | None]) -> None:
        for sender, sign in zip(senders, signs, strict=True):
            self._missing[sender] = 0 if sign is not None else self._missing[sender] + 1
            if self._missing[sender] >= LOST_TICKS:
                del self._missing[sender], self._newest[sender]
                log.warning("gateway %s is gone", sender)
                self._listener.on_gateway_lost(sender)
