"""The store of a gateway that runs as a process of its own."""

from __future__ import annotations

import os
import signal
import urllib.request
from pathlib import Path

from tests.server.started import SCRIPTED, gateway


def test_the_store_is_opened_before_the_first_client_and_closed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "rooms.db"
    with gateway(*SCRIPTED, "--store", f"sqlite:{path}") as process:
        assert f":{process.port}/" in process.text
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/metrics") as page:
            metrics = page.read().decode()
        assert "\ngateway_store_behind 0.0\n" in metrics
        assert "\ngateway_store_lost_total 0.0\n" in metrics
        assert len(list(tmp_path.glob("rooms.db-owner-*"))) == 1
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait() == 0
    assert os.listdir(tmp_path) == ["rooms.db"]
    assert "Traceback" not in process.text


def test_a_damaged_store_is_explained_with_its_file_and_ends_with_status_1(tmp_path: Path) -> None:
    path = tmp_path / "rooms.db"
    path.write_bytes(b"not a database" * 1000)
    with gateway(*SCRIPTED, "--store", f"sqlite:{path}") as process:
        assert process.popen.wait() == 1
        assert f"{path} cannot be used: file is not a database." in process.text
        assert "Move it away" in process.text and "Traceback" not in process.text


def test_a_store_of_an_unknown_kind_is_explained_and_ends_with_status_2() -> None:
    with gateway(*SCRIPTED, "--store", "postgres://host/rooms") as process:
        assert process.popen.wait() == 2
        assert "it is sqlite:PATH" in process.text and "Traceback" not in process.text
