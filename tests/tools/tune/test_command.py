"""``gateway tune``, as it is typed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from caption_tools.scrape import Scraper
from caption_tools.tune import command, sweep
from caption_tools.tune.model.steps import Figures
from gateway.auth.api_keys import Keyring
from gateway.cli.main import main
from gateway.client import connect
from gateway.engines.registry import EMBEDDED
from gateway.errors import EngineFault
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.settings import loading
from gateway.settings.catalogue import Settings
from tests.support import command as command_line
from tests.support.live import Live, in_thread
from tests.tools.tune.model.test_steps import figures

SCRIPTED = ["--engine", "scripted", "--scripted-pace", "0.01"]
QUICK = ["--seconds", "2", "--try", "max_num_seqs=2,4", *SCRIPTED]
MEETING = "10 a second, 1-8 words"


pytestmark = pytest.mark.usefixtures("bare")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurement in tests of the steps before and after it."""

    async def measure(*_: object) -> Figures:
        return figures(running=16)

    defaults = sweep.Sweep.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "measure", measure)


def tune(*argv: object) -> int:
    return main(["tune", *map(str, argv)])


def fails(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    return command_line.fails(capsys, "tune", *argv)


# --- what comes out ------------------------------------------------------------------------------


def test_a_search_prints_a_table_reasons_and_settings_and_writes_the_rest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = {name: tmp_path / f"out.{name}" for name in ("json", "toml")}
    flags = [flag for name, path in names.items() for flag in (f"--{name}", path)]
    assert tune("--describe", f"{MEETING}, 2 languages", *flags, *QUICK) == 0
    out, err = capsys.readouterr()
    assert "max_num_seqs  captions/s" in out
    assert "# max_num_seqs = 2: 2 s ..." in err
    assert "into de, fr" in err
    found = json.loads(names["json"].read_bytes())
    best = found["recommended"]["max_num_seqs"]
    assert best in (2, 4)
    assert set(found["tried"][0]["steps"]) == {"2", "4"}
    assert f"max_num_seqs = {best}" in out
    loaded = loading.load({"config": str(names["toml"])}, {})
    assert loaded.settings.max_num_seqs == best


@pytest.mark.usefixtures("made_up")
def test_results_until_ctrl_c_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sweep.Sweep.run

    async def interrupted(self: sweep.Sweep, wanted: dict[str, tuple[int, ...]]) -> None:
        await run(self, wanted)
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep.Sweep, "run", interrupted)
    assert tune("--describe", MEETING, *QUICK) == 130
    assert "max_num_seqs = " in capsys.readouterr().out


def test_ctrl_c_before_anything_was_found_prints_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(self: sweep.Sweep, wanted: dict[str, tuple[int, ...]]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep.Sweep, "run", interrupted)
    assert tune("--describe", MEETING, *QUICK) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(not (EMBEDDED / "config.json").is_file(), reason="no embedded model")
def test_the_embedded_model_is_tuned_on_a_laptop(capsys: pytest.CaptureFixture[str]) -> None:
    """Run two real steps of the model in the package."""
    assert tune("--describe", "6 a second, 2-12 words", "--seconds", "2",
                "--try", "batch=1,8", "--inter-threads", "1") == 0  # fmt: skip
    out = capsys.readouterr().out
    assert "ctranslate2:embedded" in out
    assert any(f"\nbatch = {value}" in out for value in (1, 8))


# --- several engines -----------------------------------------------------------------------------


TABLES = """
[[engine]]
name = "german"
engine = "scripted"
pairs = [["en", "de"]]
[[engine]]
name = "日本語"
engine = "scripted"
pairs = [["en", "ja"], ["ja", "en"]]
max_num_seqs = 8
"""


@pytest.fixture
def tables(tmp_path: Path) -> list[object]:
    """Return the flags of a configuration with several engines, and of a short search."""
    path = tmp_path / "gateway.toml"
    path.write_text(TABLES, "utf-8")
    return ["--config", path, "--describe", f"{MEETING}, 2 languages", *QUICK[:4]]


