"""One architecture as a process with all its children: started, ready, ended.

Owns: the command, its log, the end of all its processes. Must not know: the requests.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from benchmarks.journey.client import fetched
from benchmarks.journey.device import family, gone
from benchmarks.journey.plan import PLACES, Plan
from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
"""The checkout, from which the child processes import both packages."""
READY_S = 400.0
"""Seconds to wait until it is ready: an engine that compiles its model takes a hundred."""
END_S = 20.0
"""Seconds to wait after SIGTERM."""

UNLIMITED = (
    *("--limit-stretch", "1000000", "--limit-queue", "100000", "--limit-inflight", "4096"),
    *("--limit-job-s", "3600", "--limit-rate", "10000", "--limit-burst", "10000"),
    *("--limit-address-rate", "10000", "--log-level", "warning", "--hang-s", "600"),
)
"""Settings without limits: the gateway refuses what it cannot do in time, the others do not."""


class Server:
    """An architecture on a free port of 127.0.0.1.

    :param log: file for its output
    :param flags: more flags of ``gateway serve``, for (f)
    """

    def __init__(self, plan: Plan, log: Path, flags: tuple[str, ...] = ()) -> None:
        self.port = free_port()
        self._command = command(plan, self.port, flags)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it translates. Raises `ChildProcessError`."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "PORT"))}
        paths = [str(ROOT), *filter(None, [clean.get("PYTHONPATH")])]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean | {"PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,  # to end it with its children; Ctrl-C is for this process
            )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_S
        try:
            while not await self._ready():
                if self._process.returncode is not None or loop.time() > deadline:
                    said = self._log.read_text("utf-8", "replace")[-2000:].strip()
                    raise ChildProcessError(f"It did not start: {said}")
                await asyncio.sleep(0.1)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End it and all processes that it has started."""
        process = self._process
        assert process is not None, "it was not started"
        kin = family(process.pid)
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        # The next architecture needs the memory of the device.
        await asyncio.to_thread(gone, kin, END_S)

    async def _ready(self) -> bool:
        try:
            await fetched(self.port, "/readyz")
        except OSError:
            return False
        return True


def command(plan: Plan, port: int, flags: tuple[str, ...] = ()) -> list[str]:
    """Return the command that starts an architecture."""
    if plan.architecture != "f":
        started = msgspec.json.encode({"plan": plan, "port": port}).decode()
        return [sys.executable, "-m", "benchmarks.journey.front", started]
    found = ["serve", "--host", "127.0.0.1", "--port", str(port), "--model", plan.model]
    if plan.profile is not None:
        found += ["--profile", plan.profile]
    if plan.backend == "vllm":
        found += ["--engine", "vllm", "--vllm-arg", f"load_format={plan.load_format}"]
        found += ["--vllm-arg", f"dtype={plan.dtype}"]
        found += ["--gpu-memory-utilization", str(plan.share)]
        found += ["--max-num-seqs", str(PLACES["f"]), "--max-num-batched-tokens", "8192"]
        if plan.max_model_len is not None:
            found += ["--max-model-len", str(plan.max_model_len)]
        for key, value in plan.extra.items():
            found += ["--vllm-arg", f"{key}={msgspec.json.encode(value).decode()}"]
        if plan.dummy:
            found.append("--no-guards")  # such output is no translation, and they would say so
    else:
        found += ["--inter-threads", str(plan.cpus)]
    return [sys.executable, "-m", "gateway", *found, *UNLIMITED, *flags]
