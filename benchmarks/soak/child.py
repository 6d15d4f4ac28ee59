"""A gateway in its own process: started, killed, measured.

Owns: the process, its port, its log. Must not know: its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2

from benchmarks.ports import free_port

READY_S = 60.0
"""Seconds to wait until it is ready."""
END_S = 20.0
"""Seconds to wait after SIGTERM."""
PAGE = os.sysconf("SC_PAGE_SIZE")
READY = re.compile(rb" is ready[.,]")
"""Log line of a gateway that has started."""


class Child:
    """``gateway serve`` with some flags, on a port of 127.0.0.1.

    :param log: file for its stderr, one start after the other
    :param environ: variables besides those of this process, of which none is a setting
    :param port: default: a free one
    """

    def __init__(
        self,
        flags: Sequence[str],
        log: Path,
        environ: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> None:
        self.port = port or free_port()
        self._flags = (*flags, "--host", "127.0.0.1", "--port", str(self.port))
        self._log = log
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "PORT"))}
        self._environ = clean | dict(environ or {})
        self._process: asyncio.subprocess.Process | None = None
        self._begun = 0  # where in the log the newest start is
        self.up = False
        """True if it is ready and was not ended."""

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    @property
    def text(self) -> str:
        """Return its output so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    async def start(self) -> None:
        """Start it, and wait until it translates. Raises `ChildProcessError`."""
        with self._log.open("ab") as log:
            self._begun = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "serve", *self._flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,  # Ctrl-C is for the soak alone
            )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_S
        while not await self._started():
            if self._process.returncode is not None or loop.time() > deadline:
                await self.kill()
                raise ChildProcessError(f"The gateway did not start: {self.text[-2000:].strip()}")
            await asyncio.sleep(0.05)
        self.up = True

    async def kill(self) -> None:
        """End it as a power cut would: SIGKILL."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """End it as a deployment would, by SIGTERM, and return its exit status."""
        return await self._end(signal.SIGTERM)

    def rss(self) -> float:
        """Return its resident MB (10^6 bytes), if the system tells; else 0."""
        try:
            fields = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
        except OSError:
            return 0.0
        return int(fields[1]) * PAGE / 1e6 if fields else 0.0

    async def get(self, path: str) -> httpx2.Response | None:
        """Return an answer; None if it does not answer."""
        async with httpx2.AsyncClient(trust_env=False, timeout=2.0) as client:
            with contextlib.suppress(httpx2.HTTPError, OSError):
                return await client.get(f"http://127.0.0.1:{self.port}{path}")
        return None

    async def ready(self) -> bool:
        """Tell whether it says that it serves shared rooms."""
        answer = await self.get("/readyz/rooms")
        return answer is not None and answer.status_code == 200

    async def gauge(self, name: str) -> float:
        """Return the sum of a metric; 0 if it does not answer."""
        answer = await self.get("/metrics")
        lines = [] if answer is None else answer.text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    async def _end(self, sign: signal.Signals) -> int:
        process = self._process
        assert process is not None, "it was not started"
        self.up = False
        if process.returncode is None:
            process.send_signal(sign)
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode

    async def _started(self) -> bool:
        with self._log.open("rb") as log:
            log.seek(self._begun)
            # Another gateway may answer on this port.
            return READY.search(log.read()) is not None and await self.ready()
