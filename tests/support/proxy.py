"""A gateway behind a bad network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from benchmarks.soak.proxy import NONE, End, Faults, Lane, Proxy, Wire
from tests.support.live import Live

__all__ = ["NONE", "End", "Faults", "Lane", "Proxy", "Wire", "behind"]


@contextlib.asynccontextmanager
async def behind(live: Live, seed: int = 0) -> AsyncIterator[tuple[Proxy, Live]]:
    """Run a proxy in front of ``live``; yield it and the gateway seen through it."""
    port = int(live.ws.rpartition(":")[2])
    async with Proxy("127.0.0.1", port, seed=seed) as proxy:
        place = f"127.0.0.1:{proxy.port}"
        yield proxy, replace(live, ws=f"ws://{place}", http=f"http://{place}")
