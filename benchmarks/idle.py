"""Memory of an idle session: the process's resident size divided by its sockets.

    python -m benchmarks.idle [--sessions 10000] [--rooms 100]

Rows: a bare Starlette socket; a gateway whose sockets share rooms; one in which each socket has a
room of its own. For each: bytes a socket when all are connected and silent; after each has read a
caption; and after all have left and as many others have come. In the last row the new sockets also
carry the rooms of the old ones, which can be resumed for two hours. The kernel's own 9 KB a socket
are not counted. The exit status is 1 if the goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import uvloop

from benchmarks import host
from benchmarks.client import Socket

GOAL = 32_000
"""Bytes of a session."""
AT_ONCE = 50
"""Sockets that connect, or speak, at the same time."""
SETTLE_S = 3.0
"""Seconds after which the work that follows a connect is done: presence, collected garbage."""


async def connect(port: int, queries: list[str]) -> list[Socket]:
    sockets = []
    for at in range(0, len(queries), AT_ONCE):
        some = queries[at : at + AT_ONCE]
        sockets += await asyncio.gather(*(Socket.connect(port, query) for query in some))
    return sockets


async def speak(sockets: list[Socket], rooms: int) -> None:
    """Have one speaker in each room say something that all its readers read."""
    for at in range(0, rooms, AT_ONCE):
        some = range(at, min(at + AT_ONCE, rooms))
        ends = [socket.wait("f") for room in some for socket in sockets[room::rooms]]
        for room in some:
            sockets[room].send("good morning everybody and welcome to our meeting")
        async with asyncio.timeout(60):
            await asyncio.gather(*ends)


async def measure(
    server: AbstractContextManager[host.Host], queries: list[str], rooms: int
) -> dict[str, float]:
    """Return the bytes of a socket: idle, after traffic, and after all sockets were replaced."""
    with server as running:
        warm = await connect(running.port, queries[:AT_ONCE])
        await speak(warm, min(AT_ONCE, rooms))
        await _leave(warm)
        before = running.memory()
        each = {}
        cpu = running.cpu()
        sockets = await connect(running.port, queries)
        each["connect_us"] = 1e6 * (running.cpu() - cpu) / len(queries)
        await asyncio.sleep(SETTLE_S)
        each["idle"] = (running.memory() - before) / len(queries)
        await speak(sockets, rooms)
        await asyncio.sleep(SETTLE_S)
        each["after traffic"] = (running.memory() - before) / len(queries)
        await _leave(sockets)
        sockets = await connect(running.port, queries)
        await asyncio.sleep(SETTLE_S)
        each["others came"] = (running.memory() - before) / len(queries)
        await _leave(sockets)
        each["all gone"] = (running.memory() - before) / len(queries)
        return each


async def _leave(sockets: list[Socket]) -> None:
    for socket in sockets:
        socket.close()
    await asyncio.sleep(SETTLE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rooms", type=int, default=100)
    parser.add_argument("--only", help="the row whose name has this in it")
    options = parser.parse_args()
    core = host.settle(options.sessions)
    roomy = host.ROOMY
    most = min(options.rooms, options.sessions)
    some = [f"from=en&to=de&room=r{n % most}" for n in range(options.sessions)]
    own = ["from=en&to=de"] * options.sessions
    rows: dict[str, tuple[Callable[[], AbstractContextManager[host.Host]], list[str], int]] = {
        "bare Starlette socket": (lambda: host.bare(core), own, len(own)),
        f"gateway, {most} rooms": (lambda: host.gateway(*roomy, core=core), some, most),
        "gateway, a room each": (lambda: host.gateway(*roomy, core=core), own, len(own)),
    }
    gc.freeze()
    worst = 0.0
    print(f"{options.sessions} sockets; KB (1000 bytes) of resident memory for each")
    print(f"{'':24}{'idle':>8}{'after traffic':>16}{'others came':>14}{'connect':>12}")
    for name, (server, queries, rooms) in rows.items():
        if options.only and options.only not in name:
            continue
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            each = runner.run(measure(server(), queries, rooms))
        cells = [each[key] / 1000 for key in ("idle", "after traffic", "others came")]
        print(
            f"{name:24}{cells[0]:8.1f}{cells[1]:16.1f}{cells[2]:14.1f}{each['connect_us']:9.0f} us",
            flush=True,
        )
        if name.startswith("gateway"):
            worst = max(worst, 1000 * max(cells))
    with contextlib.suppress(BrokenPipeError):
        print(f"{'met' if worst <= GOAL else 'NOT MET'}: at most {GOAL / 1000:g} KB")
    sys.exit(worst > GOAL)


if __name__ == "__main__":
    main()
