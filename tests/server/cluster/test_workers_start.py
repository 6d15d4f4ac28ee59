"""The start of several processes on one port, and the reasons why it fails."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.server.cluster.supervisor import check
from gateway.settings.catalogue import Settings, SettingsError
from tests.server.cluster.several import ROOMS, talk, workers
from tests.server.started import PASS, SCRIPTED, gateway


def test_settings_for_one_process_only_are_refused_with_an_explanation(tmp_path: Path) -> None:
    pipe = tmp_path / "keys"
    os.mkfifo(pipe)
    several = Settings(workers=2, engine="openai")
    check(several)
    for other, why in (
        (replace(several, engine="ctranslate2"), "of its own"),
        (replace(several, engine="vllm"), "of its own"),
        (replace(several, certfile="cert.pem"), "encrypted"),
        (replace(several, lan=True), "--lan"),
        (replace(several, keys=str(pipe)), "not a pipe"),
    ):
        with pytest.raises(SettingsError, match=why):
            check(other)


def test_a_port_in_use_is_explained_and_ends_with_status_1() -> None:
    with workers() as first, gateway(*SCRIPTED[:-1], str(first.port), "--workers", "2") as second:
        assert second.popen.wait(10) == 1
        assert f"127.0.0.1:{first.port}" in second.text and "Traceback" not in second.text


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        (("--engine", "scripted", "--keys", "/nowhere/keys.toml"), 2),
        (("--engine", "scripted", "--store", "somewhere"), 2),
        (("--engine", "scripted", "--store", "sqlite:/nowhere/rooms.db"), 1),
        (("--engine", "openai"), 1),
        (("--engine", "openai", "--openai-url", "http://127.0.0.1:1/v1"), 1),
        (("--engine", "openai", "--openai-url", "http://127.0.0.1:1/v1", "--profile", "x"), 1),
    ],
)
def test_a_fault_at_the_start_of_workers_is_reported_once(
    flags: tuple[str, ...], status: int
) -> None:
    def said(*more: str) -> list[str]:
        with gateway("--port", "FREE", "--log-level", "warning", *flags, *more) as process:
            assert process.popen.wait(20) == status
        return [line for line in process.said if not line.startswith("Starting ")]

    assert said() == said("--workers", "3")


async def test_workers_share_a_socket_that_was_passed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        program = (sys.executable, "-c", PASS, str(passed.fileno()))
        with gateway(
            *("--engine", "scripted", "--workers", "2"),
            program=program,
            pass_fds=(passed.fileno(),),
            port=passed.getsockname()[1],
        ) as process:
            for room in ROOMS:
                async with talk(process, f"room={room}&from=en&to=de") as client:
                    assert (await client.next())["room"] == room
                    await client.send("one two")
                    await client.until("final")
            process.popen.terminate()
            assert process.popen.wait(10) == 0
