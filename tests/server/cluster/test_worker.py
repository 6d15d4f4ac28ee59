"""Tasks of one worker: none of them dies without a report."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.server.app import create_app
from gateway.server.cluster.fd_passing import FdPassing
from gateway.server.cluster.worker import Worker, _HandedConnections
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings
from tests.support.live import until


async def test_a_handed_connection_that_cannot_be_served_is_closed_and_the_fault_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(ScriptedEngine())
    # Its protocol class is that of a gateway of one process, which cannot take connections over.
    server = GatewayServer(configure(app, Settings()), app.state.hub, 0.0)
    connections = _HandedConnections(server)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    server.config.load()
    with client:
        accepted.setblocking(False)
        connections.serve(accepted, b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: bool(caplog.records))
        assert client.recv(1) == b"", "the connection is closed"
    (record,) = caplog.records
    assert record.getMessage() == "a connection from another worker could not be served"
    assert record.name == "gateway.worker" and "AssertionError" in caplog.text
    await connections.aclose()


async def test_a_worker_that_cannot_receive_connections_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a bug")

    handover = FdPassing(tmp_path, 0, (0, 1))
    monkeypatch.setattr(handover, "listen", fail)
    worker = Worker(handover)
    app = create_app(ScriptedEngine())
    base = worker.protocol(app)
    server = GatewayServer(configure(app, Settings(), base=base), app.state.hub, 0.0)
    with pytest.raises(ValueError, match="a bug"):
        async with worker.attached(server):
            server.opened.set()
            await until(lambda: server.should_exit)


async def test_a_worker_that_ends_by_another_fault_logs_that_it_cannot_receive_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("the first bug")

    handover = FdPassing(tmp_path, 0, (0, 1))
    monkeypatch.setattr(handover, "listen", fail)
    worker = Worker(handover)
    app = create_app(ScriptedEngine())
    base = worker.protocol(app)
    server = GatewayServer(configure(app, Settings(), base=base), app.state.hub, 0.0)
    with pytest.raises(KeyError):
        async with worker.attached(server):
            server.opened.set()
            await until(lambda: server.should_exit)
            raise KeyError("the second bug")
    (record,) = caplog.records
    assert record.getMessage() == "no connection can be taken from other workers any more"
