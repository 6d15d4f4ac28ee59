"""The real reverse proxies of `deploy/`, in front of gateways of a test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.support.live import Live

DEPLOY = Path(__file__).parents[2] / "deploy"
HOST = "captions.example"
"""Name of the site in the configurations."""


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for `HOST` and ``localhost``."""

    file: Path
    key: Path
    both: Path
    """The certificate and its key in one file, as HAProxy reads them."""

    @property
    def trust(self) -> ssl.SSLContext:
        """Return a context of clients that trust this certificate alone."""
        return ssl.create_default_context(cafile=self.file)


def certificate(folder: Path) -> Certificate:
    """Make a certificate with OpenSSL."""
    made = Certificate(folder / "cert.pem", folder / "key.pem", folder / "both.pem")
    names = f"subjectAltName=DNS:{HOST},DNS:localhost"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", names),
            *("-keyout", str(made.key), "-out", str(made.file)),
        ],
        check=True,
        capture_output=True,
    )
    made.both.write_bytes(made.file.read_bytes() + made.key.read_bytes())
    return made


@dataclass
class Site:
    """A proxy on `port`, in front of gateways."""

    port: int
    tls: Certificate
    gateways: list[Live]

    def connect(self, room: str) -> connect:
        """Open a socket in a room."""
        return connect(
            f"wss://{HOST}/v1/ws?room={room}&from=en&to=de",
            host="127.0.0.1",
            port=self.port,
            ssl=self.tls.trust,
        )

    def http(self) -> httpx.AsyncClient:
        """Return a client of the site."""
        return httpx.AsyncClient(
            base_url=f"https://localhost:{self.port}",
            verify=self.tls.trust,
            headers={"Host": HOST},
        )

    def home(self, room: str) -> Live | None:
        """Return the gateway that has a room."""
        return next((one for one in self.gateways if room in one.hub.rooms), None)


async def said(socket: ClientConnection, id: str = "first") -> str:
    """Say something in a socket, and return its translation."""
    await socket.send(f'{{"type":"say","id":"{id}","text":"good morning"}}')
    async for frame in socket:
        if '"final"' in str(frame):
            return str(frame)
    raise AssertionError("the socket was closed")


def program(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@contextlib.asynccontextmanager
async def started(
    command: Sequence[str], port: int, environment: Mapping[str, str] = {}
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a proxy until the block ends; it accepts connections on return."""
    process = subprocess.Popen(  # noqa: ASYNC220  # it returns at once
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        await accepts(port, process)
        yield process
    finally:
        process.terminate()  # a killed nginx would leave its workers behind
        await asyncio.to_thread(process.communicate)


async def accepts(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until something listens on the port. Fails with the output of a process that ended."""
    while True:
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0].decode())
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            await writer.wait_closed()
            return
