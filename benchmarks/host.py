"""A server in its own process, and measurements of it from outside.

Owns: starting `gateway serve` (or the minimal handler) on one core, its memory, CPU time and
metrics. Must not know: what is measured. Nothing is added to the gateway.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.ports import free_port

START_S = 60.0
"""Seconds a server may take until it is ready."""
ROOMY = ("--limit-sessions", "30000", "--limit-rooms", "30000", "--max-num-seqs", "4000")
"""Settings of a gateway that takes more sockets than by default, and whose engine is never the
bottleneck.
"""


class Host:
    """A running server. Sizes are bytes, times seconds."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def memory(self) -> int:
        """Return the resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Return the CPU time so far, of all its threads."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((t / "schedstat").read_text().split()[0]) for t in threads) / 1e9

    def metrics(self) -> dict[str, float]:
        """Return every sample of ``/metrics``, by name and labels as they stand there."""
        text = _get(f"http://127.0.0.1:{self.port}/metrics")
        rows = re.findall(r"^([a-z]\S*(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in rows}


@contextlib.contextmanager
def gateway(*options: str, core: int | None = None, plain: bool = False) -> Iterator[Host]:
    """Return a ready ``gateway serve --engine scripted`` with more options.

    :param plain: with the garbage collector as CPython has it, see `benchmarks.plain`
    """
    port = free_port()
    module = "benchmarks.plain" if plain else "gateway"
    command = [sys.executable, "-m", module, "serve", "--engine", "scripted"]
    with _running([*command, "--port", str(port), *options], port, "/readyz", core) as host:
        yield host


@contextlib.contextmanager
def bare(core: int | None = None) -> Iterator[Host]:
    """Return a minimal Starlette handler on the same uvicorn, see `benchmarks.servers.bare`."""
    port = free_port()
    with _running([sys.executable, "-m", "benchmarks.bare", str(port)], port, "/", core) as host:
        yield host


def settle(sockets: int) -> int | None:
    """Let this process open many sockets, pin it to the last core, and return the server's core.

    Return None if there is only one core. Raises `OSError` if so many sockets may not be opened.
    """
    files(sockets + 500)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        return None
    os.sched_setaffinity(0, {cores[-1]})
    return cores[0]


def paced(seconds: float) -> tuple[str, ...]:
    """Return options of a gateway whose scripted engine says a word in every ``pace`` seconds."""
    return "--scripted-pace", str(seconds), "--scripted-delay", str(seconds)


def files(wanted: int) -> None:
    """Let this process and its children open many files. Raises `OSError` if it may not."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < wanted:
        raise OSError(f"{wanted} open files are needed, and {most} are allowed: see ulimit -Hn.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, path: str, core: int | None) -> Iterator[Host]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        _until_ready(process, f"http://127.0.0.1:{port}{path}")
        yield Host(process.pid, port)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _get(url)
        except urllib.error.HTTPError as answer:
            if answer.code == 404:
                return
        except OSError:
            pass
        else:
            return
        time.sleep(0.05)
    raise RuntimeError(f"The server did not start (exit status {process.poll()}).")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def answers(url: str) -> bool:
    """Return whether a server answers 200 there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
