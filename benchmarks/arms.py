"""The servers and engines that `benchmarks.gpu` compares: each an arm, in a process of its own.

Owns: their commands, starting and stopping them. Must not know: loads, measurements.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import host
from benchmarks.journey.plan import invented
from benchmarks.ports import free_port
from benchmarks.streams import MORE

SEVERAL = {"two": (0, 1), "halved": (0, 0)}
"""Arms with several engines, and the GPU of each."""
START_S = 400.0


class Arm:
    """A process that was started and can be loaded.

    :param options: vLLM's options, the same for all arms
    """

    def __init__(self, name: str, path: str, options: dict[str, Any], logs: Path) -> None:
        self.name = name
        self.kind, *changes = name.split("+")
        pairs = (change.partition("=") for change in changes)
        options = options | {key: json.loads(value) for key, _, value in pairs}
        self.path = path
        self.port = free_port()
        self.begun = time.monotonic()
        self._logs = logs
        self._log = (logs / f"{re.sub(r'[^a-z_+=]', '', name)}.log").open("wb")
        self.inside = self.kind in ("raw", "engine")
        """True if its load runs inside its process."""
        env = os.environ | {"VLLM_USE_RUST_FRONTEND": "1" if self.kind == "rust" else "0"}
        self.process = subprocess.Popen(
            [sys.executable, *self._command(options)],
            env=env,
            stdin=subprocess.PIPE if self.inside else subprocess.DEVNULL,
            stdout=subprocess.PIPE if self.inside else self._log,
            stderr=self._log,
            text=True,
        )

    def _command(self, options: dict[str, Any]) -> list[str]:
        if self.inside:
            return ["-m", "benchmarks.inside", self.kind, self.path, json.dumps(options)]
        if self.kind == "bare":
            return ["-m", "benchmarks.prototype", self.path, str(self.port), json.dumps(options)]
        if self.kind == "remote":
            return self._remote(options)
        if self.kind in ("gateway", *SEVERAL):
            engine = ["--engine", "vllm"]
            if self.kind in SEVERAL:
                tables = [
                    f"[[engine]]\nengine = 'vllm'\ngpus = {[n]}\n" for n in SEVERAL[self.kind]
                ]
                file = self._logs / f"{self.kind}.toml"
                file.write_text("\n".join(tables))
                engine = ["--config", str(file)]
            command = [*self._gateway(*engine), "--model", self.path]
            given = [
                *("max_num_seqs", "max_num_batched_tokens", "max_model_len"),
                "gpu_memory_utilization",
            ]
        else:
            command = [*_serve(), self.path]
            given = list(options)
        return [*command, *_flags(options, given), *_at(self.port)]

    def _gateway(self, *engine: str, profile: str = "profile.toml") -> list[str]:
        command = ["-m", "gateway", "serve", *engine, "--no-guards"]
        command += ["--profile", f"{self.path}/{profile}", "--limit-queue", "4096"]
        return [*command, "--limit-stretch", "1000", "--limit-soon-s", "1000"]  # it is to be full

    def _remote(self, options: dict[str, Any]) -> list[str]:
        # Without a tokenizer the gateway takes two bytes for a token (`completions.tokens`), and
        # these are one each: with this profile an output is as long as elsewhere, or one longer.
        profile = Path(self.path, "remote.toml")
        profile.write_text(invented(less=MORE + 1).replace("factor = 1.0", "factor = 2.0"))
        port = free_port()
        server = [*_serve(), self.path, *_flags(options, tuple(options)), *_at(port)]
        gateway = [*self._gateway("--engine", "openai", profile=profile.name), *_at(self.port)]
        gateway += ["--openai-url", f"http://127.0.0.1:{port}/v1"]
        gateway += ["--max-num-seqs", str(options["max_num_seqs"])]
        words = (f"http://127.0.0.1:{port}/health", json.dumps(server), json.dumps(gateway))
        return ["-m", "benchmarks.remote", *words]

    def wait(self) -> bool:
        """Return whether it is ready."""
        if self.inside:
            assert self.process.stdout is not None
            ready = any(line == "READY\n" for line in self.process.stdout)
        else:
            path = "/health" if self.kind in ("serve", "rust") else "/readyz"
            ready = False
            while not ready and self.process.poll() is None:
                time.sleep(0.5)
                ready = host.answers(f"http://127.0.0.1:{self.port}{path}")
                if time.monotonic() - self.begun > START_S:
                    break
        line = {"arm": self.name, "ready_s": round(time.monotonic() - self.begun)}
        if not ready:
            line = {"arm": self.name, "error": f"did not start, see {self._log.name}"}
        print(json.dumps(line), flush=True)
        return ready

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()  # which is how it is told
        else:
            self.process.send_signal(signal.SIGTERM)

    def gone(self) -> None:
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


def _serve() -> list[str]:
    """Return the command of vLLM's own server.

    vLLM's command line asks for the version of a package ``vllm`` and fails if a build has another
    name, as that for CPUs has. The module behind it does not ask.
    """
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        return ["-m", "vllm.entrypoints.openai.api_server", "--model"]
    return ["-m", "vllm.entrypoints.cli.main", "serve"]


def _flags(options: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """Return vLLM's options as flags. The gateway passes on those that it does not know by name."""
    words: list[str] = []
    for key, value in options.items():
        if key not in given:
            words += ["--vllm-arg", f"{key}={json.dumps(value)}"]
        elif value is True:
            words += ["--" + key.replace("_", "-")]
        else:
            words += ["--" + key.replace("_", "-"), str(value)]
    return words


def _at(port: int) -> list[str]:
    return ["--port", str(port), "--host", "127.0.0.1"]
