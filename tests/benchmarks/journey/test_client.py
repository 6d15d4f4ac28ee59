"""Closed and open loops: when they stop, and from when latency counts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.journey import client
from benchmarks.journey.client import Got, Http, Loop, Socket, fetched, parsed
from benchmarks.ports import free_port
from tests.support.stream_server import StreamServer


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def serving(status: bytes | None) -> AsyncGenerator[int]:
    """Yield the port of a server that answers every request with this, or hangs up for None."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n") and status is not None:
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status)

    async with StreamServer(answer) as server:
        yield server.port


class Answers:
    """Answers at once, or when `hold` is set; `many` tells that it was asked three times."""

    def __init__(self, *, held: bool = False) -> None:
        self.asked: list[str] = []
        self.many = asyncio.Event()
        self.hold = asyncio.Event()
        if not held:
            self.hold.set()

    async def call(self, text: str) -> Got:
        self.asked.append(text)
        if len(self.asked) == 3:
            self.many.set()
        await self.hold.wait()
        await asyncio.sleep(0)
        return Got(first=None, queue=0.0, engine=0.0, tokens=1)

    async def aclose(self) -> None:
        pass


@in_loop
async def test_a_closed_loop_goes_on_until_each_client_was_answered_and_as_many_again() -> None:
    answers = Answers()
    loop = Loop(answers, ["one", "two"])
    await loop.closed(3, seconds=0.0, patience=60.0)
    assert 6 <= len(loop.samples) <= 8  # those under way when it had enough are waited for
    assert answers.asked[:4] == ["one", "two", "one", "two"]
    assert all(one.due == one.sent for one in loop.samples)


@in_loop
async def test_a_closed_loop_stops_when_its_patience_ends() -> None:
    loop = Loop(Answers(), ["one"])
    await loop.closed(3, seconds=60.0, patience=0.0)
    assert 1 <= len(loop.samples) <= 3


@in_loop
async def test_an_open_loop_does_not_wait_for_answers() -> None:
    answers = Answers(held=True)
    loop = Loop(answers, ["one"])
    running = asyncio.create_task(loop.open(iter([0.0, 0.0, 0.0]), 0.0))
    await answers.many.wait()
    answers.hold.set()
    await running
    assert [one.due for one in loop.samples] == [0.0] * 3
    assert all(one.sent >= one.due and one.done >= one.sent for one in loop.samples)


@in_loop
async def test_an_open_loop_notes_what_it_could_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FLIGHT", 1)
    monkeypatch.setattr(client, "DRAIN_S", 0.0)
    loop = Loop(Answers(held=True), ["one"])
    await loop.open(iter([0.0, 0.0]), 0.0)
    assert sorted(one.error or "" for one in loop.samples) == ["not sent", "unanswered"]


@in_loop
async def test_a_server_that_is_not_there_is_an_error_of_the_request() -> None:
    nobody = free_port()
    assert (await Http(nobody).call("one")).error == "ConnectionRefusedError"
    with pytest.raises(OSError):
        await fetched(nobody, "/readyz")
    with pytest.raises(OSError):
        await Socket(nobody, 1).open()


@in_loop
async def test_a_server_that_hangs_up_is_an_error_of_the_request() -> None:
    async with serving(None) as port:
        got = await Http(port).call("one")
        assert got.error in ("IncompleteReadError", "ConnectionResetError")
        with pytest.raises(OSError):
            await fetched(port, "/metrics")


@in_loop
async def test_a_full_queue_is_an_error_by_its_status() -> None:
    async with serving(b"503 Busy") as port:
        http = Http(port)
        # What is left of the body is taken for the head of a request that is never complete.
        assert (await http.call("one")).error == "503"
        await http.aclose()
        with pytest.raises(ConnectionError, match="503"):
            await fetched(port, "/readyz")


def test_the_head_of_an_answer_tells_its_status_and_length() -> None:
    assert parsed(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n") == (200, 12)
    assert parsed(b"HTTP/1.1 204 No Content\r\n\r\n") == (204, 0)
