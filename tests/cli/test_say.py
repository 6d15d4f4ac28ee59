"""``gateway say``: one text, translated here or by a running gateway."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli import say as module
from gateway.cli.main import main
from gateway.engines import registry
from gateway.engines.base.engine import Engine
from gateway.engines.base.service import Health
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from tests.support.command import fails
from tests.support.live import Live, in_thread

pytestmark = pytest.mark.usefixtures("bare")

SAY = ("say", "good morning", "--from", "en", "--engine", "scripted", "--scripted-pace", "0")


def test_say_translates_with_nothing_running(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SAY, "--to", "de"]) == 0
    assert capsys.readouterr().out == "[de] good morning\n"


def test_say_needs_no_setting_to_translate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["say", "Thank you very much.", "--from", "en", "--to", "de"]) == 0
    assert capsys.readouterr().out in ("Vielen Dank.\n", "Danke sehr.\n", "Danke schön.\n")


def test_say_tells_that_a_model_is_being_loaded_if_that_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asyncio.Event()

    async def tell(engine: Engine, clock: Callable[[], float]) -> None:
        sys.stderr.write(f"loading {engine.name}")
        told.set()

    async def load(self: ScriptedEngine) -> None:
        await told.wait()
        self._health = Health.READY

    monkeypatch.setattr(module, "PATIENT_S", 0.0)
    monkeypatch.setattr(module, "show_progress", tell)
    monkeypatch.setattr(ScriptedEngine, "start", load)
    assert main([*SAY, "--to", "de"]) == 0
    assert capsys.readouterr() == ("[de] good morning\n", "loading scripted")


def test_say_names_the_languages_if_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SAY, "--to", "fr, de,fr"]) == 0
    assert capsys.readouterr().out == "[fr] [fr] good morning\n[de] [de] good morning\n"


def test_say_asks_a_running_gateway(capsys: pytest.CaptureFixture[str], live: Live) -> None:
    argv = ["say", "good morning", "--from", "en", "--url", live.ws]
    assert main([*argv, "--to", "fr,de"]) == 0
    assert capsys.readouterr().out == "[fr] [fr] good morning\n[de] [de] good morning\n"


def test_say_prints_what_it_has_and_fails_for_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    fault = failing(EngineFault("It broke."), when=lambda job: job.target == "fr")
    with in_thread(ScriptedEngine(fault=fault)) as live:
        status = main(["say", "hi", "--from", "en", "--url", live.ws, "--to", "fr,de"])
    assert status == 1
    out, err = capsys.readouterr()
    assert out == "[de] [de] hi\n"
    assert "engine_unavailable" in err


def test_say_tells_the_fault_of_its_own_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = failing(EngineFault("It broke."))
    monkeypatch.setattr(registry, "build", lambda _: ScriptedEngine(fault=fault))
    status, err = fails(capsys, *SAY, "--to", "de")
    assert (status, err) == (1, "gateway: It broke.\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([*SAY, "--to", "en"], "does not translate"),
        ([*SAY, "--to", "tlh-nonsense-tag"], "not a language"),
        ([*SAY, "--to", "sw"], "does not have the language `sw`. It has ar, de"),
        (
            ["say", " ", "--to", "de", "--engine", "scripted", "--lang", "en"],
            "nothing to translate",
        ),
        (["say", "x", "--to", "de", "--model", "nowhere"], "no model directory nowhere"),
        (["say", "x", "--to", "de", "--url", "ftp://there"], "not the address of a gateway"),
        (["chat", "--url", "ws://127.0.0.1:1"], "no gateway at ws://127.0.0.1:1"),
    ],
)
def test_an_impossible_request_is_status_1_with_a_sentence(
    capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    status, err = fails(capsys, *argv)
    assert status == 1
    assert says in err


def test_a_refusal_of_the_gateway_is_status_1_with_its_sentence(
    capsys: pytest.CaptureFixture[str], live: Live
) -> None:
    for text, to, says in (("", "de", "text is empty"), ("hi", "sw", "does not have 'sw'")):
        argv = ["say", text, "--to", to, "--from", "en", "--url", live.ws]
        status, err = fails(capsys, *argv)
        assert status == 1
        assert says in err


def test_the_language_of_a_text_is_detected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["say", "good morning, everybody", "--engine", "scripted", "--to", "de"]
    assert main(argv) == 0
    assert capsys.readouterr().out == "[de] good morning, everybody\n"
    assert fails(capsys, *argv[:-1], "en") == (
        1,
        fails(capsys, *argv[:-1], "en", "--from", "en")[1],
    )


def test_a_text_of_no_certain_language_is_refused_and_not_taken_for_english(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, err = fails(capsys, "say", "Anna", "--engine", "scripted", "--to", "de")
    assert status == 1
    assert "could not be detected" in err and "--from en" in err


def test_a_text_without_a_named_language_has_the_language_of_the_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["say", "good morning", "--engine", "scripted", "--lang", "de", "--to", "de"]
    status, err = fails(capsys, *argv)
    assert status == 1
    assert "from `de` into `de`" in err