@pytest.mark.usefixtures("made_up")
def test_several_engines_are_tuned_one_after_the_other_with_their_part_of_the_load(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tables: list[object]
) -> None:
    names = {name: tmp_path / f"out.{name}" for name in ("json", "toml")}
    flags = [flag for name, path in names.items() for flag in (f"--{name}", path)]
    assert tune(*tables, "--to", "de,ja", *flags) == 0
    out, err = capsys.readouterr()
    assert "# german: scripted, into de" in err and "# 日本語: scripted, into ja" in err
    assert [one["engine"] for one in json.loads(names["json"].read_bytes())] == [
        "german (scripted)",
        "日本語 (scripted)",
    ]
    found = tomllib.loads(names["toml"].read_text("utf-8"))["engine"]
    assert [one["name"] for one in found] == ["german", "日本語"]
    assert all(one["max_num_seqs"] in (2, 4) for one in found)
    assert '[[engine]]\nname = "german"\nmax_num_seqs = ' in out


@pytest.mark.usefixtures("made_up")
def test_one_of_several_engines_is_tuned_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tables: list[object]
) -> None:
    path = tmp_path / "out.json"
    more = ("--describe", MEETING, "--table", "日本語", "--json", path)
    assert tune(*tables, *more) == 0
    assert json.loads(path.read_bytes())["engine"] == "日本語 (scripted)"
    assert "german" not in capsys.readouterr().err
    assert (
        "There is no engine 'french'. The configuration has: german, 日本語."
        in fails(capsys, *tables, "--table", "french")[1]
    )


@pytest.mark.usefixtures("made_up")
def test_an_engine_without_a_pair_of_the_load_is_left_out(
    capsys: pytest.CaptureFixture[str], tables: list[object]
) -> None:
    assert tune(*tables, "--describe", MEETING, "--to", "de") == 0
    out, err = capsys.readouterr()
    assert "日本語 is not tuned: it has no pair of this load" in err
    assert out.count("[[engine]]") == 1


def test_an_engine_that_fails_does_not_keep_the_others_from_being_tuned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tables: list[object]
) -> None:
    async def measure(engine: object, settings: Settings, *_: object) -> Figures:
        if settings.max_num_seqs == 8:
            return figures(running=16)
        raise EngineFault("The model is gone.")

    defaults = sweep.Sweep.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "measure", measure)
    assert tune(*tables, "--to", "de,ja") == 1
    out, err = capsys.readouterr()
    assert "The search ends early: The model is gone." in err
    assert 'name = "日本語"' in out


# --- where loads come from -----------------------------------------------------------------------


@pytest.mark.usefixtures("made_up")
def test_a_uniform_load_is_refused_unless_it_is_forced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"We are {n:02} people today.\n" for n in range(40)), "utf-8")
    uniform = ["--describe", "10 a second, 5 words", "--text", path, *QUICK]
    status, err = fails(capsys, *uniform)
    assert status == 1
    assert "This load is uniform" in err
    assert "--force-uniform" in err
    assert tune("--force-uniform", *uniform) == 0
    out, err = capsys.readouterr()
    assert "# Forced: This load is uniform" in err
    assert "Warning: The load is uniform" in out


@pytest.mark.usefixtures("made_up")
def test_a_recorded_meeting_is_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "meeting.jsonl"
    draw = Random(0)
    with path.open("wb") as file:
        for n in range(40):
            words = " ".join(["so"] * draw.randint(1, 9))
            line = {"lang": "en", "text": words, "t0": n / 2, "t1": n / 2 + 0.25,
                    "references": {"de": "x", "ja": "y"}, "speaker": f"p{n % 4}"}  # fmt: skip
            file.write(msgspec.json.encode(line) + b"\n")
    assert tune("--replay", path, "--times", 2, "--whole", *QUICK) == 0
    out, err = capsys.readouterr()
    assert (
        "2 of a recorded meeting of 20 s, 4 utterances a second when busy, 2 languages, texts whole"
        in out
    )
    assert "into de, fr" in err
    assert tune("--replay", path, "--to", "ja", *QUICK) == 0
    assert "into ja" in capsys.readouterr().err


