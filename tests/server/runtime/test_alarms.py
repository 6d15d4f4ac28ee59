"""Alarms of rooms."""

from __future__ import annotations

import asyncio

from gateway.server.runtime.alarms import Alarms
from tests.support.live import until


async def test_the_newest_setting_of_an_alarm_replaces_the_earlier_one() -> None:
    rung: list[str] = []
    loop = asyncio.get_running_loop()
    alarms = Alarms(rung.append, loop.time)
    alarms.set("a", loop.time() + 3600)
    earlier = alarms.timers["a"]
    alarms.set("a", loop.time() - 1)  # a time in the past rings in the next turn
    assert earlier.cancelled()
    await until(lambda: bool(rung))
    assert rung == ["a"] and not alarms.timers
