"""Tests of `deploy/nginx` with a real nginx and real gateways."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from tests.deploy.streams import first_tick
from tests.support.live import Live
from tests.support.reverse_proxy import (
    DEPLOY,
    Certificate,
    Site,
    program,
    said,
    started,
)

MAIN = """
daemon off;
error_log stderr;
pid {folder}/nginx.pid;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/captions.conf;
}}
"""


@pytest.fixture
async def nginx(tls: Certificate, gateways: list[Live], folder: Path) -> AsyncIterator[Site]:
    """Run nginx with the configuration of `deploy/`, on a port of its own."""
    port = free_port()
    text = (DEPLOY / "nginx" / "captions.conf").read_text()
    for old, new in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/captions.pem": str(tls.file),
        "/etc/ssl/captions.key": str(tls.key),
        "/var/log/nginx": str(folder),
        **{
            f"127.0.0.1:800{n}": live.http.removeprefix("http://")
            for n, live in enumerate(gateways[:3], 1)
        },
    }.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "captions.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    command = [program("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    async with started(command, port):
        yield Site(port, tls, gateways[:3])


async def test_all_sockets_of_a_room_reach_one_gateway_and_rooms_are_spread(nginx: Site) -> None:
    rooms = [f"meeting-{n}" for n in range(30)]
    async with contextlib.AsyncExitStack() as stack:
        for room in rooms * 2:
            socket = await stack.enter_async_context(nginx.connect(room))
        assert "final" in await said(socket)
        homes = Counter(id(nginx.home(room)) for room in rooms)
        for room in rooms:
            assert sum(room in one.hub.rooms for one in nginx.gateways) == 1
    assert len(homes) == 3


async def test_requests_about_a_room_reach_the_gateway_of_its_sockets(nginx: Site) -> None:
    async with nginx.http() as client:
        for n in range(10):
            async with nginx.connect(f"meeting-{n}") as socket:
                await said(socket)
                answer = await client.get(f"/v1/rooms/meeting-{n}/transcript.txt?lang=de")
                assert answer.status_code == 200


async def test_events_are_not_buffered(nginx: Site) -> None:
    await first_tick(nginx)


async def test_tokens_in_a_query_are_not_logged(nginx: Site, folder: Path) -> None:
    async with nginx.http() as client:
        await client.get("/healthz?ticket=geheim")
        await client.get("/healthz")
    log = (folder / "captions.log").read_text()
    assert "GET /healthz" in log
    assert "geheim" not in log
