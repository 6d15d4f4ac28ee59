"""Gateways and certificates for the proxies of `deploy/`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.auth.origin import AllowedHosts
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from tests.support.live import Live, running
from tests.support.reverse_proxy import HOST, Certificate, certificate


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Return a certificate for the proxies."""
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def gateways() -> AsyncIterator[list[Live]]:
    """Run four gateways: three of one pool, and one of another."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                running(authenticator=Authenticator(Limits(), hosts=AllowedHosts([HOST])))
            )
            for _ in range(4)
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a proxy."""
    return tmp_path
