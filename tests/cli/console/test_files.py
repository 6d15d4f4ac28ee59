"""Files that are named on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.console.files import check_outputs, read_text, write_json


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


def test_outputs_are_checked_before_anything_runs(tmp_path: Path) -> None:
    check_outputs([None, "", str(tmp_path / "new.json")])
    with pytest.raises(FileNotFoundError, match="There is no directory .*none to write a.json to"):
        check_outputs([str(tmp_path / "none" / "a.json")])
    with pytest.raises(IsADirectoryError, match="is a directory; name a file in it"):
        check_outputs([str(tmp_path)])


def test_json_is_indented_and_ends_with_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(str(path), {"a": [1]})
    assert path.read_text() == '{\n  "a": [\n    1\n  ]\n}\n'
