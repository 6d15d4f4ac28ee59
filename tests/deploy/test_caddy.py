"""Tests of `deploy/caddy` with a real Caddy and real gateways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from tests.deploy.streams import first_tick
from tests.support.live import Live
from tests.support.reverse_proxy import (
    DEPLOY,
    HOST,
    Certificate,
    Site,
    program,
    said,
    started,
)


@pytest.fixture
async def caddy(tls: Certificate, gateways: list[Live], folder: Path) -> AsyncIterator[Site]:
    """Run Caddy with the configuration of `deploy/`, on a port of its own."""
    port = free_port()
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    site = f"https://{HOST}:{port} {{\n\tbind 127.0.0.1\n\ttls {tls.file} {tls.key}"
    for old, new in {
        f"{HOST} {{": site,
        "grace_period 10s": "grace_period 1s\n\tadmin off\n\tauto_https off",
        **{
            f"127.0.0.1:800{n}": live.http.removeprefix("http://")
            for n, live in enumerate(gateways[:3], 1)
        },
    }.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "Caddyfile").write_text(text)
    command = [program("caddy"), "run", "--config", str(folder / "Caddyfile")]
    homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    async with started(command, port, homes):
        yield Site(port, tls, gateways[:3])


async def test_a_socket_is_carried_and_captions_come_back(caddy: Site) -> None:
    async with caddy.connect("meeting") as socket:
        assert "final" in await said(socket)


async def test_equal_addresses_reach_one_gateway(caddy: Site) -> None:
    async with caddy.connect("meeting") as one, caddy.connect("meeting") as other:
        await said(one)
        assert "final" in await said(other, "second")
        assert sum("meeting" in live.hub.rooms for live in caddy.gateways) == 1


async def test_events_are_not_buffered(caddy: Site) -> None:
    await first_tick(caddy)


async def test_a_gateway_that_is_gone_is_replaced(caddy: Site) -> None:
    caddy.gateways[0].server.should_exit = True
    caddy.gateways[0].hub.hurry()
    async with caddy.http() as client:
        for n in range(10):
            answer = await client.get(f"/healthz?n={n}")
            assert answer.status_code == 200
