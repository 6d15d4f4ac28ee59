"""Ends of a connection after which the client does not reconnect."""

from __future__ import annotations

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection

from gateway.client import ConnectionLost, connect
from gateway.protocol.messages import Resumed
from gateway.protocol.notices import Goaway
from tests.support.fake import WELCOME, ask, fake, send
from tests.support.live import running, until
from tests.support.proxy import behind

pytestmark = pytest.mark.usefixtures("impatient")


async def test_the_end_of_the_room_ends_the_connection() -> None:
    async with running() as live, connect(live.ws, room="r") as client:
        await live.hub.forget("r")
        for again in (anext(aiter(client)), client.stats(), client.caption("a", "de")):
            with pytest.raises(ConnectionLost, match="4410"):
                await again


async def test_a_replaced_client_does_not_reconnect() -> None:
    async with running() as live, connect(live.ws, room="r") as client:
        token = client.welcome.resume
        async with connect(f"{live.socket}?resume={token}") as other:
            assert other.welcome.session == client.welcome.session
            with pytest.raises(ConnectionLost, match="4409"):
                await anext(aiter(client))
            await other.stats()


async def test_a_client_gives_up_after_its_patience() -> None:
    async with (
        running() as live,
        behind(live) as (proxy, bad),
        connect(bad.ws, patience_s=0.1) as client,
    ):
        proxy.refuse = True
        proxy.cut()
        with pytest.raises(ConnectionLost, match="1006"):
            await client.stats()


async def test_closing_does_not_wait_for_a_gateway_that_is_gone() -> None:
    async with (
        running() as live,
        behind(live) as (proxy, bad),
        connect(bad.ws) as client,
    ):
        proxy.refuse = True
        proxy.cut()
        await until(lambda: not client._tracker.connection.ready)


async def test_a_final_refusal_while_reconnecting_ends_the_connection() -> None:
    answers = iter(("cut", "busy", "unauthenticated", "unauthenticated"))

    async def handler(socket: ServerConnection) -> None:
        match next(answers):
            case "cut":
                await send(socket, msgspec.structs.replace(WELCOME, resume="token"))
                socket.transport.abort()
            case code:
                error = {"type": "error", "code": code, "fatal": True, "retry": code == "busy"}
                await send(socket, error | {"msg": "No."})
                await socket.close(4029 if code == "busy" else 4401)

    async with fake(handler) as url, connect(url) as client:
        with pytest.raises(ConnectionLost, match=r"4401.*No\."):
            await client.stats()
        assert next(answers, None) is None


async def test_a_final_close_right_after_reconnecting_ends_the_connection() -> None:
    codes = iter((1012, 4029, 4403))

    async def handler(socket: ServerConnection) -> None:
        code = next(codes)
        if code == 1012:
            await send(socket, WELCOME)
        await socket.close(code)

    async with fake(handler) as url, connect(url) as client:
        with pytest.raises(ConnectionLost, match="4403"):
            await client.stats()


async def test_an_invalid_event_breaks_the_connection_and_the_client_reconnects() -> None:
    sockets = []

    async def handler(socket: ServerConnection) -> None:
        sockets.append(socket)
        await send(socket, WELCOME)
        if len(sockets) == 1:
            await socket.send('{"type":"tick","seq":')
        else:
            request = await ask(socket)
            stats = dict.fromkeys(
                ("said", "finals", "failed", "cancelled", "errors", "frames_in", "frames_out",
                 "bytes_out", "merged", "inflight", "seconds"), 0,
            )  # fmt: skip
            await send(socket, {"type": "stats", "ref": request["ref"], **stats})
        await socket.wait_closed()

    async with fake(handler) as url, connect(url) as client:
        assert (await client.stats()).said == 0
    assert len(sockets) == 2


async def test_after_a_goaway_without_a_successor_the_client_keeps_trying() -> None:
    sockets: list[ServerConnection] = []

    async def handler(socket: ServerConnection) -> None:
        sockets.append(socket)
        if len(sockets) == 1:
            await send(socket, WELCOME, Goaway(in_ms=10, why="Stop."))
            await until(lambda: len(sockets) > 3)
            await socket.close(4001)
        elif len(sockets) < 6:
            error = {"type": "error", "code": "busy", "fatal": True, "retry": True, "msg": "No."}
            await send(socket, error)
            await socket.close(4001)
        else:
            resumed = Resumed(ok=True, replayed=0)
            await send(socket, msgspec.structs.replace(WELCOME, resumed=resumed))
            request = await ask(socket)
            ack = {"type": "ack", "id": request["id"], "rev": 1, "ord": 1, "ref": request["ref"]}
            await send(socket, ack)
            await socket.wait_closed()

    async with fake(handler) as url, connect(url) as client:
        await until(lambda: client._tracker.connection.draining)
        assert await client.say("hello", id="x") == "x"


async def test_an_exception_in_the_notice_function_ends_the_client_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def notice(_: object) -> None:
        raise ValueError("a bug")

    async with running() as live, behind(live) as (proxy, bad):
        async with connect(bad.ws, notice=notice) as client:
            proxy.cut()
            with pytest.raises(ConnectionLost, match="task of the client failed"):
                await client.stats()
    assert "a bug" in caplog.text
