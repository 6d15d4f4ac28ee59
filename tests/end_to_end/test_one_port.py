"""Two gateways as processes on one port: the kernel chooses, and Redis joins their rooms."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from websockets.asyncio.client import connect

from benchmarks.ports import free_port
from tests.server.started import Process, gateway
from tests.support.redis import RedisServer
from tests.support.talk import Talk

CROWD = 16
"""Readers of one test. One of two processes accepts all of them once in 32,768 runs."""


def connections(process: Process) -> int:
    """Return the number of TCP connections of a process to its port, as Linux lists them."""
    files = Path(f"/proc/{process.popen.pid}/fd").iterdir()
    own = set()
    for file in files:
        with contextlib.suppress(OSError):  # it was closed meanwhile
            own.add(os.readlink(file))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    local = f":{process.port:04X}"
    return sum(
        row[1].endswith(local) and row[3] == "01" and f"socket:[{row[9]}]" in own for row in rows
    )


async def test_a_caption_reaches_the_readers_of_two_gateways_on_one_port(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, contextlib.ExitStack() as processes:
        port = free_port()
        flags = ("--engine", "scripted", "--port", "FREE", "--reuse-port", "--redis", redis.url)
        one, two = (processes.enter_context(gateway(*flags, port=port)) for _ in range(2))
        async with contextlib.AsyncExitStack() as stack:
            url = f"ws://127.0.0.1:{port}/v1/ws?room=r&from=en&to=de"
            talks = []
            for _ in range(CROWD):
                talks.append(Talk(await stack.enter_async_context(connect(url, max_queue=None))))
                await talks[-1].next()
            counts = (connections(one), connections(two))
            assert sum(counts) == CROWD and min(counts) > 0, "both have sockets of the room"
            for number, speaker in enumerate(talks[:2]):
                await speaker.send(f"sentence {number}")
                ends = [(await talk.until("final"))[-1] for talk in talks]
                assert len({(end["id"], end["seq"], end["text"]) for end in ends}) == 1
        for process in (one, two):
            process.popen.terminate()
            assert process.popen.wait() == 0
            assert "Traceback" not in process.text