@pytest.mark.usefixtures("made_up")
def test_a_meeting_in_columns_is_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "meeting.tsv"
    rows = [f"Das ist {'sehr ' * (n % 7)}gut.\tThat is good." for n in range(30)]
    path.write_text("\n".join(rows), "utf-8")
    assert tune("--replay", path, "--columns", "de,en", "--force-uniform", *QUICK) == 0
    assert "into fr" in capsys.readouterr().err, "German is what is spoken"


@pytest.mark.usefixtures("made_up")
def test_a_running_gateway_is_watched_and_its_history_kept(
    capsys: pytest.CaptureFixture[str], live: Live, tmp_path: Path
) -> None:
    """Use the requests during the watch as load."""
    stop = threading.Event()
    kept = tmp_path / "history.txt"

    async def speak() -> None:
        draw = Random(0)
        async with connect(live.ws, to=("de", "fr")) as client:
            while not stop.is_set():
                await client.say("well " * draw.randint(1, 12))
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(speak()))
    thread.start()
    try:
        status = tune("--watch", 0.5, "--url", live.ws, "--keep", kept, *QUICK)
    finally:
        stop.set()
        thread.join()
    assert status == 0
    out, err = capsys.readouterr()
    assert "a history of" in out
    assert "into de, fr" in err
    assert kept.read_text("utf-8").count("# at ") == 2
    assert tune("--metrics", kept, *QUICK) == 0
    assert "a history of" in capsys.readouterr().out


@pytest.mark.usefixtures("made_up")
def test_a_history_of_few_utterances_is_said_to_be_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lengths = "gateway_utterance_characters_bucket"
    kept = tmp_path / "history.txt"
    kept.write_text(
        f'# at 0\ngateway_utterances_total 0\n{lengths}{{le="10"}} 0\n{lengths}{{le="320"}} 0\n'
        f'# at 2\ngateway_utterances_total 9\n{lengths}{{le="10"}} 4\n{lengths}{{le="320"}} 9\n'
        'gateway_captions_total{by="mt",outcome="final"} 9\n'
    )
    assert tune("--metrics", kept, "--force-uniform", *QUICK, "--seconds", "2") == 0
    assert "known from 9 different texts only" in capsys.readouterr().err


def test_watching_can_be_ended_early(
    live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch, calls = Scraper.fetch, iter(range(100))

    async def interrupted(self: Scraper) -> str:
        if next(calls):
            raise KeyboardInterrupt
        return await fetch(self)

    monkeypatch.setattr(Scraper, "fetch", interrupted)
    monkeypatch.setattr(command, "EVERY_S", 0.0)
    text = command._watched(live.http, 60.0)
    assert text.count("# at ") == 1
    assert capsys.readouterr().err.endswith("# Ended early.\n")


def test_a_gateway_that_cannot_be_watched_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--watch", 1, "--url", "http://127.0.0.1:9", *QUICK) == 1
    err = capsys.readouterr().err
    assert "gateway: http://127.0.0.1:9: /metrics could not be read: " in err


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Run a server that is no gateway."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer:
                peer.recv(65_536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"220 mail.example\r\n", "/metrics could not be read: "),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "is not a gateway"),
    ],
)
def test_a_server_that_is_not_a_gateway_is_reported_at_once(
    capsys: pytest.CaptureFixture[str], answer: bytes, why: str
) -> None:
    with answering(answer) as url:
        assert tune("--watch", 600, "--url", url, *QUICK) == 1
    assert why in capsys.readouterr().err


