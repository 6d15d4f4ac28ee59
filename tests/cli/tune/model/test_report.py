"""The report of a search."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.cli.report.text import lines
from gateway.cli.tune.model import report
from gateway.cli.tune.model.load import Load, described, imagined
from gateway.cli.tune.model.report import Found
from gateway.cli.tune.model.steps import Tried
from gateway.settings import catalogue, loading
from tests.cli.tune.model.test_steps import figures, summary


def load(text: str = "9 streams, 5-60 words", seconds: float = 60.0) -> Load:
    return imagined(described(text), seconds, lines(), "en", Random(0))


def tried(**changes: Any) -> Tried:
    fields: dict[str, Any] = {
        "setting": "max_num_seqs",
        "usual": 16,
        "best": 8,
        "steps": {4: figures(final=2000), 8: figures(cache=0.25, running=7)},
        "verdicts": {4: "first step", 8: "better: 95 of 100 captions take 1000 ms, not 2000 ms"},
    }
    return Tried(**(fields | changes))


LOAD = load()


def found(*all: Tried, forced: bool = False, load: Load = LOAD) -> Found:
    return report.made("vllm:qwen", load, all or (tried(),), forced=forced)


def test_a_report_is_a_table_reasons_and_settings() -> None:
    text = report.text(found())
    rows = [line for line in text.splitlines() if line.startswith(("4 ", "8 <-", "max_num_seqs "))]
    assert len({len(row) for row in rows[:3]}) == 1
    assert rows[0].split()[:3] == ["max_num_seqs", "captions/s", "final"]
    assert rows[1].split()[:4] == ["4", "10.0", "400", "2,000"]
    assert rows[2].split()[:5] == ["8", "<-", "10.0", "200", "1,000"]
    assert "8: better: 95 of 100 captions take 1000 ms, not 2000 ms" in text
    assert "With max_num_seqs = 8 95 of 100 captions are finished within 1000 ms" in text
    assert text.endswith("max_num_seqs = 8")


def test_on_a_narrow_terminal_no_line_is_longer_than_it() -> None:
    wide = load("9 streams, 5-60 words, 3 languages, partials")
    whole = report.text(found(load=wide))
    text = report.text(found(load=wide), 80)
    assert max(map(len, whole.splitlines())) > 80
    said, settings = text.split("# Found by")
    assert max(map(len, said.splitlines())) <= 80
    assert set(whole.split()) == set(text.split()), "nothing is left out"
    assert max(map(len, settings.splitlines())) <= report.COMMENT


def test_a_long_load_is_a_comment_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    made = replace(LOAD, told="a history of much that was said " * 9)
    path.write_text(found(load=made).toml, "utf-8")
    assert max(map(len, path.read_text("utf-8").splitlines())) <= report.COMMENT
    assert loading.load({"config": str(path)}, {}).settings.max_num_seqs == 8


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "batch", "inter_threads"])
def test_the_settings_are_a_file_that_the_gateway_takes(tmp_path: Path, name: str) -> None:
    other = tried(setting=name, best=4)
    path = tmp_path / "tuned.toml"
    path.write_text(found(tried(), other).toml, "utf-8")
    loaded = loading.load({"config": str(path)}, {}).settings
    assert (loaded.max_num_seqs, catalogue.value(loaded, name)) == (8, 4)


def test_columns_that_an_engine_has_nothing_for_are_left_out() -> None:
    assert "KV %" in report.text(found())
    bare = {4: figures(), 8: figures()}
    assert "KV %" not in report.text(found(tried(steps=bare)))
    assert "lost %" in report.text(found(tried(steps=bare | {8: figures(lost=0.005)})))


def test_weaknesses_of_a_search_are_warnings() -> None:
    assert found().warnings == ()
    weak = {8: figures(doubts=("A client process used 99% of its core.",), running=7)}
    few = replace(LOAD, texts=5)
    first, late = found(tried(steps=weak), forced=True, load=few).warnings
    assert "from 5 different texts" in first
    assert late == "max_num_seqs = 8 is in doubt: A client process used 99% of its core."
    (uniform,) = found(forced=True).warnings
    assert "uniform" in uniform
    assert "Warning: This load is known from" in report.text(found(load=few))


def test_a_percentile_of_few_captions_is_a_reason_and_no_warning() -> None:
    quiet = found(tried(steps={8: replace(figures(running=7), final=summary(1000, 30))}))
    assert quiet.warnings == ()
    assert "by the latest 2 of them. With --seconds 200 there would be 100." in quiet.reasons[-1]
    quiet = found(tried(steps={8: replace(figures(), final=summary(1000, 3))}))
    assert "A step had 3 captions" in quiet.reasons[-1]
    assert "by the latest of them" in quiet.reasons[-1]


def test_a_best_value_that_is_the_largest_tried_is_a_warning() -> None:
    def warned(running: int, best: int = 4, setting: str = "max_num_seqs") -> bool:
        steps = {value: figures(running=running) for value in (2, 4)}
        one = tried(setting=setting, best=best, steps=steps, verdicts={})
        told = [line for line in found(one).warnings if "more may be better" in line]
        assert not told or told[0].endswith("--try max_num_seqs=4,8")
        return bool(told)

    assert warned(4)
    assert not warned(3)
    assert not warned(4, best=2)
    assert not warned(4, setting="inter_threads")
