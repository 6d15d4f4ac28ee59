from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway import __version__, chat, cli, settings
from gateway.cli import main
from gateway.client import Lost, connect
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from gateway.limits import Limits
from gateway.settings import Settings
from tests.live import Live, in_thread, running, until
from tests.proxy import behind
from tests.test_recovery import welcome

SAY = ("say", "good morning", "--from", "en", "--engine", "scripted", "--scripted-pace", "0")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own environment is a setting."""
    for name in list(os.environ):
        if name.startswith("GATEWAY_") or name == "PORT":
            monkeypatch.delenv(name)


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """The status and the complaint of a command that prints nothing else."""
    try:
        status = main(argv)
    except SystemExit as exc:
        status = int(str(exc.code))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gateway: ")
    assert "Traceback" not in err
    return status, err


# --- commands ------------------------------------------------------------------------------------


def test_no_command_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out = capsys.readouterr().out
    assert all(command in out for command in ("serve", "say", "chat", "languages", "schema"))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"gateway {__version__}\n"


def test_every_setting_is_a_flag_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    out = capsys.readouterr().out
    for row in settings.table().values():
        assert row.flag in out


def test_serve_gets_the_settings_and_gives_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.server import process

    served: list[Settings] = []

    def serve(given: Settings) -> int:
        served.append(given)
        return 7

    monkeypatch.setattr(process, "serve", serve)
    flags = ["--no-guards", "--limit-text", "5", "--vllm-arg", "seed=3", "--vllm-arg", "a=b=c"]
    assert main(["serve", "--engine", "vllm", *flags]) == 7
    assert served == [
        Settings(engine="vllm", guards=False, limits=Limits(text=5), vllm={"seed": 3, "a": "b=c"})
    ]


def test_serve_says_so_when_its_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, err = fails(capsys, "serve", "--engine", "scripted", "--port", port)
    assert status == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["serve", "--host", "0.0.0.0"], "lets everybody in"),
        (["serve", "--prot", "8"], "There is no --prot here. Did you mean --port?"),
        (["serve", "--port", "web"], "--port cannot be 'web': it is a whole number"),
        (["serve", "--vllm-arg", "seed"], "--vllm-arg cannot be 'seed': it is KEY=VALUE"),
        (["serve", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["srve"], "invalid choice: 'srve'"),
        (["say", "hello"], "--to"),
        (["say", "hello", "--to", ","], "it names no language"),
    ],
)
def test_a_command_line_that_cannot_be_understood_is_status_2_and_a_sentence(
    capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    status, err = fails(capsys, *argv)
    assert status == 2
    assert says in err
    assert "--help" in err


def test_settings_are_shown_with_their_origin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_OPENAI_API_KEY", "sesame")
    monkeypatch.setenv("GATEWAY_MODLE", "x")
    assert main(["settings", "--port", "9"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^port +9 +--port$", out, re.MULTILINE)
    assert "sesame" not in out + err
    assert "Did you mean GATEWAY_MODEL?" in err


def test_settings_print_their_own_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--markdown"]) == 0
    assert capsys.readouterr().out == settings.markdown()


def test_languages_are_listed_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["languages", "--engine", "scripted"]) == 0
    assert re.search(r"^de +German +to ar, en,", capsys.readouterr().out, re.MULTILINE)
    assert main(["languages", "--engine", "scripted", "--json"]) == 0
    rows = {row["code"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["de"]["name"] == "German"
    assert "en" in rows["de"]["targets"]
    assert "de" not in rows["de"]["targets"]


def test_the_protocol_is_printed_as_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert "$schema" in json.loads(capsys.readouterr().out)
    assert main(["schema", "--asyncapi"]) == 0
    assert json.loads(capsys.readouterr().out)["asyncapi"].startswith("3.")


# --- say -----------------------------------------------------------------------------------------


def test_say_translates_with_nothing_running(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SAY, "--to", "de"]) == 0
    assert capsys.readouterr().out == "[de] good morning\n"


def test_say_needs_no_setting_to_translate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["say", "Thank you very much.", "--from", "en", "--to", "de"]) == 0
    assert capsys.readouterr().out in ("Vielen Dank.\n", "Danke sehr.\n", "Danke schön.\n")


def test_say_names_the_languages_where_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SAY, "--to", "fr, de,fr"]) == 0
    assert capsys.readouterr().out == "[fr] [fr] good morning\n[de] [de] good morning\n"


def test_say_asks_a_running_gateway(capsys: pytest.CaptureFixture[str], live: Live) -> None:
    argv = ["say", "good morning", "--from", "en", "--url", live.ws]
    assert main([*argv, "--to", "fr,de"]) == 0
    assert capsys.readouterr().out == "[fr] [fr] good morning\n[de] [de] good morning\n"


def test_say_prints_what_it_has_and_fails_for_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    fault = failing(EngineFault("It broke."))
    with in_thread(
        ScriptedEngine(fault=lambda job, n: job.target == "fr" and fault(job, n))
    ) as live:
        status = main(["say", "hi", "--from", "en", "--url", live.ws, "--to", "fr,de"])
    assert status == 1
    out, err = capsys.readouterr()
    assert out == "[de] [de] hi\n"
    assert "engine_unavailable" in err


def test_say_tells_the_fault_of_its_own_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = failing(EngineFault("It broke."))
    monkeypatch.setattr(cli, "build", lambda _: ScriptedEngine(fault=fault))
    status, err = fails(capsys, *SAY, "--to", "de")
    assert (status, err) == (1, "gateway: It broke.\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([*SAY, "--to", "en"], "does not translate"),
        ([*SAY, "--to", "tlh-nonsense-tag"], "not a language"),
        ([*SAY, "--to", "sw"], "does not have the language `sw`. It has ar, de"),
        (
            ["say", " ", "--to", "de", "--engine", "scripted", "--lang", "en"],
            "nothing to translate",
        ),
        (["say", "x", "--to", "de", "--model", "nowhere"], "no model directory nowhere"),
        (["say", "x", "--to", "de", "--url", "ftp://there"], "not the address of a gateway"),
        (["chat", "--url", "ws://127.0.0.1:1"], "no gateway at ws://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_status_1_and_a_sentence(
    capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    status, err = fails(capsys, *argv)
    assert status == 1
    assert says in err


def test_what_a_gateway_refuses_is_status_1_and_its_sentence(
    capsys: pytest.CaptureFixture[str], live: Live
) -> None:
    for text, to, says in (("", "de", "text is empty"), ("hi", "sw", "does not have 'sw'")):
        argv = ["say", text, "--to", to, "--from", "en", "--url", live.ws]
        status, err = fails(capsys, *argv)
        assert status == 1
        assert says in err


def test_the_language_of_a_text_is_found_out_or_else_is_english(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["say", "good morning, everybody", "--engine", "scripted", "--to", "de"]
    assert main(argv) == 0
    assert capsys.readouterr().out == "[de] good morning, everybody\n"
    assert fails(capsys, *argv[:-1], "en") == (
        1,
        fails(capsys, *argv[:-1], "en", "--from", "en")[1],
    )


def test_a_text_whose_language_nobody_named_is_said_in_the_settings_language(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["say", "good morning", "--engine", "scripted", "--lang", "de", "--to", "de"]
    status, err = fails(capsys, *argv)
    assert status == 1
    assert "from `de` into `de`" in err


# --- chat ----------------------------------------------------------------------------------------


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


def test_chat_says_again_what_was_refused_for_the_moment(
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
    """Where to write what is typed; closing it is Ctrl-D."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


