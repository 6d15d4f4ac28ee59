"""Planned restarts: rooms and sockets, and how the next process takes over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode, EngineFault
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process import listener as listeners
from gateway.server.process.listener import inherited, listen
from gateway.server.process.serve import GatewayProcess
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings
from tests.server.started import PASS, SCRIPTED, gateway
from tests.support.talk import Talk

# --- the end comes ------------------------------------------------------------------------------


async def silent(port: int, room: str) -> socket.socket:
    """Connect a client that joins a room and never reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, ("127.0.0.1", port))
    await loop.sock_sendall(
        sock,
        f"GET /v1/ws?room={room}&to=de HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n".encode(),
    )
    return sock


async def test_a_client_that_never_reads_does_not_hold_up_the_end() -> None:
    with gateway(*SCRIPTED, "--scripted-pace", "0", "--drain-s", "2") as started:
        deaf = await silent(started.port, "r")
        async with connect(f"ws://127.0.0.1:{started.port}/v1/ws?room=r&from=en&to=de") as ws:
            client = Talk(ws)
            for _ in range(40):
                await client.send("so many words " * 100)
                await client.until("final")
            started.popen.send_signal(signal.SIGTERM)
            assert (await client.closed())[0] == CloseCode.GOAWAY
        assert await asyncio.to_thread(started.popen.wait, 10) == 0
        deaf.close()
    assert "Traceback" not in started.text


