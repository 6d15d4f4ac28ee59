"""A coroutine runs at once until it would wait, and its rest can be awaited."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.base.eager import _Remainder, run_eagerly


def test_a_coroutine_that_does_not_wait_is_finished_at_once() -> None:
    done: list[int] = []

    async def send() -> None:
        done.append(1)

    assert run_eagerly(send()) is None
    assert done == [1]


def test_an_exception_before_the_first_wait_is_raised_at_once() -> None:
    async def send() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run_eagerly(send())


@pytest.mark.parametrize("end", ["result", "fault", "cancelled"])
async def test_a_coroutine_that_waits_continues_in_the_task_that_awaits_the_rest(end: str) -> None:
    room = asyncio.get_running_loop().create_future()
    seen: list[object] = []

    async def send() -> None:
        try:
            seen.append(await room)
            await asyncio.sleep(0)
            seen.append("written")
        except ZeroDivisionError:
            seen.append("fault")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    rest = run_eagerly(send())
    assert rest is not None
    assert seen == []

    async def follow() -> None:
        await rest

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    if end == "result":
        room.set_result("room")
    elif end == "fault":
        room.set_exception(ZeroDivisionError())
    else:
        task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled() is (end == "cancelled")
    assert seen == (["room", "written"] if end == "result" else [end])


async def test_closing_the_rest_closes_the_coroutine() -> None:
    closed: list[bool] = []

    async def send() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    rest = run_eagerly(send())
    assert isinstance(rest, _Remainder)
    rest.close()
    assert closed == [True]


class Waiting:
    """An awaitable that is no coroutine, as a server that is not written in Python may return."""

    def __init__(self, room: asyncio.Future[None]) -> None:
        self.room = room
        self.steps = 0

    def __await__(self) -> Any:
        return self

    def __next__(self) -> asyncio.Future[None]:
        self.steps += 1
        if self.room.done():
            raise StopIteration(self.room.result())
        self.room._asyncio_future_blocking = True
        return self.room


@pytest.mark.parametrize("end", ["result", "fault", "cancelled"])
async def test_an_awaitable_that_is_no_coroutine_is_continued_too(end: str) -> None:
    waiting = Waiting(asyncio.get_running_loop().create_future())
    rest = run_eagerly(waiting)
    assert isinstance(rest, _Remainder)

    async def follow() -> None:
        await rest

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    if end == "result":
        waiting.room.set_result(None)
    elif end == "fault":
        waiting.room.set_exception(OSError("gone"))
    else:
        task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled() is (end == "cancelled")
    assert end == "cancelled" or isinstance(task.exception(), OSError) is (end == "fault")
    assert waiting.steps == (2 if end == "result" else 1)
    rest.close()
