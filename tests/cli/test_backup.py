"""`gateway backup`: a copy of a store in use, and a gateway that starts from it."""

from __future__ import annotations

import sqlite3
import stat
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from gateway.cli.main import main
from tests.server.started import SCRIPTED, Process, gateway
from tests.support.command import run
from tests.support.disk import Disk, texts

pytestmark = pytest.mark.usefixtures("bare")


def page(started: Process, path: str) -> str:
    url = f"http://127.0.0.1:{started.port}/{path}"
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


async def test_a_backup_of_a_store_in_use_has_every_event_and_opens_as_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk, target = Disk(tmp_path), tmp_path / "backup" / "rooms.db"
    target.parent.mkdir()
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), "kept", times=3)
        await store.flush()
        assert run("backup", target, "--store", f"sqlite:{disk.path}") == 0
        disk.say(await store.claim("later"), "not kept")
        await store.flush()
    assert f"was copied to {target}." in capsys.readouterr().out
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [file.name for file in target.parent.iterdir()] == ["rooms.db"]
    async with Disk(target.parent).open() as restored:
        assert texts(await restored.claim("meeting")) == ["kept"] * 3
        assert texts(await restored.claim("later")) == []


def test_a_room_of_a_running_gateway_is_there_after_a_restore(tmp_path: Path) -> None:
    store, target = tmp_path / "rooms.db", tmp_path / "copy.db"
    with gateway(*SCRIPTED, "--store", f"sqlite:{store}") as started:
        url = f"ws://127.0.0.1:{started.port}/v1/ws?room=meeting"
        assert run("say", "good morning", "--from", "en", "--to", "de", "--url", url) == 0
        while "\ngateway_store_behind 0.0\n" not in page(started, "metrics"):
            pass
        assert run("backup", target, "--store", f"sqlite:{store}") == 0
    with gateway(*SCRIPTED, "--store", f"sqlite:{target}") as started:
        assert "good morning" in page(started, "v1/rooms/meeting/transcript.txt?lang=de")


@pytest.mark.parametrize(
    ("flags", "status", "says"),
    [
        ((), 2, "There is no store to back up."),
        (("--store", "sqlite:{folder}/absent.db"), 1, "absent.db cannot be copied"),
        (("--store", "sqlite:{folder}/other.db"), 1, "other.db is no store of a gateway."),
        (("--store", "sqlite:{folder}/text.db"), 1, "text.db cannot be copied"),
    ],
)
def test_a_backup_that_fails_leaves_no_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    status: int,
    says: str,
) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE notes (text)")
    (tmp_path / "text.db").write_text("This is no database. " * 100)
    target = tmp_path / "copy.db"
    flags = tuple(flag.format(folder=tmp_path) for flag in flags)
    assert main(["backup", str(target), *flags]) == status
    assert says in capsys.readouterr().err
    assert not target.exists()


def test_a_backup_does_not_replace_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy.db"
    target.write_text("mine")
    assert main(["backup", str(target), "--store", f"sqlite:{tmp_path}/rooms.db"]) == 1
    assert "File exists" in capsys.readouterr().err
    assert target.read_text() == "mine"
