"""``gateway chat``: lines are typed and captions are read, on a terminal and without one."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli import chat
from gateway.cli import main as cli
from gateway.cli.main import main
from gateway.cli.terminal import Screen
from gateway.client import ConnectionLost, connect
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from gateway.limits import Limits
from tests.support.fake import welcome
from tests.support.live import Live, in_thread, running, until
from tests.support.proxy import behind

pytestmark = pytest.mark.usefixtures("bare")


@contextmanager
def typed(text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path.write_text(text, encoding="utf-8")
    with path.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield


def test_chat_says_every_line_and_ends_with_the_input(
    capsys: pytest.CaptureFixture[str], live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed("good morning\n\nsee you — no newline", tmp_path / "lines", monkeypatch):
        assert main(["chat", "--url", live.ws, "--from", "en", "--to", "de"]) == 0
    out, err = capsys.readouterr()
    assert out == "[de] [de] good morning\n[de] [de] see you — no newline\n"
    assert err == ""


def test_chat_without_a_language_to_read_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with typed("good morning\n", tmp_path / "lines", monkeypatch):
        assert main(["chat", "--url", live.ws, "--from", "en"]) == 0
    assert "Add --to de,fr" in capsys.readouterr().err


def test_chat_sends_a_line_again_that_was_refused_for_the_moment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        in_thread(limits=Limits(rate=100.0, burst=1)) as live,
        typed("one\ntwo\nthree\n", tmp_path / "lines", monkeypatch),
    ):
        assert main(["chat", "--url", live.ws, "--from", "en", "--to", "de"]) == 0
    assert capsys.readouterr().out == "[de] [de] one\n[de] [de] two\n[de] [de] three\n"


def test_chat_shows_errors_and_originals_without_translation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = failing(EngineFault("It broke."))
    with (
        in_thread(ScriptedEngine(fault=fault), Limits(text=10)) as live,
        typed("hello\nmuch too long a line\n", tmp_path / "lines", monkeypatch),
    ):
        assert main(["chat", "--url", live.ws, "--from", "en", "--to", "de,qq"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("! This engine does not have 'qq'")
    assert sorted(out[1:]) == [
        "! The text has 20 characters; 10 are allowed. Say it in several utterances.",
        "[de] (not translated: engine_unavailable) hello",
    ]


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return where to write typed text; closing it is Ctrl-D."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


async def chatting(live: Live, *argv: str) -> asyncio.Task[None]:
    """Run `chat` until it is in its room."""
    args = cli._parser().parse_args(["chat", "--url", live.ws, *argv])
    task = asyncio.create_task(chat.converse(args))
    async with asyncio.timeout(20):
        while not live.hub.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return task


async def test_chat_shows_what_others_say_in_the_room(
    capsys: pytest.CaptureFixture[str], keyboard: int
) -> None:
    async with running(lang="en") as live:
        chat = await chatting(live, "--to", "de", "--room", "club")
        async with connect(live.ws, room="club", speaker="Ann", to=("de",)) as ann:
            await ann.caption(await ann.say("hello"), "de")
            os.close(keyboard)
            await chat
    assert capsys.readouterr().out == "Ann: hello\n[de] [de] hello\n"


async def test_chat_shows_what_was_corrected_and_what_was_taken_back(
    capsys: pytest.CaptureFixture[str], keyboard: int
) -> None:
    async with running(lang="en") as live:
        chat = await chatting(live, "--to", "de,en", "--room", "club")
        async with connect(live.ws, room="club", speaker="Ann", to=("de",)) as ann:
            id = await ann.say("hello")
            await ann.caption(id, "de")
            await ann.edit(id, "de", "Hallo")
            await ann.edit(id, "en", "hello, all of you who are here")
            await ann.cancel(await ann.say("a draft", final=False))
            await ann.retract(id)
            os.close(keyboard)
            await chat
    out = capsys.readouterr().out.splitlines()
    assert sorted(out[:3]) == ["Ann: hello", "[de] [de] hello", "[en] hello"]
    assert out[3:] == [
        "[de] Hallo (instead of: [de] hello)",
        "Ann: hello, all of you who are here (instead of: hello)",
        "(taken back: hello, all of you who are here)",
    ]


async def test_chat_that_loses_its_gateway_says_so_and_goes_on(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(lang="en") as live, behind(live) as (proxy, bad):
        chat = await chatting(bad, "--to", "de", "--room", "club")
        os.write(keyboard, b"hello\n")
        await until(lambda: live.hub.rooms["club"].log.seq == 2)
        proxy.refuse = True
        proxy.cut()
        os.write(keyboard, b"goodbye\n")
        proxy.refuse = False
        os.close(keyboard)
        await chat
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith("#")] == [
        "# No connection (1006). Trying again; Ctrl-C ends.",
        "# Connected again; nothing was missed.",
    ]
    assert [line for line in out if line.startswith("[")] == [
        "[de] [de] hello",
        "[de] [de] goodbye",
    ]


def test_chat_is_told_when_something_may_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    notices = chat.ConnectionNotices(Screen(sys.stdout))
    for ok in (False, True):  # before a planned restart nothing breaks
        notices.tell(welcome(ok=ok))
    assert capsys.readouterr().out == "# Connected again; something may have been missed.\n"


async def test_chat_that_is_refused_for_good_fails_with_a_sentence(keyboard: int) -> None:
    async with running(lang="en") as live:
        chat = await chatting(live, "--room", "demo")
        await live.hub.forget("demo")
        with pytest.raises(ConnectionLost, match="has ended"):
            await chat
    os.close(keyboard)


@contextmanager
def on_a_terminal(*argv: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command on a pseudo-terminal, and return our end of it."""
    ours, its = pty.openpty()
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-m", "gateway", *argv],
        stdin=its, stdout=its, stderr=subprocess.PIPE, env=environ,
    ) as process:  # fmt: skip
        os.close(its)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(fd: int, text: str) -> str:
    seen = ""
    while text not in seen:
        seen += os.read(fd, 4096).decode()
    return seen


def test_chat_on_a_terminal_ends_with_ctrl_d(live: Live) -> None:
    with on_a_terminal("chat", "--url", live.ws, "--from", "en", "--to", "de") as (chat, terminal):
        read_until(terminal, "Ctrl-D")
        os.write(terminal, b"good morning\n")
        seen = read_until(terminal, "[de] [de] good morning\r\n")
        assert "> good morning" in seen
        os.write(terminal, b"\x04")
        _, err = chat.communicate(timeout=20)
    assert (chat.returncode, err) == (0, b"")


def test_ctrl_c_ends_quietly_with_130(live: Live) -> None:
    with on_a_terminal("chat", "--url", live.ws, "--from", "en", "--to", "de") as (chat, terminal):
        read_until(terminal, "Ctrl-D")
        chat.send_signal(signal.SIGINT)
        _, err = chat.communicate(timeout=20)
    assert (chat.returncode, err) == (130, b"")
