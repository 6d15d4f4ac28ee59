"""What a flag on a command line may be."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from gateway import flags


def test_lists_stand_between_commas() -> None:
    assert flags.tags("de, fr,,de") == ("de", "fr")
    assert flags.rooms("a*, b,") == ("a*", "b")
    assert flags.views("final,live") == ("live", "final")


def test_numbers_are_read() -> None:
    assert (flags.positive("0.5"), flags.seconds("0"), flags.share("1"), flags.count("3")) == (
        *(0.5, 0.0, 1.0),
        3,
    )
    assert flags.number("0") == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (flags.tags, ","),
        (flags.views, "all"),
        (flags.views, "live,all"),
        (flags.positive, "0"),
        (flags.positive, "inf"),
        (flags.seconds, "-1"),
        (flags.seconds, "nan"),
        (flags.share, "1.5"),
        (flags.count, "0"),
        (flags.number, "-1"),
    ],
)
def test_what_cannot_be_is_refused(kind: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        kind(text)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (flags.positive, "'many' is no number"),
        (flags.seconds, "'many' is no number"),
        (flags.share, "'many' is no number"),
        (flags.count, "'many' is no whole number"),
        (flags.number, "'many' is no whole number"),
    ],
)
def test_what_is_no_number_is_said_in_words(kind: Callable[[str], object], says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=says):
        kind("many")
