"""Types of command-line arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from gateway.cli.console import args


def test_lists_are_separated_by_commas() -> None:
    assert args.tags("de, fr,,de") == ("de", "fr")
    assert args.rooms("a*, b,") == ("a*", "b")
    assert args.views("final,live") == ("live", "final")


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
        (args.views, "all"),
        (args.views, "live,all"),
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