async def chatting(live: Live, *argv: str) -> asyncio.Task[None]:
    """`chat` at work, once it is in its room."""
    args = cli._parser().parse_args(["chat", "--url", live.ws, *argv])
    chat = asyncio.create_task(cli._converse(args))
    async with asyncio.timeout(20):
        while not live.hub.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return chat


def test_chat_shows_what_others_say_in_the_room(
    capsys: pytest.CaptureFixture[str], keyboard: int
) -> None:
    async def test() -> None:
        async with running(lang="en") as live:
            chat = await chatting(live, "--to", "de", "--room", "club")
            async with connect(live.ws, room="club", speaker="Ann", to=("de",)) as ann:
                await ann.caption(await ann.say("hello"), "de")
                os.close(keyboard)
                await chat

    asyncio.run(test())
    assert capsys.readouterr().out == "Ann: hello\n[de] [de] hello\n"


def test_chat_shows_what_was_corrected_and_what_was_taken_back(
    capsys: pytest.CaptureFixture[str], keyboard: int
) -> None:
    async def test() -> None:
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

    asyncio.run(test())
    out = capsys.readouterr().out.splitlines()
    assert sorted(out[:3]) == ["Ann: hello", "[de] [de] hello", "[en] hello"]
    assert out[3:] == [
        "[de] Hallo (instead of: [de] hello)",
        "Ann: hello, all of you who are here (instead of: hello)",
        "(taken back: hello, all of you who are here)",
    ]


def test_chat_that_loses_its_gateway_says_so_and_goes_on(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
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

    asyncio.run(test())
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
    tidings = chat.Tidings(chat.Screen(sys.stdout))
    for ok in (False, True):  # before a planned restart nothing breaks
        tidings.tell(welcome(ok=ok))
    assert capsys.readouterr().out == "# Connected again; something may have been missed.\n"


def test_chat_that_is_turned_away_for_good_fails_with_a_sentence(keyboard: int) -> None:
    async def test() -> None:
        async with running(lang="en") as live:
            chat = await chatting(live, "--room", "demo")
            await live.hub.forget("demo")
            with pytest.raises(Lost, match="has ended"):
                await chat

    asyncio.run(test())
    os.close(keyboard)


@contextmanager
def on_a_terminal(*argv: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command on a pseudo-terminal, and our end of that."""
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


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "gateway", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1
