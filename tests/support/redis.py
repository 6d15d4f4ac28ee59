"""A real Redis for tests, whose rooms can be taken at once."""

from __future__ import annotations

from typing import Self

import pytest

from benchmarks import redis_server
from gateway.server.fleet import connection, feeds, inbox, leases, link, pipelined_connection, rooms
from gateway.server.fleet.lua_scripts import SINCE, alive
from tests.support.live import until

PATIENCE_S = 15
"""Seconds that gateways of this process wait for Redis and for each other: machines of CI stop for
seconds, and a gateway that stops for 2 seconds loses Redis and its rooms."""


class RedisServer(redis_server.RedisServer):
    """A Redis that gateways have used for long, and for which they wait `PATIENCE_S`."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.cli("SET", SINCE, "1")  # so that rooms are not left to gateways that come back
        self._patience = pytest.MonkeyPatch()
        for module in (connection, feeds, inbox, link, pipelined_connection):
            self._patience.setattr(module, "TIMEOUT_S", PATIENCE_S)
        for module in (leases, link):
            self._patience.setattr(module, "LEASE_MS", 1000 * PATIENCE_S)
        self._patience.setattr(rooms, "WAIT_S", 2 * PATIENCE_S)
        return self

    def __exit__(self, *exc: object) -> None:
        self._patience.undo()
        super().__exit__(*exc)

    async def use_real_limits(self, *gateways: str) -> None:
        """Let gateways wait no longer than elsewhere. Return when those with the ids do so."""
        self._patience.undo()
        signs = [alive(id) for id in gateways]
        await until(lambda: all(int(self.cli("PTTL", sign)) <= leases.LEASE_MS for sign in signs))
