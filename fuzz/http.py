"""Requests, allowed by the OpenAPI document or not, to a running gateway.

Promises: no answer is a 500, each is one that ``docs/schema/openapi.json`` describes, and the log
has no traceback. schemathesis makes the requests. Meanwhile a client speaks in the room ``demo``. A
room's event stream is left out: it has no end, and schemathesis waits for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.soak.child import Child

ROOT = Path(__file__).resolve().parent.parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


async def speak(port: int) -> None:
    """Keep the room in existence, though requests delete it."""
    while True:
        with contextlib.suppress(OSError, WebSocketException):
            async with connect(f"ws://127.0.0.1:{port}/v1/ws?room=demo&to=de") as socket:
                await socket.send("Good morning")
                async for _ in socket:
                    pass
        await asyncio.sleep(0.05)


async def run(seconds: int, seed: int) -> int:
    """Send requests for some seconds and return the exit status.

    A ``seed`` other than 0 repeats the requests of that seed.
    """
    with tempfile.TemporaryDirectory(prefix="gateway-fuzz-") as folder:
        flags = ("--engine", "scripted", "--scripted-pace", "0", "--log-level", "warning")
        child = Child(flags, Path(folder) / "gateway.log")
        await child.start()
        speaking = asyncio.create_task(speak(child.port))
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schemathesis.cli", "run", "docs/schema/openapi.json"),
                *("--url", f"http://127.0.0.1:{child.port}", "--max-time", str(seconds)),
                *(("--seed", str(seed)) if seed else ()),
                *(
                    "--exclude-operation-id",
                    "events",
                    "--checks",
                    ",".join(CHECKS),
                    "--no-color",
                    "--warnings",
                    "off",
                ),
                cwd=ROOT,
            )
            status = await process.wait()
        finally:
            speaking.cancel()
            ended = await child.stop()
        broken = "Traceback" in child.text
        if broken:
            print(child.text)
        return 1 if status or ended or broken else 0


def search(seconds: int, seed: int) -> int:
    """Run from a synchronous caller; see `run`."""
    return asyncio.run(run(seconds, seed))
