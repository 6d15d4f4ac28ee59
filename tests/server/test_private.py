"""No part of a spoken text is logged, even if an exception quotes it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest

from gateway.core.captions.captioner import Captioner
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.base.engine import Engine, PullEngine
from gateway.engines.ctranslate2 import engine as ctranslate2
from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.profiles import load
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.model import LoadedModel
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.engines.wrappers.piecewise import PiecewiseEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.server.process.logs import JsonFormatter, TextFormatter
from gateway.server.process.serve import serve, unhandled
from gateway.server.runtime import hub as hubs
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings, SettingsError
from tests.engines.openai_server import Script, Server, event
from tests.engines.workshop import with_spare
from tests.support.live import running, until
from tests.support.talk import talk

SAID = {
    "Latin": "Wir entlassen Frau Müller-Lüdenscheidt am Donnerstag",
    "Cyrillic": "Мы увольняем Ивана Петровича Сидорова в четверг",
    "Greek": "Απολύουμε τον κύριο Παπαδόπουλο την Πέμπτη",
    "Arabic": "سنفصل السيد عبد الرحمن الفاروقي يوم الخميس",
    "Devanagari": "हम गुरुवार को श्री राजेश्वर शर्मा को निकाल देंगे",
    "Thai": "เราจะเลิกจ้างคุณสมชายใจดีในวันพฤหัสบดี",
    "Chinese": "我们星期四要解雇王小明先生和他的所有同事",
    "Japanese": "木曜日に田中さくらさんとそのチームを解雇します",
    "emoji": "🔥👩🏽‍🚀🎉🧨🚒🍕🪐🐙🦑🥁🎻🛸🗿🧿",
}

PART = 9
"""Length of the parts of a text, in characters, that may not be in the log."""


@pytest.fixture(params=list(SAID.values()), ids=list(SAID))
def said(request: pytest.FixtureRequest) -> str:
    """Return a text that must not be logged."""
    text: str = request.param
    return text


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, said: str) -> Iterator[pytest.LogCaptureFixture]:
    """Collect all that is logged, and check after the test that no part of the text is in it."""
    with caplog.at_level(logging.DEBUG):
        yield caplog
    forms = [TextFormatter(), JsonFormatter()]
    lines = [form.format(record) for record in caplog.get_records("call") for form in forms]
    assert lines, "nothing was logged at all"
    assert [line for line in lines if leaked(line, said)] == []


def leaked(log: str, text: str) -> set[str]:
    """Return the parts of ``text`` that are in ``log``, in any case and any escape."""
    found = set()
    log = unicodedata.normalize("NFC", log).casefold()
    for spelt in (text, ascii(text)[1:-1], json.dumps(text)[1:-1]):
        spelt = spelt.casefold()
        parts = {spelt[at : at + PART] for at in range(len(spelt) - PART + 1)}
        found |= {part for part in parts if part in log}
    return found


@pytest.mark.parametrize("text", SAID.values(), ids=SAID)
def test_parts_of_a_text_are_found_in_any_case_and_escape(text: str) -> None:
    assert leaked(f"failed: {text}", text)
    assert leaked(f"failed: {text.upper()[4:14]}…", text)
    assert leaked(f"failed: {text!a}", text)
    assert leaked(json.dumps({"failed": text[2:]}), text)
    assert not leaked("job j1 failed: EngineFault engine_unavailable 500", text)


def quotes(text: str) -> list[str]:
    """Return a text as servers and libraries quote it."""
    middle = len(text) // 2
    return [
        text,
        f"bad input: '{text[2:-2]}'",
        f"{text[: middle + 5]}...",
        text.upper(),
        text.swapcase(),
        ascii(text),
        "\n".join(text),
        text.encode().decode("latin-1"),
    ]


def replies(text: str) -> Iterator[Script]:
    """Yield the answers of a failing model server, with the text in them."""
    for quote in quotes(text):
        for status in (400, 401, 404, 413, 422, 429, 500, 502, 503):
            yield Script(status=status, body={"error": {"message": quote, "code": status}})
        yield Script(status=500, body={"detail": [{"input": quote}]})
        yield Script(status=500, body=quote.encode())
        yield Script(pieces=[event({"error": {"message": quote, "code": 400}})])
        yield Script(pieces=[event({"error": quote})])
        yield Script(pieces=[event({"choices": quote})])
        yield Script(pieces=[event({"choices": [{"finish_reason": quote}]})])
        yield Script(finish=quote)
        yield Script(type=f"text/x; q={ascii(quote)}")
        yield Script(pieces=[f"data: {quote}\n\n".encode()])
        yield Script(pieces=[quote.encode()], finish=None)
        yield Script(pieces=[quote, quote], cut=1)


def faults(text: str) -> Iterator[Exception]:
    """Yield exceptions of all kinds, with the text in them."""
    for quote in quotes(text):
        yield RuntimeError(quote)
        yield KeyError(quote)
        yield ValueError({"text": quote})
        yield UnicodeEncodeError("ascii", quote, 0, 1, quote)
        yield LookupError(EngineFault(quote))
        chained = RuntimeError(quote)
        chained.__cause__ = KeyError(quote)
        chained.__cause__.__context__ = ValueError(quote)
        chained.add_note(quote)
        yield chained


def raiser(fault: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **options: Any) -> Any:
        raise fault.with_traceback(None)

    return fail


async def speak(engine: Engine, texts: list[str]) -> Hub:
    """Translate texts one after the other, and return the hub when all captions have ended."""
    await engine.start()
    asyncio.get_running_loop().set_exception_handler(unhandled)
    hub = Hub(RoomHost(engine, Limits(rate=1e6, burst=10**6)))
    session = hub.open(ConnectRequest(room="r", source="en", targets=("de",)))
    for number, text in enumerate(texts):
        hub.receive(session, json.dumps({"type": "say", "id": f"u{number}", "text": text}))
        await until(lambda: not hub.jobs.runs and not hub.scheduler.queued)
        session.outbox.take()
    return hub


def wrapped(engine: Engine, *, other: Engine | None = None) -> Engine:
    """Return an engine in the wrappers of every engine, with a fallback that fails as well."""
    living = Supervisor(lambda: engine)
    whole = PiecewiseEngine(GuardedEngine(living, Counter()))
    return whole if other is None else with_spare(whole, other)


async def test_a_text_that_a_model_server_quotes_is_not_logged(
    said: str, log: pytest.LogCaptureFixture
) -> None:
    scripts = list(replies(said))
    with Server(api_key="key") as server:
        server.script(*scripts)
        first = OpenAIEngine(server.url, profile=load("chat"), api_key="key")
        second = ScriptedEngine(fault=raiser(RuntimeError(said)))
        engine = wrapped(first, other=second)
        await speak(engine, [f"{said} {number}" for number in range(len(scripts))])
        await engine.aclose()
    assert " failed: EngineFault engine_unavailable 500" in log.text or "is repeated" in log.text


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_text_that_a_model_server_quotes_to_a_probe_is_not_logged(
    status: int, said: str, log: pytest.LogCaptureFixture
) -> None:
    script = Script(status=status, body={"error": {"message": said}})
    with Server(default=lambda body: script) as server:
        # The second engine is built at once. The third would come after a wait that the test ends.
        waits = chain((0.0,), repeat(1.0))
        failing = Supervisor(
            lambda: OpenAIEngine(server.url, profile=load("chat")), chance=lambda: next(waits)
        )
        await speak(failing, [said] * 3)
        failing._failures, failing._failure_span = 99, 99.0
        failing._check_now.set()
        await until(lambda: "did not translate a word: EngineFault engine_unavailable" in log.text)
        await failing.aclose()


class Raising(PullEngine):
    """A pull engine with a fault in its own code."""

    def __init__(self, faults: list[Exception]) -> None:
        super().__init__("raising", ScriptedEngine().profile, 1)
        self.faults = faults

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        raise self.faults.pop()
        yield Chunk("")  # type: ignore[unreachable]


async def test_a_text_that_an_exception_of_an_engine_quotes_is_not_logged(
    said: str, log: pytest.LogCaptureFixture
) -> None:
    found = list(faults(said))
    engine = Raising(found)
    await speak(wrapped(engine), [said] * len(found))
    await engine.aclose()
    for fault in faults(said):
        scripted = ScriptedEngine(fault=raiser(fault))
        await speak(wrapped(scripted, other=ScriptedEngine(fault=raiser(fault))), [said])
        await scripted.aclose()
    assert "engine's own code" in log.text and "Traceback" in log.text


async def test_a_text_that_an_exception_of_ctranslate2_quotes_is_not_logged(
    said: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    found = [*faults(said), MemoryError(said), RuntimeError(f"CUDA: {said}")]

    for fault in found:
        engine = ctranslate2.CTranslate2Engine(tmp_path, load("embedded"), inter_threads=1)
        monkeypatch.setattr(engine, "_load", lambda: SimpleNamespace(decode=raiser(fault)))  # noqa: B023
        await speak(wrapped(engine), [f"a {said}"])
        await engine.aclose()
    assert "CTranslate2 failed (RuntimeError, cuda)." in log.text


async def test_a_text_that_an_exception_of_vllm_quotes_is_not_logged(
    said: str, log: pytest.LogCaptureFixture
) -> None:
    """VLLM is not needed: the test covers how the gateway handles its exceptions."""

    class Request:
        request_id = "j1/1"
        ended = False

        def on_failure(self, exc: Exception) -> None:
            told.append(exc)

    async def main() -> None:
        loaded = LoadedModel.__new__(LoadedModel)
        loaded._tasks = set()
        request: Any = Request()
        for fault in faults(said):
            loaded.profile = SimpleNamespace(prompt=raiser(fault))  # type: ignore[assignment]
            loaded.start_request(Job(id="j1", text=said, source="en", target="de"), request)

            async def fail(fault: Exception = fault) -> None:
                raise fault.with_traceback(None)

            loaded._run_in_task(request, fail)
            await asyncio.wait(loaded._tasks)
            await loaded._finish_abort(fail())
        await until(lambda: len(told) == 2 * len(list(faults(said))))

    told: list[Exception] = []
    await main()
    api = VllmApi.__new__(VllmApi)
    api.dead_error, api.full_errors = ConnectionError, (InterruptedError,)
    for fault in told:
        found = api.fault(fault, "vllm:model")
        assert leaked(f"{found} {found.hint}", said) == set()


async def test_a_text_that_an_exception_of_the_gateway_quotes_is_not_logged(
    said: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in faults(said):
        for name in ("started", "finished", "failed"):
            with monkeypatch.context() as patch:
                patch.setattr(Captioner, name, raiser(fault))
                with suppress(type(fault)):  # raised to the caller
                    await speak(ScriptedEngine(), [said])
        with monkeypatch.context() as patch:
            patch.setattr(ScriptedEngine, "submit", raiser(fault))
            await speak(ScriptedEngine(), [said])
        with monkeypatch.context() as patch:
            patch.setattr(Hub, "sweep", raiser(fault))
            patch.setattr(hubs, "HOUSEKEEPING_S", 0)
            keeping = asyncio.create_task(Hub(RoomHost(ScriptedEngine(), Limits())).keep())
            for _ in range(9):
                await asyncio.sleep(0)
            keeping.cancel()
        asyncio.get_running_loop().call_soon(raiser(fault), said)
        await asyncio.sleep(0)
    for words in ("broke the room", "did not take job", "housekeeping", "nobody waits"):
        assert words in log.text


async def test_a_text_that_ends_a_socket_or_a_request_by_an_exception_is_not_logged(
    said: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.set_level(logging.WARNING, "uvicorn.error")  # the level that `serve` sets
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    log.set_level(logging.WARNING, "websockets.client")  # the client of the test itself

    async with running() as live, httpx.AsyncClient(base_url=live.http) as client:
        for fault in list(faults(said))[:6]:
            async with talk(live, "?from=en&to=de") as peer:
                await peer.until("welcome")
                with monkeypatch.context() as patch:
                    patch.setattr(Hub, "receive", raiser(fault))
                    patch.setattr(Hub, "perform", raiser(fault))
                    await peer.send(said)
                    assert (await peer.closed())[0] == 4000
                    body = {"text": said, "source_lang": "en", "target_lang": "de"}
                    answer = await client.post("/v1/translate", json=body)
                    assert answer.status_code == 500
                    assert leaked(answer.text, said) == set()
    assert "ended by a fault" in log.text and "ASGI" in log.text


def test_a_text_that_an_exception_outside_of_the_event_loop_quotes_is_not_logged(
    said: str,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Dying:
        def __del__(self) -> None:
            raise ValueError(said)

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)  # restores it
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with pytest.raises(SettingsError):
        serve(Settings(engine="scripted", keyfile="key.pem"))
    thread = threading.Thread(target=raiser(ValueError(said)))
    thread.start()
    thread.join()
    dying = Dying()
    del dying
    assert "a thread failed" in log.text and "a callback failed" in log.text
    assert leaked(capfd.readouterr().err, said) == set()
