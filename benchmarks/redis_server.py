"""A real Redis for tests and soaks, which can be stopped, frozen and filled."""

from __future__ import annotations

import asyncio
import copy
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from benchmarks.ports import free_port

START_S = 40.0
"""Seconds that a server may take to answer."""


class RedisServer:
    """A ``redis-server`` on a free port of this machine.

    :param folder: where it keeps its append-only file
    :param durable: write every event to the disk before it is acknowledged
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        if self._durable:
            command += ["--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(
            command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + START_S
        while self.cli("PING") != "PONG":
            assert time.monotonic() < end, "redis-server does not answer"

    def cli(self, *command: str) -> str:
        """Run a command with ``redis-cli``, and return its output."""
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), *command],
            capture_output=True,
            text=True,
            errors="replace",  # the signing key is no text
        )
        return done.stdout.strip()

    def at(self, port: int) -> Self:
        """Return the same server as it is reached through a proxy on another port."""
        other = copy.copy(self)
        other.url = f"redis://127.0.0.1:{port}/0"
        return other

    def kill(self) -> None:
        """End the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop the server without closing its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def restart(self) -> None:
        """Kill the server and start it again; without ``durable`` all its data is lost."""
        self.kill()
        await asyncio.to_thread(self.start)
