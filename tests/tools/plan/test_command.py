"""``gateway plan``, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from caption_tools.plan.command import text_of
from tests.support.command import fails, run
from tests.tools.plan.model.examples import planned
from tests.tools.plan.model.test_figures import core_report, loaded

pytestmark = pytest.mark.usefixtures("bare")


def written(folder: Path, name: str, report: object) -> str:
    path = folder / name
    path.write_bytes(msgspec.json.encode(report))
    return str(path)


def test_a_plan_from_known_figures_is_printed_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    assert run("plan", "--engine", "h200-4b", "--meetings", "1000", "--json", path) == 0
    printed = capsys.readouterr().out
    assert "engines" in printed
    written = json.loads(path.read_bytes())
    assert written["load"]["meetings"] == 1000
    rows = {row["name"]: row["value"] for row in written["plan"]["rows"]}
    assert rows["sockets"] == 24_000


def test_figures_of_an_engine_and_a_core_come_from_reports(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    little = written(tmp_path, "little.json", loaded(50, first=0.03, running=1, jobs=25))
    much = written(tmp_path, "much.json", loaded(400, running=16, jobs=200))
    few = written(tmp_path, "few.json", core_report(0, 0.057))
    many = written(tmp_path, "many.json", core_report(200, 0.757))
    assert run("plan", "--engine", f"{little},{much}", "--core", few, many, "--explain") == 0
    printed = capsys.readouterr().out
    assert "/ 16 slots" in printed
    assert "50 us x" in printed
    assert "Figures: the reports given" in printed


def test_each_of_several_engines_has_its_rows_for_its_languages(tmp_path: Path) -> None:
    little = written(tmp_path, "little.json", loaded(50, first=0.03, running=1, jobs=25))
    much = written(tmp_path, "much.json", loaded(400, running=16, jobs=200))
    own, path = f"{little},{much}", tmp_path / "plan.json"
    usual = ("--meetings", "20", "--json", path)
    several = ("--engine", "2:embedded", "--engine", f"1:{own}")
    assert run("plan", *several, *usual) == 0
    found = json.loads(path.read_bytes())
    assert [one["languages"] for one in found["engines"]] == [2, 1]
    rows = {row["name"]: row["value"] for row in found["plan"]["rows"]}
    for languages, engine, name in ((2, "embedded", "embedded"), (1, own, "little")):
        assert run("plan", "--engine", engine, "--languages", languages, *usual) == 0
        alone = {row["name"]: row["value"] for row in json.loads(path.read_bytes())["plan"]["rows"]}
        assert rows[f"engines of {name}"] == alone["engines"]
        assert rows[f"final p95 of {name}"] == pytest.approx(alone["final p95"])


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--engine", "missing.json"), "No such file"),
        (("--engine", "embedded", "--talk", "0"), "--talk must be above 0"),
        (("--engine", "embedded", "--words", "9-2"), "it must be a range"),
        ((), "--engine"),
        (("--engine", "embedded", "--engine", "h200-4b"), "how many of the 3 languages embedded"),
        (("--engine", "a.json", "--engine", "b.json"), "files of one engine are joined"),
        (("--engine", "2:embedded", "--engine", "2:h200-4b"), "make 4 languages"),
        (("--engine", "2:embedded", "--engine", "1:embedded"), "Two engines are called embedded"),
        (("--engine", "0:embedded"), "No such file"),
    ],
)
def test_a_wrong_command_line_is_a_sentence(
    flags: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = fails(capsys, "plan", *flags)
    assert status in (1, 2)
    assert why in said


def test_a_file_that_is_no_report_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    status, said = fails(capsys, "plan", "--engine", path)
    assert status == 1
    assert f"{path} is not a report" in said


# --- as it is printed ------------------------------------------------------------------------


def test_a_plan_is_a_table_and_what_its_figures_mean() -> None:
    printed = text_of(planned(), ("a source",), explain=False)
    assert "\nengines for finals" in printed
    assert " x " not in printed.partition("First text:")[0]
    assert "a source" not in printed
    assert "encodes each of its events once" in printed


def test_an_explained_plan_has_formulas_and_sources() -> None:
    printed = text_of(planned(), ("a source",), explain=True)
    assert "10 meetings x 0.8 of the time x 150 words a minute / 16 words" in printed
    assert printed.endswith("Figures: a source")
