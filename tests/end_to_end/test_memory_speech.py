"""Memory of speech: nothing of a stream is kept after its end, whatever ended it."""

from __future__ import annotations

import base64
import gc
import json
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

from gateway.engines.scripted import ScriptedEngine, ScriptedRecogniser
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.runtime.recognition import RecognitionRunner
from tests.support.hearing import hearing, packets, pieces, tone
from tests.support.live import Live, running, until

RATE = 48_000
KINDS = {
    "Session",
    "AudioInput",
    "AudioStream",
    "SpeechRecognition",
    "RecognitionPipeline",
    "Loudness",
}
KINDS |= {"PcmDecoder", "OpusDecoder", "RecognitionJob", "TranscriptionDialect", "_Translated"}
KINDS |= {"RealtimeReader", "TranslationDialect"}
"""Classes of objects that belong to one socket or to one stream of its audio."""
SHORT = Limits(grace_s=0.01, room_s=0.01)
"""Limits with which nobody is waited for."""
Ending = Callable[["Speaker"], Awaitable[None]]


class Speaker:
    """A socket that has sent audio of which a part was heard."""

    def __init__(
        self, live: Live, recogniser: ScriptedRecogniser, socket: ClientConnection
    ) -> None:
        self.live = live
        self.recogniser = recogniser
        self.socket = socket

    @property
    def runner(self) -> RecognitionRunner:
        runner = self.live.hub.recognition
        assert runner is not None
        return runner

    async def send(self, **message: object) -> None:
        await self.socket.send(json.dumps(message))

    async def until(self, type: str) -> None:
        async for frame in self.socket:
            if json.loads(frame)["type"] == type:
                return


async def bye(speaker: Speaker) -> None:
    await speaker.send(type="bye")
    await speaker.socket.wait_closed()


async def abort(speaker: Speaker) -> None:
    speaker.socket.transport.abort()


async def end_of_the_audio(speaker: Speaker) -> None:
    await speaker.send(type="audio", codec="none", ref="end")
    while "end" not in await speaker.socket.recv():
        pass
    assert not speaker.runner.streams


async def another_format(speaker: Speaker) -> None:
    for rate in (16_000, 44_100, 8_000):
        await speaker.send(type="audio", codec="pcm_s16le", rate=rate)
        await speaker.socket.send(tone(0.1))
    await end_of_the_audio(speaker)


async def hold_and_abort(speaker: Speaker) -> None:
    speaker.recogniser.hold()
    for frame in pieces(tone(2.0, RATE), 0.1, RATE):
        await speaker.socket.send(frame)
    await until(lambda: bool(speaker.runner.running))
    speaker.socket.transport.abort()
    await until(lambda: not speaker.runner.running)


async def fault_of_the_decoder(speaker: Speaker) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    (worker,) = speaker.runner.streams.values()
    worker.decode = fail  # type: ignore[method-assign,assignment]
    await speaker.socket.send(tone(0.1))
    await speaker.until("error")
    assert not speaker.runner.streams


async def fault_of_the_stream(speaker: Speaker) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    (worker,) = speaker.runner.streams.values()
    worker._stream.decoded = fail  # type: ignore[union-attr,method-assign]
    await speaker.socket.send(tone(0.1))
    await speaker.until("error")
    assert not speaker.runner.streams


async def faults_of_the_recogniser(speaker: Speaker) -> None:
    def fail(_: object) -> None:
        raise ValueError("a bug")

    speaker.recogniser.fault = fail
    await end_of_the_audio(speaker)


async def broken_packets(speaker: Speaker) -> None:
    await speaker.send(type="audio", codec="opus")
    for packet in (b"\xfe\xfb\xff\x00", *packets(tone(0.5, RATE))):
        await speaker.socket.send(packet)
    await end_of_the_audio(speaker)


async def slow_reader(speaker: Speaker) -> None:
    (session,) = speaker.live.hub.sessions.values()
    session.outbox.close(CloseCode.TOO_SLOW)
    await speaker.socket.wait_closed()


