"""The processes of a fleet on this machine: Redis, gateways and HAProxy.

Owns: how they are started, killed and restarted. Must not know: what is said in the fleet.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx2

from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
HAPROXY = ROOT / "deploy" / "haproxy"
START_S = 60.0
"""Seconds that a process may take to be ready."""


class NotStarted(Exception):
    """A process of the fleet that did not become ready."""


def program(name: str) -> str:
    """Return the path of a program. Raises `NotStarted` if it is not installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if path is None:
        raise NotStarted(f"{name} is not installed.")
    return path


class Process:
    """A process of the fleet that can be killed and started again.

    :param log: file that its output is appended to
    """

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self._command = command
        self._log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **self._environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._log.parent,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)

    def ended(self) -> bool:
        """Tell whether it has ended."""
        return self._process is None or self._process.poll() is not None

    async def wait(self) -> None:
        """Wait for its end."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    def fail(self) -> NotStarted:
        """Return an error with the end of its output."""
        tail = self._log.read_text(errors="replace").strip().splitlines()[-5:]
        return NotStarted(f"{self._command[0]} did not start: {' / '.join(tail)}")


class Gateway(Process):
    """One gateway of the fleet."""

    def __init__(self, folder: Path, number: int, redis: str, flags: Sequence[str]) -> None:
        self.port = free_port()
        self.http = f"http://127.0.0.1:{self.port}"
        self.ws = f"ws://127.0.0.1:{self.port}"
        command = [str(Path(sys.executable).with_name("gateway")), "serve"]
        command += ["--port", str(self.port), "--redis", redis, *flags]
        super().__init__(command, folder / f"gateway-{number}.log", {})

    async def ready(self) -> None:
        """Wait until it is ready. Raises `NotStarted`."""
        async with httpx2.AsyncClient(trust_env=False) as client, asyncio.timeout(START_S):
            while True:
                if self.ended():
                    raise self.fail()
                try:
                    answer = await client.get(f"{self.http}/readyz/rooms")
                except httpx2.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code == 200:
                    return
                await asyncio.sleep(0.05)

    async def gauge(self, name: str) -> float:
        """Return the value of a metric without labels; 0 if it does not answer."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            try:
                text = (await client.get(f"{self.http}/metrics")).text
            except httpx2.HTTPError:
                return 0.0
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].split()[1]) if found else 0.0


class Fleet:
    """Redis, gateways and HAProxy, in a folder for their files.

    :param flags: further flags of each gateway
    """

    def __init__(self, folder: Path, *, gateways: int, flags: Sequence[str]) -> None:
        port = free_port()
        self.folder = folder
        self.redis = Process(
            [
                *(program("redis-server"), "--port", str(port), "--bind", "127.0.0.1"),
                *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            ],
            folder / "redis.log",
            {},
        )
        url = f"redis://127.0.0.1:{port}/0"
        self.gateways = [Gateway(folder, n, url, flags) for n in range(1, gateways + 1)]
        self.port = free_port()
        self.certificate = folder / "captions.crt"
        nowhere = "127.0.0.1:9"  # servers of the configuration that this fleet does not have
        addresses = [f"127.0.0.1:{gateway.port}" for gateway in self.gateways]
        one, two, three = (addresses + [nowhere] * 3)[:3]
        self.haproxy = Process(
            [program("haproxy"), "-f", str(folder / "haproxy.cfg")],
            folder / "haproxy.log",
            {
                "CAPTIONS_BIND": f"127.0.0.1:{self.port}",
                "CAPTIONS_CERTIFICATE": str(folder / "captions.pem"),
                "CAPTIONS_PAIRS": str(HAPROXY / "pairs.map"),
                "HAPROXY_SOCKET": str(folder / "haproxy.sock"),
                "GATEWAY_ONE": one,
                "GATEWAY_TWO": two,
                "GATEWAY_THREE": three,
                "EAST_ONE": nowhere,
            },
        )

    @property
    def url(self) -> str:
        """Address of the fleet behind HAProxy."""
        return f"wss://localhost:{self.port}"

    async def start(self) -> None:
        """Start everything, and wait until all gateways are ready. Raises `NotStarted`."""
        self._make_certificate()
        # The readers of the one room are to be on all gateways, so rooms are not kept together.
        text = (HAPROXY / "haproxy.cfg").read_text()
        text = text.replace("balance hash var(txn.room)", "balance leastconn")
        (self.folder / "haproxy.cfg").write_text(text.replace("hash-type consistent", ""))
        self.redis.start()
        for gateway in self.gateways:
            gateway.start()
        for gateway in self.gateways:
            await gateway.ready()
        self.haproxy.start()
        # Clients find the certificate here: `ssl.create_default_context` reads the variable.
        os.environ["SSL_CERT_FILE"] = str(self.certificate)
        async with httpx2.AsyncClient(trust_env=True) as client, asyncio.timeout(START_S):
            while not self.haproxy.ended():
                try:
                    answer = await client.get(f"https://localhost:{self.port}/readyz/rooms")
                except httpx2.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code == 200:
                    return
                await asyncio.sleep(0.05)
        raise self.haproxy.fail()

    async def stop(self) -> None:
        """End everything."""
        for process in (self.haproxy, *self.gateways, self.redis):
            if not process.ended():
                process.send(signal.SIGTERM)
        for process in (self.haproxy, *self.gateways, self.redis):
            await process.wait()

    async def owner(self) -> Gateway:
        """Return the gateway that owns most rooms."""
        owned = [await gateway.gauge("gateway_fleet_rooms_owned") for gateway in self.gateways]
        return self.gateways[owned.index(max(owned))]

    def _make_certificate(self) -> None:
        key = self.folder / "captions.key"
        subprocess.run(
            [
                *(program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
                *("-days", "2", "-subj", "/CN=localhost"),
                *("-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", str(key), "-out", str(self.certificate)),
            ],
            check=True,
            capture_output=True,
        )
        both = self.certificate.read_bytes() + key.read_bytes()
        (self.folder / "captions.pem").write_bytes(both)
