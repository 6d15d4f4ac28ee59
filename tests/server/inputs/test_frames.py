"""No frame of a client holds the event loop for 50 ms."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from starlette.routing import WebSocketRoute

from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.protocol.audio import OPUS, PCM
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import REQUESTS
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.audio.decoding import codecs, rates
from tests.server.inputs.largest import ALPHABETS, LIMIT, fields, fitted, nonsense, values
from tests.server.inputs.steps import converse
from tests.server.inputs.walk import (
    SOCKETS,
    application,
    check,
    idle,
    with_value,
)
from tests.support.hearing import tone

FILLED: dict[str, Any] = {
    "id": "u1",
    "text": "Good morning everyone.",
    "codec": "pcm_s16le",
    "data": b"\0" * 640,
    "lang": "de",
    "langs": ["de"],
    "epoch": "e",
    "seq": 0,
    "token": "t",
    "session": {},
    "audio": bytes(4_800),
}
"""Values of the required fields of messages and events."""

AUDIO: dict[str, dict[str, list[bytes]]] = {
    PCM: {
        "largest": [tone(2.0)[:LIMIT]] * 4,
        "smallest": [b"\0\0"] * 3_000,
        "empty": [b""] * 3_000,
        "half a sample": [bytes(LIMIT - 1)],
    },
    OPUS: {
        "smallest": [b"\x80\0\0"] * 3_000,
        "largest": [b"\x80" + bytes(1_274)] * 1_000,
        "longest": [b"\x9f\x06" + bytes(6 * 1_275)] * 80,
        "no Opus": [b"\x80" + bytes(LIMIT - 1)] * 100,
        "empty": [b""] * 3_000,
    },
}
"""Frames of each codec."""

FRAMES = [(shape, field) for shape in REQUESTS for field in fields(shape)]


def messages(shape: type, field: Any, value: object) -> list[dict[str, Any]]:
    """Return the messages of a client that uses a value: others read what it leads to."""
    kind = str(shape.__struct_config__.tag)  # type: ignore[attr-defined]
    needed = {one.encode_name: FILLED[one.encode_name] for one in fields(shape) if one.required}
    message = {"type": kind, **needed, field.encode_name: value}
    said = {"type": "say", "id": "u1", "text": FILLED["text"]}
    later = {"type": "say", "id": "u2", "text": "a1b, c. " * (10 if kind == "set" else 1)}
    if kind == "say" and field.encode_name == "text":
        text = str(value)
        grown = [(n, text[: len(text) * n // 4], n == 4) for n in range(1, 5)]
        return [
            {"type": "say", "id": "u1", "rev": n, "text": part, "final": final}
            for n, part, final in grown
        ]
    begun = [{"type": "audio", "codec": PCM}] if kind == "chunk" else []
    return [said, *begun, message, later, {"type": "get", "id": "u1"}]


QUERY = urlencode({"to": "de,zh", "room": "demo", "role": "moderate"}).encode()


def test_every_socket_and_codec_is_in_the_tables() -> None:
    app = create_app(ScriptedEngine(), authenticator=Authenticator(Limits()))
    sockets = [route.path for route in app.routes if isinstance(route, WebSocketRoute)]
    assert set(sockets) - {"/{path:path}"} == set(SOCKETS)  # that one refuses every other path
    assert set(codecs()) == set(AUDIO)


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK], ids=lambda codec: codec.value)
@pytest.mark.parametrize(
    ("shape", "field"), FRAMES, ids=lambda one: getattr(one, "__name__", None) or one.encode_name
)
async def test_no_field_of_a_frame_holds_the_loop(shape: type, field: Any, codec: Codec) -> None:
    encode = msgspec.json.encode if codec is Codec.JSON else msgspec.msgpack.encode
    slow: list[str] = []
    async with application() as app:
        # The largest that a frame takes, and the largest that is accepted as a text.
        for name, value in chain(values(field.type), values(field.type, Limits().text)):
            if isinstance(value, msgspec.Raw) and codec is Codec.MSGPACK:
                continue
            frames: list[str | bytes] = []
            for one in messages(shape, field, value):
                data = encode(one)
                if len(data) > LIMIT:
                    data = fitted(value, partial(with_value, encode, one, field.encode_name))
                frames.append(data.decode() if codec is Codec.JSON else data)

            async def handle(frames: list[str | bytes] = frames) -> None:
                await converse(
                    app,
                    SOCKET_PATH,
                    frames,
                    query=QUERY,
                    subprotocols=[codec.value],
                    idle=partial(idle, app),
                )
                await app.state.hub.forget("demo")

            await check(name, handle, slow)
    assert not slow


EVENTS = [
    (path, event, field)
    for path in set(SOCKETS) - {SOCKET_PATH}
    for event in SOCKETS[path]
    for field in fields(event)
]


@pytest.mark.parametrize(
    ("path", "event", "field"),
    sorted(EVENTS, key=str),
    ids=lambda one: getattr(one, "__name__", None) or getattr(one, "name", one),
)
async def test_no_field_of_a_realtime_event_holds_the_loop(
    path: str, event: type, field: Any
) -> None:
    slow: list[str] = []
    needed = {one.encode_name: FILLED[one.encode_name] for one in fields(event) if one.required}
    base = {"type": event.__struct_config__.tag, **needed}  # type: ignore[attr-defined]
    update = b'{"type":"session.update","session":{}}'
    async with application() as app:
        for name, value in chain(values(field.type), values(field.type, Limits().text)):
            encode = partial(with_value, msgspec.json.encode, base, field.encode_name)
            frames = [update, data := fitted(value, encode), data]

            async def handle(frames: list[bytes] = frames) -> None:
                texts = [frame.decode() for frame in frames]
                await converse(app, path, texts, query=QUERY, idle=partial(idle, app))
                await app.state.hub.forget("demo")

            await check(f"{event.__name__}.{field.name} {name}", handle, slow)
    assert not slow


@pytest.mark.parametrize(("codec", "name"), [(c, name) for c in AUDIO for name in AUDIO[c]])
async def test_no_audio_holds_the_loop(codec: str, name: str) -> None:
    slow: list[str] = []
    async with application() as app:
        streams = app.state.hub.recognition.streams
        for rate in rates() if codec == PCM else rates()[1:]:
            begin = json.dumps({"type": "audio", "codec": codec, "rate": rate})
            end = '{"type":"audio","codec":"none"}'
            frames: list[str | bytes] = [begin, *AUDIO[codec][name], end]
            answers: list[Any] = []

            async def handle(
                frames: list[str | bytes] = frames, answers: list[Any] = answers
            ) -> None:
                answers += await converse(
                    app, SOCKET_PATH, frames, query=QUERY, idle=lambda: not streams and idle(app)
                )
                await app.state.hub.forget("demo")

            await check(f"{codec} {rate} {name}", handle, slow)
            assert any('"codec":"none"' in one.get("text", "") for one in answers), "not heard"
    assert not slow


async def test_no_frame_of_nonsense_holds_the_loop() -> None:
    slow: list[str] = []
    async with application() as app:
        for name, data in nonsense():
            for frame in (data, data.decode(errors="replace")):
                for path in SOCKETS:

                    async def handle(path: str = path, frame: str | bytes = frame) -> None:
                        await converse(app, path, [frame] * 3, query=QUERY)

                    await check(f"{path} {name}", handle, slow)
        for name, unit in ALPHABETS.items():
            line = (unit * LIMIT)[: LIMIT // 4]

            async def typed(line: str = line) -> None:
                await converse(app, "/v1/ws", [line, line[:2_000]], query=QUERY + b"&plain=1")

            await check(f"typed {name}", typed, slow)
    assert not slow