async def shutdown(speaker: Speaker) -> None:
    await speaker.live.hub.drain(1.0)
    await speaker.socket.wait_closed()


def threads() -> int:
    """Return the number of threads of this process, also of libraries in C."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


def alive() -> Counter[str]:
    """Return the objects of speech, reachable or not."""
    names = (type(thing).__name__ for thing in gc.get_objects())
    return Counter(name for name in names if name in KINDS)


@asynccontextmanager
async def without_collector() -> AsyncIterator[None]:
    """Check that the block leaves no object of speech, and no thread, to the collector."""
    logging.disable()  # pytest keeps log records with their tracebacks
    gc.collect()
    gc.disable()
    try:
        before, threads_before = alive(), threads()
        yield
        await until(lambda: not alive() - before)
        # The pool of the gateway has one thread, which begins with the first audio.
        await until(lambda: threads() <= threads_before + 1)
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "end",
    [
        bye,
        abort,
        end_of_the_audio,
        another_format,
        hold_and_abort,
        fault_of_the_decoder,
        fault_of_the_stream,
        faults_of_the_recogniser,
        broken_packets,
        slow_reader,
        shutdown,
    ],
)
async def test_every_end_of_a_microphone_frees_all_of_it_without_the_collector(end: Ending) -> None:
    recogniser = ScriptedRecogniser()
    async with (
        running(ScriptedEngine(pace=0.0), SHORT) as live,
        hearing(live, recogniser) as runner,
    ):
        async with without_collector():
            async with connect(f"{live.socket}?from=en&to=de") as socket:
                speaker = Speaker(live, recogniser, socket)
                await speaker.send(type="audio", codec="pcm_s16le", rate=RATE)
                for frame in pieces(tone(1.0, RATE), 0.1, RATE):
                    await socket.send(frame)
                await speaker.until("heard")
                assert {"AudioStream", "RecognitionPipeline", "PcmDecoder"} <= alive().keys()
                await end(speaker)
            recogniser.release()
            del socket, speaker
            await until(lambda: not live.hub.sessions and not live.hub.rooms)
            # It keeps them for tests. Audio that was sent before the end may have begun another.
            await until(lambda: not runner.running)
            recogniser.jobs.clear()


async def test_many_streams_of_one_socket_leave_no_thread_and_no_object() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        async with (
            without_collector(),
            connect(f"{live.socket}?from=en&to=de") as socket,
        ):
            for number in range(40):
                codec = ("pcm_s16le", "opus")[number % 2]
                await socket.send(json.dumps({"type": "audio", "codec": codec, "rate": RATE}))
                await socket.send(bytes(1920) if codec != "opus" else b"\xfc\xff\xfe")
            await socket.send('{"type":"audio","codec":"none","ref":"end"}')
            while "end" not in await socket.recv():
                pass
            assert not runner.streams


@pytest.mark.parametrize("path", ["/v1/realtime?intent=transcription", "/v1/realtime/translations"])
@pytest.mark.parametrize("end", [abort, ClientConnection.close])
async def test_a_realtime_client_that_leaves_is_freed_without_the_collector(
    path: str, end: Callable[..., Awaitable[None]]
) -> None:
    kind = "session." if "translations" in path else ""
    piece = base64.b64encode(tone(0.5, 24_000)).decode()
    recogniser = ScriptedRecogniser()
    async with (
        running(ScriptedEngine(pace=0.0), SHORT) as live,
        hearing(live, recogniser) as runner,
    ):
        async with without_collector():
            async with connect(f"{live.ws}{path}{'&' if '?' in path else '?'}from=en&to=de") as ws:
                for _ in range(3):
                    await ws.send(
                        json.dumps({"type": f"{kind}input_audio_buffer.append", "audio": piece})
                    )
                await until(lambda: runner.audio_s > 1)
                if end is abort:
                    ws.transport.abort()
                else:
                    await ws.close()
            del ws
            await until(lambda: not live.hub.sessions and not live.hub.rooms)
            await until(lambda: not runner.running)
            recogniser.jobs.clear()  # it keeps them for tests
