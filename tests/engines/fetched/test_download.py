"""Tests of fetching one file from a hub over a bad network."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.fetched import download
from gateway.errors import EngineFault
from tests.engines.fetched.hub import Hub, served

BODY = random.Random(3).randbytes(1_500_000)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with served() as hub:
        hub.files["model.bin"] = BODY
        yield hub


def fetch(hub: Hub, target: Path, path: str = "/resolve/model.bin", **options: Any) -> None:
    download.fetch(hub.address + path, target, sleep=lambda seconds: None, **options)


def test_a_file_comes_through_a_redirect_with_its_progress(hub: Hub, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(hub, tmp_path / "m" / "model.bin", report=lambda *values: told.append(values))
    assert (tmp_path / "m" / "model.bin").read_bytes() == BODY
    assert told == [(len(BODY), len(BODY))]
    assert [path for path, _ in hub.asked] == ["/resolve/model.bin", "/cdn/model.bin"]
    assert [one.name for one in (tmp_path / "m").iterdir()] == ["model.bin"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_continues_where_it_broke(
    hub: Hub, tmp_path: Path, ranges: bool
) -> None:
    hub.cuts, hub.ranges = [600_000, 300_000], ranges
    fetch(hub, tmp_path / "model.bin")
    assert (tmp_path / "model.bin").read_bytes() == BODY
    asked = [given for path, given in hub.asked if path.startswith("/cdn")]
    assert asked[0] is None and asked[1] == "bytes=600000-"
    assert asked[2] == ("bytes=900000-" if ranges else "bytes=300000-")


def test_an_interrupted_fetch_continues_in_the_next_process(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [400_000] + [0] * download.TRIES
    with pytest.raises(EngineFault, match="could not be fetched") as caught:
        fetch(hub, tmp_path / "model.bin")
    assert caught.value.hint == "0 MB have come; the next try continues there."
    assert not (tmp_path / "model.bin").exists()
    fetch(hub, tmp_path / "model.bin")
    assert hub.asked[-1] == ("/cdn/model.bin", "bytes=400000-")
    assert (tmp_path / "model.bin").read_bytes() == BODY


def test_a_whole_part_is_checked_and_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.bin.part").write_bytes(BODY)
    fetch(hub, tmp_path / "model.bin")
    assert (tmp_path / "model.bin").read_bytes() == BODY


def test_a_part_that_is_longer_than_the_file_is_forgotten(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.bin.part").write_bytes(BODY + b"!")
    fetch(hub, tmp_path / "model.bin")
    assert (tmp_path / "model.bin").read_bytes() == BODY


@pytest.mark.parametrize("known", [True, False])
def test_a_wrong_sum_is_an_error_and_what_came_is_forgotten(
    hub: Hub, tmp_path: Path, known: bool
) -> None:
    (tmp_path / "model.bin.part").write_bytes(b"of another release")
    sha256 = hashlib.sha256(BODY).hexdigest() if known else ""
    hub.linked = not known
    with pytest.raises(EngineFault, match="another content than it should have: SHA-256"):
        fetch(hub, tmp_path / "model.bin", sha256=sha256)
    fetch(hub, tmp_path / "model.bin", sha256=sha256)
    assert (tmp_path / "model.bin").read_bytes() == BODY


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/cdn/gone.bin", r"cannot be fetched: HTTP 404 from 127\.0\.0\.1\."),
        ("/loop", "leads through too many redirects"),
    ],
)
def test_an_address_that_leads_nowhere_is_an_error(
    hub: Hub, tmp_path: Path, path: str, says: str
) -> None:
    with pytest.raises(EngineFault, match=says):
        fetch(hub, tmp_path / "model.bin", path)


def test_a_server_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineFault, match=r"http://127\.0\.0\.1:1/m could not be fetched"):
        download.fetch("http://127.0.0.1:1/m", tmp_path / "m", sleep=lambda seconds: None)


def test_a_full_disk_is_an_error_with_the_space_that_is_needed(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**6))
    with pytest.raises(EngineFault, match="has 1 MB left, and 270 are needed"):
        fetch(hub, tmp_path / "model.bin")


def test_two_processes_do_not_write_one_file(hub: Hub, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with (
        download._locked(tmp_path / "model.bin.part"),
        pytest.raises(EngineFault, match="Another process fetches model.bin.part"),
    ):
        fetch(hub, tmp_path / "model.bin")


def test_a_folder_that_cannot_be_written_is_an_error(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineFault, match="cannot be written"):
        fetch(hub, tmp_path / "file" / "model.bin")