def test_watching_goes_on_after_a_restart_of_the_gateway(
    live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch, calls = Scraper.fetch, iter(range(100))

    async def broken(self: Scraper) -> str:
        match next(calls):
            case 1 | 2:
                raise OSError("It is gone.")
            case 4:
                raise KeyboardInterrupt
        return await fetch(self)

    monkeypatch.setattr(Scraper, "fetch", broken)
    monkeypatch.setattr(command, "EVERY_S", 0.0)
    text = command._watched(live.http, 600.0)
    assert text.count("# at ") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == ["# It is gone. Trying again.", "# Ended early."]


@pytest.mark.usefixtures("made_up")
def test_results_before_an_engine_failed_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sweep.Sweep.run

    async def failing(self: sweep.Sweep, wanted: dict[str, tuple[int, ...]]) -> None:
        await run(self, wanted)
        raise EngineFault("no memory")

    monkeypatch.setattr(sweep.Sweep, "run", failing)
    assert tune("--describe", MEETING, *QUICK) == 1
    out, err = capsys.readouterr()
    assert "max_num_seqs = " in out
    assert "# The search ends early: no memory" in err


def test_a_gateway_that_requires_a_key_gets_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = tmp_path / "keys.toml"
    assert main(["key", "ops", "--keys", str(ring), "--role", "moderate"]) == 0
    token = capsys.readouterr().out.strip()
    authenticator = Authenticator(Limits(), keyring=Keyring.read(ring.read_text("utf-8")))
    with in_thread(authenticator=authenticator) as live:
        assert tune("--watch", 1, "--url", live.http, *QUICK) == 1
        assert "GATEWAY_KEY" in capsys.readouterr().err
        monkeypatch.setenv("GATEWAY_KEY", token)
        assert "gateway_ready 1.0" in command._watched(live.http, 0.01)


@pytest.mark.usefixtures("made_up")
def test_the_user_can_provide_the_sentences(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.txt"
    path.write_text(
        "Grüezi mitenand.\n\nEs isch hüt e so schöne Tag zum i de Berge laufe.\n", "utf-8"
    )
    own = ["--describe", MEETING, "--from", "it", "--text", path]
    assert tune(*own, *QUICK) == 0
    assert "into de\n" in capsys.readouterr().err
    path.write_text("\n", "utf-8")
    assert "There is no text in" in fails(capsys, *own, *QUICK)[1]


@pytest.mark.usefixtures("made_up")
def test_other_languages_are_spoken_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tune("--describe", MEETING, "--from", "de", *QUICK) == 0
    assert "into fr" in capsys.readouterr().err


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "status", "why"),
    [
        ([], 2, "Name one load:"),
        (["--describe", "1 a second", "--watch", "5"], 2, "Name one load:"),
        (["--describe", "16 horses"], 1, "'16 horses' is not understood"),
        (["--describe", MEETING, "--from", "xx-klingon"], 1, "not"),
        (["--describe", MEETING, "--from", "it"], 1, "no built-in text in it"),
        (["--describe", MEETING + ", 99 languages"], 1, "This load has 99 languages"),
        (["--describe", MEETING, "--to", "sv"], 1, "sv"),
        (["--metrics", "/nowhere/history.txt"], 1, "history.txt"),
        (["--describe", MEETING, "--toml", "/"], 1, "/ is a directory"),
        (["--watch", "1", "--url", "ftp://127.0.0.1:9"], 1, "is not the address of a gateway"),
        (["--describe", MEETING, "--seconds", "1"], 2, "it must be 2 or more"),
        (["--describe", MEETING, "--json", "/nowhere/x.json"], 1, "There is no directory"),
        (["--describe", MEETING, "--try", "batch=1"], 2, "not tuned by batch, but by max_num_seqs"),
        (["--describe", MEETING, "--try", "max_num_seqs="], 2, "e.g. max_num_seqs=8,16,32"),
        (["--describe", MEETING, "--try", "=3"], 2, "e.g. max_num_seqs=8,16,32"),
        (["--describe", MEETING, "--try", "max_num_seqs=0"], 2, "1 or more"),
        (["--describe", MEETING, "--try", "max_num_seqs=x"], 2, "'x' is not a whole number"),
        (["--watch", "1", "--url", "http://127.0.0.1:port"], 1, "is not the address of a gateway"),
    ],
)  # fmt: skip
def test_an_impossible_search_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str], argv: list[str], status: int, why: str
) -> None:
    found, err = fails(capsys, *argv, *SCRIPTED)
    assert found == status
    assert why in err


def test_files_that_are_not_text_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.txt"
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in fails(capsys, "--metrics", path, *QUICK)[1]
    monkeypatch.setattr(command, "BYTES", 2)
    assert "is larger than 2 bytes" in fails(capsys, "--metrics", path, *QUICK)[1]
