"""The end of a listener of asyncio, at which no connection is lost.

Owns: the turns of the event loop between a connection and its handler. Must not know: what is
served.
"""

from __future__ import annotations

import asyncio

TURNS = 4
"""Turns of the event loop after which an accepted connection has its transport, its protocol, and a
task that has begun to handle it; one more if the caller comes before it in each turn."""


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nothing more. All connections that were accepted are with their handlers on return.

    asyncio of Python 3.11 loses a connection whose listener is closed before it has a transport. It
    stays open until the garbage collector finds it, as a fault of whatever test runs then:
    https://github.com/python/cpython/issues/109564
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
        for _ in range(TURNS):
            await asyncio.sleep(0)
    server.close()
