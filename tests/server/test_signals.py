"""Signals at any moment: while the gateway starts, serves and ends, and several at once."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.process.listener import listen
from gateway.server.process.serve import GatewayProcess
from gateway.server.process.server import GatewayServer, configure
from gateway.settings.catalogue import Settings
from tests.server.started import SCRIPTED, gateway
from tests.support import virtual

DRAIN_S = 3.0
"""Seconds of a drain that no test waits for in full."""


def test_a_second_signal_at_any_step_of_handling_the_first_is_harmless() -> None:
    config = configure(
        create_app(ScriptedEngine(), authenticator=Authenticator(Limits())), Settings()
    )
    usual = sys.gettrace()

    def trial(when: int) -> bool:
        """Signal again at a step, and return whether there was such a step."""
        hurried: list[bool] = []
        steps = 0

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal steps
            frame.f_trace_opcodes = True
            if event == "opcode":
                steps += 1
                if steps == when:
                    server.handle_exit(signal.SIGTERM, None)
            return trace

        hub: Any = SimpleNamespace(hurry=lambda: hurried.append(True))
        server = GatewayServer(config, hub, DRAIN_S)
        # Python 3.12 traces opcodes only if a frame asks for them before `settrace`.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(trace)
        try:
            server.handle_exit(signal.SIGTERM, None)
        finally:
            sys.settrace(usual)
        assert server.should_exit
        assert server.force_exit == (steps >= when)
        assert hurried == [True] * (steps >= when)
        return steps >= when

    when = 1
    while trial(when):
        when += 1
    assert when > 10


class Kept:
    """A store that takes some turns of the event loop to open and to close."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def open(self) -> None:
        await asyncio.sleep(0)
        self.told.append("open")

    async def close(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.told.append("closed")


def ended(monkeypatch: pytest.MonkeyPatch, *when: int) -> tuple[int, float]:
    """Run a gateway with a caption in flight in virtual time, and signal at some steps of its loop.

    Return the number of signals before its end, and the seconds since the first.
    """
    steps = 0
    given: list[float] = []
    original = asyncio.Handle._run

    async def main(clock: Any) -> None:
        engine = ScriptedEngine(pace=1000.0)
        app = create_app(engine, authenticator=Authenticator(Limits()))
        settings = Settings(drain_s=DRAIN_S)
        server = GatewayServer(configure(app, settings), app.state.hub, DRAIN_S)
        hub = app.state.hub
        hub.now = hub.jobs.now = hub.shutdown._now = clock
        hub.receive(
            hub.open(ConnectRequest(room="r", targets=("de",))), '{"type":"say","text":"one two"}'
        )
        store: Any = Kept()

        def step(handle: asyncio.Handle) -> None:
            nonlocal steps
            for _ in range(when.count(steps)):
                given.append(clock())
                server.handle_exit(signal.SIGTERM, None)
            steps += 1
            original(handle)

        monkeypatch.setattr(asyncio.Handle, "_run", step)
        try:
            with listen("127.0.0.1", 0) as listener:
                assert await GatewayProcess(server, engine, listener, settings, store).run() == 0
        finally:
            monkeypatch.setattr(asyncio.Handle, "_run", original)
        assert store.told == ["open", "closed"]
        assert engine.unfinished == 0
        given.append(clock())

    virtual.run(main)
    return len(given) - 1, given[-1] - given[0]


WORKING = 60
"""A step at which the gateway has started and is idle."""


def test_a_signal_at_any_step_of_the_start_ends_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for first in range(WORKING):
        signals, _ = ended(monkeypatch, first)
        assert signals == 1


def test_three_signals_at_any_step_of_the_start_end_the_gateway_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for first in range(WORKING):
        _, seconds = ended(monkeypatch, first, first, first + 1)
        assert seconds < DRAIN_S / 2


def test_a_second_and_a_third_signal_at_any_step_of_the_end_are_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after = 0
    signals = 3
    while signals == 3:
        signals, _ = ended(monkeypatch, WORKING, WORKING + after, WORKING + 2 * after)
        after += 1
    assert after > 20


CLOSING = """
import asyncio, pathlib, sys
from gateway.server.process import serve as process
from gateway.settings.catalogue import Settings

class Kept:
    async def open(self):
        pass
    async def close(self):
        sys.stderr.write("closing, Ctrl-C\\n")
        while not pathlib.Path(sys.argv[2]).exists():
            await asyncio.sleep(0.001)
        sys.stderr.write("closed\\n")

made = process.build

def build(*args):
    app = made(*args)
    app.state.store = Kept()
    return app

process.build = build
sys.exit(process.serve(Settings(engine="scripted", port=int(sys.argv[1]), drain_s=0.1)))
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_store_is_written_does_not_interrupt_the_writing(
    sign: signal.Signals, tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    with gateway("FREE", str(go_on), program=(sys.executable, "-c", CLOSING)) as started:
        started.ready.clear()
        started.popen.terminate()
        assert started.ready.wait(20)
        started.popen.send_signal(sign)
        started.popen.send_signal(signal.SIGTERM)
        go_on.touch()
        assert started.popen.wait() == 0
    assert started.said[-1] == "closed\n" and "Traceback" not in started.text


def test_many_signals_at_once_end_the_process_with_status_0() -> None:
    with gateway(*SCRIPTED) as started:
        for sign in 3 * (signal.SIGTERM, signal.SIGINT):
            started.popen.send_signal(sign)
        assert started.popen.wait() == 0
    assert "Traceback" not in started.text