async def test_a_handler_that_hangs_does_not_hold_up_the_end() -> None:
    app = create_app(ScriptedEngine(), authenticator=Authenticator(Limits()))
    entered = asyncio.Event()

    async def hang(request: Request) -> Response:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    app.router.routes.insert(0, Route("/hang", hang))
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = GatewayServer(configure(app, Settings()), app.state.hub, 0.1)
    serving = asyncio.create_task(server._serve([listener]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        asking = asyncio.create_task(http.get("/hang"))
        await entered.wait()
        server.should_exit = True
        await serving
        with pytest.raises(httpx.HTTPError):
            (await asking).raise_for_status()


# --- the next process ---------------------------------------------------------------------------


class Reader(Talk):
    """A socket of the meeting, and the events it got."""

    def __init__(self, talk: Talk) -> None:
        super().__init__(talk.ws)
        self.told: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any]:
        event = await super().next()
        self.told.append(event)
        return event

    async def rest(self) -> None:
        """Read until the gateway closes the socket, as for a restart."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.next()
        assert self.ws.close_code == CloseCode.GOAWAY

    async def until_seq(self, seq: int) -> None:
        while (await self.next()).get("seq") != seq or self.told[-1]["type"] == "welcome":
            pass

    @property
    def events(self) -> dict[int, dict[str, Any]]:
        """Durable events by number; each came once."""
        durable = [e for e in self.told if e["type"] in ("source", "final", "cancelled")]
        found = {event["seq"]: event for event in durable}
        assert len(found) == len(durable), durable
        return found


async def join(port: int, query: str) -> Reader:
    return Reader(Talk(await connect(f"ws://127.0.0.1:{port}/v1/ws?room=m&from=en&{query}")))


async def test_a_meeting_goes_on_in_the_next_process_with_nothing_lost_or_doubled(
    tmp_path: Path,
) -> None:
    flags = (*SCRIPTED, "--reuse-port", "--store", f"sqlite:{tmp_path / 'rooms.db'}")

    with gateway(*flags) as first:
        speaker = await join(first.port, "to=de")
        reader = await join(first.port, "to=de,fr&role=view")
        epoch = (await reader.next())["epoch"]
        await speaker.send({"type": "say", "id": "a", "text": "one two"})
        await speaker.until("final")
        with gateway(*flags, port=first.port) as second:
            await speaker.send({"type": "say", "id": "b", "text": "three four five six"})
            await speaker.until("delta")  # in mid-caption
            first.popen.send_signal(signal.SIGTERM)
            await asyncio.gather(reader.until("goaway"), speaker.until("goaway"))
            again = await join(first.port, "to=de")
            await again.send({"type": "say", "id": "c", "text": "seven"})
            late = await join(first.port, "to=de,fr&role=view")
            await asyncio.gather(speaker.rest(), reader.rest(), late.until_seq(9))
            assert await asyncio.to_thread(first.popen.wait, 20) == 0
            assert late.told[0]["epoch"] == epoch
            assert list(late.events) == list(range(1, 10))
            assert {event["seq"]: event for event in reader.events.values()} == {
                seq: event for seq, event in late.events.items() if seq <= 6
            }
            assert sorted((e["id"], e["lang"], e["text"]) for e in late.events.values()) == [
                (id, lang, text if lang == "en" else f"[{lang}] {text}")
                for id, text in (("a", "one two"), ("b", "three four five six"), ("c", "seven"))
                for lang in ("de", "en", "fr")
            ]
            for peer in (again, late):
                await peer.ws.close()
        assert "Traceback" not in second.text
    assert "Traceback" not in first.text


async def test_a_process_that_shares_its_port_listens_only_when_its_engine_is_ready() -> None:
    settings = Settings(reuse_port=True)
    listener = listen("127.0.0.1", 0, reuse=True)
    place = listener.getsockname()
    ready = asyncio.Event()

    class Slow(ScriptedEngine):
        async def start(self) -> None:
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*place)
            ready.set()
            await super().start()

    engine = Slow()
    app = create_app(engine, authenticator=Authenticator(Limits()))
    server = GatewayServer(configure(app, settings), app.state.hub, 1.0)
    async with asyncio.timeout(20):
        serving = asyncio.create_task(GatewayProcess(server, engine, listener, settings).run())
        await server.opened.wait()
        assert ready.is_set()
        _, writer = await asyncio.open_connection(*place)
        writer.close()
        server.handle_exit(signal.SIGTERM, None)
        assert await serving == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_a_process_that_shares_its_port_can_be_stopped_before_it_listens(fails: bool) -> None:
    settings = Settings(reuse_port=True)
    listener = listen("127.0.0.1", 0, reuse=True)

    class Never(ScriptedEngine):
        async def start(self) -> None:
            if fails:
                raise EngineFault("no")
            server.handle_exit(signal.SIGTERM, None)
            await asyncio.Event().wait()

    engine = Never()
    app = create_app(engine, authenticator=Authenticator(Limits()))
    server = GatewayServer(configure(app, settings), app.state.hub, 1.0)
    async with asyncio.timeout(20):
        if fails:
            with pytest.raises(EngineFault):
                await GatewayProcess(server, engine, listener, settings).run()
        else:
            assert await GatewayProcess(server, engine, listener, settings).run() == 0
    assert not server.opened.is_set()
    listener.close()


def test_a_port_is_shared_only_if_both_processes_ask_for_it() -> None:
    with gateway(*SCRIPTED, "--reuse-port") as first:
        with gateway(*SCRIPTED, port=first.port) as second:
            assert second.popen.wait() == 1
        with gateway(*SCRIPTED, "--reuse-port", port=first.port) as third:
            assert third.popen.poll() is None


def test_a_socket_that_was_passed_is_served_and_outlives_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        port, fd = passed.getsockname()[1], passed.fileno()
        program = (sys.executable, "-c", PASS, str(fd))
        for _ in range(2):
            with (
                gateway("--engine", "scripted", program=program, pass_fds=(fd,)) as started,
                socket.create_connection(("127.0.0.1", port)) as client,
            ):
                assert f"http://127.0.0.1:{port}/" in started.text
                client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 200")
                started.popen.terminate()
                assert started.popen.wait() == 0
            # Nobody accepts now, and nobody is turned away.
            socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.parametrize(
    ("count", "complaint"), [("2", "pass one"), (None, "pass one"), ("1", "does not listen")]
)
def test_sockets_that_systemd_passed_and_cannot_be_served_are_explained(
    monkeypatch: pytest.MonkeyPatch, count: str | None, complaint: str
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    if count is not None:
        monkeypatch.setenv("LISTEN_FDS", count)
    with socket.socket() as bound:
        monkeypatch.setattr(listeners, "SYSTEMD_FD", os.dup(bound.fileno()))
        with pytest.raises(OSError, match=complaint):
            inherited()


def test_a_socket_passed_to_another_process_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    assert inherited() is None
