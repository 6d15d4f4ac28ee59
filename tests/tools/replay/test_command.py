"""``gateway replay`` and ``gateway record``, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.engines.scripted import ScriptedEngine
from tests.support.command import fails
from tests.support.live import Live, in_thread


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Write two short utterances and their translations."""
    path = tmp_path / "talk.en-de.tsv"
    path.write_text("One two three.\tEins zwei drei.\nFour.\tVier.\n", "utf-8")
    return path


def test_a_replay_prints_captions_and_its_report_and_writes_its_figures(
    capsys: pytest.CaptureFixture[str], live: Live, talk: Path, tmp_path: Path
) -> None:
    figures = tmp_path / "r.json"
    argv = ["replay", talk, "--url", live.ws, "--speed", "20", "--to", "de,fr"]
    argv += ["--json", figures]
    assert main([str(one) for one in argv]) == 0
    out = capsys.readouterr().out
    assert "[de] [de] One two three.\n" in out
    assert "2 utterances in " in out
    rows = json.loads(figures.read_bytes())["rows"]
    assert [(row["lang"], row["view"], row["captions"], row["lost"]) for row in rows] == [
        (lang, view, 2, 0) for lang in ("de", "fr") for view in ("live", "stable")
    ]
    assert [row["same"] for row in rows] == [1.0] * 4


def test_the_languages_of_the_file_are_read_if_none_are_named(
    capsys: pytest.CaptureFixture[str], live: Live, talk: Path
) -> None:
    argv = ["replay", str(talk), "--url", live.ws, "--speed", "20", "--limit", "1"]
    assert main([*argv, "--view", "final", "--no-offline"]) == 0
    out, err = capsys.readouterr()
    assert "1 utterances in " in out
    assert "\nde    final " in out
    assert "final texts alone" not in out + err


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["nowhere.tsv"], 1, "No such file"),
        (["TALK", "--to", "tlh"], 1, "does not have tlh"),
        (["TALK", "--to", "german"], 1, "is not a language"),
        (["TALK", "--columns", "en,de,fr"], 1, "Line 1: it has 2 columns, not 3"),
        (["TALK", "--json", "nowhere/r.json"], 1, "There is no directory nowhere"),
        (["TALK", "--view", "live,dead"], 2, "'live,dead' is not a list of live, stable, final"),
        (["TALK", "--speed", "0"], 2, "above 0"),
        (["TALK", "--speed", "fast"], 2, "--speed: 'fast' is not a number"),
        (["TALK", "--limit", "0"], 2, "1 or more"),
        (["TALK", "--sped", "2"], 2, "Unknown option --sped"),
    ],
)
def test_a_replay_that_is_impossible_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
    live: Live,
    talk: Path,
    argv: list[str],
    status: int,
    says: str,
) -> None:
    given = [str(talk) if one == "TALK" else one for one in argv]
    assert fails(capsys, "replay", *given, "--url", live.ws)[0] == status
    assert says in fails(capsys, "replay", *given, "--url", live.ws)[1]


def test_a_file_without_translations_needs_languages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"lang":"en","text":"Hi."}')
    status, err = fails(capsys, "replay", tmp_path / "a.jsonl")
    assert status == 2
    assert "names no languages to read. Name some, e.g. --to de,fr" in err


def test_a_gateway_that_is_not_there_is_a_sentence(
    capsys: pytest.CaptureFixture[str], talk: Path, tmp_path: Path
) -> None:
    status, err = fails(capsys, "replay", talk, "--url", "ws://127.0.0.1:1")
    assert (status, "There is no gateway at ws://127.0.0.1:1" in err) == (1, True)
    made = tmp_path / "r.jsonl"
    status, err = fails(capsys, "record", "demo", made, "--to", "de", "--url", "ws://127.0.0.1:1")
    assert (status, "There is no gateway at ws://127.0.0.1:1" in err) == (1, True)
    assert not made.exists()


@contextmanager
def interrupted(live: Live, count: int, number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """Send this process a signal once an engine has begun so many jobs."""
    engine = live.engine
    assert isinstance(engine, ScriptedEngine)
    stop = threading.Event()

    def watch() -> None:
        while len(engine.started) < count and not stop.wait(0.005):
            pass
        if not stop.is_set():
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_after_ctrl_c_there_is_a_report_of_what_was_played(
    capsys: pytest.CaptureFixture[str], talk: Path
) -> None:
    with in_thread(ScriptedEngine()) as live, interrupted(live, 1):
        assert main(["replay", str(talk), "--url", live.ws]) == 130
    assert ", cut short; said at most " in capsys.readouterr().out


def test_a_replay_whose_gateway_goes_away_still_prints_a_report(
    capsys: pytest.CaptureFixture[str], talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caption_tools.replay.play.PATIENCE_S", 0.0)
    with in_thread(ScriptedEngine(delay=60.0)) as live:
        engine = live.engine
        assert isinstance(engine, ScriptedEngine)

        def stop() -> None:
            while not engine.started:
                threading.Event().wait(0.005)
            live.server.should_exit = True
            live.loop.call_soon_threadsafe(live.hub.hurry)

        thread = threading.Thread(target=stop)
        thread.start()
        assert main(["replay", str(talk), "--url", live.ws]) == 1
        thread.join()
    out, err = capsys.readouterr()
    assert ", cut short; said at most " in out
    assert "The connection to the gateway has ended (4001)" in err


def test_a_recording_ends_with_a_signal_and_can_be_replayed(
    capsys: pytest.CaptureFixture[str], talk: Path, tmp_path: Path
) -> None:
    made = tmp_path / "r.jsonl"
    replay = ["replay", str(talk), "--room", "demo", "--speed", "20", "--no-offline"]
    with in_thread(ScriptedEngine()) as live:

        def play() -> None:
            while not live.hub.sessions:
                threading.Event().wait(0.005)
            main([*replay, "--url", live.ws])
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=play)
        thread.start()
        assert main(["record", "demo", str(made), "--to", "en,de", "--url", live.ws]) == 0
        thread.join()
    assert f"# 2 utterances recorded in {made}" in capsys.readouterr().out
    lines = [json.loads(line) for line in made.read_bytes().splitlines()]
    assert [line["text"] for line in lines] == ["One two three.", "Four."]
    assert lines[0]["shown"]["de"][-1][1:] == ["[de] One two three.", "", True]
    with in_thread(ScriptedEngine()) as live:
        assert main(["replay", str(made), "--to", "de", "--url", live.ws, "--speed", "20"]) == 0


def test_a_recording_never_overwrites_and_leaves_no_empty_file(
    capsys: pytest.CaptureFixture[str], live: Live, talk: Path, tmp_path: Path
) -> None:
    status, err = fails(capsys, "record", "demo", talk, "--to", "de", "--url", live.ws)
    assert (status, "File exists" in err) == (1, True)
    status, err = fails(capsys, "record", "de mo", tmp_path / "r", "--to", "de", "--url", live.ws)
    assert status == 1
    assert not (tmp_path / "r").exists()
