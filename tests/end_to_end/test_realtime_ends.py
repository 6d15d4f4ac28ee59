"""Ends of OpenAI's realtime sockets: of clients that leave, and of clients that send nonsense."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gateway.engines.scripted import ScriptedEngine, ScriptedRecogniser
from gateway.limits import Limits
from tests.support.hearing import hearing, tone
from tests.support.live import Live, running, until

TRANSCRIBE = "/v1/realtime?intent=transcription&from=en"
TRANSLATE = "/v1/realtime/translations?from=en&to=de"
APPEND = {TRANSCRIBE: "input_audio_buffer.append", TRANSLATE: "session.input_audio_buffer.append"}


async def send(socket: ClientConnection, path: str, seconds: float) -> None:
    audio = base64.b64encode(tone(seconds, 24_000)).decode()
    await socket.send(json.dumps({"type": APPEND[path], "audio": audio}))


async def told(socket: ClientConnection, type: str) -> dict[str, Any]:
    async for frame in socket:
        event: dict[str, Any] = json.loads(frame)
        if event["type"] == type:
            return event
    raise AssertionError(f"closed before {type}: {socket.close_code}")


async def test_audio_that_is_refused_holds_nobody_back() -> None:
    format = {"type": "audio/pcm", "rate": 1}  # a second for each sample, which no gateway reads
    wish = {"type": "transcription", "audio": {"input": {"format": format}}}
    limits = Limits(sessions=4, grace_s=0.01)
    async with running(ScriptedEngine(pace=0.0), limits) as live, hearing(live):
        for _ in range(3 * limits.sessions):
            async with connect(live.ws + TRANSCRIBE) as socket:
                await told(socket, "session.created")
                await socket.send(json.dumps({"type": "session.update", "session": wish}))
                for _ in range(3):
                    await send(socket, TRANSCRIBE, 0.01)
                # The update and each piece are refused; nothing more is sent to this client.
                for _ in range(4):
                    await told(socket, "error")
                socket.transport.abort()
        await until(lambda: not live.hub.sessions)


async def come_and_go(live: Live, path: str, count: int, *, abort: bool) -> None:
    for _ in range(count):
        async with connect(live.ws + path) as socket:
            for _ in range(3):
                await send(socket, path, 0.01)
            if abort:
                socket.transport.abort()


@pytest.mark.parametrize("path", [TRANSCRIBE, TRANSLATE])
@pytest.mark.parametrize("abort", [True, False])
@pytest.mark.parametrize("state", ["hears", "hangs", "is away"])
async def test_a_client_that_leaves_frees_its_place_whatever_the_recogniser_does(
    path: str, abort: bool, state: str
) -> None:
    recogniser = ScriptedRecogniser()
    limits = Limits(sessions=4, grace_s=0.01)
    async with (
        running(ScriptedEngine(pace=0.0), limits) as live,
        hearing(live, recogniser) as runner,
    ):
        if state == "hangs":
            recogniser.hold()
        elif state == "is away":
            recogniser.die()
        for _ in range(5):
            await come_and_go(live, path, limits.sessions, abort=abort)
            await until(lambda: not live.hub.sessions and not runner.streams)
        recogniser.release()


@pytest.mark.parametrize("path", [TRANSCRIBE, TRANSLATE])
async def test_a_client_that_is_held_back_frees_its_place_when_it_leaves(path: str) -> None:
    recogniser = ScriptedRecogniser()
    limits = Limits(audio_rate=1_000.0, audio_burst=1_000.0, grace_s=0.01)
    async with (
        running(ScriptedEngine(pace=0.0), limits) as live,
        hearing(live, recogniser) as runner,
    ):
        recogniser.hold()
        async with connect(live.ws + path) as socket:
            for _ in range(51):
                await send(socket, path, 1.0)
            await until(lambda: runner.audio_s > 50 and not runner.undecoded_s)
            await send(socket, path, 0.1)
            (session,) = live.hub.sessions.values()
            assert session.audio is not None and session.audio.delay(live.hub.now()) > 0
        await until(lambda: not live.hub.sessions and not runner.streams)
        recogniser.release()


@pytest.mark.parametrize("path", [TRANSCRIBE, TRANSLATE])
async def test_a_client_is_told_that_the_recogniser_is_away_and_heard_when_it_is_back(
    path: str,
) -> None:
    recogniser = ScriptedRecogniser()
    async with (
        running(ScriptedEngine(pace=0.0)) as live,
        hearing(live, recogniser) as runner,
        connect(live.ws + path) as socket,
    ):
        recogniser.die()
        for _ in range(3):
            await send(socket, path, 0.1)
            error = await told(socket, "error")
            assert error["error"]["code"] == "engine_unavailable"
        await recogniser.start()
        await send(socket, path, 0.1)
        await until(lambda: runner.audio_s > 0)


@pytest.mark.parametrize("path", [TRANSCRIBE, TRANSLATE])
async def test_unreadable_events_close_a_realtime_socket_as_frames_close_any_other(
    path: str,
) -> None:
    async with running() as live, hearing(live), connect(live.ws + path) as socket:
        with pytest.raises(ConnectionClosed):
            for _ in range(Limits().bad_frames):
                await socket.send("{")
                error = await told(socket, "error")
                assert error["error"]["code"] == "bad_frame"
            await told(socket, "nothing more")
        assert (socket.close_code, live.hub.sessions) == (4400, {})


async def test_ten_bad_events_that_are_not_in_a_row_close_nothing() -> None:
    async with running() as live, hearing(live), connect(live.ws + TRANSCRIBE) as socket:
        for _ in range(Limits().bad_frames + 2):
            await socket.send("{")
            await told(socket, "error")
            await socket.send('{"type":"response.create","event_id":"mine"}')
            assert (await told(socket, "error"))["error"]["event_id"] == "mine"


async def test_a_whole_recording_that_is_sent_at_once_is_heard_completely() -> None:
    async with (
        running(ScriptedEngine(pace=0.0)) as live,
        hearing(live) as runner,
        connect(live.ws + TRANSCRIBE) as socket,
    ):
        for _ in range(30):
            await send(socket, TRANSCRIBE, 0.5)
        await socket.send('{"type":"input_audio_buffer.commit"}')
        async for frame in socket:
            event = json.loads(frame)
            assert event["type"] != "error", event
            if event["type"].endswith(".completed"):
                break
        assert runner.audio_s == pytest.approx(15.0)
