"""A gateway of several processes, and what is seen of them from outside."""

from __future__ import annotations

import contextlib
import os
import re
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from gateway.server.cluster.placement import owner
from tests.server.started import SCRIPTED, Process, gateway
from tests.support.talk import Talk

CROWD = 16
"""Sockets of which some are accepted by either process: all by one is one case in 32,768."""

ROOMS = [next(r for n in range(99) if owner(r := f"r{n}", (0, 1)) == m) for m in (0, 1)]
"""A room of each worker."""


def workers(*flags: str, count: int = 2) -> contextlib.AbstractContextManager[Process]:
    """A gateway of so many processes."""
    return gateway(*SCRIPTED, "--workers", str(count), "--scripted-pace", "0.01", *flags)


@contextlib.asynccontextmanager
async def talk(process: Process, query: str, **options: Any) -> AsyncIterator[Talk]:
    """A socket."""
    url = f"ws://127.0.0.1:{process.port}/v1/ws?{query}"
    async with connect(url, max_size=None, **options) as ws:
        yield Talk(ws)


def get(process: Process, path: str, method: str = "GET") -> str:
    """The body of an answer over HTTP."""
    request = urllib.request.Request(f"http://127.0.0.1:{process.port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as page:
        body: bytes = page.read()
    return body.decode()


def metrics(process: Process) -> dict[str, float]:
    """By name and labels, as they stand."""
    lines = get(process, "/metrics").splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def children(process: Process) -> dict[int, int]:
    """The workers' processes, by number."""
    return {number: pid for number, (pid, _) in sockets(process).items()}


def sockets(process: Process) -> dict[int, tuple[int, Path]]:
    """The workers' processes and their sockets, by number."""
    found = {}
    parent = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}")
    for pid in (parent / "children").read_text().split():
        with contextlib.suppress(OSError):  # it ends meanwhile
            for path in listening(Path(f"/proc/{pid}")):
                number = re.fullmatch(r".*/gateway-\w+/(\d+)\.sock", path)
                if number:
                    found[int(number[1])] = (int(pid), Path(path))
    return found


def listening(process: Path) -> list[str]:
    """The Unix sockets of a worker, by name."""
    if b"gateway.server.cluster.worker" not in (process / "cmdline").read_bytes():
        return []
    files = {os.readlink(one) for one in (process / "fd").iterdir() if one.is_symlink()}
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return [row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in files]


def there(found: dict[int, int]) -> bool:
    """Whether any of these processes is."""
    return any(os.path.exists(f"/proc/{pid}") for pid in found.values())
