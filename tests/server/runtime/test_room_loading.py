"""Loading of rooms: faults that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.server.runtime.fleet import RoomLocks


@pytest.mark.parametrize(
    ("fault", "level"),
    [
        (ClientFault(ErrorCode.BUSY, "Another process has this room."), "DEBUG"),
        (ValueError("a bug"), "ERROR"),
    ],
)
async def test_a_fault_after_the_end_began_is_logged(
    caplog: pytest.LogCaptureFixture, fault: Exception, level: str
) -> None:
    go_on = asyncio.Event()

    async def load() -> None:
        await go_on.wait()
        raise fault

    caplog.set_level("DEBUG", "gateway.hub")
    locks = RoomLocks()
    waiting = asyncio.create_task(locks.wait(load()))
    await asyncio.sleep(0)
    assert locks._ending is not None
    locks._ending.set_result(None)
    await waiting
    go_on.set()
    await asyncio.wait(locks.working)
    await asyncio.sleep(0)
    assert [record.levelname for record in caplog.records] == [level]
    assert not locks.working


async def test_a_fault_before_the_end_is_raised_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def load() -> None:
        raise ValueError("a bug")

    caplog.set_level("DEBUG", "gateway.hub")
    with pytest.raises(ValueError, match="a bug"):
        await RoomLocks().wait(load())
    await asyncio.sleep(0)
    assert not caplog.records
