"""Real ``vllm serve`` processes on the CPU, with a tiny model."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.host import answers
from benchmarks.ports import free_port
from tests.engines.vllm_factory import UNBOUND, require
from tests.support.models import tiny_llama

START_S = 240.0
"""Seconds that the servers may take to start: three interpreters import PyTorch, one by one."""


@contextlib.contextmanager
def vllm_servers(folder: Path, count: int) -> Iterator[list[str]]:
    """Start servers of one model at the same time, and give their base URLs."""
    require()
    model = tiny_llama(folder / "llama", head=32)
    found = [_start(model, free_port(), model / f"server-{n}.log") for n in range(count)]
    begun = time.monotonic()
    try:
        for process, url, log in found:
            while not answers(url + "/health"):
                late = time.monotonic() - begun > START_S * count
                if process.poll() is not None or late:
                    pytest.fail(f"vllm did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.5)
        yield [url for _, url, _ in found]
    finally:
        for process, _, _ in found:
            process.terminate()
        for process, _, _ in found:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(model: Path, port: int, log: Path) -> tuple[subprocess.Popen[bytes], str, Path]:
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "512", "--enforce-eager"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | UNBOUND | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
        )
    return process, f"http://127.0.0.1:{port}", log


def counted(url: str, *names: str) -> float:
    """Return the sum of the server's metrics of these names."""
    with urllib.request.urlopen(url + "/metrics") as answer:
        text = answer.read().decode()
    pattern = rf"^vllm:(?:{'|'.join(names)}){{[^}}]*}} (\S+)$"
    values = re.findall(pattern, text, re.MULTILINE)
    assert len(values) == len(names), f"the server does not tell {names}"
    return sum(map(float, values))
