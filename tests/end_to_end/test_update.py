"""An update from the release before, and the way back, by the commands of the page about backups.

``tests/golden/store-VERSION.sql`` is the store of a release after a short meeting: the output of
``sqlite3 rooms.db .dump``. A release adds its own file here, so that all later ones read it.
"""

from __future__ import annotations

import re
import shlex
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.server.started import SCRIPTED, gateway
from tests.support.command import run

pytestmark = pytest.mark.usefixtures("bare")

PAGE = (DOCS / "how-to" / "backup.md").read_text(encoding="utf-8")
STORES = sorted((ROOT / "tests" / "golden").glob("store-*.sql"))


def commands(*programs: str) -> list[str]:
    """Return the commands of the page that begin with one of the words, in order."""
    return [
        line
        for line in re.findall(r"^ {4,}(\S.*)$", PAGE, re.MULTILINE)
        if line.split()[0] in programs
    ]


def carried_out(command: str, folder: Path) -> None:
    """Run a command of the page with its folders below another one, as the present user."""
    for place in ("/var/lib/gateway", "/var/backups", "/etc/gateway"):
        command = command.replace(place, f"{folder}{place}")
    command = command.replace("-o gateway -g gateway ", "")
    command = re.sub("^gateway ", f"{shlex.quote(sys.executable)} -m gateway ", command)
    subprocess.run(["sh", "-euc", command], check=True, capture_output=True)


def transcript(port: int) -> str:
    url = f"http://127.0.0.1:{port}/v1/rooms/meeting/transcript.txt?lang=de"
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


def said(port: int, text: str) -> None:
    url = f"ws://127.0.0.1:{port}/v1/ws?room=meeting"
    assert run("say", text, "--from", "en", "--to", "de", "--url", url) == 0


def test_there_is_a_store_of_a_release() -> None:
    assert STORES


@pytest.mark.parametrize("dump", STORES, ids=lambda dump: dump.stem)
def test_an_update_from_a_release_and_the_way_back_follow_the_page(
    dump: Path, tmp_path: Path
) -> None:
    for place in ("var/lib/gateway", "var/backups", "etc/gateway"):
        (tmp_path / place).mkdir(parents=True)
    store = tmp_path / "var/lib/gateway/rooms.db"
    with closing(sqlite3.connect(store)) as db:
        db.executescript(dump.read_text(encoding="utf-8"))
        # The meeting was a moment ago: rooms that nobody has opened for long are ended.
        now = time.time()
        db.execute("UPDATE rooms SET began = ?, seen = ?", (now - 60, now))
        db.commit()
    config = tmp_path / "etc/gateway/gateway.toml"
    config.write_text(f'store = "sqlite:{store}"\nengine = "scripted"\n', encoding="utf-8")

    # The update: a backup, a look whether the new version can start, and its start.
    (backup,) = commands("gateway")
    carried_out(backup, tmp_path)
    copy = tmp_path / "var/backups/rooms-1.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    (doctor,) = re.findall(r"`(gateway doctor [^`]+)`", PAGE)
    carried_out(doctor, tmp_path)
    with gateway("--config", str(config), *SCRIPTED) as started:
        text = transcript(started.port)
        assert "[de] good morning" in text and "Der Zug hat Verspätung" in text
        assert "a secret" not in text, "it was retracted"
        said(started.port, "after the update")
        assert "after the update" in transcript(started.port)

    # The way back: the old store is moved away, and the copy takes its place.
    restore = commands("mkdir", "mv", "install")
    assert [command.split()[0] for command in restore] == ["mkdir", "mv", "install"]
    for command in restore:
        carried_out(command, tmp_path)
    assert [file.name for file in store.parent.glob("rooms.db*")] == ["rooms.db"]
    with closing(sqlite3.connect(store)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        assert f"PRAGMA user_version = {version};" in dump.read_text(encoding="utf-8")
    with gateway("--config", str(config), *SCRIPTED) as started:
        text = transcript(started.port)
        assert "[de] good morning" in text and "after the update" not in text
