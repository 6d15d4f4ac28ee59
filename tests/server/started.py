"""Gateways as processes, and their output."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPTED = ("--engine", "scripted", "--port", "FREE")
"""Flags of a gateway without a model, on a free port."""

PASS = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.executable, [sys.executable, "-m", "gateway", "serve", *sys.argv[2:]])
"""
"""A program that passes a socket, its first argument, to the gateway that it starts."""


@dataclass
class Process:
    """A started gateway and its lines on stderr."""

    popen: subprocess.Popen[str]
    port: int
    said: list[str] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    until: str = "Ctrl-C"
    """Text in the line that says that the gateway is ready."""

    def listen(self) -> None:
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            self.said.append(line)
            if self.until in line:
                self.ready.set()
        self.ready.set()

    @property
    def text(self) -> str:
        return "".join(self.said)


@contextlib.contextmanager
def gateway(
    *flags: str,
    port: int = 0,
    program: tuple[str, ...] = (sys.executable, "-m", "gateway", "serve"),
    pass_fds: tuple[int, ...] = (),
    until: str = "Ctrl-C",
    cwd: Path = ROOT,
    **environ: str,
) -> Iterator[Process]:
    """Start a gateway, and yield it when it has printed ``until`` or has ended."""
    port = port or free_port()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "PORT"))}
    environ = {k: v.replace("FREE", str(port)) for k, v in environ.items()}
    popen = subprocess.Popen(
        [*program, *(f.replace("FREE", str(port)) for f in flags)],
        cwd=cwd,
        env=clean | environ,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    process = Process(popen, port, until=until)
    reader = threading.Thread(target=process.listen)
    reader.start()
    try:
        assert process.ready.wait(30), process.text
        yield process
    finally:
        popen.kill()
        popen.wait()
        reader.join()
        assert popen.stderr is not None
        popen.stderr.close()
