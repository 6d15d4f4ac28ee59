"""A listener that ends in the very turn of the event loop in which it accepts a connection."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from benchmarks.soak.proxy import Proxy
from gateway.core.base.eager import run_eagerly
from tests.support.live import until
from tests.support.stream_server import StreamServer


async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize("make", [lambda: StreamServer(hear), lambda: Proxy("127.0.0.1", 1)])
def test_a_connection_accepted_just_before_the_end_is_not_left_to_the_collector(make: Any) -> None:
    rests: list[Awaitable[None] | None] = []

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        accept = loop._accept_connection
        server: AbstractAsyncContextManager[Any] = make()

        def accepted(*args: object) -> None:
            accept(*args)
            rests.append(run_eagerly(server.__aexit__(None, None, None)))  # type: ignore[arg-type]

        loop._accept_connection = accepted
        serving = await server.__aenter__()
        with socket.create_connection(("127.0.0.1", serving.port)):
            await until(lambda: bool(rests))
            if rests[0] is not None:
                await rests[0]

    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(one.message) for one in left] == []
