"""`gateway top` against real gateways, real ports and a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from caption_tools.top import command, poll
from caption_tools.top.command import TopScreen
from caption_tools.top.poll import Poller
from gateway.engines.scripted import ScriptedEngine
from gateway.server.access.authenticator import Authenticator, build
from gateway.settings.catalogue import Settings
from tests.server.access.credentials import FILE, MODERATOR, SPEAKER
from tests.support.command import fails, run
from tests.support.live import Live, in_thread, running
from tests.support.stream_server import StreamServer
from tests.support.talk import talk

pytestmark = pytest.mark.usefixtures("bare")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ONCE_S", 0.01)


@pytest.fixture
def unused() -> Iterator[str]:
    """Return an address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def row(out: str, name: str) -> dict[str, str]:
    """Return the cells of a gateway by the titles of their columns."""
    titles, *rows = [line.split("   ") for line in out.splitlines() if "   " in line]
    (cells,) = [one for one in rows if one[0].strip() == name]
    names = [title.strip() for title in titles if title.strip()]
    return dict(zip(names, [cell.strip() for cell in cells if cell.strip()], strict=True))


def test_one_frame_of_several_gateways_goes_into_a_pipe(
    live: Live, unused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = live.http.removeprefix("http://")
    assert run("top", "--once", live.http, unused) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    found = row(out, name)
    assert (found["state"], found["engine"], found["sockets"]) == ("ready", "scripted", "0")
    assert found["jobs"].startswith("0/") and found["memory"] != "-"
    assert row(out, unused)["state"] == "down"
    assert f"{unused}: No gateway listens there." in out


def test_without_a_terminal_one_frame_is_enough(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("top", live.http) == 0
    assert capsys.readouterr().out.count("latencies since the start") == 1


def test_the_status_is_0_if_all_gateways_are_ready(live: Live) -> None:
    assert run("top", "--once", live.http, live.ws) == 0


def test_an_address_that_is_none_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = fails(capsys, "top", "--once", "ftp://x")
    assert status == 1 and "'ftp://x' is not the address of a gateway" in said


@pytest.fixture
def keys(tmp_path: Path) -> Authenticator:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return build(Settings(keys=str(path)))


@pytest.mark.parametrize("key", [None, SPEAKER, "gwk_wrong_one"])
def test_without_a_right_key_the_state_is_shown_and_the_variable_is_named(
    key: str | None,
    keys: Authenticator,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if key is not None:
        monkeypatch.setenv("GATEWAY_KEY", key)
    with in_thread(authenticator=keys) as live:
        assert run("top", "--once", live.http) == 0
    out = capsys.readouterr().out
    found = row(out, live.http.removeprefix("http://"))
    assert (found["state"], found["sockets"]) == ("ready", "-")
    assert "needs an API key that may moderate" in out and "GATEWAY_KEY" in out


def test_with_a_key_that_may_moderate_the_figures_are_shown(
    keys: Authenticator, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", MODERATOR)
    with in_thread(authenticator=keys) as live:
        assert run("top", "--once", live.http) == 0
    assert row(capsys.readouterr().out, live.http.removeprefix("http://"))["sockets"] == "0"


@contextlib.asynccontextmanager
async def serving(answer: bytes) -> AsyncIterator[str]:
    """Answer every connection with the same bytes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with StreamServer(handle) as server:
        yield server.address


@pytest.mark.parametrize(
    ("answer", "status", "note"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n<html>hello</html>", "?", "it is no gateway"),
        (b"HTTP/1.1 200 OK\r\n\r\n[1]", "?", "it is no gateway"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "?", "it is no gateway"),
        (b"\xff\xfe nonsense", "down", "could not be read"),
        (b"", "down", "could not be read"),
    ],
)
async def test_something_else_that_answers_is_named_as_such(
    answer: bytes, status: str, note: str
) -> None:
    async with serving(answer) as address:
        poller = Poller(address, None)
        await poller.poll()
    found = poller.figures(latencies_of_all=True)
    assert found.status == status
    assert note in found.notes[0]


async def test_a_gateway_that_never_answers_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caption_tools.scrape.ANSWER_S", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        poller = Poller(f"127.0.0.1:{silent.getsockname()[1]}", None)
        await poller.poll()
    found = poller.figures(latencies_of_all=True)
    assert found.status == "down" and found.notes[0].startswith("No answer within")


async def test_a_machine_that_does_not_exist_is_down() -> None:
    poller = Poller("gateway.invalid:8000", None)
    await poller.poll()
    assert poller.figures(latencies_of_all=True).notes == ("The name of the machine is not known.",)


async def test_answers_older_than_the_window_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "WINDOW_S", 0.0)
    async with running() as live:
        poller = Poller(live.http, None)
        for _ in range(3):
            await poller.poll()
    assert len(poller._answers) == 1


class Terminal:
    """A pseudo-terminal, and the drawn text."""

    def __init__(self) -> None:
        self.keyboard, self.keys = os.openpty()
        self.out = io.StringIO()
        self.console = Console(file=self.out, force_terminal=True, width=200, height=30)

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    async def shows(self, text: str) -> None:
        while text not in self.out.getvalue():  # noqa: ASYNC110  # a terminal knows no event
            await asyncio.sleep(0.005)

    def close(self) -> None:
        os.close(self.keyboard)
        os.close(self.keys)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


async def test_the_live_view_follows_captions_sorts_and_ends_with_q(
    terminal: Terminal, unused: str
) -> None:
    async with running(ScriptedEngine()) as live, talk(live, "?from=en&to=de") as peer:
        pollers = [Poller(unused, None), Poller(live.http, None)]
        top = TopScreen(pollers, 0.02, console=terminal.console, keys=terminal.keys)
        showing = asyncio.create_task(top.live())
        await terminal.shows("ready")  # the reading that later ones are compared with
        await terminal.shows("No gateway listens there.")
        await peer.send(json.dumps({"type": "say", "text": "Good morning."}))
        await peer.until("final")
        await terminal.shows(" ms")  # the latencies of this caption
        terminal.type("sr")
        await terminal.shows("sorted by state, descending")
        terminal.type("q")
        assert await showing == 0
    # The screen of before is shown again, with its cursor.
    assert terminal.out.getvalue().rstrip().endswith("\x1b[?25h\x1b[?1049l")


async def test_the_live_view_without_a_keyboard_ends_with_its_task(
    terminal: Terminal, unused: str
) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    pollers = [Poller(unused, None)]
    top = TopScreen(pollers, 0.02, console=terminal.console, keys=nothing)
    showing = asyncio.create_task(top.live())
    try:
        await terminal.shows("No gateway listens there.")
        showing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await showing
    finally:
        os.close(nothing)


async def test_markup_and_control_characters_of_an_answer_are_shown_as_text(
    terminal: Terminal,
) -> None:
    body = json.dumps(
        {"status": "[red]x\x1b[2J", "engine": "机\u200e[/]", "fallback": None, "partials": "on"}
    )
    async with serving(b"HTTP/1.1 200 OK\r\n\r\n" + body.encode()) as address:
        console = Console(file=terminal.out, force_terminal=False, width=200)
        top = TopScreen([Poller(address, None)], 0.01, console=console)
        assert await top.once() == 1
    out = terminal.out.getvalue()
    assert "[red]x [2J" in out and "机 [/]" in out and "\x1b" not in out


def test_serving_does_not_import_the_view() -> None:
    import subprocess

    code = "import sys, gateway.cli.main; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
