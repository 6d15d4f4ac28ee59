"""The real vllm-router, with the options that the how-to guide recommends."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.ports import free_port
from tests.support.reverse_proxy import started

GUIDE = Path(__file__).parents[2] / "docs/how-to/model-pool.md"


def recommended() -> list[str]:
    """Return the arguments of ``vllm-router`` in the guide, without addresses."""
    text = GUIDE.read_text("utf-8").replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.startswith("    vllm-router "))
    _, _, options = line.partition(" --policy ")
    return ["--policy", *shlex.split(options)]


@contextlib.asynccontextmanager
async def model_router(*replicas: str) -> AsyncIterator[str]:
    """Run a router in front of the base URLs of model servers; give its own base URL."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("vllm-router")),
        *("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())),
        *("--worker-urls", *replicas),
        *recommended(),
    ]
    async with started(command, port):
        yield f"http://127.0.0.1:{port}"
