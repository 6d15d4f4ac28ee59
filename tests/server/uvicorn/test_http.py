"""Bounds on HTTP clients that send nothing, too much, or do not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.limits import Limits
from gateway.server.process.listener import listen
from gateway.server.process.server import configure
from gateway.server.uvicorn import http as module
from gateway.server.uvicorn.http import HEADERS, PIPELINED, BoundedProtocol, http_protocol
from gateway.settings.catalogue import Settings
from tests.server.wire import dial
from tests.support.live import until

HUGE = b"x" * 2**23


class Site:
    """A site with a short answer, a huge one, and one that waits until the test allows it."""

    def __init__(self) -> None:
        self.answer_now = asyncio.Event()
        self.asked = 0
        routes = [Route("/", self.hello), Route("/huge", self.huge), Route("/wait", self.wait)]
        routes.append(Route("/", self.hello, methods=["POST"]))
        self.app = Starlette(routes=routes)
        self.port = 0
        self.server: uvicorn.Server
        self.kind: type[BoundedProtocol]

    async def hello(self, request: Request) -> Response:
        self.asked += 1
        return PlainTextResponse(f"hello {request.query_params.get('n', '')}")

    async def huge(self, request: Request) -> Response:
        return Response(HUGE)

    async def wait(self, request: Request) -> Response:
        self.asked += 1
        await self.answer_now.wait()
        return PlainTextResponse("open")

    @property
    def open(self) -> int:
        """Number of open connections."""
        return len(self.server.server_state.connections)


@contextlib.asynccontextmanager
async def site(
    *,
    handshake_s: float = 60.0,
    max_connections: int = 100,
    max_per_address: int = 100,
) -> AsyncIterator[Site]:
    served = Site()
    settings = Settings(limits=Limits(handshake_s=handshake_s, address_sockets=max_per_address))
    config = configure(served.app, settings)
    served.kind = http_protocol(settings.limits, max_connections, counted_as=lambda peer: peer)
    config.http = served.kind
    config.lifespan = "off"
    served.server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)
    served.port = listener.getsockname()[1]
    serving = asyncio.create_task(served.server._serve([listener]))
    await until(lambda: served.server.started)
    try:
        yield served
    finally:
        served.answer_now.set()
        served.server.should_exit = True
        await serving


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GE"])
async def test_a_connection_without_a_complete_head_is_closed(head: bytes) -> None:
    async with site(handshake_s=0.2) as served, dial(served.port) as client:
        await client.send(head)
        assert (await client.read()).endswith(b"[end]")
        await until(lambda: not served.open)
        assert not served.kind.waiting


@pytest.mark.parametrize("more", [b"\r\n", b"GET / HT"])
async def test_a_second_head_has_the_same_time_limit_as_the_first(more: bytes) -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"hello" in await client.read(b"hello ")
        # Only now, since the first head may come late on a busy machine.
        served.kind.limits = Limits(handshake_s=0.05)
        await client.send(more)
        assert (await client.read()).endswith(b"[end]")


async def test_the_time_limit_of_a_head_does_not_end_a_long_request() -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: served.asked == 1)
        assert not served.kind.waiting
        (connection,) = served.server.server_state.connections
        assert isinstance(connection, BoundedProtocol) and connection._head_timer is None
        served.answer_now.set()
        assert b"open" in await client.read(b"open")


# --- size ---------------------------------------------------------------------------------------

LARGE_HEADS = {
    "a long address": b"GET /?n=%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"n" * 40_000),
    "a long header": b"GET / HTTP/1.1\r\nHost: x\r\nCookie: %b\r\n\r\n" % (b"n" * 40_000),
    "a header without an end": b"GET / HTTP/1.1\r\nHost: x\r\nCookie: %b" % (b"n" * 200_000),
    "many large headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: %b\r\n" % (b"n" * 999) * 100,
}


@pytest.mark.parametrize("name", LARGE_HEADS)
async def test_a_head_that_is_too_large_is_answered_by_431(name: str) -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(LARGE_HEADS[name])
        answer = await client.read()
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert served.asked == 0


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (HEADERS + 1) + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    ],
)
async def test_too_many_headers_are_answered_by_431(request_: bytes) -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(request_)
        assert b" 431 " in await client.read()


async def test_trailers_count_as_headers() -> None:
    async with site() as served, dial(served.port) as client:
        head = b"GET /wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"0\r\n" + b"a: b\r\n" * HEADERS + b"\r\n")
        assert await client.read() == b"[reset]"


async def test_a_head_of_many_kilobytes_with_a_large_body_behind_it_is_served() -> None:
    async with site() as served, dial(served.port) as client:
        body = b"x" * 100_000
        head = b"POST /?n=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nCookie: %b\r\n\r\n"
        await client.send(head % (len(body), b"c" * 14_000) + body)
        assert b"hello 1" in await client.read(b"hello 1")
        await client.send(b"GET /?n=2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"hello 2" in await client.read(b"hello 2")


async def test_bytes_that_are_not_http_are_answered_by_400(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert (await client.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_refused_client_that_keeps_sending_reads_the_reason_and_is_then_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REFUSE_S", 0.2)

    async with site() as served, dial(served.port) as client:
        await client.send(b"no http\r\n\r\n")
        await client.send(b"and more " * 10_000)
        assert b" 400 " in await client.read(b"\r\n\r\n")
        await until(lambda: not served.open)


# --- many ---------------------------------------------------------------------------------------


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async with site() as served, dial(served.port) as client:
        ask = b"".join(b"GET /?n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(10))
        await client.send(ask)
        answer = await client.read(b"hello 9")
        assert [answer.index(b"hello %d" % n) for n in range(10)] == sorted(
            answer.index(b"hello %d" % n) for n in range(10)
        )


async def test_too_many_requests_sent_ahead_reset_the_connection() -> None:
    async with site() as served, dial(served.port) as client:
        await client.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" * (PIPELINED + 2))
        assert await client.read() == b"[reset]"
        assert served.asked <= 1


async def test_the_connection_that_waits_longest_for_a_head_is_reset_for_a_new_one() -> None:
    async with (
        site(max_connections=2) as served,
        dial(served.port) as busy,
        dial(served.port) as silent,
    ):
        await busy.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: served.asked == 1 and served.open == 2)
        async with dial(served.port) as third:
            assert await silent.read() == b"[reset]"
            await third.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: served.asked == 2)
            async with dial(served.port) as fourth:  # every other connection has a request
                answer = await fourth.read()
                assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in answer
            served.answer_now.set()
            assert b"open" in await busy.read(b"open")
            assert b"open" in await third.read(b"open")


async def test_an_address_at_its_limit_of_connections_is_refused_and_others_are_not() -> None:
    slow = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"

    async with site(max_per_address=2) as served:
        async with dial(served.port) as first, dial(served.port) as second:
            for client in (first, second):
                await client.send(slow)
            await until(lambda: served.kind.per_address == {"127.0.0.1": 2})
            async with dial(served.port) as third:
                answer = await third.read()
                assert answer.startswith(b"HTTP/1.1 429 ") and b"\r\nretry-after: 1\r\n" in answer
            async with dial(served.port, source="127.0.0.2") as other:
                await other.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200 OK" in await other.read(b"hello")
        await until(lambda: not served.kind.per_address)


# --- answers ------------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_its_answer_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNREAD_S", 0.2)

    async with site() as served, dial(served.port, receive=4096) as client:
        await client.send(b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.read(b"\r\n\r\n")
        await until(lambda: not served.open)
        assert (await client.read()).endswith(b"[reset]")


async def test_a_client_that_reads_its_answer_slowly_gets_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNREAD_S", 0.05)
    monkeypatch.setattr(module, "UNREAD_BYTES", 1)

    async with site() as served, dial(served.port, receive=65_536) as client:
        await client.send(b"GET /huge HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await client.read()
        assert len(answer.partition(b"\r\n\r\n")[2]) == len(HUGE + b"[end]")
        await until(lambda: not served.open)
