"""``gateway tune``, as it is typed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from random import Random

import msgspec
import pytest

from caption_tools.tune import sweep
from caption_tools.tune.model.steps import Figures
from gateway.cli.main import main
from gateway.engines.registry import EMBEDDED
from gateway.errors import EngineFault
from gateway.settings import loading
from tests.support import command as command_line
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
    return ["--config", path, "--describe", MEETING, *QUICK[:4]]


@pytest.mark.usefixtures("made_up")
def test_one_of_several_engines_is_tuned_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tables: list[object]
) -> None:
    names = {name: tmp_path / f"out.{name}" for name in ("json", "toml")}
    flags = [flag for name, path in names.items() for flag in (f"--{name}", path)]
    assert tune(*tables, "--table", "日本語", *flags) == 0
    out, err = capsys.readouterr()
    assert "into ja" in err
    assert json.loads(names["json"].read_bytes())["engine"] == "日本語 (scripted)"
    (found,) = tomllib.loads(names["toml"].read_text("utf-8"))["engine"]
    assert found["name"] == "日本語" and found["max_num_seqs"] in (2, 4)
    assert '[[engine]]\nname = "日本語"\nmax_num_seqs = ' in out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "Name one of the engines with --table: german, 日本語."),
        (("--table", "french"), "Name one of the engines with --table: german, 日本語."),
        (("--table", "日本語", "--to", "de"), "de"),
    ],
)
def test_an_engine_that_cannot_be_meant_is_refused(
    capsys: pytest.CaptureFixture[str], tables: list[object], flags: tuple[str, ...], says: str
) -> None:
    assert says in fails(capsys, *tables, *flags)[1]


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
        (["--describe", "1 a second", "--replay", "x"], 2, "Name one load:"),
        (["--describe", "16 horses"], 1, "'16 horses' is not understood"),
        (["--describe", MEETING, "--from", "xx-klingon"], 1, "not"),
        (["--describe", MEETING, "--from", "it"], 1, "no built-in text in it"),
        (["--describe", MEETING + ", 99 languages"], 1, "This load has 99 languages"),
        (["--describe", MEETING, "--to", "sv"], 1, "sv"),
        (["--describe", MEETING, "--table", "x"], 2, "leave out --table"),
        (["--replay", "/nowhere/meeting.jsonl"], 1, "meeting.jsonl"),
        (["--describe", MEETING, "--toml", "/"], 1, "/ is a directory"),
        (["--describe", MEETING, "--seconds", "1"], 2, "it must be 2 or more"),
        (["--describe", MEETING, "--json", "/nowhere/x.json"], 1, "There is no directory"),
        (["--describe", MEETING, "--try", "batch=1"], 2, "not tuned by batch, but by max_num_seqs"),
        (["--describe", MEETING, "--try", "max_num_seqs="], 2, "e.g. max_num_seqs=8,16,32"),
        (["--describe", MEETING, "--try", "=3"], 2, "e.g. max_num_seqs=8,16,32"),
        (["--describe", MEETING, "--try", "max_num_seqs=0"], 2, "1 or more"),
        (["--describe", MEETING, "--try", "max_num_seqs=x"], 2, "'x' is not a whole number"),
    ],
)  # fmt: skip
def test_an_impossible_search_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str], argv: list[str], status: int, why: str
) -> None:
    found, err = fails(capsys, *argv, *SCRIPTED)
    assert found == status
    assert why in err
