"""The gateway as a process: its start, its output, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from benchmarks.blocking_client import BlockingClient
from benchmarks.ports import free_port
from gateway.auth.api_keys import ApiKey, create_key
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.serve import GatewayProcess
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings
from tests.server.started import SCRIPTED, gateway
from tests.support.live import until
from tests.support.talk import Talk


def test_a_ready_gateway_prints_its_address_and_a_wscat_command() -> None:
    with gateway(*SCRIPTED) as process:
        assert f"http://127.0.0.1:{process.port}/" in process.text
        assert f"wscat -c 'ws://127.0.0.1:{process.port}/v1/ws?from=en&to=" in process.text
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/readyz") as page:
            assert page.status == 200


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_caption_in_flight_finish_and_ends_with_status_0(
    sign: signal.Signals,
) -> None:
    with gateway(*SCRIPTED, "--scripted-pace", "0.05") as process:
        async with connect(f"ws://127.0.0.1:{process.port}/v1/ws?from=en&to=de") as ws:
            client = Talk(ws)
            await client.send("one two three four five six")
            await client.until("delta")
            os.killpg(process.popen.pid, sign)  # Ctrl-C reaches the whole group
            assert (await client.until("final"))[-1]["text"].endswith("six")
            assert (await client.closed())[0] == CloseCode.GOAWAY
        assert process.popen.wait() == 0
    assert "Traceback" not in process.text


def test_a_request_whose_body_never_comes_leaves_no_traceback_at_the_end() -> None:
    with gateway(*SCRIPTED, "--drain-s", "0.2") as process:
        client = BlockingClient(process.port)
        client.request(
            "POST", "/v1/translate", headers={"host": "127.0.0.1", "content-length": "9"}
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/healthz"):
            process.popen.terminate()
        assert process.popen.wait() == 0
        client.hang_up()
    assert "Traceback" not in process.text


def test_a_gateway_that_a_script_started_in_the_background_ignores_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does, and a child inherits
    try:
        with gateway(*SCRIPTED) as process:
            os.kill(process.popen.pid, signal.SIGINT)
            os.kill(process.popen.pid, signal.SIGINT)
            with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/readyz") as page:
                assert page.status == 200
            os.kill(process.popen.pid, signal.SIGTERM)
            assert process.popen.wait() == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
async def test_sighup_reads_the_keys_again_and_does_not_end_the_process(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    shown, entry = create_key(ApiKey(id="0" * 8, name="a", hash="0" * 64), "0" * 64)
    file.write_text(entry)
    with gateway(*SCRIPTED, "--keys", str(file)) as process:
        options = {"authorization": f"Bearer {shown}"}
        async with connect(
            f"ws://127.0.0.1:{process.port}/v1/ws?from=en&to=de", additional_headers=options
        ) as ws:
            client = Talk(ws)
            await client.send("one two three")
            await client.until("final")
            before = file.stat()
            file.write_text(entry.replace(shown[4:12], "ffffffff"))
            os.utime(
                file, ns=(before.st_atime_ns, before.st_mtime_ns)
            )  # so that its watch does not notice the change
            process.popen.send_signal(signal.SIGHUP)
            assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED
        assert process.popen.poll() is None


async def test_a_second_signal_cancels_captions_and_ends_the_process_at_once() -> None:
    with gateway(*SCRIPTED, "--scripted-pace", "5") as process:
        async with connect(f"ws://127.0.0.1:{process.port}/v1/ws?from=en&to=de") as ws:
            client = Talk(ws)
            await client.send("one two three four five six")
            await client.until("delta")
            process.popen.send_signal(signal.SIGTERM)
            await client.until("goaway")
            process.popen.send_signal(signal.SIGTERM)
            assert (await client.until("cancelled"))[-1]["was"] == "running"
            assert (await client.closed())[0] == CloseCode.GOAWAY
        assert process.popen.wait() == 0
    assert "Traceback" not in process.text


async def test_an_engine_that_is_ready_only_after_the_signal_is_not_announced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> int:
        settings = Settings()
        listener = listen("127.0.0.1", 0)

        class Late(ScriptedEngine):
            async def start(self) -> None:
                await until(lambda: server.started)
                server.handle_exit(signal.SIGTERM, None)
                await until(lambda: listener.fileno() == -1)
                await super().start()

        engine = Late()
        app = create_app(engine, authenticator=Authenticator(Limits()))
        server = GatewayServer(configure(app, settings), app.state.hub, 1.0)
        async with asyncio.timeout(20):
            return await GatewayProcess(server, engine, listener, settings).run()

    assert await main() == 0
    assert "is ready" not in capsys.readouterr().err


async def test_if_the_engine_does_not_start_the_server_ends_before_the_engine_is_closed() -> None:
    order: list[str] = []

    class Broken(ScriptedEngine):
        async def start(self) -> None:
            await server.opened.wait()
            raise ValueError("a bug")

        async def aclose(self) -> None:
            order.append("engine closed" if listener.fileno() == -1 else "still listening")

    engine, listener = Broken(), listen("127.0.0.1", 0)
    app = create_app(engine, authenticator=Authenticator(Limits()))
    server = GatewayServer(configure(app, Settings()), app.state.hub, 0.0)
    with pytest.raises(ValueError, match="a bug"):
        await GatewayProcess(server, engine, listener, Settings()).run()
    assert order == ["engine closed"]


async def test_a_fault_of_the_engine_after_the_server_ended_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ScriptedEngine):
        async def start(self) -> None:
            server.handle_exit(signal.SIGTERM, None)
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("a bug")

    engine, listener = Broken(), listen("127.0.0.1", 0)
    app = create_app(engine, authenticator=Authenticator(Limits()))
    server = GatewayServer(configure(app, Settings()), app.state.hub, 0.0)
    assert await GatewayProcess(server, engine, listener, Settings()).run() == 0
    assert (
        "the engine failed while the gateway ended" in caplog.text and "ValueError" in caplog.text
    )
    listener.close()


def test_a_port_in_use_is_explained_and_ends_with_status_1() -> None:
    with gateway(*SCRIPTED) as first, gateway(*SCRIPTED[:-1], str(first.port)) as second:
        assert second.popen.wait() == 1
        assert f"127.0.0.1:{first.port}" in second.text and "--port" in second.text
        assert "Traceback" not in second.text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is full")
def test_a_gateway_whose_log_cannot_be_written_serves() -> None:
    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return peer.recv(100).startswith(b"HTTP/1.1 200 ")
        return False

    port = free_port()
    command = (sys.executable, "-m", "gateway", "serve", "--engine", "scripted")
    flags = ("--port", str(port))
    environ = os.environ | {"GATEWAY_UNKNOWN": "is warned of, too"}
    with (
        open("/dev/full", "w") as full,
        subprocess.Popen([*command, *flags], stderr=full, env=environ) as child,
    ):
        try:
            asyncio.run(until(lambda: child.poll() is not None or answers()))
            assert child.poll() is None
        finally:
            child.terminate()
            assert child.wait(20) == 0


def test_an_unknown_host_is_reported_without_advice_about_the_port() -> None:
    with pytest.raises(OSError, match=r"Cannot listen on nowhere\.invalid:8000: .*another --host"):
        listen("nowhere.invalid", 8000)


def test_another_address_than_loopback_is_refused_without_insecure() -> None:
    with gateway(*SCRIPTED, "--host", "0.0.0.0") as process:
        assert process.popen.wait() != 0
        assert "--insecure" in process.text and "Traceback" not in process.text


def test_a_gateway_on_all_interfaces_prints_an_address_that_a_browser_can_open() -> None:
    with gateway(*SCRIPTED, "--host", "0.0.0.0", "--insecure") as process:
        assert f"Open   http://localhost:{process.port}/" in process.text
        with urllib.request.urlopen(f"http://localhost:{process.port}/") as answer:
            assert answer.status == 200


def test_a_missing_model_is_explained_and_ends_with_status_1() -> None:
    with gateway("--port", "FREE", "--model", "/nowhere/model") as process:
        assert process.popen.wait() == 1
        assert "/nowhere/model" in process.text and "Traceback" not in process.text


def test_the_variable_port_sets_the_port() -> None:
    with gateway("--engine", "scripted", PORT="FREE") as process:
        assert f":{process.port}/" in process.text


async def test_no_log_line_carries_what_was_said() -> None:
    with gateway(*SCRIPTED, "--log-level", "debug") as process:
        async with connect(f"ws://127.0.0.1:{process.port}/v1/ws?from=en&to=de") as ws:
            client = Talk(ws)
            await client.send("xyzzy is secret")
            await client.until("final")
            await client.send('{"xyzzy')
            await client.until("error")
        process.popen.terminate()
        process.popen.wait()
    assert "xyzzy" not in process.text
    assert "closed after" in process.text  # there is a log
