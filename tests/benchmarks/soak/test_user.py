"""Tests of the users of the soaks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.soak.ledger import Faults, Reader, Room
from benchmarks.soak.user import Tally, VirtualUser
from tests.support.live import until


class ForgetfulGateway:
    """A gateway that is lost after its first ``ack``; the next one has the same history."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    async def serve(self, socket: ServerConnection) -> None:
        await self._send(socket, type="welcome", epoch="e", seq=0, resume="token")
        async for data in socket:
            said = msgspec.json.decode(data)
            self.said.append(said)
            ids = {"id": said["id"], "rev": said["rev"]}
            await self._send(socket, type="ack", **ids)
            if len(self.said) == 1:
                return
            await self._send(socket, type="source", seq=1, lang="en", text="hello", **ids)
            await self._send(socket, type="final", seq=2, lang="de", text="hallo", **ids)

    async def _send(self, socket: ServerConnection, **message: object) -> None:
        await socket.send(msgspec.json.encode(message), text=True)


async def test_a_final_text_is_said_again_if_its_gateway_is_lost_after_the_ack() -> None:
    gateway = ForgetfulGateway()
    faults = Faults()
    reader = Reader("a user", Room("r", faults), ("de",), faults)
    async with serve(gateway.serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        user = VirtualUser(
            reader, "r", ("de",), Tally(), Random(1), [f"ws://127.0.0.1:{port}"], role="speak"
        )
        task = asyncio.create_task(user.stay())
        await user.say("s1", 1, "hello", final=True)
        await until(lambda: not user.unheard)
        await user.leave()
        await task
    assert [said["id"] for said in gateway.said] == ["s1", "s1"]
    assert (user.tally.void, len(user.tally.final), faults.lost) == (0, 1, 0)
