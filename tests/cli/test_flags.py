"""Types of command-line arguments, and files that are named there."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli import flags as args


def test_lists_are_separated_by_commas() -> None:
    assert args.tags("de, fr,,de") == ("de", "fr")
    assert args.rooms("a*, b,") == ("a*", "b")


def test_numbers_are_read() -> None:
    assert (args.positive("0.5"), args.seconds("0"), args.share("1"), args.count("3")) == (
        *(0.5, 0.0, 1.0),
        3,
    )
    assert args.number("0") == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (args.tags, ","),
        (args.positive, "0"),
        (args.positive, "inf"),
        (args.seconds, "-1"),
        (args.seconds, "nan"),
        (args.share, "1.5"),
        (args.count, "0"),
        (args.number, "-1"),
    ],
)
def test_a_wrong_value_is_refused(kind: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        kind(text)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (args.positive, "'many' is not a number"),
        (args.seconds, "'many' is not a number"),
        (args.share, "'many' is not a number"),
        (args.count, "'many' is not a whole number"),
        (args.number, "'many' is not a whole number"),
    ],
)
def test_a_wrong_number_is_a_plain_sentence(kind: Callable[[str], object], says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        kind("many")


def test_outputs_are_checked_before_anything_runs(tmp_path: Path) -> None:
    args.check_outputs([None, "", str(tmp_path / "new.json")])
    with pytest.raises(FileNotFoundError, match="There is no directory .*none to write a.json to"):
        args.check_outputs([str(tmp_path / "none" / "a.json")])
    with pytest.raises(IsADirectoryError, match="is a directory; name a file in it"):
        args.check_outputs([str(tmp_path)])
