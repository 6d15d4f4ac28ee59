"""A real Redis for tests, whose rooms can be taken at once."""

from __future__ import annotations

from typing import Self

from benchmarks import redis_server
from gateway.server.fleet.lua_scripts import SINCE


class RedisServer(redis_server.RedisServer):
    """A Redis that gateways have used for long."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.cli("SET", SINCE, "1")  # so that rooms are not left to gateways that come back
        return self
