"""Load on a real gateway, by real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.soak.child import Child
from caption_tools.loadtest import child as client_process
from caption_tools.loadtest.child import ClientProcess, ProgressSample
from caption_tools.loadtest.model.plan import Plan
from caption_tools.loadtest.model.report import LoadReport
from caption_tools.loadtest.model.script import Send
from caption_tools.loadtest.run import LoadRun
from caption_tools.report.stats import Histogram
from caption_tools.speech.text import lines
from gateway.auth.api_keys import Keyring
from gateway.cli.main import main
from gateway.client.transport import Refused
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from tests.support.live import in_thread, running, until


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the API key of the machine's own environment."""
    monkeypatch.delenv("GATEWAY_KEY", raising=False)


def plan(url: str, **change: Any) -> Plan:
    given: dict[str, Any] = {
        **{"url": url, "run": "t", "langs": ("de", "fr"), "rate": 30.0, "seconds": 1.5},
        **{"warm": 0.0, "drain": 10.0, "partials": 0.3, "pace": 600.0, "words": (2, 12)},
        **{"late": 60.0, "ramp": 1000.0, "rooms": 2, "readers": 2},
    }
    return Plan(**given | change)


async def loaded(made: Plan, key: str | None = None, **options: Any) -> LoadReport:
    return await LoadRun(made, lines(), key=key, every=0.3, **options).run()


async def test_every_caption_of_an_open_load_is_timed_by_several_processes() -> None:
    async with running(ScriptedEngine(capacity=64)) as live:
        report = await loaded(plan(live.ws, processes=2, cancel=0.1, wire="msgpack"))
    counts = report.counts
    assert report.whole
    assert counts["sockets"] == 6
    assert counts["said"] >= counts["whole"] > 20
    assert counts["unended"] == counts["refused"] == counts["unsent"] == 0
    assert report.times["first"].count + report.times["grown"].count > 20
    assert report.times["final"].count > 20
    assert report.times["cancel"].count == counts["cancels"] > 0
    assert report.times["ack"].count > counts["said"]
    assert report.closes == {} and report.errors == {}
    assert report.errors_share == 0
    # Speakers read two languages, and of two readers each has one.
    assert counts["captions"] == pytest.approx(4 * counts["whole"], rel=0.2)
    assert report.before["gateway_utterances_total"] == 0
    assert report.after["gateway_utterances_total"] >= counts["whole"]
    assert report.metrics["gateway_sessions"]


def test_a_valid_key_is_accepted_and_another_is_refused_with_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    made = subprocess.run(
        [sys.executable, "-m", "gateway", "key", "bench", "--keys", file, "--role", "moderate"],
        capture_output=True,
        text=True,
        check=True,
    )
    authenticator = Authenticator(Limits(), keyring=Keyring(file.read_text()))

    async def main() -> None:
        async with running(authenticator=authenticator) as live:
            small = plan(live.ws, rooms=1, readers=0, seconds=1.0)
            report = await loaded(small, made.stdout.strip())
            assert report.whole and report.counts["whole"] > 3
            assert report.why is None, "a key that may moderate reads /metrics"
            with pytest.raises(Refused) as refused:
                await loaded(small, "gw_wrong_key")
            assert refused.value.error.code == "unauthenticated"

    asyncio.run(main())


def test_a_gateway_that_is_not_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "load", "ws://127.0.0.1:1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "There is no gateway at ws://127.0.0.1:1" in err


def test_a_gateway_without_the_language_says_which_it_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with in_thread(ScriptedEngine(languages=("en", "de"))) as live:
        assert main(["bench", "load", live.ws, "--to", "de,fr"]) == 1
    assert "does not translate into fr; it has en, de" in capsys.readouterr().err


