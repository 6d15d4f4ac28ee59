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
from gateway.protocol.audio import AudioInfo, AudioState
from gateway.protocol.messages import Error, ServerMessage
from gateway.server.realtime.transcription import TranscriptionDialect
from gateway.server.routes.realtime import RealtimeEndpoint
from gateway.server.uvicorn.websocket import WRITER
from tests.server.realtime.talk import PIECE, ended, heard, stats, welcome

INFO = AudioInfo(
    codecs=("pcm_s16le",), rates=(8000, 48_000), recogniser="x", rate=1e9, burst=1e9, window=0.02
)


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
        assert peer.scope["extensions"] == {"other": {}}
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


async def test_an_event_that_cannot_be_read_is_answered_and_the_next_one_is_read() -> None:
    async with wire() as peer:
        await peer.client(type="response.create", event_id="mine")
        await peer.to_server.put({"type": "websocket.receive", "bytes": b"\xff", "text": None})
        await peer.client(type="input_audio_buffer.commit")
        assert (await peer.asked())["type"] == "stats", "there is no audio to end"
        assert (await peer.told())["error"]["event_id"] == "mine"
        assert (await peer.told())["error"]["code"] == "bad_frame"


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


async def test_audio_beyond_the_window_waits_until_the_gateway_has_settled_some() -> None:
    async with wire() as peer:
        await peer.gateway(msgspec.structs.replace(welcome(), audio=INFO))
        for _ in range(3):
            await peer.client(type="input_audio_buffer.append", audio=PIECE)
        await peer.asked()  # `audio`
        await peer.asked()
        await peer.asked()
        waiting = asyncio.create_task(peer.asked())
        for _ in range(5):
            await asyncio.sleep(0)
            assert not waiting.done()
        state = AudioState(codec="pcm_s16le", rate=24_000, from_="en", seconds=0.02)
        await peer.gateway(state)
        assert await waiting == b"\x01\x02" * 240


async def test_new_audio_waits_until_all_before_a_commit_was_heard() -> None:
    async with wire() as peer:
        await peer.gateway(msgspec.structs.replace(welcome(), audio=INFO))
        for _ in range(2):
            await peer.client(type="input_audio_buffer.append", audio=PIECE)
            await peer.client(type="input_audio_buffer.commit")
        await peer.asked()  # `audio`
        await peer.asked()
        end = await peer.asked()
        assert end["codec"] == "none"
        waiting = asyncio.create_task(peer.asked())
        for _ in range(5):
            await asyncio.sleep(0)
            assert not waiting.done()
        await peer.gateway(ended(end["ref"]))
        assert (await waiting)["codec"] == "pcm_s16le"
        assert await peer.asked() == b"\x01\x02" * 240
