"""``gateway doctor``: a fault that prevents a start is named, with what to do."""

from __future__ import annotations

import importlib.util
import resource
import socket
from pathlib import Path

import pytest

from tests.support.command import run

pytestmark = pytest.mark.usefixtures("bare")


def check(*flags: object) -> int:
    """Run the command with flags, on a free port and without a model."""
    usual = ("--port", 0) if "--port" not in flags else ()
    engine = ("--engine", "scripted") if "--engine" not in flags else ()
    return run("doctor", *usual, *engine, *flags)


def test_a_gateway_that_can_start_is_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("with scripted can start.")
    assert second == "Settings: engine (--engine), port (--port)."


def test_the_embedded_model_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--engine", "ctranslate2") == 0
    assert "ctranslate2:embedded can start" in capsys.readouterr().out


def test_a_misspelt_variable_is_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GATEWAY_PROT", "1")
    assert check() == 0
    assert "Did you mean GATEWAY_PORT?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "status", "says"),
    [
        (("--host", "0.0.0.0"), 2, "Other machines can reach"),
        (("--keys", "/nowhere/keys.toml"), 2, "Check --keys."),
        (("--certfile", "/nowhere/own.pem"), 2, "Check --certfile."),
        (("--store", "mysql:x"), 2, "store cannot be 'mysql:x'"),
        (("--store", "sqlite:a", "--redis", "redis://h"), 2, "--redis cannot be combined"),
        (("--engine", "ctranslate2", "--model", "/nowhere"), 1, "There is no model directory"),
        (("--lang", "klingon"), 2, "`klingon` is not a"),
        (("--recogniser", "whisper"), 1, "The whisper recogniser needs a model"),
    ],
)
def test_a_fault_that_prevents_a_start_is_named(
    flags: tuple[str, ...], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*flags) == status
    assert says in capsys.readouterr().err


def test_a_taken_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert check("--port", other.getsockname()[1]) == 1
    assert "another program uses this port" in capsys.readouterr().err


def test_too_few_open_files_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert check() == 0
    assert "only 1000 files may be open" in caplog.text


def test_vllm_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert check("--engine", "vllm") == 1
    assert "pip install 'caption-gateway[vllm]'" in capsys.readouterr().err


def test_a_check_leaves_no_store_behind(tmp_path: Path) -> None:
    file = tmp_path / "rooms.db"
    assert check("--store", f"sqlite:{file}") == 0
    assert not file.exists()
