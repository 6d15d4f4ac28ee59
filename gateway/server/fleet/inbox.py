"""The requests of other gateways to this one, and whether their senders live.

Owns: that each request is read once and in the order of its sender. Must not know: what requests
say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from gateway.server.fleet import lua_scripts
from gateway.server.fleet.connection import RedisConnection
from gateway.server.fleet.pipelined_connection import (
    TIMEOUT_S,
    Arguments,
    PipelinedConnection,
)

log = logging.getLogger("gateway.fleet")

PAGE: Final = 500
"""Requests that are read at once."""
LOST_TICKS: Final = 15
"""Renewals without a sign of life after which another gateway counts as lost: 3 s."""
KEPT_MS: Final = 600_000
"""Milliseconds that requests wait which nobody reads: Redis may be away for so long."""


class Inbox:
    """The inbox of one gateway.

    :param id: name of this gateway
    :param received: called with each request
    :param gateway_lost: called with the name of a sender that shows no life
    """

    def __init__(
        self,
        id: str,
        connection: RedisConnection,
        *,
        received: Callable[[bytes], None],
        gateway_lost: Callable[[str], None],
    ) -> None:
        self._key = lua_scripts.inbox(id)
        self._connection = connection
        self._part = connection.part("the inbox of the link")
        self._received = received
        self._gateway_lost = gateway_lost
        self._read_to: bytes | str = "0-0"
        self._newest: dict[str, int] = {}  # number of the newest request of each sender
        self._missing: dict[str, int] = {}  # renewals without a sign of life of each sender

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

    def add_to(self, commands: list[Arguments]) -> Callable[[list[Any]], None]:
        """Add the question for signs of life to commands; return a function for the answers.

        Requests that were read are deleted, since they have texts that may be retracted.
        """
        senders = list(self._newest)
        commands.append(("EVAL", lua_scripts.FORGET, 1, self._key, self._read_to, KEPT_MS))
        if senders:
            commands.append(("MGET", *map(lua_scripts.alive, senders)))

        def read(answers: list[Any]) -> None:
            answers.pop(0)
            for sender, sign in zip(senders, answers.pop(0) if senders else (), strict=True):
                self._watch(sender, sign is not None)

        return read

    def _read(self, fields: list[bytes]) -> None:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        sender, number, payload = values[b"f"].decode(), int(values[b"n"]), values[b"p"]
        if number > self._newest.get(sender, 0):  # else the sender had no answer, and repeats it
            self._newest[sender] = number
            self._received(payload)

    def _watch(self, sender: str, lives: bool) -> None:
        if lives:
            self._missing.pop(sender, None)
            return
        self._missing[sender] = self._missing.get(sender, 0) + 1
        if self._missing[sender] >= LOST_TICKS:
            del self._missing[sender], self._newest[sender]
            log.warning("gateway %s is gone", sender)
            self._gateway_lost(sender)
