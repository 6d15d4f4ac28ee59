"""Texts for load tests."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from caption_tools.report.stats import percentile
from caption_tools.speech.text import lines, mixed, size

MEETING = Path(__file__).parents[2] / "quality" / "meeting100.tsv"


def test_the_lines_that_come_with_it_are_those_of_the_meeting() -> None:
    assert lines() == lines(MEETING)
    assert len(lines()) == 100


def test_texts_have_as_many_words_as_speech_has() -> None:
    draw = Random(1)
    found = [float(len(mixed(lines(), draw, 2, 40).split())) for _ in range(2000)]
    assert min(found) <= 3
    assert percentile(found, 0.5) < 16 < percentile(found, 0.9)
    assert max(found) < 40 + 15
    assert len(set(found)) > 30


def test_one_wanted_length_still_ends_with_a_line() -> None:
    draw = Random(2)
    assert all(19 <= len(mixed(lines(), draw, 20, 20).split()) < 35 for _ in range(200))


def test_a_file_may_be_short_and_has_to_be_text(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text(" one \n\ntwo\tzwei\n", "utf-8")
    assert lines(file) == ["one", "two"]
    assert mixed(["one"], Random(1), 3, 3) == "one one"
    file.write_text("\n \n", "utf-8")
    with pytest.raises(ValueError, match="There is no text"):
        lines(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="is not UTF-8"):
        lines(file)


def test_texts_without_spaces_are_as_long_as_their_characters_say() -> None:
    said = ["今日は会議を始めます。", "资料已经发给大家了。"]
    assert size(said[0], "ja") == 5.5
    found = [mixed(said, Random(n), 10, 10, "ja") for n in range(20)]
    assert {len(one) for one in found} == {21}, "two lines, and no space between"
