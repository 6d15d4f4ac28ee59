"""``gateway doctor``: each fault that prevents a start is found, with what to do."""

from __future__ import annotations

import importlib.util
import resource
import socket
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.cli import doctor
from tests.engines.openai_server import Server
from tests.support.command import run
from tests.support.live import in_thread

pytestmark = pytest.mark.usefixtures("bare")

ROOT = Path(__file__).parents[2]
Found = Callable[..., dict[str, list[str]]]


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Found:
    """Return a function that runs the command with flags, on a free port and without a model.

    It returns the lines of each subject, which begin with the state.
    """

    def check(*flags: object) -> dict[str, list[str]]:
        usual = ("--port", 0) if "--port" not in flags else ()
        engine = ("--engine", "scripted") if "--engine" not in flags else ()
        status = run("doctor", *usual, *engine, *flags)
        lines = capsys.readouterr().out.splitlines()
        subjects: dict[str, list[str]] = {}
        for line in lines[: lines.index("")]:
            state, subject, text = line[:5].strip(), line[6:19].strip(), line[20:]
            subjects.setdefault(subject, []).append(f"{state}: {text}")
        failed = sum(text.startswith("fail") for texts in subjects.values() for text in texts)
        assert status == (1 if failed else 0)
        ends = {0: "No check failed.", 1: "1 check failed."}
        assert lines[-1] == ends.get(failed, f"{failed} checks failed.")
        return subjects

    return check


def test_a_gateway_that_can_start_has_no_failed_check(found: Found) -> None:
    subjects = found()
    assert list(subjects) == [
        *("version", "settings", "access", "port", "open files", "rooms", "page", "engine"),
        "speech",
    ]
    assert {line[:2] for lines in subjects.values() for line in lines} == {"ok"}
    assert subjects["settings"] == ["ok: 2 are set: engine (--engine), port (--port)"]


