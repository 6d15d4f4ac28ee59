"""Types of command-line arguments, and packages of the extra ``tools``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec

import pytest

from gateway.cli.console import args
from gateway.settings.catalogue import SettingsError
from tests.support import command


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


def test_a_package_that_is_installed_is_not_complained_about() -> None:
    args.need("msgspec", "--html")


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(SettingsError, match=r"--html needs nothing_of_this_name: pip install"):
        args.need("nothing_of_this_name", "--html")


@pytest.mark.parametrize(
    "argv",
    [
        ("bench", "load", "ws://127.0.0.1:9"),
        ("tune", "--describe", "1 a second", "--engine", "scripted"),
    ],
)
@pytest.mark.usefixtures("bare")
def test_a_command_without_its_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    real = find_spec

    def missing(name: str, package: str | None = None) -> object:
        return None if name == "picows" else real(name, package)

    monkeypatch.setattr("gateway.cli.console.args.find_spec", missing)
    status, err = command.fails(capsys, *argv)
    assert status == 2
    assert "needs picows: pip install 'caption-gateway[tools]'" in err
