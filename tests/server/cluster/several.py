"""A gateway of several processes, seen from outside."""

from __future__ import annotations

import contextlib
import os
import re
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from gateway.server.cluster.placement import owner
from tests.server.started import SCRIPTED, Process, gateway
from tests.support.talk import Talk

CROWD = 16
"""Sockets of one test. That one of two workers accepts all of them happens once in 32,768 runs."""

ROOMS = [next(r for n in range(99) if owner(r := f"r{n}", (0, 1)) == m) for m in (0, 1)]
"""One room of each worker, by its number."""


def workers(*flags: str, count: int = 2) -> contextlib.AbstractContextManager[Process]:
    """Start a gateway of ``count`` workers."""
    return gateway(*SCRIPTED, "--workers", str(count), "--scripted-pace", "0.01", *flags)


@contextlib.asynccontextmanager
async def talk(process: Process, query: str, **options: Any) -> AsyncIterator[Talk]:
    """Connect a WebSocket to a gateway."""
    url = f"ws://127.0.0.1:{process.port}/v1/ws?{query}"
    async with connect(url, max_size=None, **options) as ws:
        yield Talk(ws)


def get(process: Process, path: str, method: str = "GET") -> str:
    """Return the body of a response over HTTP."""
    request = urllib.request.Request(f"http://127.0.0.1:{process.port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as page:
        body: bytes = page.read()
    return body.decode()


def metrics(process: Process) -> dict[str, float]:
    """Fetch the metrics of all workers, see `samples`."""
    return samples(get(process, "/metrics"))


def samples(text: str) -> dict[str, float]:
    """Parse metrics into values by name and labels.

    Labels are sorted: their order in the text differs between versions of prometheus-client.
    """
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def children(process: Process) -> dict[int, int]:
    """Return the process ids of the workers, by number."""
    return {number: pid for number, (pid, _) in sockets(process).items()}


def sockets(process: Process) -> dict[int, tuple[int, Path]]:
    """Return process id and Unix socket of each worker, by number."""
    found = {}
    parent = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}")
    for pid in (parent / "children").read_text().split():
        with contextlib.suppress(OSError):  # the process ended in the meantime
            for path in listening(Path(f"/proc/{pid}")):
                number = re.fullmatch(r".*/gateway-\w+/(\d+)\.sock", path)
                if number:
                    found[int(number[1])] = (int(pid), Path(path))
    return found


def listening(process: Path) -> list[str]:
    """Return the paths of the Unix sockets that a worker listens on."""
    if b"gateway.server.cluster.worker" not in (process / "cmdline").read_bytes():
        return []
    files = {os.readlink(one) for one in (process / "fd").iterdir() if one.is_symlink()}
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return [row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in files]


def there(found: dict[int, int]) -> bool:
    """Tell whether any of these processes still exists."""
    return any(os.path.exists(f"/proc/{pid}") for pid in found.values())
