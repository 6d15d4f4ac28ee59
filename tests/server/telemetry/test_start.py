"""The start of OpenTelemetry: only if a variable asks for it, and without harm to the gateway."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.server.telemetry import providers
from gateway.server.telemetry.start import start

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def hub() -> Hub:
    return Hub(RoomHost(ScriptedEngine(), Limits()))


def test_without_a_variable_no_package_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys; from gateway.engines.scripted import ScriptedEngine;"
        "from gateway.server.build import build;"
        "from gateway.settings.catalogue import Settings;"
        "assert build(Settings(), ScriptedEngine(), {}).state.tracer is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": ""})


def test_a_missing_extra_is_a_warning_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.server.telemetry.providers", None)
    assert start(hub(), ENDPOINT) is None
    assert "pip install 'caption-gateway[otel]'" in caplog.text


async def test_a_collector_that_does_not_answer_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A port that is open and never read: the exporter waits for an answer.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setattr(providers, "LAST_S", 0.05)
        telemetry = start(hub(), {"OTEL_EXPORTER_OTLP_ENDPOINT": address})
        assert telemetry is not None
        telemetry._provider.get_tracer("test").start_span("utterance").end()
        await telemetry.aclose()
    assert "the last spans were lost" in caplog.text
