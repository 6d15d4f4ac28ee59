"""What the hub does on its own, without anybody asking."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server import hub as module
from gateway.server.hub import Hub, Seat
from tests.live import until
from tests.talk import run


def test_housekeeping_goes_on_after_a_fault_in_it_and_the_fault_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(ScriptedEngine):
        asked = 0

        @property
        def capacity(self) -> int:
            self.asked += 1
            if self.asked == 2:  # the first is the hub's own beginning
                raise ValueError("a bug")
            return self.asked

    async def main() -> None:
        monkeypatch.setattr(module, "HOUSEKEEPING_S", 0)
        hub = Hub(Moody(), Limits())
        keeper = asyncio.create_task(hub.keep())
        await until(lambda: hub.dispatch.capacity >= 3)
        keeper.cancel()
        assert "a bug" in caplog.text

    run(main)


def test_a_room_has_one_alarm_and_the_newest_holds() -> None:
    async def main() -> None:
        hub = Hub(ScriptedEngine(), Limits())
        reader = hub.open(Seat(room="r", targets=("de",)))
        hub.receive(reader, '{"type":"want","langs":["fr"]}')
        linger = hub._alarms["r"]
        hub.open(Seat(room="r"))
        presence = hub._alarms["r"]
        assert linger.cancelled() and not presence.cancelled()
        assert presence.when() < linger.when()
        presence.cancel()

    run(main)
