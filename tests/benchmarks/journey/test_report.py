"""The report of a run: ours beside the published figures, ratios, goals, doubts."""

from __future__ import annotations

from msgspec.structs import replace

from benchmarks.journey import published
from benchmarks.journey.cell import Cell
from benchmarks.journey.plan import name
from benchmarks.journey.report import BESIDE, Report, doubts, goals, text

CELL = Cell(
    architecture="a",
    load="variable",
    mode="closed",
    clients=BESIDE,
    seconds=10.0,
    answered=20,
    failed=0,
    errors={},
    throughput=2.0,
    tokens_s=128.0,
    p50=12.0,
    p95=12.5,
    p99=13.0,
    first_p50=12.0,
    first_p95=12.5,
    queue=11.5,
    engine=0.5,
    slip=0.0,
    client=0.1,
    busy=0.45,
    busy_p5=0.0,
    idle=0.5,
)
LAST = replace(CELL, architecture="f", throughput=16.0, p95=1.0, queue=0.5, engine=0.4)
REPORT = Report(
    command="python -m benchmarks.journey",
    versions={"Python": "3.11"},
    backend="embedded",
    model="embedded",
    device="2 CPUs",
    cpus=2,
    tokens={"variable": 64.0},
    starts={"a": 1.0},
    notes=("(b) was left out.",),
    cells=(CELL, LAST),
)
GPU = replace(REPORT, backend="vllm", device="NVIDIA H200")


def test_each_has_its_ratio_to_the_first_under_the_same_load() -> None:
    (row,) = [line for line in text(REPORT).splitlines() if line.startswith("(f)  variable")]
    assert row.split()[2:7] == ["25", "at", "once", "16.0", "8.00"]


def test_a_load_that_the_first_was_not_given_has_no_ratio() -> None:
    other = replace(LAST, clients=50)
    alike = replace(LAST, mode="open", clients=0, offered=4.0)
    base = replace(CELL, mode="open", clients=0, offered=2.0)
    found = text(replace(REPORT, cells=(CELL, other, alike, base)))
    rows = [line for line in found.splitlines() if line.startswith("(f)  variable")]
    assert len(rows) == 2 and all("8.00" not in row for row in rows)


def test_a_first_architecture_without_answers_gives_no_ratio() -> None:
    found = replace(GPU, cells=(replace(CELL, throughput=0.0), LAST))
    assert goals(found) == []
    assert "8.00" not in text(found)


def test_the_published_figures_stand_beside_ours() -> None:
    found = text(REPORT)
    for figure in published.FIGURES:
        assert figure.note in found
        assert name(figure.architecture, "embedded") in found
    assert "10.7" in found and "93 %" in found


def test_the_goals_are_those_of_the_last_to_the_first() -> None:
    speed, tail = goals(GPU)
    assert (speed.ratio, speed.met) == (8.0, True)
    assert (tail.ratio, tail.met) == (0.08, True)
    worse = replace(GPU, cells=(CELL, replace(LAST, throughput=13.9, p95=1.3)))
    assert [goal.met for goal in goals(worse)] == [False, False]
    assert "missed" in text(worse)


def test_without_the_first_or_the_last_there_are_no_goals() -> None:
    assert goals(replace(GPU, cells=(CELL,))) == []
    assert goals(replace(GPU, cells=(LAST,))) == []
    assert "Goal" not in text(replace(GPU, cells=(LAST,)))


def test_on_a_cpu_there_are_no_goals() -> None:
    assert goals(REPORT) == []
    assert "Goal" not in text(REPORT)


def test_doubts_about_figures_are_printed_with_them() -> None:
    assert doubts(REPORT) == []
    bad = (
        replace(CELL, client=0.9),
        replace(CELL, mode="open", slip=0.5, offered=3.0, p50=1.0),
        replace(CELL, failed=2, answered=8, errors={"503": 2}),
    )
    found = doubts(replace(REPORT, cells=bad))
    assert ["90% of a core" in found[0], "500 ms after" in found[1], "2 of 10" in found[2]] == [
        True
    ] * 3
    assert all(line in text(replace(REPORT, cells=bad)) for line in found)


def test_a_window_that_is_no_longer_than_an_answer_is_in_doubt() -> None:
    short = replace(CELL, mode="open", offered=3.0, seconds=2.0, p50=1.1)
    (told,) = doubts(replace(REPORT, cells=(short,)))
    assert "due for 2 s, half of the answers took 1.1 s" in told
    assert doubts(replace(REPORT, cells=(replace(short, p50=0.9),))) == []
    assert doubts(replace(REPORT, cells=(replace(short, mode="closed"),))) == []


def test_a_run_without_results_says_so() -> None:
    empty = replace(REPORT, cells=(), notes=("(a): It did not start.",))
    assert "Nothing was measured." in text(empty)
    assert "It did not start" in text(empty)


def test_on_a_narrow_terminal_no_line_is_longer_than_it() -> None:
    whole, narrow = text(REPORT), text(REPORT, 80)
    assert max(map(len, whole.splitlines())) > 80 >= max(map(len, narrow.splitlines()))
    assert set(whole.split()) == set(narrow.split()), "nothing is left out"
