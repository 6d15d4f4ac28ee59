"""The CPU time of single steps of the event loop, while the real application handles an input."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from starlette.types import ASGIApp, Message

from gateway.server.routes import qr
from gateway.text import languages

HELD_S = 0.05
"""Seconds of CPU time for which no input may hold the event loop."""
READ = 65_536
"""Bytes of a body in a message of the server."""
Pairs = Sequence[tuple[bytes, bytes]]


@contextlib.contextmanager
def measured() -> Iterator[list[float]]:
    """Yield a list whose item is the CPU time of the longest step of the loop, in seconds."""
    run, longest = asyncio.Handle._run, [0.0]

    def timed(handle: asyncio.Handle) -> None:
        before = time.thread_time()
        run(handle)
        longest[0] = max(longest[0], time.thread_time() - before)

    asyncio.Handle._run = timed  # type: ignore[assignment]
    try:
        yield longest
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


async def longest_step(handle: Callable[[], Awaitable[object]]) -> float:
    """Return the CPU time of the longest step while an input is handled, of six runs the least.

    One run is enough if it is within the bound, so that the machine's other work does not matter.
    """
    best = float("inf")
    for _ in range(6):
        for cache in caches():
            cache.cache_clear()  # a second run must cost as much as the first
        with measured() as longest:
            await handle()
        best = min(best, longest[0])
        if best <= HELD_S / 2:
            break
    return best


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector off: a collection belongs to no input."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def caches() -> list[Any]:
    """Return the caches of values that clients send."""
    return [
        one
        for module in (languages, qr)
        for one in vars(module).values()
        if isinstance(one, functools._lru_cache_wrapper)
    ]


async def request(
    app: ASGIApp, method: str, path: str, *, query: bytes = b"", headers: Pairs = (), body: bytes
) -> int:
    """Send a request and return the status. The client leaves when the answer has begun."""
    statuses: list[int] = []
    begun = asyncio.Event()
    # Servers read no more of a body at once.
    bodies = [body[at : at + READ] for at in range(0, len(body), READ)] or [b""]

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(0), "more_body": bool(bodies)}
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        else:
            begun.set()

    scope = {"type": "http", "method": method, "http_version": "1.1", "scheme": "http"}
    await app({**scope, **_place(path, query, headers)}, receive, send)
    return statuses[0]


async def converse(
    app: ASGIApp,
    path: str,
    frames: Iterable[str | bytes],
    *,
    query: bytes = b"",
    headers: Pairs = (),
    subprotocols: Sequence[str] = (),
    idle: Callable[[], bool] = lambda: True,
) -> list[Message]:
    """Open a socket, send frames, and leave when the application is ``idle``. Return its answers.

    :param idle: tells whether nothing is in progress any more
    """
    answers: list[Message] = []
    waiting: list[Message] = [{"type": "websocket.connect"}]
    for frame in frames:
        kind = "text" if isinstance(frame, str) else "bytes"
        waiting.append({"type": "websocket.receive", kind: frame})
    waiting.reverse()

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        for turn in range(2_000):
            # Threads may have something to say after the first thousand turns.
            await asyncio.sleep(0 if turn < 1_000 else 0.001)
            if idle():
                break
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        answers.append(message)

    scope = {"type": "websocket", "scheme": "ws", "subprotocols": list(subprotocols)}
    await app({**scope, **_place(path, query, headers)}, receive, send)
    return answers


def _place(path: str, query: bytes, headers: Pairs) -> dict[str, Any]:
    return {
        "path": path,
        "raw_path": path.encode(errors="surrogateescape"),
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "extensions": {},
    }
