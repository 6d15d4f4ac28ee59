"""Packages of the extra ``tools``."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from gateway.cli.console.extra import need
from gateway.settings.catalogue import SettingsError
from tests.support import command


def test_a_package_that_is_installed_is_not_complained_about() -> None:
    need("msgspec", "--html")


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(SettingsError, match=r"--html needs nothing_of_this_name: pip install"):
        need("nothing_of_this_name", "--html")


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

    monkeypatch.setattr("gateway.cli.console.extra.find_spec", missing)
    status, err = command.fails(capsys, *argv)
    assert status == 2
    assert "needs picows: pip install 'caption-gateway[tools]'" in err