def test_a_refused_socket_ends_the_run_before_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with in_thread(limits=Limits(sessions=3)) as live:
        assert main(["bench", "load", live.ws, "--readers", "5", "--processes", "2"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Not all sockets could be opened: " in err


async def test_a_gateway_that_dies_is_counted_and_reported(tmp_path: Path) -> None:
    child = Child(("--engine", "scripted", "--scripted-pace", "0.05"), tmp_path / "log")
    await child.start()
    load = LoadRun(plan(f"ws://127.0.0.1:{child.port}", seconds=30.0, rate=40.0), lines())
    loading = asyncio.create_task(load.run())
    try:
        await until(lambda: any(one.counts["captions"] > 10 for one in load._samples.values()))
    finally:
        await child.kill()
    report = await loading
    assert not report.whole
    assert report.closes == {"1006": 6}
    assert report.counts["captions"] > 10
    assert report.counts["unended"] > 0
    assert report.rates["said"] < 40, "what was not said does not count"
    assert report.errors_share > 0


async def test_a_stalled_gateway_is_charged_for_all_utterances_that_were_due(
    tmp_path: Path,
) -> None:
    child = Child(("--engine", "scripted", "--scripted-pace", "0"), tmp_path / "log")
    await child.start()
    try:
        made = plan(
            f"ws://127.0.0.1:{child.port}",
            **{"rate": 40.0, "arrivals": "fixed", "partials": 0.0, "seconds": 4.0},
            **{"rooms": 8, "readers": 0, "processes": 1},
        )
        load = LoadRun(made, lines())
        loading = asyncio.create_task(load.run())

        def said() -> int:
            return sum(one.counts["said"] for one in load._samples.values())

        await until(lambda: said() > 0)
        os.kill(child.pid, signal.SIGSTOP)
        for _ in range(2):  # the next sample may have been on its way
            seen = load._samples[0]
            await until(lambda: load._samples[0] is not seen)  # noqa: B023
        begun = said()
        await until(lambda: said() >= begun + 40)
        os.kill(child.pid, signal.SIGCONT)
        report = await loading
    finally:
        await child.stop()
    assert report.whole
    assert report.counts["unended"] == 0
    # Sends are never early, so 20 of these 40 were due half a second before the last of them.
    first = load.tally.times["first"]
    assert (1 - first.within(0.45)) * first.count >= 20


def test_goals_decide_the_exit_status_and_files_have_all_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_thread(ScriptedEngine(capacity=64)) as live:
        command = [
            *("bench", "load", live.ws, "--seconds", "1", "--warm", "0", "--rate", "20"),
            *("--partials", "0", "--processes", "1", "--late", "60000"),
        ]
        good = main([*command, "--goal-final-p95", "20000", "--goal-errors", "0"])
        out = capsys.readouterr().out
        assert good == 0, out
        assert "finished caption" in out and "MISSED" not in out
        file = str(tmp_path / "a.json")
        assert main([*command, "--goal-final-p50", "0.001", "--json", file]) == 1
        assert "MISSED: final-p50 is" in capsys.readouterr().out
    written = json.loads((tmp_path / "a.json").read_bytes())
    assert written["counts"]["whole"] > 5
    assert written["missed"]


def test_an_invalid_run_is_status_1_even_without_a_goal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with in_thread(ScriptedEngine(capacity=64)) as live:
        command = ["bench", "load", live.ws, "--seconds", "1", "--warm", "0", "--rate", "20"]
        assert main([*command, "--partials", "0", "--late", "0.0001"]) == 1
    assert "INVALID: " in capsys.readouterr().out


def test_ctrl_c_ends_it_with_the_report_so_far(tmp_path: Path) -> None:
    engine = ScriptedEngine(capacity=64)
    with in_thread(engine) as live:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway", "bench", "load", live.ws, "--seconds", "60"),
                *("--warm", "0", "--rate", "50", "--partials", "0", "--json", f"{tmp_path}/a.json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            asyncio.run(until(lambda: len(engine.started) > 100))  # two seconds
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""
    assert "NOT WHOLE" in out
    written = json.loads((tmp_path / "a.json").read_bytes())
    assert written["counts"]["captions"] > 0 and not written["whole"]
    assert written["rates"]["said"] > 5, "it would be 2 if the 60 seconds counted that it had"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--seconds", "1"], "--warm (2 s) must be less than --seconds (1 s)"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
        (["--json", "nowhere/a.json"], "There is no directory nowhere"),
        (["--json", "."], ". is a directory"),
        (["--rate", "1e300"], "--rate 1e+300 exceeds"),
        (["--processes", "500"], "--processes (500) exceeds"),
    ],
)
def test_impossible_parameters_are_refused_before_any_socket_is_opened(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "load", "ws://127.0.0.1:1", *argv]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--words", "a-b"], ["--words", "5-2"], ["--readers", "-1"], ["--wire", "xml"]]
)
def test_a_flag_that_cannot_be_understood_is_status_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "load", "ws://127.0.0.1:1", *argv])
    assert caught.value.code == 2


