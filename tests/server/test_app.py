"""The application's background tasks survive their own failures, and every failure is logged."""

from __future__ import annotations

import asyncio
import logging

import pytest
from starlette.applications import Starlette

from gateway.auth.signed_tokens import Signer
from gateway.engines.base.language_detection import Detector
from gateway.engines.scripted import ScriptedEngine
from gateway.io import tasks
from gateway.io.tasks import keep_running
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app

KEY = Signer(b"k" * 32)
SAID = "what somebody said"


def served() -> Starlette:
    return create_app(ScriptedEngine(), authenticator=Authenticator(Limits(), signer=KEY))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RESTART_S", 0.0)


class Dying:
    """A background task that fails when it is first run, and then runs until it is cancelled."""

    def __init__(self) -> None:
        self.runs = 0
        self.restarted = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        self.runs += 1
        if self.runs == 1:
            raise LookupError(SAID)
        self.restarted.set()
        await asyncio.Event().wait()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", ["housekeeping", "the watch over the key file"])
async def test_a_background_task_that_fails_is_logged_and_restarted(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app, dying = served(), Dying()
    if name == "housekeeping":
        monkeypatch.setattr(app.state.hub, "keep", dying)
    else:
        monkeypatch.setattr(app.state.authenticator, "watch_keys", dying)
    async with app.router.lifespan_context(app):
        await dying.restarted.wait()
    (record,) = [r for r in caplog.records if r.name == "gateway.background"]
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        f"{name} failed; it starts again",
    )
    assert record.exc_info is not None and record.exc_info[2] is not None, "with its traceback"
    assert "LookupError" in caplog.text
    assert SAID not in caplog.text, "a message may quote private text"


async def test_a_background_task_that_returns_is_not_run_again() -> None:
    runs = []

    async def work() -> None:
        runs.append(1)

    await keep_running("a task without work", work)
    assert runs == [1]


async def test_a_language_detector_that_cannot_be_loaded_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(self: Detector) -> None:
        raise OSError("no such model")

    monkeypatch.setattr(Detector, "load", fails)
    app = served()
    async with app.router.lifespan_context(app):
        pass
    assert "the language detector could not be loaded" in caplog.text
    assert "OSError" in caplog.text


async def test_sockets_and_tickets_are_signed_with_the_authenticators_key() -> None:
    app = served()
    async with app.router.lifespan_context(app):
        assert app.state.hub.signer is app.state.authenticator.signer is KEY
