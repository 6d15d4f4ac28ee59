"""A fake gateway, whose messages the test writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import websockets
from websockets.asyncio.server import ServerConnection
from websockets.typing import Subprotocol

from benchmarks.listeners import stop_listening
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.messages import Resumed, ServerMessage, Welcome

Handler = Callable[[ServerConnection], Awaitable[None]]


def welcome(epoch: str = "e", seq: int = 0, *, ok: bool | None = None, **more: Any) -> Welcome:
    """Return a welcome.

    :param ok: whether the client resumed without a gap; None: it did not ask to resume
    """
    fields = {
        "v": 1,
        "session": "s",
        "room": "r",
        "resume": "token",
        "engine": "fake",
        "languages": ("de",),
        "limits": LimitsInfo(frame=1, text=1, inflight=1, targets=1, rate=1.0),
        "resumed": None if ok is None else Resumed(ok=ok, replayed=0),
    }
    return Welcome(**{"epoch": epoch, "seq": seq, **fields, **more})


WELCOME = welcome(resume=None)


async def send(socket: ServerConnection, *events: ServerMessage | dict[str, object]) -> None:
    for event in events:
        await socket.send(msgspec.json.encode(event), text=True)


async def ask(socket: ServerConnection) -> dict[str, str]:
    """Return the next request of the client."""
    request: dict[str, str] = msgspec.json.decode(await socket.recv())
    return request


@asynccontextmanager
async def fake(handler: Handler) -> AsyncIterator[str]:
    """Run a WebSocket server of one handler; yield its address."""
    protocols = [Subprotocol("gw.v1.json")]
    async with websockets.serve(handler, "127.0.0.1", 0, subprotocols=protocols) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await stop_listening(server.server)