@contextmanager
def started(made: Plan) -> Iterator[tuple[BaseProcess, Connection]]:
    """Start a client process; yield it with the pipe to it."""
    context = get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=client_process.run, args=(theirs, made, 0, None, lines()))
    process.start()
    theirs.close()
    try:
        yield process, pipe
    finally:
        process.kill()
        process.join()


def test_a_client_process_that_opens_its_sockets_ends_with_the_one_that_started_it() -> None:
    with (
        in_thread() as live,
        started(plan(live.ws, rooms=1, readers=500, ramp=2.0)) as (process, pipe),
    ):
        asyncio.run(until(lambda: bool(live.hub.sessions)))
        pipe.close()
        process.join(30)
        assert process.exitcode == 0


def test_a_client_process_whose_parent_has_gone_ends_quietly() -> None:
    with in_thread() as live, started(plan(live.ws)) as (process, pipe):
        assert pipe.recv() is None, "its sockets are open"
        pipe.close()
        process.join(30)
        assert process.exitcode == 0


def test_ctrl_c_while_sockets_are_opened_ends_it_at_once_and_without_a_report() -> None:
    with in_thread() as live:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway", "bench", "load", live.ws),
                *("--readers", "500", "--ramp", "2", "--processes", "2"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            asyncio.run(until(lambda: len(live.hub.sessions) > 1))  # one may be that of the probe
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


async def test_a_client_process_that_stalled_counts_as_late_for_all_of_that_time() -> None:
    client = ClientProcess(plan("ws://x"), 0, None, [], lambda _: None)
    ticking = asyncio.create_task(client._tick())
    await asyncio.sleep(0)
    time.sleep(0.65)  # noqa: ASYNC251  # it stands still
    late = client.tally.late
    await until(lambda: late.count >= 6)
    ticking.cancel()
    assert (1 - late.within(0.12)) * late.count >= 5


async def test_a_client_process_that_cannot_keep_up_yields_to_the_event_loop() -> None:
    one = plan("ws://x", rooms=1, readers=0)
    client = ClientProcess(one, 0, None, [], lambda _: None)
    client._sends = repeat((Send(0.0, "b0-0-0-0", 1, "a", True), client._connections[0]))
    client._next = next(client._sends)
    client._turn()
    seen = client.tally.counts["unsent"]
    assert seen > 1
    await until(lambda: client.tally.counts["unsent"] > seen)
    assert client._timer is not None
    client._timer.cancel()


async def test_a_first_frame_after_the_timeout_is_ignored() -> None:
    one = plan("ws://x", rooms=1, readers=0)
    client = ClientProcess(one, 0, None, [], lambda _: None)
    connection = client._connections[0]
    connection.welcome.cancel()
    connection._on_first(b'{"type":"error","msg":"This gateway is full."}')
    assert connection.welcome.cancelled()


async def test_nothing_more_is_sent_to_a_gateway_that_does_not_read() -> None:
    one = plan("ws://x", rooms=1, readers=0)
    client = ClientProcess(one, 0, None, [], lambda _: None)
    connection = client._connections[0]
    connection.socket = SimpleNamespace(open=True, full=True)  # type: ignore[assignment]
    for final in (False, True):
        connection.say(Send(0.0, "b0-0-0-0", 1, "a", final), 0.0)
    assert client.tally.counts["unsent"] == 1
    assert client.tally.counts["whole"] == 0


def test_the_progress_line_sums_up_all_processes() -> None:
    load = LoadRun(plan("ws://x", seconds=10.0), lines())
    assert load.progress(-0.3) == (
        f"[{'.' * 16}] 0/10 s  0 said, 0 captions  p95 0, 0 ms  0 errors"
    )
    for number in range(2):
        counts = {"said": 3, "captions": 5, "errors": 1}
        load._samples[number] = ProgressSample(counts, Histogram.of([0.25]), Histogram.of([0.5]))
    assert load.progress(5.0) == (
        f"[{'#' * 8}{'.' * 8}] 5/10 s  6 said, 10 captions  p95 250, 500 ms  2 errors"
    )
    assert load.progress(60.0).startswith(f"[{'#' * 16}] 10/10 s")
