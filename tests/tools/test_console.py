"""Arguments and files that several tools share."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from caption_tools.console import columns, read_text, views, word_range, write_json


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffこんにちは\n".encode())
    assert read_text(path, 100) == "こんにちは\n"


def test_a_file_that_is_too_large_or_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good \xff")
    with pytest.raises(ValueError, match=r"a\.txt is larger than 5 bytes\."):
        read_text(path, 5)
    with pytest.raises(ValueError, match=r"a\.txt is not UTF-8: invalid start byte at byte 5\."):
        read_text(path, 6)


def test_json_is_indented_and_ends_with_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(str(path), {"a": [1]})
    assert path.read_text() == '{\n  "a": [\n    1\n  ]\n}\n'


def test_views_are_listed_in_the_order_of_the_protocol() -> None:
    assert views("final,live") == ("live", "final")
    for wrong in ("all", "live,all"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a list of"):
            views(wrong)


def test_a_range_of_words_may_be_one_number() -> None:
    assert (word_range("2-40"), word_range("7")) == ((2, 40), (7, 7))
    for wrong in ("9-2", "0-2", "a"):
        with pytest.raises(argparse.ArgumentTypeError, match="a range such as 2-40"):
            word_range(wrong)


def test_a_terminal_has_a_number_of_columns_and_a_file_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "42")
    assert columns(Terminal()) == 42
    assert columns(io.StringIO()) is None
