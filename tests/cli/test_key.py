"""`gateway key`: a key that is shown once, and a file that has what is needed to know it."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.auth.api_keys import Keyring
from gateway.auth.permissions import Quota, Role
from gateway.cli.main import main
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from tests.support.live import in_thread


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def made(capsys: pytest.CaptureFixture[str], file: Path, *argv: str) -> str:
    assert main(["key", *argv, "--keys", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "not shown again" in err
    return out.strip()


def test_a_key_is_printed_once_and_opens_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    argv = ("board", "--role", "view", "--rooms", "board, team-*", "--langs", "de,fr")
    more = ("--tenant", "acme", "--days", "30", "--sessions", "5", "--minute", "60")
    token = made(capsys, file, *argv, *more)
    text = file.read_text()
    assert token.startswith("gwk_") and token.rpartition("_")[2] not in text
    permissions = Keyring(text).authenticate(token, time.time())
    assert (permissions.name, permissions.tenant, permissions.role) == ("board", "acme", Role.VIEW)
    assert (permissions.rooms, permissions.langs) == (("board", "team-*"), ("de", "fr"))
    assert permissions.quota == Quota(sessions=5, minute=60)
    assert permissions.until is not None and abs(permissions.until - time.time() - 30 * 86_400) < 60


def test_keys_are_appended_to_a_file_that_only_its_owner_can_read(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    first = made(capsys, file, "a")
    file.write_text("# mine\n" + file.read_text())
    second = made(capsys, file, "b", "--rooms", "")
    ring = Keyring(file.read_text())
    assert ring.authenticate(first, 0.0).rooms == ("*",)
    assert ring.authenticate(second, 0.0).rooms == ()
    assert file.read_text().startswith("# mine\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (("a",), 1, "keys.toml already has a key named 'a'. Choose another name"),
        (("b", "--rooms", "a/b"), 2, "The rooms[0] of a key"),
        (("b", "--langs", "klingonese"), 1, "is not a language tag"),
        (("",), 2, "The name of a key"),
    ],
)
def test_an_impossible_key_leaves_the_file_as_it_is(
    capsys: pytest.CaptureFixture[str], file: Path, argv: tuple[str, ...], status: int, says: str
) -> None:
    made(capsys, file, "a")
    before = file.read_text()
    assert main(["key", *argv, "--keys", str(file)]) == status
    out, err = capsys.readouterr()
    assert out == "" and says in err
    assert file.read_text() == before


def test_a_file_that_is_broken_is_not_written_to(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_text("not TOML")
    assert main(["key", "a", "--keys", str(file)]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert file.read_text() == "not TOML"


def test_a_file_of_keys_that_is_not_text_is_reported_by_its_name(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    file.write_bytes(b"\xff\xfe")
    assert main(["key", "a", "--keys", str(file)]) == 1
    assert f"{file} cannot be read: it is not text in UTF-8." in capsys.readouterr().err


@pytest.mark.parametrize("room", [0, 40])
def test_a_full_disk_leaves_the_file_of_keys_as_it_is(
    capsys: pytest.CaptureFixture[str], file: Path, room: int
) -> None:
    made(capsys, file, "a")
    before = file.read_text()
    limit = len(before.encode()) + room
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from gateway.cli.main import main
sys.exit(main(["key", "b", "--keys", {str(file)!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"gateway: {file}: ") and done.stderr.count("\n") == 1
    assert file.read_text() == before


def test_a_client_on_the_command_line_shows_the_key_in_its_variable(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = made(capsys, file, "a")
    authenticator = Authenticator(Limits(), keyring=Keyring(file.read_text()))
    say = ["say", "good morning", "--from", "en", "--to", "de", "--url"]
    with in_thread(authenticator=authenticator) as live:
        assert main([*say, live.ws]) == 1
        assert "No key was presented." in capsys.readouterr().err
        monkeypatch.setenv("GATEWAY_KEY", token)
        assert main([*say, live.ws]) == 0
        assert capsys.readouterr().out == "[de] good morning\n"
