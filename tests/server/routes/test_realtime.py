"""OpenAI's realtime sockets in front of a scripted ``/v1/ws``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from gateway.errors import CloseCode
from gateway.protocol.messages import ServerMessage
from gateway.protocol.notices import Error
from gateway.server.realtime.transcription import TranscriptionDialect
from gateway.server.routes.realtime import RealtimeEndpoint
from gateway.server.routes.websocket import HELD
from gateway.server.uvicorn.websocket import WRITER
from tests.server.realtime.talk import PIECE, heard, stats, welcome
from tests.support.live import until


class Wire:
    """A client's socket, and the socket of the gateway behind the endpoint."""

    def __init__(self) -> None:
        self.scope: Scope = {}
        self.to_server: asyncio.Queue[Message] = asyncio.Queue()
        self.to_client: asyncio.Queue[Message] = asyncio.Queue()
        self.receive: Receive
        self.send: Send

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be the gateway: keep what the endpoint passes, until the test has ended."""
        self.scope, self.receive, self.send = scope, receive, send
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "gw.v1.json"})
        await asyncio.Event().wait()

    async def client(self, **event: object) -> None:
        await self.to_server.put({"type": "websocket.receive", "text": json.dumps(event)})

    async def asked(self) -> Any:
        """Return the next frame that the gateway receives."""
        message = await self.receive()
        text = message.get("text")
        return message["bytes"] if text is None else json.loads(text)

    async def gateway(self, message: ServerMessage) -> None:
        await self.send({"type": "websocket.send", "text": msgspec.json.encode(message).decode()})

    async def told(self) -> dict[str, Any]:
        """Return the next event that the client receives."""
        event: dict[str, Any] = json.loads((await self.to_client.get())["text"])
        return event


@asynccontextmanager
async def wire(query: bytes = b"", *subprotocols: str) -> AsyncIterator[Wire]:
    made = Wire()
    scope: Scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "query_string": query,
        "subprotocols": list(subprotocols),
        "extensions": {WRITER: None, "other": {}},
    }
    endpoint = RealtimeEndpoint(made.serve, TranscriptionDialect)
    task = asyncio.create_task(endpoint(scope, made.to_server.get, made.to_client.put))
    try:
        await made.to_server.put({"type": "websocket.connect"})
        accepted = await made.to_client.get()
        assert accepted["type"] == "websocket.accept"
        made.scope["accepted"] = accepted["subprotocol"]
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_gateway_sees_a_client_of_its_own_socket() -> None:
    async with wire(b"intent=transcription&room=demo&from=en&model=m") as peer:
        assert peer.scope["path"] == "/v1/ws"
        assert peer.scope["query_string"] == b"room=demo&from=en&to="
        assert peer.scope["subprotocols"] == ["gw.v1.json"]
        assert peer.scope["extensions"].keys() == {"other", HELD}
        assert peer.scope["accepted"] is None


async def test_the_sub_protocols_of_a_browser_are_its_key_and_the_name_that_it_expects() -> None:
    async with wire(b"", "realtime", "openai-insecure-api-key.gwk_1") as peer:
        assert peer.scope["subprotocols"] == ["gw.v1.json", "gw.bearer.gwk_1"]
        assert peer.scope["accepted"] == "realtime"


async def test_events_are_translated_both_ways() -> None:
    async with wire() as peer:
        await peer.gateway(welcome())
        assert (await peer.told())["type"] == "session.created"
        await peer.client(type="session.update", session={"type": "transcription"})
        assert (await peer.asked())["codec"] == "pcm_s16le"
        ref = (await peer.asked())["ref"]
        await peer.gateway(stats(ref))
        assert (await peer.told())["type"] == "session.updated"
        await peer.client(type="input_audio_buffer.append", audio=PIECE)
        assert await peer.asked() == b"\x01\x02" * 240
        await peer.gateway(heard("Yes.", final=True))
        assert (await peer.told())["type"] == "input_audio_buffer.speech_started"


async def test_an_event_that_cannot_be_read_is_counted_and_answered_by_the_gateway() -> None:
    async with wire() as peer:
        await peer.client(type="response.create", event_id="mine")
        await peer.to_server.put({"type": "websocket.receive", "bytes": b"\xff", "text": None})
        await peer.client(type="input_audio_buffer.commit")
        asked = await peer.asked()
        assert asked["type"] == "stats", "an unknown event is no sign of a broken client"
        await peer.gateway(stats(asked["ref"]))
        assert (await peer.told())["error"]["event_id"] == "mine"
        unreadable = await peer.asked()
        refused = Error(
            code="bad_frame", fatal=False, retry=False, msg="No.", ref=unreadable["ref"]
        )
        await peer.gateway(refused)
        assert (await peer.told())["error"]["code"] == "bad_frame"
        assert (await peer.asked())["type"] == "stats", "there is no audio to end"


async def test_a_refusal_and_a_close_reach_the_client() -> None:
    async with wire() as peer:
        await peer.gateway(Error(code="forbidden", fatal=True, retry=False, msg="No."))
        await peer.send({"type": "websocket.close", "code": int(CloseCode.FORBIDDEN)})
        assert (await peer.told())["error"]["code"] == "forbidden"
        assert await peer.to_client.get() == {"type": "websocket.close", "code": 4403}


async def test_the_end_of_a_client_reaches_the_gateway() -> None:
    async with wire() as peer:
        gone = {"type": "websocket.disconnect", "code": 1000}
        await peer.to_server.put(gone)
        assert await peer.receive() == gone


async def test_a_client_that_is_held_back_is_read_in_order_when_there_is_room() -> None:
    async with wire() as peer:
        delay = 0.001
        peer.scope["extensions"][HELD].delay = lambda: delay
        for _ in range(2):
            await peer.client(type="input_audio_buffer.append", audio=PIECE)
            await peer.client(type="input_audio_buffer.commit")
        waiting = asyncio.create_task(peer.asked())
        await until(peer.to_server.empty)
        assert not waiting.done()
        delay = 0.0
        frames = [await waiting, *[await peer.asked() for _ in range(5)]]
        assert [f if isinstance(f, bytes) else f["codec"] for f in frames] == [
            "pcm_s16le",
            b"\x01\x02" * 240,
            "none",
        ] * 2


async def test_the_end_of_a_client_that_is_held_back_is_seen_at_once() -> None:
    async with wire() as peer:
        peer.scope["extensions"][HELD].delay = lambda: 60.0
        for _ in range(3):
            await peer.client(type="input_audio_buffer.append", audio=PIECE)
        gone = {"type": "websocket.disconnect", "code": 1006}
        await peer.to_server.put(gone)
        assert await peer.receive() == gone


async def test_of_a_client_that_is_held_back_little_is_read_ahead() -> None:
    async with wire() as peer:
        peer.scope["extensions"][HELD].delay = lambda: 0.001
        for _ in range(1_000):
            await peer.client(type="input_audio_buffer.append", audio=PIECE)
        waiting = asyncio.ensure_future(peer.receive())
        await until(lambda: peer.to_server.qsize() < 1_000)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert 50 < 1_000 - peer.to_server.qsize() < 60, "64 KiB of 704 bytes, and 512 beside them"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