def test_a_misspelt_variable_is_a_note(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PROT", "1")
    assert "Did you mean GATEWAY_PORT?" in found()["settings"][1]


def test_access_says_who_may_use_the_gateway(found: Found, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    assert run("key", "alice", "--keys", keys) == 0
    assert found()["access"][0].startswith("ok: No key is required. Only this machine")
    assert found("--keys", keys)["access"] == ["ok: Callers present a key or a token."]
    assert found("--lan")["access"][0].startswith("ok: Keys are made at the start")
    assert found("--host", "0.0.0.0", "--insecure")["access"][0].startswith("note: No key is")
    assert found("--host", "0.0.0.0")["access"][0].startswith("fail: Other machines can reach")
    assert "Check --keys." in found("--keys", tmp_path / "none.toml")["access"][0]


def test_a_taken_port_is_a_failure_unless_a_gateway_has_it(found: Found) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.listen(0)
        address = other.getsockname()
        with socket.create_connection(address):  # its queue is full, so that the check is quick
            (line,) = found("--port", address[1])["port"]
    assert line.startswith(f"fail: Cannot listen on 127.0.0.1:{address[1]}: another program")
    with in_thread() as live:
        (line,) = found("--port", live.http.rpartition(":")[2])["port"]
    assert line.startswith("note: A gateway (")


@pytest.mark.parametrize(
    ("days", "says"),
    [
        ((-1, 90), "ok: "),
        ((-80, 5), "note: "),
        ((-90, -1), "expired on"),
        ((1, 90), "Check the clock"),
    ],
)
def test_a_certificate_is_checked_for_its_dates(
    found: Found, tmp_path: Path, days: tuple[int, int], says: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin, end = (datetime.now(UTC) + timedelta(days=day) for day in days)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end).sign(
        key, hashes.SHA256()
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "own.pem"
    file.write_bytes(made.public_bytes(pem) + private)
    (line,) = found("--certfile", file)["certificate"]
    assert says in line


def test_too_few_open_files_are_a_note(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    (line,) = found()["open files"]
    assert line.startswith("note: Only 872 connections fit, and the limits allow 2512.")
    assert "ulimit -n" in line


def test_the_place_of_the_rooms_is_checked(found: Found, tmp_path: Path) -> None:
    file = tmp_path / "rooms.db"
    assert found("--store", f"sqlite:{file}")["rooms"][0].endswith(
        "will be made, and can be written."
    )
    assert "cannot be written" in found("--store", "sqlite:/nowhere/rooms.db")["rooms"][0]
    assert found("--store", "mysql:x")["rooms"][0].startswith("fail: store cannot be 'mysql:x'")
    away = "redis://me:secret@127.0.0.1:1"
    both = found("--store", f"sqlite:{file}", "--redis", away)["rooms"][0]
    assert both.startswith("fail: --redis cannot be combined with --store")
    (line,) = found("--redis", away)["rooms"]
    assert line.startswith("fail: redis://127.0.0.1:1 does not answer")
    assert "secret" not in line


@pytest.mark.parametrize("missing", ["redis", "hiredis"])
def test_redis_without_its_extra_says_how_to_install_it(
    missing: str, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    assert "caption-gateway[redis]" in found("--redis", "redis://127.0.0.1:1")["rooms"][0]


def test_a_missing_page_is_a_failure(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ROOTS", ())
    assert found()["page"][0].startswith("fail: The files of the page")


def test_the_embedded_model_is_found_and_a_missing_one_named(found: Found, tmp_path: Path) -> None:
    flags = ("--engine", "ctranslate2")
    assert found(*flags)["engine"] == [
        "ok: ctranslate2:embedded translates 30 pairs of 6 languages."
    ]
    assert "There is no model directory" in found(*flags, "--model", tmp_path / "none")["engine"][0]


def test_a_language_that_is_no_tag_is_a_failure(found: Found) -> None:
    assert found("--lang", "klingon")["engine"][0].startswith("fail: `klingon` is not a")


def test_a_model_server_is_asked_for_its_models(found: Found) -> None:
    flags = ("--engine", "openai", "--openai-url")
    with Server(owner="vllm", models=("qwen3",)) as server:
        lines = found(*flags, server.url)["engine"]
    assert lines[0] == f"ok: openai:qwen3 answers at {server.url}."
    assert "start it, or correct the url" in found(*flags, server.url)["engine"][0]


@pytest.fixture
def with_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Pretend that vLLM is installed, and return a folder of programs that is the whole path."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(metadata, "version", lambda _: "0.32.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def smi(folder: Path, script: str) -> None:
    """Write a program that is called like that of the driver."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_vllm_needs_a_gpu_and_a_version_that_is_known(
    found: Found, with_vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = found("--engine", "vllm")["engine"]
    assert lines[0] == "ok: vLLM 0.32.1 is installed."
    assert lines[1].startswith("fail: No GPU is found")
    smi(with_vllm, "exit 9")
    assert "reports no GPU" in found("--engine", "vllm")["engine"][1]
    smi(with_vllm, "echo 'NVIDIA H200, 143000 MiB, 575.1'")
    assert (
        found("--engine", "vllm")["engine"][1] == "ok: NVIDIA H200, 143000 MiB free, driver 575.1."
    )
    monkeypatch.setattr(metadata, "version", lambda _: "0.24.9")
    line = found("--engine", "vllm")["engine"][0]
    assert line.startswith("note: vLLM 0.24.9 was never tried with this gateway, which knows 0.25")


def test_the_known_versions_of_vllm_are_those_that_the_extra_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["vllm"]
    oldest, newest = doctor.VLLM
    assert extra.startswith(f"vllm>={oldest[0]}.{oldest[1]}.")
    assert extra.endswith(f",<{newest[0]}.{newest[1] + 1}")


def test_speech_without_a_model_is_a_failure_and_scripted_speech_works(found: Found) -> None:
    assert found("--recogniser", "whisper")["speech"][0].startswith("fail: The whisper recogniser")
    assert found("--recogniser", "scripted")["speech"] == ["ok: scripted can be used."]
