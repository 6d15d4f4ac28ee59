"""Tests of the sessions that keep the jobs of a room and language on one replica."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator

import httpx2
import pytest

from gateway.engines.openai.server import ENDING_LIMIT, RouterSessions, session_id
from gateway.job import Job
from tests.engines.openai_factory import serving
from tests.engines.reading import read


def job(room: str, target: str = "de") -> Job:
    return Job(id=f"{room}-{target}", text="Good morning!", source="en", target=target, room=room)


def test_the_name_of_a_session_hides_the_room_and_shows_the_language() -> None:
    name = session_id("acme-quarterly", "zh-Hant")
    assert re.fullmatch(r"[0-9a-f]{16}\.zh-Hant", name)
    assert name != session_id("acme-quarterly", "de")
    assert name != session_id("acme-yearly", "zh-Hant")


@pytest.mark.parametrize("room", ["会議", "совещание", "اجتماع", "~0123456789abcdef", "a" * 1000])
def test_the_name_of_a_session_can_be_sent_in_a_header_whatever_the_room(room: str) -> None:
    name = session_id(room, "de")
    assert name.isascii() and len(name) < 64


def test_another_process_gives_a_session_the_same_name() -> None:
    code = "from gateway.engines.openai.server import session_id; print(session_id('r', 'de'))"
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    assert other == session_id("r", "de")


async def test_jobs_of_one_room_and_language_have_one_session() -> None:
    async with serving() as (server, engine):
        jobs = [job("r"), job("r"), job("r", "fr"), job("s"), job("")]
        for one in jobs:
            await read(engine, one)
        sent = [received.headers.get("x-session-id") for received in server.received]
    assert sent == [session_id(one.room, one.target) if one.room else None for one in jobs]
    assert "r" not in str(sent[0]).partition(".")[0]


async def test_the_end_of_a_room_ends_its_sessions_and_no_others() -> None:
    async with serving(server_key="key", api_key="key") as (server, engine):
        server.ends_sessions = True
        for one in (job("r"), job("r", "fr"), job("s")):
            await read(engine, one)
        engine.forget_room("r")
        await server.wait(lambda server: len(server.ended) == 2)
        engine.forget_room("r")  # no session is left
        engine.forget_room("never seen")
        engine.forget_room("s")
        await server.wait(lambda server: len(server.ended) == 3)
        assert set(server.ended[:2]) == {session_id("r", "de"), session_id("r", "fr")}
        assert server.ended[2] == session_id("s", "de")


async def test_a_room_that_comes_back_has_its_session_ended_again() -> None:
    async with serving() as (server, engine):
        server.ends_sessions = True
        for times in (1, 2):
            await read(engine, job("r"))
            engine.forget_room("r")
            await server.wait(lambda server, times=times: len(server.ended) == times)  # type: ignore[misc]


async def test_a_server_that_ends_no_sessions_is_asked_once() -> None:
    async with serving() as (server, engine):
        for room in ("r", "s", "t"):
            await read(engine, job(room))
        engine.forget_room("r")
        await server.wait(lambda server: len(server.ended) == 1)
        await read(engine, job("u"))  # a whole exchange later, the answer has come as well
        for room in ("s", "t", "u"):
            engine.forget_room(room)
        await read(engine, job("v"))
        assert len(server.ended) == 1
        assert server.received[-1].headers["x-session-id"] == session_id("v", "de")


@pytest.fixture
async def asked() -> AsyncIterator[tuple[RouterSessions, list[httpx2.URL], asyncio.Event]]:
    """Give sessions of a server that answers when the event is set, and the requests it got."""
    urls: list[httpx2.URL] = []
    answer = asyncio.Event()

    async def handle(request: httpx2.Request) -> httpx2.Response:
        urls.append(request.url)
        await answer.wait()
        return httpx2.Response(200)

    transport = httpx2.MockTransport(handle)
    async with httpx2.AsyncClient(transport=transport, base_url="http://h/models/v1") as client:
        sessions = RouterSessions(client)
        yield sessions, urls, answer
        await sessions.aclose()


async def test_sessions_are_ended_beside_v1_one_after_another(
    asked: tuple[RouterSessions, list[httpx2.URL], asyncio.Event],
) -> None:
    sessions, urls, answer = asked
    for room in ("r", "s"):
        sessions.headers(room, "zh-Hant")
        sessions.end(room)
    assert sessions._task is not None
    await asyncio.wait((sessions._task,), timeout=0.01)
    assert [url.path for url in urls] == ["/models/finish_session"]
    assert urls[0].params["session_id"] == session_id("r", "zh-Hant")
    answer.set()
    await asyncio.wait((sessions._task,))
    assert len(urls) == 2


async def test_sessions_that_wait_to_be_ended_are_bounded(
    asked: tuple[RouterSessions, list[httpx2.URL], asyncio.Event],
) -> None:
    sessions, urls, answer = asked
    for room in map(str, range(ENDING_LIMIT + 100)):
        sessions.headers(room, "de")
        sessions.end(room)
    assert len(sessions._ending) == ENDING_LIMIT
    assert not sessions._open


async def test_a_server_that_is_gone_is_asked_again_at_the_end_of_another_room() -> None:
    gone = True
    urls: list[httpx2.URL] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        urls.append(request.url)
        if gone:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200)

    transport = httpx2.MockTransport(handle)
    async with httpx2.AsyncClient(transport=transport, base_url="http://h/v1") as client:
        sessions = RouterSessions(client)
        for room in ("r", "s", "t"):
            sessions.headers(room, "de")
        sessions.end("r")
        sessions.end("s")  # not asked for: the server is gone
        assert sessions._task is not None
        await asyncio.wait((sessions._task,))
        gone = False
        sessions.end("t")
        await asyncio.wait((sessions._task,))
        await sessions.aclose()
    found = [url.params["session_id"] for url in urls]
    assert found == [session_id("r", "de"), session_id("t", "de")]
