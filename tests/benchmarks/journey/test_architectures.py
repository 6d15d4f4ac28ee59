"""Every architecture for real: its processes, the embedded model, requests over sockets."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.journey.command import main
from benchmarks.journey.device import family, runs
from benchmarks.journey.plan import ARCHITECTURES, Plan
from benchmarks.journey.process import Server
from benchmarks.journey.report import Report
from benchmarks.journey.run import Found, Run, Timeline
from benchmarks.journey.texts import Load
from gateway.engines.registry import EMBEDDED

SAID: dict[Load, list[str]] = {
    "uniform": ["Good morning.", "Who has the key of the small meeting room?"]
}


def course(*letters: str, **more: Any) -> Timeline:
    plan = Plan(architecture="a", backend="embedded", model=str(EMBEDDED), cpus=1)
    return Timeline(
        plan,
        letters,
        ("uniform",),
        (2,),
        (1.0,),
        seconds=0.2,
        patience=20.0,
        **more,
    )


def measured(course: Timeline, logs: Path) -> Found:
    found = Found()
    asyncio.run(Run(course, SAID, logs, found, lambda _: None).run())
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("letter", ARCHITECTURES)
def test_an_architecture_translates_all_that_it_is_given(letter: str, tmp_path: Path) -> None:
    found = measured(course(letter), tmp_path)
    assert found.notes == []
    closed, opened = found.cells
    assert (closed.mode, opened.mode) == ("closed", "open")
    for cell in found.cells:
        assert (cell.failed, cell.errors) == (0, {})
        assert cell.answered >= 1
        assert cell.queue is not None and cell.engine
        assert 0 < cell.first_p50 <= cell.p50
    assert closed.throughput > 0 and closed.tokens_s > 0
    assert found.device == "1 CPUs"
    assert found.starts[letter] > 0


@pytest.mark.timeout(120)
def test_an_architecture_that_does_not_start_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    found = measured(course("f", "e", flags=("--max-num-seqs", "none")), tmp_path)
    (note,) = found.notes
    assert "(f): It did not start" in note and "none" in note
    assert {cell.architecture for cell in found.cells} == {"e"}


@pytest.mark.timeout(120)
async def test_a_stopped_architecture_leaves_no_process_behind(tmp_path: Path) -> None:
    async def start_and_stop() -> tuple[set[int], set[int]]:
        server = Server(course().plan, tmp_path / "log")
        await server.start()
        there = family(server.pid)
        await server.stop()
        return there, {pid for pid in there if runs(pid)}

    there, left = await start_and_stop()
    assert len(there) >= 3  # the web server, the manager, a worker
    assert left == set()


@pytest.mark.timeout(120)
def test_the_command_writes_figures_and_goes_on_from_an_earlier_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = tmp_path / "one.json"
    words = ["--cpus", "1", "--loads", "uniform", "--clients", "1"]
    words += ["--seconds", "0.1", "--patience", "1", "--rates", "0"]
    assert main([*words, "--architectures", "e", "--json", str(one)]) == 0
    assert main([*words, "--architectures", "d", "--join", str(one)]) == 0
    report = msgspec.json.decode(one.read_bytes(), type=Report)
    assert [cell.architecture for cell in report.cells] == ["e"]
    printed = capsys.readouterr().out
    assert "(d)  uniform  1 at once" in printed and "(e)  uniform  1 at once" in printed


@pytest.mark.timeout(120)
def test_a_run_that_is_ended_reports_so_far_and_leaves_nothing_behind() -> None:
    words = ["-m", "benchmarks.journey", "--architectures", "e", "--clients", "1"]
    with subprocess.Popen(
        [sys.executable, *words, "--seconds", "600", "--patience", "600", "--loads", "uniform"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        assert "is started" in run.stderr.readline()
        while len(kin := family(run.pid)) < 2:  # until the server is there
            pass
        run.send_signal(signal.SIGTERM)
        assert "It was ended before its time." in run.stdout.read()
        run.stderr.read()
        assert run.wait() == 130
    assert not any(map(runs, kin))


@pytest.mark.parametrize(
    "words",
    [
        ("--architectures", "x"),
        ("--loads", "even"),
        ("--clients", "0"),
        ("--rates", "-1"),
        ("--rates", "1e9"),
        ("--client", "3"),
    ],
)
def test_a_flag_that_makes_no_sense_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main([*words])
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--prot", "Unknown option --prot. Did you mean --port?"),
        ("--port=80", "--port=80 is not for (f)"),
    ],
)
def test_a_flag_for_the_gateway_that_makes_no_sense_is_refused(
    flag: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--", flag]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--backend", "vllm"),
        ("--model", "/nowhere"),
        ("--json", "/nowhere/at/all.json"),
        ("--json", "/"),
        ("--vllm-arg", "nonsense"),
    ],
)
def test_a_run_that_is_impossible_is_refused_with_a_sentence(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == 1
    assert capsys.readouterr().err.startswith("benchmarks: ")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", "no such report"),
        (b"{}", "no such report"),
        (b"\xff\xfe", "no such report"),
        (b"[1, 2", "no such report"),
    ],
)
def test_a_file_to_join_that_is_no_report_is_named_and_it_is_said_what_would_be_one(
    content: bytes | None, why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "one.json"
    if content is not None:
        file.write_bytes(content)
    assert main(["--join", str(file)]) == 1
    said = capsys.readouterr().err
    assert str(file) in said and why in said
    assert "benchmarks.journey --json" in said


def test_figures_of_another_model_are_not_joined(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = Report(
        command="",
        versions={},
        backend="vllm",
        model="Qwen3-4B",
        device="a GPU",
        cpus=2,
        tokens={},
        starts={},
        notes=(),
        cells=(),
    )
    file = tmp_path / "one.json"
    file.write_bytes(msgspec.json.encode(other))
    assert main(["--join", str(file)]) == 1
    said = capsys.readouterr().err
    assert str(file) in said and "Qwen3-4B" in said and "cannot be compared" in said
